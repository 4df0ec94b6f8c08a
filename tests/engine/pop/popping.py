"""A consumer that pops, for tests of the engine: what it holds, and what it says of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.engine.errors import HandleGone
from broker.engine.pop.service import Handle
from broker.engine.pop.take import Popped, Wanted
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.rocketmq.message import Message, decode

TOPIC, GROUP = "orders", "payers"
RETRY = f"%RETRY%{GROUP}_{TOPIC}"
DLQ = f"%DLQ%{GROUP}"
INVISIBLE_MS = 30_000
SECOND_MS = 1_000


class Held(NamedTuple):
    """One message in the hands of a consumer."""

    handle: Handle
    offset: int
    message: Message
    count: int = 0

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def bit(self) -> int:
        return 1 << (self.offset - self.handle.start)


def popping(files: SimulatedFiles | None = None, *, queues: int = 1, messages: int = 0, **config: Any) -> Driver:
    """An engine with a topic, a group and so many messages m0, m1, ... in queue 0."""
    config = {"segment_size_bytes": 65_536} | config
    driver = open_engine(files, **config)
    driver.engine.topics.ensure(TOPIC, queues)
    driver.engine.groups.ensure(GROUP)
    for number in range(messages):
        driver.append(TOPIC, b"m%d" % number, UNIQ_KEY=f"U{number}")
    driver.settle()
    return driver


def reopened(files: SimulatedFiles, clock: ManualClock, **config: Any) -> Driver:
    """The same store, opened again at the same moment."""
    return open_engine(files, clock=clock, **{"segment_size_bytes": 65_536} | config)


def ask(driver: Driver, **wanted: Any) -> Popped:
    """One pop, its entry not written yet."""
    asked = {
        "group": GROUP, "topic": TOPIC, "queue_id": -1, "most_messages": 32, "most_bytes": 1 << 20,
        "invisible_ms": INVISIBLE_MS,
    } | wanted  # fmt: skip
    topic = driver.engine.topics.get(asked["topic"])
    assert topic is not None
    return driver.engine.pops.pop(Wanted(**asked), topic.read_queues, driver.clock.now_ms)


def held_of(popped: Popped, *, group: str = GROUP, invisible_ms: int = INVISIBLE_MS) -> list[Held]:
    """What a pop put into a consumer's hands, in the order of the answer."""
    held = []
    for taken in popped.taken:
        key = (group, taken.topic, taken.queue_id)
        handle = Handle(key, taken.start, popped.pop_ms, invisible_ms)
        counts = taken.counts or [0] * len(taken.offsets)
        for offset, record, count in zip(taken.offsets, taken.records, counts, strict=True):
            held.append(Held(handle, offset, decode(record), count))
    return held


def pop(driver: Driver, **wanted: Any) -> list[Held]:
    """One pop, and its entry in the log."""
    popped = ask(driver, **wanted)
    driver.settle()
    return held_of(popped, group=wanted.get("group", GROUP), invisible_ms=wanted.get("invisible_ms", INVISIBLE_MS))


def bodies(held: list[Held]) -> list[bytes]:
    return [each.body for each in held]


def ack(driver: Driver, *held: Held) -> bool:
    """Acknowledge messages and wait until that is durable; False if any of them was refused."""
    refused = 0
    for each in held:
        refused |= driver.engine.pops.ack(each.handle, each.bit, driver.clock.now_ms).refused
    driver.settle()
    return not refused


def change(driver: Driver, held: Held, invisible_ms: int) -> Held | None:
    """Give a message another time; None if it is not held any more."""
    try:
        pop_ms, span_ms = driver.engine.pops.change(held.handle, held.offset, invisible_ms, driver.clock.now_ms)
    except HandleGone:
        return None
    driver.settle()
    start = held.offset if pop_ms != held.handle.pop_ms else held.handle.start
    return held._replace(handle=Handle(held.handle.key, start, pop_ms, span_ms))


def offset_of(driver: Driver, queue_id: int = 0, topic: str = TOPIC) -> int | None:
    """What the table of offsets says of the group."""
    return driver.engine.offsets.get(GROUP, topic, queue_id)


KILLED = PowerLoss("kill", 1)


def crashed(files: SimulatedFiles, driver: Driver, loss: PowerLoss = KILLED, **config: object) -> Driver:
    return reopened(files.crash(loss), driver.clock, **config)


def eventually(driver: Driver) -> list[bytes]:
    """Everything that comes in the next hours, acknowledged as it comes."""
    found: list[bytes] = []
    for _ in range(8):
        held = pop(driver)
        ack(driver, *held)
        found += bodies(held)
        driver.advance(10 * INVISIBLE_MS)
    return sorted(found)


def files_of(driver: Driver) -> SimulatedFiles:
    """The disk under a driver, closed cleanly."""
    driver.close()
    files = driver.engine._files
    assert isinstance(files, SimulatedFiles)
    return files
