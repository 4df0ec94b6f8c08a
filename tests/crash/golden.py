"""Stores that Apache RocketMQ wrote, unpacked into a simulated disk, with the manifest of what is in them."""

from __future__ import annotations

import base64
import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from broker.engine.testing import SimulatedFiles

OWN = Path(__file__).parents[1] / "data" / "rocketmq-5.5.0"
#: More of the same kind, where a checkout has them beside it.
BESIDE = Path(__file__).parents[3] / "shared" / "fixtures" / "rocketmq-5.5.0"
#: The timer wheel is 38 MB of nearly nothing and no part of what is opened here.
LARGEST_BYTES = 1 << 20


def folders() -> dict[str, Path]:
    """Return every golden store there is, by name."""
    found = {path.parent.name: path.parent for root in (BESIDE, OWN) for path in sorted(root.glob("*/store.tar.xz"))}
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Golden:
    """One store: its files under /store, its sizes as EngineConfig fields, its manifest."""

    name: str
    files: dict[str, bytes]
    config: dict[str, Any]
    manifest: dict[str, Any]

    def disk(self) -> SimulatedFiles:
        """Return a fresh disk with the store on it."""
        disk = SimulatedFiles()
        disk.load(self.files)
        return disk

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What the broker took: every send it answered with an offset id."""
        return [entry for entry in self.manifest["sent"] if entry.get("offsetMsgId")]


def position_of(entry: dict[str, Any]) -> int:
    """Return where the record of a send is."""
    return int(entry["offsetMsgId"][-16:], 16)


def body_of(entry: dict[str, Any]) -> bytes:
    """Return what was sent."""
    return base64.b64decode(entry["body"])


@cache
def load(name: str) -> Golden:
    """Unpack a golden store."""
    folder = folders()[name]
    files: dict[str, bytes] = {}
    with tarfile.open(folder / "store.tar.xz") as archive:
        for member in archive:
            if member.isfile() and member.size <= LARGEST_BYTES and "rocksdbstore" not in member.name:
                content = archive.extractfile(member)
                assert content is not None
                files["/" + member.name[member.name.index("store") :]] = content.read()
    settings = dict(line.split("=", 1) for line in (folder / "broker.conf").read_text().split() if "=" in line)
    config = {
        "segment_size_bytes": int(settings["mappedFileSizeCommitLog"]),
        "queue_file_entries": int(settings["mappedFileSizeConsumeQueue"]) // 20,
        "index_slots": int(settings["maxHashSlotNum"]),
        "index_entries": int(settings["maxIndexNum"]),
        "delay_levels": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "max_body_bytes": 4 << 20,
        "max_properties_bytes": 32_767,
    }
    return Golden(name, files, config, json.loads((folder / "manifest.json").read_text()))
