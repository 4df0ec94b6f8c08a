"""Popping in order against a small model of one queue: nothing overtakes, nothing is left out."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.engine.errors import HandleGone
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from tests.engine.pop.popping import GROUP, TOPIC, Held, ask, held_of

CONFIG = {"segment_size_bytes": 32_768}
INVISIBLE_MS = 1_000


class OrderlyMachine(RuleBasedStateMachine):
    """One queue, one group. ``popped``: what the last pop got; ``visible_ms``: when what is not done of it is visible
    again; ``counts``: how often messages were handed out before."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.driver: Driver
        self.sent = 0
        self.next_offset = 0
        self.popped: list[int] = []
        self.counts: dict[int, int] = {}
        self.visible_ms: dict[int, int] = {}
        self.attempt = ""
        self.held: dict[int, Held] = {}
        self.old: list[Held] = []

    @property
    def begin(self) -> int:
        """The first message that is not done."""
        return min(self.visible_ms, default=self.next_offset)

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
        expected = list(range(self.begin, min(self.begin + count, self.sent)))
        assert [each.offset for each in held] == expected
        if not expected:
            return
        for offset in self.popped if not is_again else ():
            self.counts[offset] = self.counts.get(offset, 0) + 1
        assert [each.count for each in held] == [self.counts.get(offset, 0) for offset in expected]
        self.next_offset = expected[-1] + 1
        self.popped = expected
        self.attempt = attempt
        self.visible_ms = dict.fromkeys(expected, now_ms + INVISIBLE_MS)
        self.old += self.held.values()
        self.held = {each.offset: each for each in held}

    @rule(data=st.data(), together=st.booleans())
    def ack(self, data: st.DataObject, together: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.held)), unique=True)) if self.held else []
        held = [self.held.pop(offset) for offset in chosen]
        masks = [each.bit for each in held]
        for each, mask in zip(held[:1], [sum(masks)], strict=False) if together else zip(held, masks, strict=True):
            assert not self.driver.engine.pops.ack(each.handle, mask, self.clock.now_ms).refused
        for offset in chosen:
            self.visible_ms.pop(offset)
        self.old += held
        self.driver.settle()

    @precondition(lambda self: self.old)
    @rule(data=st.data(), changes=st.booleans())
    def say_something_of_an_older_pop(self, data: st.DataObject, changes: bool) -> None:
        each = data.draw(st.sampled_from(self.old))
        try:
            if changes:
                self.driver.engine.pops.change(each.handle, each.offset, 0, self.clock.now_ms)
                raise AssertionError("it was believed")
            self.driver.engine.pops.ack(each.handle, each.bit, self.clock.now_ms)
        except HandleGone:
            pass
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

    @rule(offset=st.integers(0, 6))
    def reset(self, offset: int) -> None:
        self.next_offset = min(offset, self.sent)
        self.driver.engine.offsets.reset(GROUP, TOPIC, 0, self.next_offset)
        self.driver.settle()
        self.old += self.held.values()
        self.popped, self.counts, self.visible_ms, self.held, self.attempt = [], {}, {}, {}, ""

    @rule(clean=st.booleans(), seed=st.integers(0, 1 << 20))
    def start_again(self, clean: bool, seed: int) -> None:
        if clean:
            self.driver.close()
        else:
            self.files = self.files.crash(PowerLoss("random", seed))
        self.driver = open_engine(self.files, clock=self.clock, **CONFIG)

    @invariant()
    def progress_is_the_first_that_is_not_done(self) -> None:
        if hasattr(self, "driver") and (queue := self.driver.engine.pops.table.queues.get((GROUP, TOPIC, 0))):
            assert queue.base_offset == self.begin
            assert queue.open_offsets() == sorted(self.visible_ms)
            assert self.driver.engine.offsets.get(GROUP, TOPIC, 0) == self.begin
