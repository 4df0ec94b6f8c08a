"""docs/MOVING.md, a store directory, cold: the same directory at Apache RocketMQ, here, and there again.

Each broker is given a consumed and a new message, a delayed one, a timer and an open half; the next one must deliver
each at its moment, go on at the group's offset, and have the half decided. In between `look_at_store` prints what the
guide shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from broker.client import Decision, Producer, TransactionProducer, prepare
from broker.engine.disk import OsFiles
from broker.engine.fsck.survey import sizes_of
from tests.interop.conftest import ServerFactory
from tests.interop.jars import REPOSITORY
from tests.interop.programs import JavaConsumer, read_all
from tests.interop.servers import Server, StoreShape
from tests.interop.test_store_exchange import end_cleanly
from tests.interop.waiting import wait_until

SHAPE = StoreShape(
    segment_size_bytes=8 << 20, queue_file_entries=1_000, index_slots=500, index_entries=2_000, heap="512m",
    transaction_timeout_ms=2_000, transaction_interval_ms=2_000, transaction_checks=200,
)  # fmt: skip
CONSUMED, LATER, ORDERS = "Consumed", "Later", "Orders"
GUIDE = REPOSITORY / "docs" / "MOVING.md"
#: Long enough for a broker to stop and the next one to start; level 5 is a minute.
LEAD_MS, LEVEL, LEVEL_MS = 60_000, 5, 60_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Cargo:
    """What one broker was given, and what the next one must make of it."""

    def __init__(self, server: Server, work: Path) -> None:
        self.mark = server.name
        with Producer("packers", server.namesrv) as producer:
            producer.send(CONSUMED, f"{self.mark}-old")
            consumer = JavaConsumer(server.namesrv, "readers", CONSUMED, version="5.5.0", work=work)
            consumer.await_bodies({f"{self.mark}-old"}, timeout_s=30)
            consumer.close()
            producer.send(CONSUMED, f"{self.mark}-new")
            self.level_ms = now_ms() + LEVEL_MS
            producer.send(LATER, f"{self.mark}-level", delay_level=LEVEL)
            self.timer_ms = now_ms() + LEAD_MS
            producer.send(LATER, f"{self.mark}-timer", deliver_at_ms=self.timer_ms)
        with TransactionProducer("deciders", server.namesrv, check=lambda message: Decision.UNKNOWN) as shop:
            shop.send_half(ORDERS, prepare(f"{self.mark}-half"))

    def unpack(self, server: Server, work: Path) -> None:
        """Receive what was new, what waited, each at its moment, and what is decided now."""
        reading = JavaConsumer(server.namesrv, "readers", CONSUMED, version="5.5.0", work=work, instance=server.name)
        waiting = JavaConsumer(server.namesrv, "waiters", LATER, version="5.5.0", work=work, instance=server.name)
        with TransactionProducer("deciders", server.namesrv, check=lambda message: Decision.COMMIT):
            assert wait_until(lambda: self.is_decided(server, work), 60)
        waiting.await_bodies({f"{self.mark}-level", f"{self.mark}-timer"}, timeout_s=90)
        reading.await_bodies({f"{self.mark}-new"}, timeout_s=30)
        assert [event["body"] for event in reading.events("message")] == [f"{self.mark}-new"]
        stored_ms = {event["body"]: event["storeMs"] for event in waiting.events("message")}
        assert stored_ms[f"{self.mark}-level"] >= self.level_ms - 1_000
        assert stored_ms[f"{self.mark}-timer"] >= self.timer_ms // 1_000 * 1_000
        for consumer in (reading, waiting):
            consumer.close()

    def is_decided(self, server: Server, work: Path) -> bool:
        shown = [event["body"] for event in read_all(server.namesrv, [ORDERS], work=work)[ORDERS]]
        return f"{self.mark}-half" in shown


def looked_at(root: Path) -> list[str]:
    """The lines that the command of the guide prints."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.site.settings"}
    command = [sys.executable, "manage.py", "look_at_store", str(root)]
    told = subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout.splitlines()


def shown(number: int) -> list[str]:
    """The lines below the nth `look_at_store` of the guide."""
    blocks = re.findall(r"```\n\$ \S+ manage\.py look_at_store \S+\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(blocks[number]).splitlines()


def plain(lines: list[str]) -> list[str]:
    return [re.sub(r"\d[\d,]*", "N", line) for line in lines]


def test_a_store_is_taken_over_and_given_back(start_server: ServerFactory, tmp_path: Path) -> None:
    root, work = tmp_path / "store", tmp_path / "clients"
    theirs = start_server("apache", root, SHAPE)
    cargo = Cargo(theirs, work)
    end_cleanly(theirs)
    assert plain(looked_at(root)) == plain(shown(0))
    assert sizes_of(OsFiles(), str(root)).items() >= {
        "segment_size_bytes": SHAPE.segment_size_bytes, "queue_file_entries": SHAPE.queue_file_entries,
        "index_slots": SHAPE.index_slots, "index_entries": SHAPE.index_entries,
    }.items()  # fmt: skip
    ours = start_server("escapement", root, SHAPE)
    cargo.unpack(ours, work)
    cargo = Cargo(ours, work)
    end_cleanly(ours)
    assert plain(looked_at(root)) == plain(shown(1))
    back = start_server("apache", root, SHAPE)
    cargo.unpack(back, work)
    end_cleanly(back)
