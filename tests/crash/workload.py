"""A seeded workload that uses everything a store can do, against an oracle that knows what was promised."""

from __future__ import annotations

import random
from collections.abc import Callable

from broker.engine.log.ticket import Ticket
from broker.engine.testing import ManualClock, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine

from .oracle import GROUP, LEVELS, Oracle, Sent

TOPICS = {"orders": 2, "seats": 1}


class Workload:
    """Steps drawn from a seed. ``driver`` is replaced by a clean stop and start."""

    def __init__(self, seed: int, files: SimulatedFiles, **config: object) -> None:
        self.random = random.Random(seed)
        self.files = files
        self.config = config
        self.clock = ManualClock()
        self.oracle = Oracle(dict(TOPICS))
        self.driver: Driver = open_engine(files, clock=self.clock, **config)
        self._number = 0
        for topic, queues in TOPICS.items():
            self.driver.engine.topics.ensure(topic, queues)

    def run(self, steps: int) -> None:
        """Take so many steps, then stop cleanly."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (6, self.send),
            (4, self.send_several),
            (3, self.send_batch),
            (6, self.send_delayed),
            (5, self.let_time_pass),
            (3, self.commit_offset),
            (4, self.keep_up),
            (2, self.keep_up_in_flight),
            (1, self.make_topic),
            (1, self.restart),
            (1, self.set_clock_back),
        ]
        weights, actions = zip(*kinds, strict=True)
        for _ in range(steps):
            self.random.choices(actions, weights)[0]()
            self.oracle.look(self.driver)
        self.restart()

    def send(self) -> None:
        """One message, durable before the next step."""
        self._append()
        self._settle()

    def send_several(self) -> None:
        """Some messages share a sync."""
        for _ in range(self.random.randint(2, 6)):
            self._append(level=self.random.choice((0, 0, 0, 1)))
        self._settle()

    def send_batch(self) -> None:
        """A batch, all or nothing."""
        topic, queue_id = self._place()
        bodies = [self._body() for _ in range(self.random.randint(1, 5))]
        tickets = self.driver.append_batch(topic, bodies, queue_id=queue_id)
        for body, ticket in zip(bodies, tickets, strict=True):
            self.oracle.append(body, Sent(topic, queue_id, {}, ticket))
        self._settle()

    def send_delayed(self) -> None:
        """One to three messages with a delay level."""
        for _ in range(self.random.randint(1, 3)):
            self._append(level=self.random.randint(1, LEVELS))
        self._settle()

    def let_time_pass(self) -> None:
        """Some seconds; what is due in between is released at its moment."""
        self.driver.advance(self.random.choice((1, 300, 1_000, 1_001, 4_000, 11_000)))

    def set_clock_back(self) -> None:
        """The wall clock jumps back."""
        self.clock.advance(-self.random.choice((500, 3_000)))
        self.driver.tick()

    def commit_offset(self) -> None:
        """A consumer group moves on."""
        topic, queue_id = self._place()
        _, end = self.driver.engine.queue_bounds(topic, queue_id)
        offset = max(self.oracle.committed.get((topic, queue_id), 0), self.random.randint(0, end))
        self.oracle.committed[topic, queue_id] = offset
        self.driver.engine.offsets.commit(GROUP, topic, queue_id, offset)

    def keep_up(self) -> None:
        """Checkpoint and tables."""
        self.clock.advance(6_000)
        self.driver.upkeep()
        if self.driver.engine.offsets.take() is None:
            # else the clock was set back, to within a second of the last save
            self.oracle.saved = dict(self.oracle.committed)

    def keep_up_in_flight(self) -> None:
        """Checkpoint and tables while messages are appended and a sync job is out."""
        self._append()
        job = self.driver.engine.take_sync(self.clock.now_ms)
        self._append()
        self.keep_up()
        assert job is not None
        job.run()
        tickets = self.driver.engine.synced(job, None, self.clock.now_ms)
        if self.config.get("flush") != "async":
            self.oracle.acknowledge(tickets)
        self._settle()

    def make_topic(self) -> None:
        """A new topic, written to at once."""
        if len(self.oracle.queues) < 5:
            topic = f"topic{len(self.oracle.queues)}"
            self.driver.engine.topics.ensure(topic, 1)
            self.oracle.queues[topic] = 1
            self._append(topic=topic)
            self._settle()

    def restart(self) -> None:
        """A clean stop and start."""
        self.driver.close()
        self.oracle.saved = dict(self.oracle.committed)
        self.driver = open_engine(self.files, clock=self.clock, **self.config)

    def _append(self, *, level: int = 0, topic: str | None = None) -> Ticket:
        queue_id = 0
        if topic is None:
            topic, queue_id = self._place()
        body = self._body()
        properties = {"UNIQ_KEY": f"{self._number:032X}", "KEYS": f"k{self._number % 7} n{self._number}", "TAGS": "t"}
        asked = {**properties, "DELAY": str(level)} if level else properties
        ticket = self.driver.append(topic, body, queue_id=queue_id, **asked)
        self.oracle.append(body, Sent(topic, queue_id, properties, ticket))
        return ticket

    def _settle(self) -> None:
        tickets = self.driver.settle()
        if self.config.get("flush") == "async":
            self.oracle.acknowledge_below(self.driver.engine.health().durable_position)
        else:
            self.oracle.acknowledge(tickets)

    def _place(self) -> tuple[str, int]:
        topic = self.random.choice(list(self.oracle.queues))
        return topic, self.random.randrange(self.oracle.queues[topic])

    def _body(self) -> bytes:
        self._number += 1
        length = self.random.choice((0, 3, 100, 700, 1_500))
        return b"%05d" % self._number + self.random.randbytes(length)
