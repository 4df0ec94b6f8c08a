"""Random transactions against a ledger that knows what was promised, with crashes wherever something is written."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from broker.engine.errors import TransactionDecided, TransactionMismatch, TransactionNotFound
from broker.engine.fsck.store import check_store
from broker.engine.log.append import Sends
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.testing.driver import BORN_HOST
from broker.engine.transaction.decision import Ending
from broker.rocketmq.properties import format_properties
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC
from tests.engine.transacting import questions

GROUPS = ("payers", "shippers")
TIMES = {"transaction_timeout_ms": 6_000, "transaction_interval_ms": 30_000, "transaction_checks": 2}
#: Longer than the longest delay level.
LONG_MS = 60_000


@dataclass(slots=True)
class Half:
    """One transaction: where its half is, whether that was acknowledged, what was decided and whether durably."""

    ticket: Ticket
    group: str
    acknowledged: bool = False
    commit: bool | None = None
    durable: bool = False


@dataclass(slots=True)
class Ledger:
    """All transactions by key (which is the body too), and counts of what was tried."""

    halves: dict[str, Half] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)

    def waiting(self) -> list[str]:
        """Return the acknowledged ones that nobody decided."""
        return [key for key, half in self.halves.items() if half.acknowledged and half.commit is None]

    def check(self, driver: Driver) -> None:
        """Assert every promise of an engine that was just opened, then take over what it made of the rest."""
        driver.tick()
        driver.settle()
        table = driver.engine.transactions.table
        copies = all_copies(driver)
        stored = {message.unique_key: offset for offset, message in driver.readable(HALF_TOPIC).items()}
        for key, half in list(self.halves.items()):
            offset = half.ticket.queue_offset
            if stored.get(key) != offset:
                assert not half.acknowledged, f"{key}: an acknowledged half is lost"
                assert not copies[key], f"{key}: a copy of a half that is lost"
                del self.halves[key]
                continue
            half.acknowledged = True
            if table.undecided(offset) is not None:
                assert not half.durable, f"{key}: a durable decision is forgotten"
                assert not copies[key], f"{key}: undecided, and visible"
                half.commit = None
                continue
            settled = table.settled_at(offset, half.ticket.position)
            assert settled is not None, f"{key}: neither open nor decided"
            said = settled.decision.commit
            assert said is half.commit, f"{key}: {said} in the log, {half.commit} was asked for"
            assert copies[key] == (1 if said else 0), f"{key}: {copies[key]} copies, committed {said}"
            half.durable = True
        assert set(copies) <= set(self.halves), "a copy of nothing"

    def finish(self, driver: Driver) -> None:
        """Commit whatever is undecided: afterwards each has one copy or none, delivered."""
        for half in self.halves.values():
            if half.commit is None:
                asked = Ending(half.ticket.queue_offset, half.ticket.position, True, "ann")
                driver.engine.transactions.end(asked, driver.clock.now_ms)
                half.commit = True
        driver.settle()
        driver.advance(LONG_MS)
        delivered = Counter(message.unique_key for message in driver.readable("orders").values())
        for key, half in self.halves.items():
            assert delivered[key] == (1 if half.commit else 0), f"{key}: delivered {delivered[key]} times"
        table = driver.engine.transactions.table
        assert (len(table.halves), len(table.parked)) == (0, 0)


def all_copies(driver: Driver) -> Counter[str]:
    """Return how many copies of each key went out, or wait for their moment to."""
    found: Counter[str] = Counter()
    for message in driver.readable("orders").values():
        found[message.unique_key or ""] += 1
    released = {message.properties.get("ESC_SOURCE") for message in driver.readable("orders").values()}
    for level in range(3):
        for message in driver.readable(SCHEDULE_TOPIC, level).values():
            found[message.unique_key or ""] += str(message.position) not in released
    return found


class Simulation:
    """One store and what happens to it, drawn from a seed."""

    def __init__(self, seed: int, files: SimulatedFiles | None = None, **config: Any) -> None:
        self.random = random.Random(seed)
        # every other store closes its batches early: copies and op records come to stand in different ones
        self.config = TIMES | {"sync_batch_bytes": self.random.choice((700, 8 << 20))} | config
        self.files = files or SimulatedFiles()
        self.clock = ManualClock()
        self.ledger = Ledger()
        self.driver = self._open()
        self._number = 0
        self.cuts = True

    def _open(self) -> Driver:
        driver = open_engine(self.files, clock=self.clock, **self.config)
        driver.engine.topics.ensure("orders", 1)
        return driver

    def run(self, transactions: int, *, crashes: bool = True, cuts: bool = True) -> None:
        """Play until so many transactions were begun, then finish."""
        self.cuts = cuts
        kinds = [
            (8, self.begin), (10, self.decide), (2, self.repeat), (2, self.contradict), (1, self.forge),
            (3, self.let_time_pass), (2, self.keep_up), (1, self.keep_up_in_flight), (1, self.restart),
            (2 if crashes else 0, self.crash),
        ]  # fmt: skip
        weights, actions = zip(*kinds, strict=True)
        while self._number < transactions:
            action = self.random.choices(actions, weights)[0]
            self.ledger.tried[action.__name__] += 1
            action()
        self.finish()

    def finish(self) -> None:
        """Decide what is undecided, look at everything, stop."""
        self.ledger.check(self.driver)
        self.ledger.finish(self.driver)
        self.driver.close()
        # a power failure may leave a hole where only unanswered writes stood; nothing else may be wrong
        damages = [damage for damage in check_store(self.files, "/store").damages if "commitlog" not in damage.path]
        assert not damages, damages

    # what producers do

    def begin(self) -> None:
        """One to six halves, some with a delay level or an immunity; every other time as of one read."""
        said: list[dict[str, str]] = []
        bodies: list[bytes] = []
        for _ in range(self.random.randint(1, 6)):
            self._number += 1
            key, group = f"K{self._number:06d}", self.random.choice(GROUPS)
            more = self.random.choice(({}, {}, {"DELAY": "1"}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "20"}))
            bodies.append(key.encode() + b"." * self.random.choice((0, 10, 400)))
            said.append({"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": group, **more})
        tickets = self._taken_together(bodies, said) if self._number % 2 else None
        if tickets is None:
            tickets = [self.driver.append("orders", body, **each) for body, each in zip(bodies, said, strict=True)]
        else:
            self.ledger.tried["halves together"] += 1
        for ticket, each in zip(tickets, said, strict=True):
            self.ledger.halves[each["UNIQ_KEY"]] = Half(ticket, each["PGROUP"])
        self._flush()

    def _taken_together(self, bodies: list[bytes], said: list[dict[str, str]]) -> list[Ticket] | None:
        """Return the tickets; None if they are to be taken one by one."""
        count, now_ms = len(bodies), self.clock.now_ms
        properties = [format_properties(each) for each in said]
        sends = Sends([0] * count, bodies, properties, [0] * count, [now_ms] * count, [None] * count)
        return self.driver.engine.append_halves("orders", sends, born_host=BORN_HOST, now_ms=now_ms)

    def begin_crowd(self, count: int) -> list[str]:
        """Begin so many halves as of one read; return their keys."""
        keys = [f"K{self._number + number:06d}" for number in range(count)]
        self._number += count
        said = [{"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": GROUPS[0]} for key in keys]
        tickets = self._taken_together([key.encode() for key in keys], said)
        assert tickets is not None
        self.ledger.halves |= {key: Half(ticket, GROUPS[0]) for key, ticket in zip(keys, tickets, strict=True)}
        return keys

    def decide_crowd(self, keys: list[str]) -> None:
        """Decide these as of one read: one is rolled back, the others are committed."""
        asked = [self._asked(key, commit=key != keys[3]) for key in keys]
        assert all(self.driver.engine.transactions.end_together(asked, [None] * len(asked)))
        for each in asked:
            self.ledger.halves[each.transaction_id or ""].commit = each.commit

    def _asked(self, key: str, *, commit: bool | None) -> Ending:
        half = self.ledger.halves[key]
        return Ending(half.ticket.queue_offset, half.ticket.position, commit, "producer", "", half.group, key)

    def _say(self, key: str, *, commit: bool | None, **changed: Any) -> bool:
        asked = self._asked(key, commit=commit)._replace(**changed)
        return self.driver.engine.transactions.end(asked, self.clock.now_ms)

    def decide(self) -> None:
        """Decide up to eight that wait: as of one read, and closely what is not to be decided so."""
        waiting = self.ledger.waiting()
        keys = self.random.sample(waiting, min(len(waiting), self.random.randint(1, 8)))
        commits = [self.random.choice((True, True, False, None)) for _ in keys]
        asked = [self._asked(key, commit=commit) for key, commit in zip(keys, commits, strict=True)]
        outcomes = self.driver.engine.transactions.end_together(asked, [None] * len(asked))
        for key, commit, outcome in zip(keys, commits, outcomes, strict=True):
            if outcome is None:
                outcome = self._say(key, commit=commit)
            else:
                self.ledger.tried["decided together"] += 1
            assert outcome is (commit is not None)
            if commit is not None:
                self.ledger.halves[key].commit = commit
        self._flush(cut_share=0.3)

    def _decided(self) -> list[str]:
        return [key for key, half in self.ledger.halves.items() if half.commit is not None][-30:]

    def repeat(self) -> None:
        """The same decision once more is fine."""
        for key in self._decided()[:3]:
            self._say(key, commit=self.ledger.halves[key].commit)
        self._flush()

    def contradict(self) -> None:
        """The opposite one is refused."""
        for key in self._decided()[:3]:
            try:
                self._say(key, commit=not self.ledger.halves[key].commit)
            except TransactionDecided:
                continue
            raise AssertionError(f"{key}: the opposite decision was taken")

    def forge(self) -> None:
        """What does not fit changes nothing."""
        waiting = self.ledger.waiting()
        if waiting:
            key = self.random.choice(waiting)
            place = self.ledger.halves[key].ticket
            wrong: dict[str, Any] = self.random.choice(
                ({"group": "thieves"}, {"transaction_id": "X"}, {"offset": place.queue_offset + 1}, {"position": 3})
            )
            try:
                self._say(key, commit=True, **wrong)
            except (TransactionMismatch, TransactionNotFound):
                return
            raise AssertionError(f"{key}: {wrong} was taken")

    # what the broker does

    def let_time_pass(self) -> None:
        """Some time; whoever is there is asked, and answers at once, or not."""
        self.clock.advance(self.random.choice((500, 7_000, 31_000)) + self.random.randint(0, 200))
        self.driver.tick()
        alive = set(self.random.sample(GROUPS, self.random.randint(0, 2)))
        checks = questions(self.driver, 50, alive=alive.__contains__)
        asked = [check.half.queue_offset for check in checks]
        transactions = self.driver.engine.transactions
        transactions.checked(asked, [], self.clock.now_ms)
        for check in checks:
            key = check.half.unique_key or ""
            answer = self.random.choice((True, False, None, None))
            if answer is not None and self.ledger.halves[key].commit is None:
                self._say(key, commit=answer, by="check")
                self.ledger.halves[key].commit = answer
        for parked in list(transactions.table.parked.since(0))[:1]:
            if self.random.random() < 0.3:
                transactions.resume_checks(parked.offset, parked.position, "ann", "", self.clock.now_ms)
        self._flush()

    def keep_up(self) -> None:
        """Checkpoint, snapshot."""
        self.clock.advance(6_000)
        self.driver.upkeep()

    def keep_up_in_flight(self) -> None:
        """Checkpoint, snapshot, while some of what was appended is on the disk and some is not; then the power goes."""
        self.decide()
        for key in self.ledger.waiting()[:4]:
            self._say(key, commit=True)
            self.ledger.halves[key].commit = True
        self.driver.flush()
        self.keep_up()
        if self.cuts:
            self.crash()

    def restart(self) -> None:
        """A clean stop and start."""
        self.driver.settle()
        self.durable()
        self.driver.close()
        self.driver = self._open()
        self.ledger.check(self.driver)

    def crash(self) -> None:
        """The power goes, with whatever is on its way."""
        loss = PowerLoss(self.random.choice(("kill", "all", "random", "random")), self.random.randrange(1 << 30))
        self._crash(self.files.crash(loss))

    def _crash(self, disk: SimulatedFiles) -> None:
        self.files = disk
        self.driver = self._open()
        self.ledger.check(self.driver)

    def _flush(self, cut_share: float = 0.05) -> None:
        """Sync now, later, or be cut off while it is written."""
        drawn = self.random.random()
        if drawn < 0.1:
            return
        if drawn < 0.2:
            self.driver.flush()  # one batch of several
            return
        if drawn < 0.2 + cut_share and self.cuts:
            caught: list[SimulatedFiles] = []

            def cut() -> None:
                if not caught and self.random.random() < 0.8:
                    # a multiple of three: of what is torn, most is lost
                    caught.append(self.files.crash(PowerLoss("random", 3 * self.random.randrange(1 << 28))))

            self.files.on_change = cut
            self.driver.flush()
            self.files.on_change = None
            if caught:
                self.ledger.tried["cut while writing"] += 1
                self._crash(caught[0])
                return
        self.driver.settle()
        self.durable()

    def durable(self) -> None:
        """Note that all that was said is on disk."""
        for half in self.ledger.halves.values():
            half.acknowledged = True
            half.durable = half.commit is not None
