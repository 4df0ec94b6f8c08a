"""The engine against a small model of it: whatever is done in whatever order, both hold the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine

TOPICS = ("orders", "seats", "bills")
GROUP = "readers"
DELAYS_MS = (1_000, 5_000, 10_000)
HOUR_MS = 3_600_000

places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))
sizes = st.sampled_from((0, 1, 60, 500, 1_400))


@dataclass(slots=True)
class Parked:
    """A message that waits."""

    body: bytes
    place: tuple[str, int]
    store_ms: int
    delay_ms: int


@dataclass(slots=True)
class Model:
    """What the store must hold: per queue its bodies by offset, what waits, and how far the group has come."""

    queues: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    parked: dict[bytes, Parked] = field(default_factory=dict)
    unsure: dict[bytes, Parked | tuple[str, int]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    saved: dict[tuple[str, int], int] = field(default_factory=dict)
    keys: dict[str, tuple[tuple[str, int], int]] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)

    def add(self, place: tuple[str, int], body: bytes) -> int:
        """Put a message at the end of a queue; return its offset."""
        offset = self.ends.get(place, 0)
        self.queues.setdefault(place, {})[offset] = body
        self.ends[place] = offset + 1
        return offset

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted."""
        self.topics.discard(topic)
        for table in (self.queues, self.ends, self.committed, self.saved):
            for place in [place for place in table if place[0] == topic]:
                del table[place]
        self.keys = {key: value for key, value in self.keys.items() if value[0][0] != topic}


class EngineMachine(RuleBasedStateMachine):
    """Rules for everything a host may do with an engine."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.model = Model()
        self.driver: Driver
        self.number = 0

    @initialize(flush=st.sampled_from(("sync", "async")))
    def open(self, flush: str) -> None:
        self.config = {"flush": flush, "retention_hours": 1}
        self.driver = open_engine(self.files, clock=self.clock, **self.config)
        for topic in TOPICS[:2]:
            self.make(topic)

    # sending

    @rule(place=places, size=sizes, key=st.integers(0, 5))
    def send(self, place: tuple[str, int], size: int, key: int) -> None:
        if place[0] not in self.model.topics:
            return
        self.settle()
        body, unique = self.body(size), f"{self.number:032X}"
        ticket = self.driver.send(place[0], body, queue_id=place[1], KEYS=f"k{key}", UNIQ_KEY=unique)
        assert ticket.queue_offset == self.model.add(place, body)
        self.model.keys[unique] = (place, ticket.queue_offset)

    @rule(place=places, count=st.integers(1, 5))
    def send_batch(self, place: tuple[str, int], count: int) -> None:
        if place[0] not in self.model.topics:
            return
        self.settle()
        bodies = [self.body(40) for _ in range(count)]
        tickets = self.driver.append_batch(place[0], bodies, queue_id=place[1])
        self.driver.settle()
        assert [ticket.queue_offset for ticket in tickets] == [self.model.add(place, body) for body in bodies]

    @rule(place=places, level=st.integers(1, 5), count=st.integers(1, 3))
    def send_delayed(self, place: tuple[str, int], level: int, count: int) -> None:
        if place[0] not in self.model.topics:
            return
        self.settle()
        for _ in range(count):
            body = self.body(30)
            ticket = self.driver.append(place[0], body, queue_id=place[1], DELAY=str(level))
            delay_ms = DELAYS_MS[min(level, len(DELAYS_MS)) - 1]
            assert ticket.due_ms == self.clock.now_ms + delay_ms
            self.model.parked[body] = Parked(body, place, self.clock.now_ms, delay_ms)
        self.driver.settle()

    @rule(place=places, level=st.integers(0, 2))
    def append_only(self, place: tuple[str, int], level: int) -> None:
        """Appended and not synced: a crash that follows may take it, anything else makes it durable."""
        if place[0] not in self.model.topics:
            return
        body = self.body(100)
        properties = {"DELAY": str(level)} if level else {}
        ticket = self.driver.append(place[0], body, queue_id=place[1], **properties)
        waits = Parked(body, place, self.clock.now_ms, (ticket.due_ms or 0) - self.clock.now_ms)
        self.model.unsure[body] = waits if level else place

    # time

    @rule(delta_ms=st.sampled_from((1, 999, 1_000, 4_500, 11_000, 2 * HOUR_MS)))
    def advance(self, delta_ms: int) -> None:
        self.settle()
        self.driver.advance(delta_ms)
        self.find_released()

    @rule(delta_ms=st.sampled_from((1, 2_000, HOUR_MS)))
    def set_back(self, delta_ms: int) -> None:
        self.settle()
        self.clock.advance(-delta_ms)
        self.driver.tick()
        self.find_released()

    # tables and upkeep

    @rule(place=places, share=st.floats(0, 1))
    def commit(self, place: tuple[str, int], share: float) -> None:
        if place in self.model.ends:
            low, high = self.driver.engine.queue_bounds(*place)
            offset = max(self.model.committed.get(place, 0), low + int(share * (high - low)))
            self.driver.engine.offsets.commit(GROUP, *place, offset)
            self.model.committed[place] = offset

    @rule()
    def keep_up(self) -> None:
        self.settle()
        self.clock.advance(11_000)
        self.driver.upkeep()
        self.model.saved = dict(self.model.committed)
        self.find_removed()

    @rule(topic=st.sampled_from(TOPICS))
    def make(self, topic: str) -> None:
        self.driver.engine.topics.ensure(topic, 2)
        self.model.topics.add(topic)

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        if topic in self.model.topics:
            self.settle()
            self.driver.engine.delete_topic(topic)
            self.model.forget_topic(topic)

    # restarts

    @rule()
    def restart(self) -> None:
        self.settle()
        self.driver.close()
        self.model.saved = dict(self.model.committed)
        self.driver = open_engine(self.files, clock=self.clock, **self.config)
        self.find_removed()
        assert self.driver.engine.health().records_recovered == 0, "a clean start need not look at the log"

    @rule(kind=st.sampled_from(("kill", "all", "random")), seed=st.integers(0, 1 << 20))
    def crash(self, kind: str, seed: int) -> None:
        if self.config["flush"] == "async":
            self.settle()
            self.clock.advance(11_000)
            self.driver.upkeep()  # until then nothing that was answered is durable
            self.model.saved = dict(self.model.committed)
        self.files = self.files.crash(PowerLoss(kind, seed))
        self.driver = open_engine(self.files, clock=self.clock, **self.config)
        self.find_unsure()
        for place, saved in self.model.saved.items():
            found = self.driver.engine.offsets.get(GROUP, *place)
            assert found is not None
            assert saved <= found <= self.model.committed[place]
            self.model.committed[place] = found
        self.model.committed = {p: o for p, o in self.model.committed.items() if p in self.model.saved}
        self.find_removed()

    # what the model learns from the engine, and what it insists on

    def settle(self) -> None:
        """Make everything durable: what was unsure is there."""
        self.driver.settle()
        for body, where in self.model.unsure.items():
            if isinstance(where, Parked):
                self.model.parked[body] = where
            else:
                self.model.add(where, body)
        self.model.unsure.clear()

    def find_released(self) -> None:
        """New messages in the queues must be parked ones that were due; nothing due may still wait."""
        now_ms = self.clock.now_ms
        for topic in TOPICS:
            if self.driver.engine.topics.get(topic) is None:
                continue
            self.model.topics.add(topic)  # a release makes its topic again
            for queue_id in range(2):
                self._take_new((topic, queue_id))
        waiting = [p for p in self.model.parked.values() if p.store_ms + p.delay_ms <= now_ms]
        assert not waiting, f"{len(waiting)} messages are due and not released"

    def _take_new(self, place: tuple[str, int]) -> None:
        end = self.model.ends.get(place, 0)
        for offset, message in self.driver.readable(*place).items():
            if offset < end:
                continue
            parked = self.model.parked.pop(message.body, None)
            assert parked is not None, f"{message.body[:12]!r} came into {place} from nowhere"
            assert parked.place == place
            early_ms = parked.store_ms + parked.delay_ms - message.store_ms
            assert early_ms <= 0 or early_ms > parked.delay_ms, f"released {early_ms} ms early"
            assert self.model.add(place, message.body) == offset

    def find_unsure(self) -> None:
        """After a crash: of what was not synced each may be there or not, and holes are possible."""
        for topic in self.model.topics:
            for queue_id in range(2):
                place = (topic, queue_id)
                _, high = self.driver.engine.queue_bounds(*place)
                end = self.model.ends.get(place, 0)
                for offset, message in self.driver.readable(*place).items():
                    if offset >= end:
                        assert self.model.unsure.pop(message.body) == place
                        self.model.queues.setdefault(place, {})[offset] = message.body
                assert high >= end, f"{place} ends at {high}, not at {end}"
                if high:
                    self.model.ends[place] = high
        for level in range(len(DELAYS_MS)):
            for message in self.driver.readable("SCHEDULE_TOPIC_XXXX", level).values():
                where = self.model.unsure.pop(message.body, None)
                if isinstance(where, Parked):
                    self.model.parked[message.body] = where
        self.model.unsure.clear()

    def find_removed(self) -> None:
        """Retention may take what every group has consumed, from the front."""
        for place, messages in self.model.queues.items():
            low, _ = self.driver.engine.queue_bounds(*place)
            assert low <= self.model.committed.get(place, 1 << 60), f"{place}: unconsumed messages were removed"
            for offset in [offset for offset in messages if offset < low]:
                del messages[offset]

    @invariant()
    def holds_the_same(self) -> None:
        """Every queue, byte for byte."""
        if not hasattr(self, "driver"):
            return
        for place, messages in self.model.queues.items():
            found = {offset: message.body for offset, message in self.driver.readable(*place).items()}
            assert found == messages, f"{place} differs"

    @rule()
    @precondition(lambda self: self.model.keys)
    def look_up(self) -> None:
        for unique, (place, offset) in list(self.model.keys.items())[-3:]:
            if offset in self.model.queues[place]:
                entry = self.driver.engine.entries(*place, offset, 1)[0]
                found = self.driver.engine.find(
                    place[0], unique, begin_ms=0, end_ms=1 << 50, max_count=8, now_ms=self.clock.now_ms
                )
                assert entry.position in found

    def body(self, size: int) -> bytes:
        self.number += 1
        return b"%06d" % self.number + b"." * size

    def teardown(self) -> None:
        """At the end of each course all that waits is released, and a clean stop loses nothing."""
        if hasattr(self, "driver"):
            self.advance(60_000)
            self.restart()
            assert not self.model.parked
            self.holds_the_same()
