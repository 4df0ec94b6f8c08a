"""Damage to a store at rest: one file changed in one way, and what must still hold afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from broker.engine.errors import StoreUnsupported
from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import Message, decode

from .oracle import LONG_MS

PAGE_BYTES = 512


@dataclass(frozen=True, slots=True)
class Mutation:
    """A file and what became of it (None: it is gone)."""

    path: str
    what: str
    content: bytes | None


def mutations(files: dict[str, bytes], draws: random.Random, per_file: int) -> Iterator[Mutation]:
    """Yield ways to damage each file."""
    for path, content in files.items():
        yield Mutation(path, "gone", None)
        yield Mutation(path, "empty", b"")
        if not content:
            yield Mutation(path, "grown", b"\x01garbage")
            continue
        used = len(content.rstrip(b"\0")) or len(content)
        for _ in range(per_file):
            bit = draws.randrange(8 * used)
            yield Mutation(path, f"bit {bit} flipped", _flipped(content, bit))
        for _ in range(max(1, per_file // 10)):
            length = draws.randrange(used)
            yield Mutation(path, f"cut at {length}", content[:length])
            page = draws.randrange(used) // PAGE_BYTES * PAGE_BYTES
            end = min(len(content), page + PAGE_BYTES)
            yield Mutation(path, f"page {page} zero", content[:page] + bytes(end - page) + content[end:])
            other = draws.randrange(used) // PAGE_BYTES * PAGE_BYTES
            copy = content[other : other + end - page].ljust(end - page, b"\0")
            yield Mutation(path, f"page {page} is a copy of {other}", content[:page] + copy + content[end:])
        yield Mutation(path, "grown", content + b"\x01garbage")


def _flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


@dataclass(slots=True)
class RotCampaign:
    """A sound, cleanly stopped store; each mutation of it is opened, read and judged."""

    files: dict[str, bytes]
    now_ms: int
    config: dict[str, Any]
    places: dict[tuple[str, int, int], Message] = field(default_factory=dict)
    pending: dict[int, Message] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    mutants: int = 0

    def learn(self) -> None:
        """Read the sound store once: what must be found again."""
        disk = SimulatedFiles()
        disk.load(self.files)
        driver = open_engine(disk, clock=ManualClock(self.now_ms), **self.config)
        for topic, queue_id in self._queues():
            for offset, message in driver.readable(topic, queue_id).items():
                self.places[topic, queue_id, offset] = message
        for status in driver.engine.schedule.status(self.now_ms):
            for entry in driver.engine.entries("SCHEDULE_TOPIC_XXXX", status.number - 1, status.offset, 10_000):
                self.pending[entry.position] = decode(driver.engine.record_at(entry.position))
        assert self.places

    def _queues(self) -> list[tuple[str, int]]:
        parts = [path.split("/") for path in self.files if path.startswith("/store/consumequeue/")]
        return sorted({(part[3], int(part[4])) for part in parts})

    def try_one(self, mutation: Mutation) -> None:
        """Open one mutant; AssertionError says what promise it breaks."""
        self.mutants += 1
        disk = SimulatedFiles()
        disk.load({path: content for path, content in self.files.items() if path != mutation.path})
        if mutation.content is not None:
            disk.load({mutation.path: mutation.content})
        before = disk.crash(PowerLoss("kill"))
        driver = self._open(disk)
        if driver is None:
            derived_or_log = mutation.path.startswith(("/store/commitlog/", "/store/consumequeue/"))
            assert derived_or_log, "damage to this file is no reason to refuse the store"
            assert len(mutation.content or b"") != len(self.files[mutation.path]), "refused for changed bytes"
            assert _same_log(before, disk), "a refused store was changed"
            self.outcomes["refused"] += 1
            return
        if self._looks_expired(mutation):
            self.outcomes["as if expired"] += 1
            return
        lost = self._damaged_positions(mutation)
        self.check_served(driver, lost)
        if mutation.what != "gone":  # a first segment that is gone looks as if its time had come
            self.check_reported(driver, lost)
        self._check_released(driver, lost)
        self.outcomes[driver.engine.health().state] += 1

    def _looks_expired(self, mutation: Mutation) -> bool:
        """Tell whether the first of several files of a queue is gone: so retention leaves a queue, too."""
        folder = mutation.path.rpartition("/")[0]
        others = [path for path in self.files if path.startswith(f"{folder}/") and path > mutation.path]
        is_first = mutation.path == min(path for path in self.files if path.startswith(f"{folder}/"))
        return mutation.what == "gone" and "/consumequeue/" in folder and is_first and bool(others)

    def _open(self, disk: SimulatedFiles) -> Driver | None:
        """Return the opened store, None if it was refused with a reason."""
        try:
            return open_engine(disk, clock=ManualClock(self.now_ms), **self.config)
        except StoreUnsupported:
            return None

    def _damaged_positions(self, mutation: Mutation) -> dict[int, int]:
        """Return position and size of every record that the mutation touches."""
        if not mutation.path.startswith("/store/commitlog/"):
            return {}
        base = int(mutation.path.rpartition("/")[2])
        sound, now = self.files[mutation.path], mutation.content or b""
        now = now.ljust(len(sound), b"\0")
        touched = [at for at in range(len(sound)) if sound[at] != now[at]]
        lost = {}
        for message in {**{m.position: m for m in self.places.values()}, **self.pending}.values():
            begin, end = message.position - base, message.position - base + message.size
            if any(begin <= at < end for at in touched):
                lost[message.position] = message.size
        return lost

    def check_served(self, driver: Driver, lost: dict[int, int]) -> None:
        """Every record but the lost ones is served at its place, and nothing else."""
        served: dict[tuple[str, int, int], bytes] = {}
        for topic, queue_id in self._queues():
            low, high = driver.engine.queue_bounds(topic, queue_id)
            offset = low
            while offset < high:
                pulled = driver.engine.pull(topic, queue_id, offset, 32, 1 << 20, None)
                for record in pulled.records:
                    message = decode(record)
                    place = (message.topic, message.queue_id, message.queue_offset)
                    assert place[:2] == (topic, queue_id), f"{place} was served from {topic} {queue_id}"
                    assert place not in served, f"{place} was served twice"
                    served[place] = message.body
                assert pulled.next_offset > offset, f"a consumer of {topic} {queue_id} is stuck at {offset}"
                offset = pulled.next_offset
        for place, message in self.places.items():
            if message.position in lost:
                assert place not in served, f"damaged {place} was served"
            else:
                assert place in served, f"{place} at {message.position} is not served"
                assert served[place] == message.body, f"wrong body at {place}"
        assert served.keys() <= self.places.keys(), f"{served.keys() - self.places.keys()} were never sent"

    def check_reported(self, driver: Driver, lost: dict[int, int]) -> None:
        """Exactly the lost records are reported."""
        health = driver.engine.health()
        reported = {damage.start for damage in health.damaged}
        covered = [p for p in lost if any(damage.start <= p < damage.end for damage in health.damaged)]
        assert sorted(covered) == sorted(lost), f"damaged {sorted(lost)}, reported {health.damaged}"
        sound = {m.position for m in self.places.values()} - lost.keys()
        assert not sound & reported, f"sound records {sound & reported} are reported damaged"
        assert (health.state == "DEGRADED") == bool(reported), health

    def _check_released(self, driver: Driver, lost: dict[int, int]) -> None:
        if not self.pending:
            return
        driver.advance(LONG_MS)
        bodies: Counter[bytes] = Counter()
        for topic, queue_id in {
            (m.properties["REAL_TOPIC"], int(m.properties["REAL_QID"])) for m in self.pending.values()
        }:
            bodies.update(message.body for message in driver.readable(topic, queue_id).values())
        for position, message in self.pending.items():
            if position not in lost:
                assert bodies[message.body] == 1, f"parked {position} was released {bodies[message.body]} times"

    def report(self, name: str) -> str:
        """Return the line that every run prints."""
        return f"{name}: {self.mutants:,} damaged stores, 0 violations, {dict(self.outcomes)}"


def _same_log(before: SimulatedFiles, after: SimulatedFiles) -> bool:
    old, new = before.contents(), after.contents()
    return all(new.get(path) == content for path, content in old.items() if content and "/commitlog/" in path)
