"""A random history of a store, and what must be there if it ended at a position: told by tickets, not by the store."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker.engine.disk import File, Files
from broker.engine.log.commit_log import CommitLog
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, ManualClock, open_engine
from broker.engine.timer.steer import Target
from broker.engine.transaction.decision import Ending
from broker.engine.transaction.records import read_op
from broker.rocketmq.layout import store_ms_of
from broker.rocketmq.message import Message
from broker.rocketmq.properties import SOURCE
from broker.rocketmq.topics import OP_TOPIC

TOPIC, QUEUES, GROUP, PAYERS = "orders", 2, "shop", "payers"
#: Longer than any delay or timer of a history.
ALL_OF_IT_MS = 400_000


@dataclass(slots=True)
class Expected:
    """What a store holds that ends at a position."""

    arrived: dict[int, dict[int, bytes]] = field(default_factory=dict)
    pending: set[bytes] = field(default_factory=set)
    open_halves: set[int] = field(default_factory=set)


class History:
    """Steps that a broker takes, chosen by a seed."""

    def __init__(self, seed: int, files: Files, root: str = "/store", **config: Any) -> None:
        self.random = random.Random(seed)
        self.files = files
        self.config = {"root": root, **config}
        self.clock = ManualClock()
        self.driver = open_engine(files, clock=self.clock, **self.config)
        self.driver.engine.topics.ensure(TOPIC, QUEUES)
        self.waiting: dict[bytes, Ticket] = {}
        self.cancelled: dict[bytes, int] = {}
        self.halves: list[Ticket] = []
        self.undecided: list[Ticket] = []
        self._number = 0
        #: how often the broker may still stop and start
        self.restarts = 0

    def run(self, steps: int) -> None:
        """Take so many steps."""
        self.restarts = steps
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Take one."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (8, self.send), (3, self.delay), (4, self.time), (2, self.cancel), (2, self.begin), (2, self.decide),
            (5, self.let_time_pass), (4, self.keep_up), (2, self.consume), (1, self.leave_unsynced), (1, self.restart),
            (2, self.make_or_delete_another),
        ]  # fmt: skip
        weights, actions = zip(*kinds, strict=True)
        self.random.choices(actions, weights)[0]()

    def send(self) -> None:
        self._append(queue_id=self.random.randrange(QUEUES))
        self.driver.settle()

    def delay(self) -> None:
        ticket, body = self._append(DELAY=str(self.random.randint(1, 3)))
        self.waiting[body] = ticket
        self.driver.settle()

    def time(self) -> None:
        due_ms = self.clock.now_ms + self.random.choice((1, 900, 20_000, 300_000))
        ticket, body = self._append(TIMER_DELIVER_MS=str(due_ms))
        self.waiting[body] = ticket
        self.driver.settle()

    def cancel(self) -> None:
        if not self.waiting:
            return
        body = self.random.choice(list(self.waiting))
        target = Target(topic=TOPIC, unique_key=body.decode())
        outcome = self.driver.engine.steer_timer("cancel", target, now_ms=self.clock.now_ms)
        if outcome.outcome == "cancelled":
            self.cancelled[body] = outcome.tickets[0].position
        self.driver.settle()

    def begin(self) -> None:
        ticket, _ = self._append(TRAN_MSG="true", PGROUP=PAYERS)
        self.halves.append(ticket)
        self.undecided.append(ticket)
        self.driver.settle()

    def decide(self) -> None:
        if self.undecided:
            half = self.undecided.pop(self.random.randrange(len(self.undecided)))
            ending = Ending(half.queue_offset, half.position, self.random.random() < 0.5, "producer", group=PAYERS)
            self.driver.engine.transactions.end(ending, self.clock.now_ms)
            self.driver.settle()

    def let_time_pass(self) -> None:
        self.driver.advance(self.random.choice((1, 700, 5_000, 40_000)))

    def keep_up(self) -> None:
        self.clock.advance(6_000)
        self.driver.upkeep()

    def consume(self) -> None:
        queue_id = self.random.randrange(QUEUES)
        begin, end = self.driver.engine.queue_bounds(TOPIC, queue_id)
        known = self.driver.engine.offsets.get(GROUP, TOPIC, queue_id) or begin
        self.driver.engine.offsets.commit(GROUP, TOPIC, queue_id, self.random.randint(known, end))

    def leave_unsynced(self) -> None:
        self._append(queue_id=0)

    def make_or_delete_another(self) -> None:
        """A topic beside the one that is looked at comes with messages, or goes with its queues."""
        self.driver.settle()
        if self.driver.engine.topics.get("bills") is None:
            self.driver.engine.topics.ensure("bills", 2)
            for queue_id in (0, 1):
                self.driver.send("bills", b"bill", queue_id=queue_id)
        else:
            self.driver.engine.delete_topic("bills", "keep")

    def restart(self) -> None:
        if not self.restarts:
            return
        self.restarts -= 1
        self.driver.settle()
        self.driver.close()
        self.driver = open_engine(self.files, clock=self.clock, **self.config)

    def _append(self, *, queue_id: int = 0, **properties: str) -> tuple[Ticket, bytes]:
        self._number += 1
        body = b"B%05d" % self._number
        return self.driver.append(TOPIC, body, queue_id=queue_id, UNIQ_KEY=body.decode(), **properties), body

    # what is to be there

    def moments(self) -> list[tuple[int, int]]:
        """Return position and store time of every record of the log so far."""
        self.driver.settle()
        log = CommitLog(self.files, f"{self.config['root']}/commitlog", self.driver.engine.config.segment_size_bytes)
        walked = log.walk(log.chain.min_position, log.chain.end_position)
        return [(position, store_ms_of(record)) for position, record in walked if record is not None]

    def expected(self, position: int) -> Expected:
        """Return what a store holds that ends at a position of this history."""
        self.driver.settle()
        arrived = {queue_id: self.driver.readable(TOPIC, queue_id) for queue_id in range(QUEUES)}
        here = [message for queue in arrived.values() for message in queue.values() if message.position < position]
        out = {int(message.properties[SOURCE]) for message in here if SOURCE in message.properties}
        decided = {
            decision.offset
            for op in self.driver.readable(OP_TOPIC).values()
            if op.position < position
            for decision in read_op(op.body, op.properties)
        }
        return Expected(
            arrived={queue_id: _bodies(queue, position) for queue_id, queue in arrived.items()},
            pending={
                body
                for body, ticket in self.waiting.items()
                if ticket.position < position
                and ticket.position not in out
                and self.cancelled.get(body, position) >= position
            },
            open_halves={
                half.queue_offset
                for half in self.halves
                if half.position < position and half.position not in out and half.queue_offset not in decided
            },
        )


def _bodies(queue: dict[int, Message], position: int) -> dict[int, bytes]:
    return {offset: message.body for offset, message in queue.items() if message.position < position}


def check_equal(files: Files, root: str, expected: Expected, now_ms: int, **config: Any) -> Driver:
    """Open a restored store, compare it with what is expected, and have everything come out that waits: once."""
    driver = open_engine(files, clock=ManualClock(now_ms), root=root, **config)
    for queue_id, bodies in expected.arrived.items():
        found = {offset: message.body for offset, message in driver.readable(TOPIC, queue_id).items()}
        assert found == bodies, f"queue {queue_id}"
        offset = driver.engine.offsets.get(GROUP, TOPIC, queue_id) or 0
        assert offset <= driver.engine.queue_end(TOPIC, queue_id)
    halves = driver.engine.transactions.table.halves
    assert {half for chunk in halves.chunks() for half in chunk.offsets} == expected.open_halves
    before = sorted(body for bodies in expected.arrived.values() for body in bodies.values())
    driver.advance(ALL_OF_IT_MS)
    after = sorted(body for queue_id in range(QUEUES) for body in driver.bodies(TOPIC, queue_id))
    assert after == sorted([*before, *expected.pending])
    return driver


# A store that goes on while it is read.


class Meanwhile:
    """Files on which ``act`` is called at every open and read of a store, as if another process went on just then."""

    def __init__(self, files: Files, act: Callable[[], None], part: str) -> None:
        self._files = files
        self._act = act
        self._part = part
        self._is_acting = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def happens(self, path: str) -> None:
        """Let the other go on, unless it is the one who asks."""
        if not self._is_acting and path.startswith(self._part):
            self._is_acting = True
            try:
                self._act()
            finally:
                self._is_acting = False

    def open(self, path: str, *, create: bool = False) -> File:
        self.happens(path)
        return _WatchedFile(self, self._files.open(path, create=create))


class _WatchedFile:
    def __init__(self, files: Meanwhile, file: File) -> None:
        self._files = files
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int, at: int) -> bytes:
        self._files.happens(self._file.path)
        return self._file.read(size, at)
