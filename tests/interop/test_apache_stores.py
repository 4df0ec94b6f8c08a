"""Stores that Apache RocketMQ 5.5.0 wrote, opened by our broker, read by the official client."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import ServerFactory
from tests.interop.programs import JavaConsumer, read_all
from tests.interop.servers import StoreShape

FIXTURES = Path(__file__).parents[1] / "data" / "rocketmq-5.5.0"
Sent = dict[str, Any]


def sends(name: str) -> list[Sent]:
    """What the writer of this store sent and has an acknowledgement for."""
    manifest = json.loads((FIXTURES / name / "manifest.json").read_text())
    return [sent for sent in manifest["sent"] if sent.get("acknowledged", True) and sent["sendStatus"] == "SEND_OK"]


def unpack(name: str, target: Path) -> Path:
    """The store directory of a fixture."""
    shutil.unpack_archive(FIXTURES / name / "store.tar.xz", target)
    return target / "store"


def shape(name: str) -> StoreShape:
    """The sizes this store was written with; of a setting given twice the later one counts."""
    lines = (FIXTURES / name / "broker.conf").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    return StoreShape(
        segment_size_bytes=int(settings["mappedFileSizeCommitLog"]),
        queue_file_entries=int(settings["mappedFileSizeConsumeQueue"]) // 20,
        index_slots=int(settings["maxHashSlotNum"]),
        index_entries=int(settings["maxIndexNum"]),
    )


@pytest.mark.parametrize("name", ["plain", "crc", "crash"])
def test_every_message_is_read_at_its_offset(name: str, start_server: ServerFactory, tmp_path: Path) -> None:
    server = start_server("escapement", unpack(name, tmp_path), shape(name))
    plain = [sent for sent in sends(name) if not sent["delayLevel"] and "recallHandle" not in sent]
    read = read_all(server.namesrv, sorted({sent["topic"] for sent in plain}), work=tmp_path)
    found = {(topic, event["queueId"], event["queueOffset"]): event for topic in read for event in read[topic]}
    for sent in plain:
        event = found[sent["topic"], sent["queueId"], sent["queueOffset"]]
        assert event["msgId"] == sent["msgId"]
        assert event["base64"] == sent["body"]
        assert event["properties"].items() >= sent["properties"].items()


@pytest.mark.parametrize("name", ["delay_levels", "crash"])
def test_pending_delays_are_delivered(name: str, start_server: ServerFactory, tmp_path: Path) -> None:
    server = start_server("escapement", unpack(name, tmp_path), shape(name))
    overdue = {sent["msgId"] for sent in sends(name) if 0 < sent["delayLevel"] <= 9}
    topics = sorted({sent["topic"] for sent in sends(name) if sent["msgId"] in overdue})
    consumers = [
        JavaConsumer(server.namesrv, f"late-{i}", topic, version="5.5.0", work=tmp_path, instance=f"late-{i}")
        for i, topic in enumerate(topics)
    ]
    for consumer, topic in zip(consumers, topics, strict=True):
        wanted = {sent["msgId"] for sent in sends(name) if sent["topic"] == topic and sent["msgId"] in overdue}
        consumer.await_identities(wanted, timeout_s=30)
        consumer.child.kill()
