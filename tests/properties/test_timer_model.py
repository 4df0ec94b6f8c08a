"""Timers against a dictionary: whatever is done in whatever order, both say the same of every one of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.timer.steer import Target

TOPIC = "orders"
HOUR_MS = 3_600_000
#: The tiny wheel reaches 84 s: short waits stand in it, long ones roll.
delays = st.one_of(st.integers(1, 4_000), st.integers(1, 80_000), st.integers(80_000, 260_000))
keys = st.sampled_from(("a", "b", "c"))


@dataclass(slots=True)
class Waiting:
    """A timer of the model."""

    due_ms: int
    key: str | None


class TimerMachine(RuleBasedStateMachine):
    """Everything is durable before the next step, so a power loss takes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.driver: Driver = open_engine(self.files, clock=self.clock, timer_max_delay_ms=HOUR_MS)
        self.waiting: dict[str, Waiting] = {}
        self.released: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        self.moved_at_once: set[str] = set()
        self.number = 0

    @initialize()
    def begin(self) -> None:
        self.driver.engine.topics.ensure(TOPIC, 1)

    @rule(delay_ms=delays)
    def put(self, delay_ms: int) -> None:
        self._put(delay_ms, None)

    @rule(delay_ms=delays, key=keys)
    def put_in_the_place_of_another(self, delay_ms: int, key: str) -> None:
        for name in [name for name, timer in self.waiting.items() if timer.key == key]:
            del self.waiting[name]
            self.ended[name] = "already_cancelled"
        self._put(delay_ms, key)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted({**self.waiting, **self.released, **self.ended})))
        outcome = self._steer("cancel", name)
        if name in self.waiting:
            assert outcome == "cancelled"
            del self.waiting[name]
            self.ended[name] = "already_cancelled"
        else:
            assert outcome == ("already_delivered" if name in self.released else self.ended[name])

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), delay_ms=delays)
    def move(self, data: st.DataObject, delay_ms: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        due_ms = self.clock.now_ms + delay_ms
        assert self._steer("reschedule", name, due_ms) == "rescheduled"
        self.waiting[name].due_ms = due_ms

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def deliver_now(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self._steer("deliver_now", name) == "delivered_now"
        del self.waiting[name]
        self.released[name] = self.clock.now_ms

    @rule(delta_ms=st.sampled_from((1, 700, 5_000, 40_000, 200_000)))
    def let_time_pass(self, delta_ms: int) -> None:
        self.driver.advance(delta_ms)

    @rule(delta_ms=st.sampled_from((-100_000, -20_000, -500, 9_000, 100_000, 1_000_000)))
    def jump(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)

    @rule()
    def checkpoint(self) -> None:
        self.clock.advance(6_000)
        self.driver.upkeep()

    @rule(loss=st.sampled_from(("kill", "all")))
    def crash(self, loss: str) -> None:
        self.files = self.files.crash(PowerLoss(loss))  # type: ignore[arg-type]  # one of the kinds
        self.driver = open_engine(self.files, clock=self.clock, timer_max_delay_ms=HOUR_MS)

    @rule()
    def restart(self) -> None:
        self.driver.close()
        self.driver = open_engine(self.files, clock=self.clock, timer_max_delay_ms=HOUR_MS)

    @rule()
    def lose_what_is_derived(self) -> None:
        self.driver.close()
        for path in list(self.files.contents()):
            if "timer" in path and "escapementTimers" not in path:
                self.files.remove(path)
        self.files.sync_directory("/store")
        self.driver = open_engine(self.files, clock=self.clock, timer_max_delay_ms=HOUR_MS)

    @invariant()
    def look(self) -> None:
        """What the model says now is what the engine says. It is looked at after every step, and time passes only in
        steps: none of what waits is due when the next one begins."""
        for _ in range(50):
            self.driver.tick()
            if not any(timer.due_ms <= self.clock.now_ms for timer in self.waiting.values()):
                break
            found = {message.unique_key for message in self.driver.readable(TOPIC).values()}
            if all(name in found for name, timer in self.waiting.items() if timer.due_ms <= self.clock.now_ms):
                break
            self.clock.advance(1)
        found_now: dict[str, int] = {}
        for message in self.driver.readable(TOPIC).values():
            name = message.unique_key or ""
            assert name not in found_now, f"{name} came twice"
            found_now[name] = message.store_ms
        for name in [name for name, timer in self.waiting.items() if timer.due_ms <= self.clock.now_ms]:
            assert name in found_now, f"{name} was due {self.clock.now_ms - self.waiting[name].due_ms} ms ago"
        for name in [name for name in self.waiting if name in found_now]:
            timer = self.waiting.pop(name)
            assert found_now[name] >= timer.due_ms, f"{name} came {timer.due_ms - found_now[name]} ms early"
            self.released[name] = found_now[name]
        assert found_now == self.released
        page = self.driver.engine.timers.listing.page(0, 1 << 50, limit=1_000, now_ms=self.clock.now_ms)
        listed = sorted((item["dueMs"], item["uniqueKey"], item["scheduleKey"]) for item in page["items"])
        assert listed == sorted((timer.due_ms, name, timer.key) for name, timer in self.waiting.items())
        assert self.driver.engine.timers.status(self.clock.now_ms)["pending"] == len(self.waiting)

    def _put(self, delay_ms: int, key: str | None) -> None:
        self.number += 1
        name = f"T{self.number:04d}"
        due_ms = self.clock.now_ms + delay_ms
        asked = {"UNIQ_KEY": name, "TIMER_DELIVER_MS": str(due_ms)}
        if key is not None:
            asked |= {"ESC_SCHEDULE_KEY": key, "ESC_ON_CONFLICT": "replace"}
        self.driver.send(TOPIC, name.encode(), **asked)
        self.waiting[name] = Waiting(due_ms, key)

    def _steer(self, action, name: str, due_ms: int | None = None) -> str:
        target = Target(topic=TOPIC, unique_key=name)
        outcome = self.driver.engine.steer_timer(action, target, due_ms=due_ms, now_ms=self.clock.now_ms)
        self.driver.settle()
        return outcome.outcome


def test_timers_are_what_a_dictionary_says(say) -> None:
    run_state_machine_as_test(
        TimerMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None, database=None)
    )
    say("R1 timers: 40 courses of up to 30 steps, 0 divergences")


@pytest.mark.soak
def test_timers_are_what_a_dictionary_says_for_long(say) -> None:
    run_state_machine_as_test(
        TimerMachine, settings=settings(max_examples=2_000, stateful_step_count=50, deadline=None, database=None)
    )
    say("R1 timers: 2,000 courses of up to 50 steps, 0 divergences")
