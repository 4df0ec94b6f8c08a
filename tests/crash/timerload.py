"""A seeded workload of timers, and the book of what was promised for each: the body names the timer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.engine.log.ticket import Ticket
from broker.engine.testing import ManualClock, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target

TOPIC = "orders"
#: Everything is due within so much of its sending; the tiny wheel reaches 84 s.
LONGEST_MS = 300_000


@dataclass(slots=True)
class Promise:
    """One timer. ``dues``: moments it may leave at, the last one asked for at the end."""

    dues: list[int]
    key: str | None = None
    acknowledged: bool = False
    #: positions of records that end or move it, and whether they are durable
    cancelled: bool = False
    cancel_durable: bool = False
    delivered_now: bool = False
    #: the last move is durable, so that older moments do not count any more
    move_durable: bool = True


@dataclass(slots=True)
class Book:
    """All promises, and which tickets make what durable."""

    timers: dict[bytes, Promise] = field(default_factory=dict)
    waiting: dict[int, Callable[[], None]] = field(default_factory=dict)

    def when(self, tickets: list[Ticket], act: Callable[[], None]) -> None:
        """Act when the last of these is durable; at once without any."""
        if not tickets:
            act()
        else:
            self.waiting[id(tickets[-1])] = act

    def durable(self, tickets: list[Ticket]) -> None:
        """These are."""
        for ticket in tickets:
            if (act := self.waiting.pop(id(ticket), None)) is not None:
                act()

    def check(self, files: SimulatedFiles, now_ms: int, **config: object) -> Driver:
        """Open the store, let all time pass, and assert every promise."""
        driver = open_engine(files, clock=ManualClock(now_ms), **config)
        assert driver.engine.health().state in ("OK", "DEGRADED"), driver.engine.health()
        self.look(driver, finished=False)
        if driver.engine.timers.status(now_ms)["paused"]:
            driver.engine.pause_timers(False, now_ms)
        let_pass(driver, LONGEST_MS + 20_000)
        self.look(driver, finished=True)
        status = driver.engine.timers.status(driver.clock.now_ms)
        assert (status["pending"], status["byTopic"]) == (0, []), status
        assert status["earlyTotal"] == 0
        return driver

    def look(self, driver: Driver, *, finished: bool) -> None:
        """Assert what must hold now, and if ``finished`` that nothing is missing."""
        found: dict[bytes, int] = {}
        for message in driver.readable(TOPIC).values():
            assert message.body not in found, f"{message.body!r} came twice"
            found[message.body] = message.store_ms
        for body, store_ms in found.items():
            promise = self.timers[body]
            dues = promise.dues[-1:] if promise.move_durable else promise.dues
            assert promise.delivered_now or store_ms >= min(dues), f"{body!r} came {min(dues) - store_ms} ms early"
            assert not promise.cancel_durable, f"{body!r} came although it was cancelled"
        if finished:
            for body, promise in self.timers.items():
                due = promise.acknowledged and not promise.cancelled
                assert not due or body in found, f"acknowledged {body!r} is lost"


def let_pass(driver: Driver, delta_ms: int) -> None:
    """Move the clock far, with a tick wherever one is wanted."""
    end_ms = driver.clock.now_ms + delta_ms
    while driver.clock.now_ms < end_ms:
        driver.advance(min(20_000, end_ms - driver.clock.now_ms))


class TimerLoad:
    """Steps drawn from a seed."""

    def __init__(self, seed: int, files: SimulatedFiles, **config: object) -> None:
        self.random = random.Random(seed)
        self.files = files
        self.config = config
        self.clock = ManualClock()
        self.book = Book()
        self.driver = open_engine(files, clock=self.clock, **config)
        self.driver.engine.topics.ensure(TOPIC, 1)
        self._number = 0

    def run(self, steps: int) -> None:
        """Take so many steps, then stop cleanly."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (8, self.send), (5, self.send_keyed), (3, self.cancel), (4, self.move), (2, self.deliver_now),
            (1, self.delete_as_rocketmq_does), (6, self.let_time_pass), (4, self.keep_up), (2, self.keep_up_in_flight),
            (1, self.restart), (2, self.step_the_clock), (1, self.pause),
        ]  # fmt: skip
        weights, actions = zip(*kinds, strict=True)
        for _ in range(steps):
            self.random.choices(actions, weights)[0]()
            self.book.look(self.driver, finished=False)
        self.restart()

    def send(self) -> None:
        """One to five timers, near and far, some due in the same ms."""
        same = self.random.randint(1, LONGEST_MS)
        for _ in range(self.random.randint(1, 5)):
            self._append(self.random.choice((same, same, self.random.randint(1, 9_000), self._delay())))
        self._settle()

    def send_keyed(self) -> None:
        """A timer under one of a few keys; it takes the place of the one that is pending."""
        self._append(self._delay(), key=f"k{self.random.randint(0, 3)}")
        self._settle()

    def cancel(self) -> None:
        """Cancel one, whatever became of it."""
        for body, promise in self._some():
            outcome = self._steer("cancel", body)
            if outcome.outcome == "cancelled":
                promise.cancelled = True
                self.book.when(outcome.tickets, lambda promise=promise: setattr(promise, "cancel_durable", True))
        self._settle()

    def move(self) -> None:
        """Reschedule one."""
        for body, promise in self._some():
            due_ms = self.clock.now_ms + self._delay()
            outcome = self._steer("reschedule", body, due_ms)
            if outcome.outcome == "rescheduled":
                promise.dues.append(due_ms)
                promise.move_durable = False
                self.book.when(outcome.tickets, lambda promise=promise: setattr(promise, "move_durable", True))
        self._settle()

    def deliver_now(self) -> None:
        """Deliver one before its moment."""
        for body, promise in self._some():
            if self._steer("deliver_now", body).outcome == "delivered_now":
                promise.delivered_now = True
        self._settle()

    def delete_as_rocketmq_does(self) -> None:
        """A delete message of a client in the second of the timer."""
        for body, promise in self._some():
            pending = self.driver.engine.timers.life.of(Target(unique_key=body.decode()), self.clock.now_ms)
            if pending["state"] != "pending" or pending["timer"]["dueMs"] <= self.clock.now_ms:
                continue
            ticket = self.driver.append(
                TOPIC, b"", TIMER_DEL_UNIQKEY=body.decode(), TIMER_DELIVER_MS=str(pending["timer"]["dueMs"])
            )
            promise.cancelled = True
            self.book.when([ticket], lambda promise=promise: setattr(promise, "cancel_durable", True))
        self._settle()

    def let_time_pass(self) -> None:
        """Some of it; what is due in between is released at its moment."""
        self.driver.advance(self.random.choice((1, 300, 1_000, 7_000, 30_000, 90_000)))

    def step_the_clock(self) -> None:
        """The wall clock jumps."""
        self.clock.advance(self.random.choice((-40_000, -8_000, -700, 8_000, 100_000)))
        self.driver.tick()

    def pause(self) -> None:
        """Nothing is released for a while."""
        self.driver.engine.pause_timers(True, self.clock.now_ms)
        self.driver.advance(20_000)
        self.driver.engine.pause_timers(False, self.clock.now_ms)

    def keep_up(self) -> None:
        """A checkpoint."""
        self.clock.advance(6_000)
        self.driver.upkeep()

    def keep_up_in_flight(self) -> None:
        """A checkpoint while timers are appended and released and a sync is out."""
        self._append(self._delay())
        job = self.driver.engine.take_sync(self.clock.now_ms)
        self._append(self._delay())
        self.driver.engine.tick(self.clock.now_ms)
        self.keep_up()
        if job is not None:
            job.run()
            self._durable(self.driver.engine.synced(job, None, self.clock.now_ms))
        self._settle()

    def restart(self) -> None:
        """A clean stop and start."""
        self.driver.close()
        self.driver = open_engine(self.files, clock=self.clock, **self.config)

    def _delay(self) -> int:
        return self.random.choice(
            (self.random.randint(1, 3_000), self.random.randint(1, 60_000), self.random.randint(1, LONGEST_MS))
        )

    def _append(self, delay_ms: int, key: str | None = None) -> None:
        self._number += 1
        body = b"T%05d" % self._number
        due_ms = self.clock.now_ms + delay_ms
        asked = {"UNIQ_KEY": body.decode(), "KEYS": "k", "TAGS": "t", "TIMER_DELIVER_MS": str(due_ms)}
        promise = Promise([due_ms], key)
        if key is not None:
            asked |= {"ESC_SCHEDULE_KEY": key, "ESC_ON_CONFLICT": "replace"}
            holder = self.driver.engine.timers.keys.by_schedule_key(TOPIC, key)
        ticket = self.driver.append(TOPIC, body, **asked)
        self.book.timers[body] = promise
        ended: Promise | None = None
        if ticket.conflict == "replaced":
            assert key is not None and holder is not None and holder.unique_key is not None
            ended = self.book.timers[holder.unique_key.encode()]
            ended.cancelled = True

        def durable() -> None:
            promise.acknowledged = True
            if ended is not None:
                ended.cancel_durable = True

        self.book.when([ticket], durable)

    def _steer(self, action, body: bytes, due_ms: int | None = None):
        target = Target(topic=TOPIC, unique_key=body.decode())
        return self.driver.engine.steer_timer(action, target, due_ms=due_ms, now_ms=self.clock.now_ms)

    def _some(self) -> list[tuple[bytes, Promise]]:
        bodies = list(self.book.timers)[-30:]
        return [(body, self.book.timers[body]) for body in self.random.sample(bodies, min(len(bodies), 2))]

    def _settle(self) -> None:
        self._durable(self.driver.settle())

    def _durable(self, tickets: list[Ticket]) -> None:
        if self.config.get("flush") != "async":
            self.book.durable(tickets)
