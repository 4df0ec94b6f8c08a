"""Popping in order against a small model of one queue: nothing overtakes, nothing done comes again."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from tests.engine.pop.popping import GROUP, TOPIC, Held, ask, held_of

CONFIG = {"segment_size_bytes": 32_768}
INVISIBLE_MS = 1_000


class OrderlyMachine(RuleBasedStateMachine):
    """One queue, one group. ``visible_ms``: when what is out is visible again; ``counts``: its tries before."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.driver: Driver
        self.sent = 0
        self.done: set[int] = set()
        self.counts: dict[int, int] = {}
        self.visible_ms: dict[int, int] = {}
        self.attempt = ""
        self.held: dict[int, Held] = {}

    @initialize()
    def open(self) -> None:
        self.driver = open_engine(self.files, clock=self.clock, **CONFIG)
        self.driver.engine.topics.ensure(TOPIC, 1)
        self.driver.engine.groups.ensure(GROUP)

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.driver.append(TOPIC, b"%d" % self.sent)
            self.sent += 1
        self.driver.settle()

    @rule(count=st.integers(1, 5), attempt=st.sampled_from(("", "a", "b")))
    def pop(self, count: int, attempt: str) -> None:
        now_ms = self.clock.now_ms
        is_again = bool(attempt) and attempt == self.attempt
        is_blocked = any(visible_ms > now_ms for visible_ms in self.visible_ms.values())
        popped = ask(self.driver, in_order=True, most_messages=count, attempt=attempt, invisible_ms=INVISIBLE_MS)
        held = held_of(popped, invisible_ms=INVISIBLE_MS)
        self.driver.settle()
        if is_blocked and not is_again:
            assert held == []
            assert popped.again_ms == max(self.visible_ms.values())
            return
        start = min((offset for offset in range(self.sent) if offset not in self.done), default=self.sent)
        expected = [offset for offset in range(start, min(start + count, self.sent)) if offset not in self.done]
        assert [each.offset for each in held] == expected
        if not expected:
            return
        for offset in self.visible_ms:
            self.counts[offset] = self.counts.get(offset, 0) + (not is_again)
        assert [each.count for each in held] == [self.counts.get(offset, 0) for offset in expected]
        self.attempt = attempt
        self.visible_ms = dict.fromkeys(expected, now_ms + INVISIBLE_MS)
        self.held = {each.offset: each for each in held}

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.held)), unique=True)) if self.held else []
        for offset in chosen:
            held = self.held.pop(offset)
            assert not self.driver.engine.pops.ack(held.handle, held.bit, self.clock.now_ms).refused
            self.done.add(offset)
            self.visible_ms.pop(offset)
            self.counts.pop(offset, None)
        self.driver.settle()

    @rule(data=st.data(), invisible_ms=st.sampled_from((0, 10, 3_000)))
    def change(self, data: st.DataObject, invisible_ms: int) -> None:
        if self.held:
            offset = data.draw(st.sampled_from(sorted(self.held)))
            held, now_ms = self.held[offset], self.clock.now_ms
            pop_ms, _ = self.driver.engine.pops.change(held.handle, offset, invisible_ms, now_ms)
            assert pop_ms == held.handle.pop_ms
            self.visible_ms[offset] = now_ms + invisible_ms
            self.driver.settle()

    @rule(delta_ms=st.sampled_from((1, 10, 1_000, 5_000)))
    def let_time_pass(self, delta_ms: int) -> None:
        self.driver.advance(delta_ms)

    @rule()
    def checkpoint(self) -> None:
        self.clock.advance(6_000)
        self.driver.upkeep()

    @rule(clean=st.booleans(), seed=st.integers(0, 1 << 20))
    def start_again(self, clean: bool, seed: int) -> None:
        if clean:
            self.driver.close()
        else:
            self.files = self.files.crash(PowerLoss("random", seed))
        self.driver = open_engine(self.files, clock=self.clock, **CONFIG)

    @invariant()
    def the_offset_is_that_of_the_first_that_is_not_done(self) -> None:
        if hasattr(self, "driver") and (queue := self.driver.engine.pops.book.queues.get((GROUP, TOPIC, 0))):
            base = queue.base_offset
            assert all(offset in self.done for offset in range(base))
            assert base not in self.done
