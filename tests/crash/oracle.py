"""What a workload was promised, and the check that a store keeps it after any crash."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.engine.log.ticket import Ticket
from broker.engine.status import Health
from broker.engine.testing import ManualClock, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import Message

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
GROUP = "readers"
LEVELS = 3
#: Longer than the longest delay level of the workloads.
LONG_MS = 60_000
#: topic, queue, offset
Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was appended: what must be found again, byte for byte."""

    topic: str
    queue_id: int
    properties: dict[str, str]
    ticket: Ticket


@dataclass(slots=True)
class Oracle:
    """The promises so far. A body is unique, so it names its message."""

    queues: dict[str, int]
    sent: dict[bytes, Sent] = field(default_factory=dict)
    positions: dict[int, bytes] = field(default_factory=dict)
    acknowledged: set[bytes] = field(default_factory=set)
    seen: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    saved: dict[tuple[str, int], int] = field(default_factory=dict)

    def append(self, body: bytes, sent: Sent) -> None:
        """Note a message that was handed in."""
        self.sent[body] = sent
        self.positions[sent.ticket.position] = body

    def acknowledge(self, tickets: list[Ticket]) -> None:
        """Note that these are durable."""
        self.acknowledged.update(
            self.positions[ticket.position] for ticket in tickets if ticket.position in self.positions
        )

    def acknowledge_below(self, position: int) -> None:
        """Note that everything below a position of the log is durable (flush=async: answered before, counted now)."""
        for body, sent in self.sent.items():
            if sent.ticket.position + sent.ticket.size <= position:
                self.acknowledged.add(body)

    def look(self, driver: Driver) -> None:
        """Note what a reader can see now and what is durable: it must stay so for ever."""
        durable = driver.engine.health().durable_position
        for topic, queues in self.queues.items():
            for queue_id in range(queues):
                for offset, message in driver.readable(topic, queue_id).items():
                    if message.position < durable:
                        self.seen[topic, queue_id, offset] = message.body

    def check(self, files: SimulatedFiles, now_ms: int, **config: object) -> Found:
        """Open the store, let all delays pass, and assert every promise."""
        found = open_and_read(files, now_ms, self.queues, **config)
        self.judge(found)
        return found

    def judge(self, found: Found) -> None:
        """Assert every promise of what was found in a store."""
        assert found.health.state in ("OK", "DEGRADED"), found.health
        before = self._each_once(found.before)
        for level, offset, message in found.parked:
            assert (message.queue_id, message.queue_offset) == (level, offset), f"I3: level {level}, {offset}"
            assert message.body in self.sent, f"I2: {message.body[:20]!r} was never sent"
        self._check_acknowledged(found, before)
        self._check_offsets(found)
        after = self._each_once(found.after)
        for key, message in before.items():
            assert after[key].body == message.body, f"{key} changed while delays were released"
        self._check_released(after)
        assert found.next_offset == found.end_offset, f"I3: the next offset is {found.next_offset}"
        assert found.last_body == b"alive"

    def _each_once(self, found: dict[Place, Message]) -> dict[Place, Message]:
        """Assert that each message is at its place, was sent, and is there once."""
        bodies: set[bytes] = set()
        for place, message in found.items():
            assert (message.topic, message.queue_id, message.queue_offset) == place, f"I3: {place} is {message}"
            self._check_sent(place, message)
            assert message.body not in bodies, f"{message.body[:20]!r} is there twice"
            bodies.add(message.body)
        return found

    def _check_sent(self, place: Place, message: Message) -> None:
        sent = self.sent.get(message.body)
        assert sent is not None, f"I2: {message.body[:20]!r} at {place} was never sent"
        assert (message.topic, message.queue_id) == (sent.topic, sent.queue_id), f"I2: {place} should be in {sent}"
        assert sent.properties.items() <= message.properties.items(), f"I1: properties of {place} differ"
        if sent.ticket.due_ms is not None:
            early_ms, delay_ms = sent.ticket.due_ms - message.store_ms, sent.ticket.due_ms - sent.ticket.store_ms
            # a wait longer than the delay itself can only come from a clock set back: then it goes at once
            assert early_ms <= 0 or early_ms > delay_ms, f"I6: {place} was released {early_ms} ms early"

    def _check_acknowledged(self, opened: Found, found: dict[Place, Message]) -> None:
        for body in self.acknowledged:
            sent = self.sent[body]
            if sent.ticket.due_ms is None:
                place = (sent.topic, sent.queue_id, sent.ticket.queue_offset)
                assert place in found, f"I1: acknowledged {body[:20]!r} at {place} is lost"
                assert found[place].body == body, f"I1: {place} holds {found[place].body[:20]!r}, not {body[:20]!r}"
                assert found[place].position == sent.ticket.position, f"I1: {place} moved"
        for place, body in self.seen.items():
            assert place in found, f"I3: {place} was seen and is gone"
            assert found[place].body == body, f"I3: {place} was {body[:20]!r}"
        for topic in {self.sent[body].topic for body in self.acknowledged}:
            assert topic in opened.topics, f"topic {topic} is forgotten although it holds messages"

    def _check_offsets(self, opened: Found) -> None:
        for (topic, queue_id), saved in self.saved.items():
            found = opened.offsets.get((topic, queue_id))
            assert found is not None, f"the offset of {topic} {queue_id} is lost, {saved} was saved"
            assert saved <= found <= self.committed[topic, queue_id], f"offset {found} of {topic}, saved {saved}"

    def _check_released(self, found: dict[Place, Message]) -> None:
        bodies = {message.body for message in found.values()}
        for body in self.acknowledged:
            assert body in bodies, f"I6: acknowledged delayed {body[:20]!r} was never released"


@dataclass(frozen=True, slots=True)
class Found:
    """What a store holds when it is opened, and after all delays: it depends on the disk and the moment alone."""

    health: Health
    before: dict[Place, Message]
    after: dict[Place, Message]
    #: (level, offset, message) of what waits for its delay
    parked: list[tuple[int, int, Message]]
    offsets: dict[tuple[str, int], int]
    topics: set[str]
    #: where the first queue ended, which offset one more message got there, and what then is last
    end_offset: int
    next_offset: int
    last_body: bytes


def open_and_read(files: SimulatedFiles, now_ms: int, queues: dict[str, int], **config: object) -> Found:
    """Open a store, read all of it, let all delays pass, read it again, and send one more."""
    driver = open_engine(files, clock=ManualClock(now_ms), **config)
    engine, health = driver.engine, driver.engine.health()
    before = _readable(driver, queues)
    parked = [
        (level, offset, message)
        for level in range(LEVELS)
        for offset, message in driver.readable(SCHEDULE_TOPIC, level).items()
    ]
    saved = {
        (topic, queue_id): engine.offsets.get(GROUP, topic, queue_id)
        for topic, count in queues.items()
        for queue_id in range(count)
    }
    offsets = {place: offset for place, offset in saved.items() if offset is not None}
    topics = {topic for topic in queues if engine.topics.get(topic) is not None}
    driver.advance(LONG_MS)
    after = _readable(driver, queues)
    topic = next(iter(queues))
    engine.topics.ensure(topic, queues[topic])
    _, end = engine.queue_bounds(topic, 0)
    ticket = driver.send(topic, b"alive")
    last = driver.bodies(topic)[-1]
    return Found(health, before, after, parked, offsets, topics, end, ticket.queue_offset, last)


def _readable(driver: Driver, queues: dict[str, int]) -> dict[Place, Message]:
    """Return every message by topic, queue and offset."""
    return {
        (topic, queue_id, offset): message
        for topic, count in queues.items()
        for queue_id in range(count)
        for offset, message in driver.readable(topic, queue_id).items()
    }
