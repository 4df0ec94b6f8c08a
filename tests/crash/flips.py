"""One bit flipped in a stopped store that has everything in it, or in its backup: named, or without effect."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from broker.backup.errors import BackupRefused
from broker.backup.restoring import restore_directory
from broker.engine.errors import StoreUnsupported
from broker.engine.fsck.store import check_store
from broker.engine.log.commit_log import CommitLog
from broker.engine.testing import Driver, ManualClock, SimulatedFiles, open_engine
from broker.rocketmq.message import Message, decode
from tests.backup.history import ALL_OF_IT_MS, GROUP, PAYERS, History
from tests.backup.test_histories import back_up, silent
from tests.engine.pop.popping import RETRY, pop

#: Room for what a pop is noted with; still so small that there are several segments.
SERVED = ("orders", "bills", RETRY)
CONFIG: dict[str, Any] = {"segment_size_bytes": 16_384}
#: Longer than retention.
OLD_MS = 80 * 3_600_000
#: Steps that fill more than one segment.
_STEPS_OF_OLD = 150


class BusyHistory(History):
    """A history in which consumers pop as well: some of it they acknowledge, some they keep."""

    def step(self) -> None:
        """Take one step, at times a pop."""
        if self.random.random() < 0.1:
            self.pop()
        else:
            super().step()

    def pop(self) -> None:
        self.driver.engine.groups.ensure(PAYERS)
        held = pop(self.driver, most_messages=self.random.randint(1, 5), group=PAYERS)
        for each in held[::2]:
            self.driver.engine.pops.ack(each.handle, each.bit, self.clock.now_ms)
        self.driver.settle()


def let_old_go(history: BusyHistory) -> None:
    """Let all come out that waits, have consumers read it, and let the segments go that are old."""
    driver, engine = history.driver, history.driver.engine
    while history.undecided:
        history.decide()
    driver.advance(ALL_OF_IT_MS)
    for (group, topic), queues in engine.offsets.all().items():
        for queue_id in queues:
            engine.offsets.commit(group, topic, queue_id, engine.queue_end(topic, queue_id))
    history.clock.advance(OLD_MS)
    history.send()
    for _ in range(20):
        history.clock.advance(20_000)
        driver.upkeep()
    assert engine.health().log_min_position > 0, "nothing has gone"


@dataclass(frozen=True, slots=True)
class Seen:
    """What users see of a store: at its start, and when everything that waited has come out."""

    #: (topic, queue, offset): position and body
    before: dict[tuple[str, int, int], tuple[int, bytes]]
    state: dict[str, Any]
    after: Counter[bytes]


def look(driver: Driver) -> Seen:
    """Read all of a store, let all time pass, read it again."""
    engine = driver.engine
    before = {place: (message.position, message.body) for place, message in _all(driver).items()}
    halves = engine.transactions.table.halves
    state = {
        "topics": sorted(topic.name for topic in engine.topics.all()),
        "offsets": {(topic, queue_id): engine.offsets.get(GROUP, topic, queue_id) for topic, queue_id, _ in before},
        "halves": sorted(half for chunk in halves.chunks() for half in chunk.offsets),
        "timers": engine.timers.status(driver.clock.now_ms)["pending"],
        "groups": sorted(group.name for group in engine.groups.all()),
    }
    driver.advance(ALL_OF_IT_MS)
    after = Counter(message.body for message in _all(driver).values())
    return Seen(before, state, after)


def _all(driver: Driver) -> dict[tuple[str, int, int], Message]:
    """Return what consumers of all topics get, as they pull it."""
    found = {}
    for topic in driver.engine.topics.all():
        for queue_id in range(topic.read_queues if topic.name in SERVED else 0):
            offset, end = driver.engine.queue_bounds(topic.name, queue_id)
            while offset < end:
                pulled = driver.engine.pull(topic.name, queue_id, offset, 32, 1 << 20, None)
                for message in map(decode, pulled.records):
                    place = (topic.name, queue_id, message.queue_offset)
                    assert (message.topic, message.queue_id) == place[:2], f"{place} is {message}"
                    assert place not in found, f"{place} is served twice"
                    found[place] = message
                assert pulled.next_offset > offset, f"a consumer is stuck at {offset} of {topic.name} {queue_id}"
                offset = pulled.next_offset
    return found


@dataclass(slots=True)
class FlipCampaign:
    """A store, its backup, and what became of each flip in one of their files."""

    seed: int
    steps: int = 60
    #: whether its log has lost its first segments to retention
    is_aged: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    now_ms: int = 0
    sound: Seen = field(init=False)
    #: start and end of every record of the log
    records: list[tuple[int, int]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    flips: int = 0

    def __post_init__(self) -> None:
        disk = SimulatedFiles()
        history = BusyHistory(self.seed, disk, **CONFIG)
        if self.is_aged:
            history.run(_STEPS_OF_OLD)
            let_old_go(history)
        history.run(self.steps)
        back_up(disk, history.clock.now_ms)
        history.driver.close()
        self.now_ms = history.clock.now_ms
        self.files = {path: content for path, content in disk.contents().items() if not path.endswith("/lock")}
        report = check_store(disk, "/store")
        assert report.damages == [], report.damages
        self.sound = look(self._open(self._disk()))
        self.records = sorted(self._records())

    def _records(self) -> list[tuple[int, int]]:
        log = CommitLog(self._disk(), "/store/commitlog", CONFIG["segment_size_bytes"])
        found, begin = [], log.chain.min_position
        for position, record in log.walk(begin, log.chain.end_position):
            if record is not None:
                found.append((position, position + len(record)))
        return found

    def _disk(self) -> SimulatedFiles:
        disk = SimulatedFiles()
        disk.load({path: content for path, content in self.files.items() if path.startswith("/store/")})
        return disk

    def _open(self, disk: SimulatedFiles) -> Driver:
        return open_engine(disk, clock=ManualClock(self.now_ms), **CONFIG)

    def run(self, count: int, draws: random.Random) -> None:
        """Flip so many bits, each in a store of its own. Raises AssertionError that says how to repeat it."""
        used = {path: len(content.rstrip(b"\0")) for path, content in self.files.items()}
        places = [
            sorted(path for path in used if used[path] and path.startswith(root)) for root in ("/store", "/backup")
        ]
        for _ in range(count):
            path = draws.choice(draws.choices(places, (3, 1))[0])
            bit = draws.randrange(8 * used[path])
            try:
                self.outcomes[self.flip(path, bit)] += 1
            except Exception as error:
                raise AssertionError(f"seed {self.seed}, {path}, bit {bit}: {type(error).__name__}: {error}") from error
            self.flips += 1

    def flip(self, path: str, bit: int) -> str:
        """Try one flip; return what became of it."""
        if path.startswith("/backup/"):
            return self._flip_backup(path, bit)
        disk = self._disk()
        disk.flip(path, bit)
        try:
            named = [damage for damage in check_store(disk, "/store").damages if damage.path in path]
            driver = self._open(disk)
        except StoreUnsupported:
            return "refused"
        hit = self._hit(path, bit)
        if hit is not None:
            assert named, "fsck says nothing of it"
            self._check_rest(look(driver), hit)
            health = driver.engine.health()
            if any(damage.start <= hit < damage.end for damage in health.damaged):
                return "a record lost, named by fsck and the broker"
            served = [place for place, (position, _) in self.sound.before.items() if position == hit]
            assert not served, f"the record at {hit} of {served} is not reported: {health}"
            return "a record that nobody reads lost, named by fsck"
        assert driver.engine.health().state == "OK", driver.engine.health()
        seen = look(driver)
        if seen == self.sound:
            return "named, mended" if named else "no effect"
        if self._is_taken_for_expired(path, seen):
            assert named, self._difference(seen)
            return "a queue's first entry leads below the log, named"
        assert seen.before == self.sound.before, self._difference(seen)
        assert seen.after == self.sound.after, self._difference(seen)
        assert named, self._difference(seen)
        return "named, a table older"

    def _is_taken_for_expired(self, path: str, seen: Seen) -> bool:
        """Tell whether all that is missing is the first message of the queue: its entry leads to a segment that is
        gone, and there is none before it that says otherwise."""
        lost = self.sound.before.items() - seen.before.items()
        if not self.is_aged or seen.before.items() - self.sound.before.items() or len(lost) != 1:
            return False
        (((topic, queue_id, offset), _),) = lost
        lowest = min(place[2] for place in self.sound.before if place[:2] == (topic, queue_id))
        return f"/consumequeue/{topic}/{queue_id}/" in path and offset == lowest

    def _hit(self, path: str, bit: int) -> int | None:
        """Return where the record begins that a flip in the log is in."""
        if not path.startswith("/store/commitlog/"):
            return None
        at = int(path.rpartition("/")[2]) + bit // 8
        return next((begin for begin, end in self.records if begin <= at < end), None)

    def _check_rest(self, seen: Seen, hit: int) -> None:
        """All but one record is served, as it was; nothing is invented."""
        sound = {place: told for place, told in self.sound.before.items() if told[0] != hit}
        served = {place: told for place, told in seen.before.items() if place in sound}
        assert served == sound, self._difference(seen)
        sent = {body for _, body in self.sound.before.values()} | set(self.sound.after) | self._bodies_of_log()
        assert set(seen.after) <= sent, set(seen.after) - sent

    def _bodies_of_log(self) -> set[bytes]:
        log = b"".join(content for path, content in self.files.items() if path.startswith("/store/commitlog/"))
        places = [at for at in range(len(log) - 6) if log[at : at + 1] == b"B" and log[at + 1 : at + 6].isdigit()]
        return {log[at : at + 6] for at in places} | {b"bill"}

    def _difference(self, seen: Seen) -> str:
        lost = {place for place, told in self.sound.before.items() if seen.before.get(place) != told}
        new = {place for place in seen.before if place not in self.sound.before}
        old, new_state = self.sound.state, seen.state
        state = {name: (old[name], new_state[name]) for name in old if old[name] != new_state[name]}
        more, fewer = seen.after - self.sound.after, self.sound.after - seen.after
        return f"lost {lost}, new {new}, changed {state}, after all time more {more}, fewer {fewer}"

    def _flip_backup(self, path: str, bit: int) -> str:
        disk = SimulatedFiles()
        disk.load({name: content for name, content in self.files.items() if name.startswith("/backup/")})
        disk.flip(path, bit)
        try:
            restore_directory(disk, "/backup", "/restored", told=silent)
        except BackupRefused as error:
            refused = str(error)
            assert path.removeprefix("/backup/") in refused, refused
            return "backup refused, named"
        driver = open_engine(disk, clock=ManualClock(self.now_ms), root="/restored", **CONFIG)
        assert look(driver).before == self.sound.before
        return "backup without effect"

    def report(self, name: str) -> str:
        """Return the line that every run prints."""
        return f"{name}: {self.flips:,} bits flipped (store {self.seed}), 0 violations, {dict(self.outcomes)}"
