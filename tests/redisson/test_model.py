"""A queue against a model of three plain lists, with Java at work between any two commands, and with deaths there.

The index is made to start at 6 members, so that small queues walk through all of its states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import hypothesis.strategies as st
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.redisson import BytesCodec, DelayedQueue, scripts
from broker.redisson.codecs import Packing, detect, unpack
from broker.redisson.queue import move_due
from broker.redisson.repair import deliver_now, remove_member
from tests.redisson.java import ScriptedJava
from tests.redisson.meddling import Died, Meddled

FAR = 10**13
VALUES = st.sampled_from([b"a", b"b", b"\x00", b"", b"a long value that many share", b"c", b"d"])


@dataclass(eq=False)
class Entry:
    """One offered value."""

    value: bytes
    due: int


class Model:
    """Redisson's queue as three lists: what waits by order of offers, by due time, and the target."""

    def __init__(self) -> None:
        self.waiting: list[Entry] = []
        self.target: list[bytes] = []

    def offer(self, value: bytes, due: int) -> None:
        self.waiting.append(Entry(value, due))

    def transfer(self, limit: int) -> None:
        due = sorted((each for each in self.waiting if each.due < FAR), key=lambda each: each.due)[:limit]
        for each in due:
            self.target.append(each.value)
            self.waiting.remove(each)

    def remove(self, value: bytes) -> bool:
        for each in self.waiting:
            if each.value == value:
                self.waiting.remove(each)
                return True
        return False

    def poll(self) -> None:
        if self.waiting:
            self.waiting.pop(0)

    def poll_last(self) -> None:
        if self.waiting:
            self.waiting.pop()

    def clear(self) -> None:
        self.waiting.clear()


class Queues(RuleBasedStateMachine):
    """Ours and Java's operations in any order, one inside the other where ours has several commands."""

    client: redis.Redis
    packing: str

    @initialize()
    def start(self) -> None:
        self.client.flushall()
        self.model = Model()
        self.meddled = Meddled(self.client)
        self.queue = DelayedQueue("q", self.meddled, codec=BytesCodec(), packing=self.packing)
        self.java = ScriptedJava(self.client, "q", self.packing)
        self.dues = count(1)

    def due(self, later: bool) -> int:
        # Java's ties come in random order; without ties the order is certain.
        return next(self.dues) + (FAR if later else 0)

    def java_does(self, what: str, value: bytes, later: bool) -> None:
        match what:
            case "offer":
                due = self.due(later)
                self.java.offer(value, due)
                self.model.offer(value, due)
            case "transfer":
                self.java.transfer(FAR - 1, 3)
                self.model.transfer(3)
            case "remove":
                assert self.java.remove(value) == self.model.remove(value)
            case "poll":
                self.java.poll()
                self.model.poll()
            case "poll last":
                self.java.poll_last_and_offer_first_to("other")
                self.model.poll_last()
            case "clear":
                self.java.clear()
                self.model.clear()

    def survives(self, what: Callable[[], object]) -> tuple[bool, object]:
        """Run one of our operations; False when the client died in it, and then nothing has happened yet."""
        try:
            return True, what()
        except Died:
            return False, None
        finally:
            # What Java would have done later has not happened.
            self.meddled.lives = None
            self.meddled.between.clear()

    @rule(values=st.lists(VALUES, min_size=1, max_size=8), later=st.booleans())
    def offer(self, values: list[bytes], later: bool) -> None:
        for value in values:
            due = self.due(later)
            survived, _ = self.survives(lambda value=value, due=due: self.queue.offer(value, at=due))
            if survived:
                self.model.offer(value, due)

    @rule(values=st.lists(VALUES, min_size=1, max_size=8), later=st.booleans())
    def java_offers(self, values: list[bytes], later: bool) -> None:
        for value in values:
            self.java_does("offer", value, later)

    @rule(what=st.sampled_from(["transfer", "remove", "poll", "poll last"]), value=VALUES)
    def java_acts(self, what: str, value: bytes) -> None:
        self.java_does(what, value, False)

    @precondition(lambda self: len(self.model.waiting) > 12)
    @rule()
    def java_clears(self) -> None:
        self.java_does("clear", b"", False)

    @rule(
        what=st.lists(
            st.tuples(st.sampled_from(["offer", "transfer", "remove", "poll", "poll last"]), VALUES, st.booleans()),
            max_size=4,
        ),
        lives=st.none() | st.integers(0, 3),
    )
    def meddle(self, what: list[tuple[str, bytes, bool]], lives: int | None) -> None:
        for each in what:
            self.meddled.between.append(lambda each=each: self.java_does(*each))
        self.meddled.lives = lives

    @rule(limit=st.integers(1, 5))
    def transfer(self, limit: int) -> None:
        survived, moved = self.survives(lambda: move_due(self.queue, limit))
        if survived:
            assert moved.count <= limit
            self.model.transfer(moved.count)

    @rule(value=VALUES)
    def remove(self, value: bytes) -> None:
        survived, found = self.survives(lambda: self.queue.remove(value))
        if survived:
            assert found == self.model.remove(value)

    @rule(value=VALUES)
    def contains(self, value: bytes) -> None:
        self.meddled.between.clear()
        self.meddled.lives = None
        assert self.queue.contains(value) == any(each.value == value for each in self.model.waiting)

    @precondition(lambda self: self.model.waiting)
    @rule(place=st.integers(0, 100), now=st.booleans())
    def steer(self, place: int, now: bool) -> None:
        self.meddled.between.clear()
        self.meddled.lives = None
        place %= len(self.model.waiting)
        member = self.raw_list()[place]
        entry = self.model.waiting.pop(place)
        assert deliver_now(self.queue, member) if now else remove_member(self.queue, member)
        if now:
            self.model.target.append(entry.value)

    @rule()
    def tend(self) -> None:
        self.survives(lambda: self.queue.script(scripts.TEND, self.queue.script_keys(), (3,)))

    @rule()
    def everything_due_comes(self) -> None:
        self.meddled.between.clear()
        self.meddled.lives = None
        for _ in range(200):
            moved = move_due(self.queue, 2)
            self.model.transfer(moved.count)
            if not moved.again:
                break
        assert all(each.due >= FAR for each in self.model.waiting)

    def raw_list(self) -> list[bytes]:
        found: list[bytes] = self.client.lrange(self.queue.keys.waiting.decode(), 0, -1)
        return found

    @invariant()
    def java_reads_what_the_model_has(self) -> None:
        raw = self.raw_list()
        assert all(detect(member) for member in raw)
        likely = Packing(self.packing)
        assert [unpack(member, likely).value for member in raw] == [each.value for each in self.model.waiting]
        by_due = self.client.zrange(self.queue.keys.timeout.decode(), 0, -1, withscores=True)
        assert sorted(member for member, _ in by_due) == sorted(raw)
        assert [score for _, score in by_due] == sorted(each.due for each in self.model.waiting)
        assert self.client.lrange("q", 0, -1) == self.model.target


@pytest.fixture
def early_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts with an index that starts at 6 members instead of 1000, and is healed in small steps."""

    def early(name: str) -> scripts.Script:
        script = getattr(scripts, name)
        text = script.text.replace("local SMALL = 1000", "local SMALL = 6")
        text = text.replace("LOOK_AT_ALL = 200000", "LOOK_AT_ALL = 9")
        assert text != script.text
        return scripts.Script.of(name, text)

    monkeypatch.setattr(scripts, "TRANSFER", early("TRANSFER"))
    monkeypatch.setattr(scripts, "BY_VALUE", early("BY_VALUE"))
    monkeypatch.setattr(scripts, "STEER", early("STEER"))
    monkeypatch.setattr(scripts, "POLL", early("POLL"))
    monkeypatch.setattr(scripts, "DAMAGE", early("DAMAGE"))
    monkeypatch.setattr(scripts, "REPAIR", early("REPAIR"))
    monkeypatch.setattr(scripts, "TEND", early("TEND"))
    monkeypatch.setattr("broker.redisson.queue.INDEX_STEP", 3)


@pytest.mark.parametrize("packing", ["new", "old"])
@pytest.mark.usefixtures("early_index")
def test_any_mixture_of_ours_and_javas_operations_is_the_models(client: redis.Redis, packing: str) -> None:
    kind = type("TestedQueues", (Queues,), {"client": client, "packing": packing})
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
