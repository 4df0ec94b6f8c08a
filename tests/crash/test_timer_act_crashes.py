"""Halves that act on timers against a model, with crashes: whatever is lost, a commit is whole, once, in its order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.transaction.decision import Ending
from broker.rocketmq.topics import OP_TOPIC, TIMER_TOPIC
from tests.engine.test_timer_acts import HOUR_MS, cancel_half, move_half, put, put_half, waiting

KEYS = ("a", "b")
LOG = "/store/commitlog/00000000000000000000"
STORES, STEPS = 12, 60


@dataclass
class Wish:
    """A half as the model knows it."""

    number: int
    kind: str
    key: str
    ticket: Ticket
    due_ms: int


@dataclass
class Model:
    """What is to wait under each key, if halves count in the order in which they were sent."""

    waits: dict[str, tuple[str, int]] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    moved: dict[str, tuple[int, int]] = field(default_factory=dict)

    def commit(self, wish: Wish) -> None:
        written, (moved, moved_to_ms) = self.written.get(wish.key, -1), self.moved.get(wish.key, (-1, 0))
        if wish.kind == "move":
            if wish.number > moved:
                self.moved[wish.key] = wish.number, wish.due_ms
            if wish.number > max(written, moved) and wish.key in self.waits:
                self.waits[wish.key] = self.waits[wish.key][0], wish.due_ms
            return
        self.written[wish.key] = max(written, wish.number)
        if wish.number < written:
            return
        if wish.kind == "cancel":
            self.waits.pop(wish.key, None)
        else:
            self.waits[wish.key] = f"U{wish.number}", moved_to_ms if moved > wish.number else wish.due_ms


class Simulation:
    """A store on which halves of two keys are begun, and decided in any order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.config = {"sync_batch_bytes": self.random.choice((700, 8 << 20))}
        self.files, self.clock = SimulatedFiles(), ManualClock()
        self.driver = self._open()
        self.model = Model()
        self.open: list[Wish] = []
        self.number = 0

    def _open(self) -> Driver:
        driver = open_engine(self.files, clock=self.clock, **self.config)
        driver.engine.topics.ensure("orders", 1)
        driver.tick()
        driver.settle()
        return driver

    def step(self) -> None:
        weighted = (self.begin, self.begin, self.decide, self.decide, self.plain, self.look_later, self.restart)
        self.random.choice(weighted)()
        assert waiting(self.driver) == {body: due_ms - self.clock.now_ms for body, due_ms in self.model.waits.values()}

    def begin(self) -> None:
        self.number += 1
        kind, key, unique = self.random.choice(("put", "cancel", "move")), self.random.choice(KEYS), f"U{self.number}"
        after_ms = self.random.randint(1, 9) * HOUR_MS + self.number
        if kind == "put":
            ticket = put_half(self.driver, unique, after_ms, key)
        elif kind == "move":
            ticket = move_half(self.driver, unique, after_ms, key)
        else:
            ticket = cancel_half(self.driver, unique, key)
        self.open.append(Wish(self.number, kind, key, ticket, after_ms))

    def decide(self) -> None:
        """Decide some, in any order, in one batch or several."""
        self.random.shuffle(self.open)
        for _ in range(min(len(self.open), self.random.randint(1, 4))):
            wish, commit = self.open.pop(), self.random.random() < 0.8
            asked = Ending(wish.ticket.queue_offset, wish.ticket.position, commit, "producer")
            assert self.driver.engine.transactions.end(asked, self.clock.now_ms)
            if commit:
                wish.due_ms += self.clock.now_ms  # a delay counts from the commit
                self.model.commit(wish)
            if self.random.random() < 0.5:
                self.driver.settle()
        self.driver.settle()

    def plain(self) -> None:
        """A timer that no transaction decides takes the key at once."""
        self.number += 1
        key, body = self.random.choice(KEYS), f"plain{self.number}"
        put(self.driver, body.encode(), 3 * HOUR_MS, key)
        self.model.waits[key] = body, self.clock.now_ms + 3 * HOUR_MS

    def look_later(self) -> None:
        self.clock.advance(11_000)
        self.driver.upkeep()
        self.driver.tick()

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.driver.close()
        else:
            self.files = self.files.crash(PowerLoss(self.random.choice(("kill", "all"))))
        self.driver = self._open()


@pytest.mark.parametrize("seed", range(STORES))
def test_halves_of_a_key_in_any_order_leave_what_their_order_says(seed: int) -> None:
    simulation = Simulation(seed)
    for _ in range(STEPS):
        simulation.step()
    simulation.driver.close()
    report = check_store(simulation.files, "/store")
    assert not report.damages


@pytest.mark.parametrize("kind", ["cancel", "move", "put", "nothing"])
def test_a_power_loss_at_any_write_leaves_a_commit_whole_or_not_there(kind: str) -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = open_engine(files, clock=clock)
    driver.engine.topics.ensure("orders", 1)
    put(driver, b"before", HOUR_MS, "other" if kind == "nothing" else "a")
    if kind == "put":
        half, after = put_half(driver, "after", 2 * HOUR_MS, "a"), {"after": 2 * HOUR_MS}
    elif kind == "move":
        half, after = move_half(driver, "A1", 2 * HOUR_MS, "a"), {"before": 2 * HOUR_MS}
    else:
        half, after = cancel_half(driver, "A1", "a"), {} if kind == "cancel" else {"before": HOUR_MS}
    draws, told, states = random.Random(7), [False], [0]
    asked = Ending(half.queue_offset, half.position, True, "producer")

    def at_boundary() -> None:
        for loss in (
            PowerLoss("kill"),
            PowerLoss("all"),
            *(PowerLoss("random", draws.randrange(99)) for _ in range(4)),
        ):
            later = open_engine(files.crash(loss), clock=ManualClock(clock.now_ms))
            for _ in range(2):  # also what recovery writes is there after another loss
                later.tick()
                later.settle()
                is_open = later.engine.transactions.table.undecided(half.queue_offset) is not None
                assert not (told[0] and is_open), "a commit that was told is forgotten"
                assert waiting(later) == ({"before": HOUR_MS} if is_open else after)
                later = open_engine(later.engine._store.files.crash(PowerLoss("all")), clock=later.clock)
            later.engine.transactions.end(asked, later.clock.now_ms)
            later.settle()
            assert waiting(later) == after
            states[0] += 1

    files.on_change = at_boundary
    driver.engine.transactions.end(asked, clock.now_ms)
    driver.settle()
    told[0] = True
    clock.advance(0)
    driver.upkeep()
    files.on_change = None
    at_boundary()
    assert states[0] > 5


@pytest.mark.parametrize("lost", ["record", "op"])
@pytest.mark.parametrize("kind", ["cancel", "move", "nothing"])
def test_a_commit_torn_in_two_is_made_whole_once(kind: str, lost: str) -> None:
    """Record and op record are in one batch, of which a power failure may take either."""
    files, clock = SimulatedFiles(), ManualClock()
    driver = open_engine(files, clock=clock)
    driver.engine.topics.ensure("orders", 1)
    put(driver, b"before", HOUR_MS, "other" if kind == "nothing" else "a")
    half = move_half(driver, "A1", 2 * HOUR_MS, "a") if kind == "move" else cancel_half(driver, "A1", "a")
    driver.engine.transactions.end(Ending(half.queue_offset, half.position, True, "producer"), clock.now_ms)
    driver.settle()
    after = {"cancel": {}, "move": {"before": 2 * HOUR_MS}, "nothing": {"before": HOUR_MS}}[kind]
    assert waiting(driver) == after
    (record,) = (
        each
        for each in driver.readable(TIMER_TOPIC).values()
        if each.properties.get("ESC_SOURCE") == str(half.position)
    )
    (op,) = driver.readable(OP_TOPIC).values()
    gone = record if lost == "record" else op
    files = files.crash(PowerLoss("kill"))
    file = files.open(LOG)
    file.write(bytes(gone.size), gone.position)
    file.sync()
    for _ in range(3):
        driver = open_engine(files, clock=clock)
        driver.tick()
        driver.settle()
        assert waiting(driver) == after
        assert driver.engine.transactions.table.undecided(half.queue_offset) is None
        clock.advance(0)
        driver.upkeep()
        files = files.crash(PowerLoss("kill"))
    driver = open_engine(files, clock=clock)
    named = [each for each in driver.readable(TIMER_TOPIC).values() if each.properties.get("ESC_SOURCE")]
    assert len(named) == 1
