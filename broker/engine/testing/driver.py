"""An engine driven by hand: the host's loop as plain calls, so that a test decides when what happens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...rocketmq.message import Message, decode, pack_host
from ...rocketmq.properties import format_properties
from ..config import EngineConfig
from ..disk import Files
from ..engine import Engine
from ..errors import CorruptRecord, RecordNotFound
from ..log.ticket import Ticket
from .disk import SimulatedFiles

#: 2026-01-01T00:00:00Z in ms; any fixed moment will do, a plausible one makes failures readable.
START_MS = 1_767_225_600_000


@dataclass(slots=True)
class ManualClock:
    """The wall clock of a test, in ms since 1970."""

    now_ms: int = START_MS

    def advance(self, delta_ms: int) -> int:
        """Move by ``delta_ms`` (negative: the clock is set back) and return the new time."""
        self.now_ms += delta_ms
        return self.now_ms


#: Sizes so small that a few messages roll every kind of file.
TINY = EngineConfig(
    root="/store",
    segment_size_bytes=4096,
    queue_file_entries=8,
    index_slots=16,
    index_entries=24,
    max_body_bytes=2048,
    max_properties_bytes=1024,
    timer_slots=84,
    timer_log_file_bytes=1040,
    delay_levels="1s 5s 10s",
    retention_hours=72,
)
BORN_HOST = pack_host("127.0.0.1", 40_000)
#: More sync or upkeep jobs in a row than any test causes: beyond it the engine would never come to rest.
JOB_LIMIT = 1_000


def open_engine(files: Files | None = None, *, clock: ManualClock | None = None, **config: Any) -> Driver:
    """Open (or recover) a store with tiny files and return its driver. ``config`` overrides fields of EngineConfig."""
    clock = clock or ManualClock()
    engine = Engine.open(replace(TINY, **config), SimulatedFiles() if files is None else files, clock.now_ms)
    return Driver(engine, clock)


class Driver:
    """Plays the host of one engine."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock

    def append(self, topic: str, body: bytes, *, queue_id: int = 0, owner: object = None, **properties: str) -> Ticket:
        """Append one message with the given properties; it is neither durable nor visible yet."""
        now_ms = self.clock.now_ms
        stored = format_properties(properties)
        return self.engine.append(
            topic, queue_id, body, stored, born_ms=now_ms, born_host=BORN_HOST, now_ms=now_ms, owner=owner
        )

    def append_batch(self, topic: str, bodies: list[bytes], *, queue_id: int = 0, **properties: str) -> list[Ticket]:
        """Append several messages with the same properties, all or none."""
        now_ms = self.clock.now_ms
        parts = [(body, format_properties(properties), 0) for body in bodies]
        return self.engine.append_batch(
            topic, queue_id, parts, sys_flag=0, born_ms=now_ms, born_host=BORN_HOST, now_ms=now_ms
        ).each()

    def flush(self) -> list[Ticket] | None:
        """Run one sync job; return the tickets that became durable, None without a job. The engine hears of errors."""
        job = self.engine.take_sync(self.clock.now_ms)
        if job is None:
            return None
        tickets = self.engine.synced(job, _error_of(job), self.clock.now_ms)
        return [one for ticket in tickets for one in ticket.each()]

    def settle(self) -> list[Ticket]:
        """Run sync jobs until none is left; return all tickets that became durable."""
        durable: list[Ticket] = []
        for _ in range(JOB_LIMIT):
            if (tickets := self.flush()) is None:
                return durable
            durable += tickets
        raise AssertionError(f"the engine still had something to sync after {JOB_LIMIT} jobs")

    def send(self, topic: str, body: bytes, *, queue_id: int = 0, **properties: str) -> Ticket:
        """Append one message and wait until it is durable and visible."""
        ticket = self.append(topic, body, queue_id=queue_id, **properties)
        self.settle()
        return ticket

    def tick(self) -> int | None:
        """Release what is due and make it durable; return when the engine wants the next tick."""
        next_ms = self.engine.tick(self.clock.now_ms)
        for _ in range(JOB_LIMIT):
            self.settle()
            if next_ms is None or next_ms > self.clock.now_ms:
                return next_ms
            next_ms = self.engine.tick(self.clock.now_ms)
        raise AssertionError(f"the engine still had something due after {JOB_LIMIT} ticks")

    def advance(self, delta_ms: int) -> None:
        """Move the clock, stopping wherever the engine wants a tick on the way."""
        end_ms = self.clock.now_ms + delta_ms
        for _ in range(JOB_LIMIT):
            next_ms = self.tick()
            if next_ms is None or next_ms > end_ms:
                break
            self.clock.now_ms = max(self.clock.now_ms, next_ms)
        self.clock.now_ms = end_ms
        self.tick()

    def upkeep(self) -> None:
        """Run upkeep jobs until none is left."""
        for _ in range(JOB_LIMIT):
            if (job := self.engine.take_upkeep(self.clock.now_ms)) is None:
                return
            self.engine.upkept(job, _error_of(job), self.clock.now_ms)
        raise AssertionError(f"the engine still had upkeep to do after {JOB_LIMIT} jobs")

    def close(self) -> None:
        """Stop the engine, as a broker does that is told to."""
        self.engine.close(self.clock.now_ms)

    def readable(self, topic: str, queue_id: int = 0) -> dict[int, Message]:
        """Return every visible message of a queue that can be read, by offset; damaged ones are left out."""
        found: dict[int, Message] = {}
        begin, end = self.engine.queue_bounds(topic, queue_id)
        for offset, entry in enumerate(self.engine.entries(topic, queue_id, begin, end - begin), begin):
            try:
                record = self.engine.record_at(entry.position)
            except (CorruptRecord, RecordNotFound):
                continue
            if len(record) == entry.size:  # else the entry stands for a record that was lost
                found[offset] = decode(record)
        return found

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        """Return the bodies of all visible messages of a queue, in order."""
        return [message.body for message in self.readable(topic, queue_id).values()]


class Job(Protocol):
    """Work that the engine hands out to be run."""

    def run(self) -> object:
        """Do the work; raises OSError."""


def _error_of(job: Job) -> OSError | None:
    try:
        job.run()
    except OSError as error:
        return error
    return None
