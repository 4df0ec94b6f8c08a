"""Two clients, one list: any course of calls by Java and by Python in turn does what a plain list would do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from broker.redisson.queue import move_all_due

HOUR_MS = 3_600_000
NUMBERS = itertools.count(1)
VALUE = st.sampled_from(["a", "b", "c", "日本\U0001f600", ""])
WHO = st.sampled_from(["java", "python"])
#: Enough that the list is longer than what is scanned rather than indexed.
MANY = 1_200


class TwoClients(RuleBasedStateMachine):
    """One queue; `waiting` is what a list would hold, in the order of offers, with the due time of each."""

    shared: object

    def __init__(self) -> None:
        super().__init__()
        name = f"model-{next(NUMBERS)}"
        self.ours = self.shared.ours(name)
        self.waiting: list[tuple[str, int]] = []
        self.target: list[str] = []

    def java(self, operation: str, **fields):
        """One call of the real client on this queue."""
        return self.shared.java.call(operation, self.ours.name, **fields)

    @initialize(filled=st.booleans())
    def fill(self, filled):
        if filled:
            values = [f"filler {number}" for number in range(MANY)]
            self.ours.offer_many(values, delay=HOUR_MS)
            self.waiting += [(value, HOUR_MS) for value in values]

    @rule(who=WHO, value=VALUE, hours=st.integers(1, 3))
    def offer(self, who, value, hours):
        if who == "java":
            self.java("offer", value=value, delayMs=hours * HOUR_MS)
        else:
            self.ours.offer(value, delay=hours * HOUR_MS)
        self.waiting.append((value, hours * HOUR_MS))

    @rule(who=WHO, value=VALUE)
    def offer_due(self, who, value):
        """Due at once, and moved at once: the list of what is due grows at its end."""
        if who == "java":
            self.java("offer", value=value, delayMs=0)
        else:
            self.ours.offer(value, delay=0)
        # The transfer task that Java's object has for a moment at first may have moved it already.
        assert move_all_due(self.ours) <= 1
        self.target.append(value)

    @rule(who=WHO)
    def take_due(self, who):
        expected = self.target.pop(0) if self.target else None
        assert (self.java("target.poll") if who == "java" else self.ours.poll()) == expected

    @rule(who=WHO, value=VALUE)
    def remove(self, who, value):
        found = next((place for place, (each, _) in enumerate(self.waiting) if each == value), None)
        answer = self.java("remove", value=value) if who == "java" else self.ours.remove(value)
        assert answer == (found is not None)
        if found is not None:
            del self.waiting[found]

    @rule(who=WHO, values=st.lists(VALUE, min_size=1, max_size=3))
    def remove_all(self, who, values):
        count = sum(value in values for value, _ in self.waiting)
        if who == "java":
            assert self.java("removeAll", value=values) == (count > 0)
        else:
            assert self.ours.remove_all(values) == count
        self.waiting = [each for each in self.waiting if each[0] not in values]

    @rule(who=WHO)
    def poll_first(self, who):
        expected = self.waiting.pop(0)[0] if self.waiting else None
        assert (self.java("poll") if who == "java" else self.ours.poll_first_offered()) == expected

    @rule(who=WHO)
    def last_to_the_front(self, who):
        expected = self.waiting.pop()[0] if self.waiting else None
        if who == "java":
            assert self.java("pollLastAndOfferFirstTo", to=self.ours.name) == expected
        else:
            assert self.ours.poll_last_and_offer_first_to(self.ours.name) == expected
        if expected is not None:
            self.target.insert(0, expected)

    @rule(who=WHO, value=VALUE)
    def contains(self, who, value):
        answer = self.java("contains", value=value) if who == "java" else self.ours.contains(value)
        assert answer == any(value == each for each, _ in self.waiting)

    @rule(who=WHO)
    def peek(self, who):
        expected = self.waiting[0][0] if self.waiting else None
        assert (self.java("peek") if who == "java" else self.ours.peek()) == expected

    @rule(who=WHO)
    def read_all(self, who):
        assert (self.java("readAll") if who == "java" else self.ours.read_all()) == [value for value, _ in self.waiting]

    @rule(who=WHO)
    def clear(self, who):
        if who == "java":
            self.java("clear")
        else:
            self.ours.clear()
        self.waiting = []

    @invariant()
    def list_and_set_hold_the_same(self):
        client, keys = self.shared.client, self.ours.keys
        members = client.lrange(keys.waiting, 0, -1)
        assert len(members) == len(self.waiting)
        assert set(members) == set(client.zrange(keys.timeout, 0, -1))
        assert client.lrange(keys.target, 0, -1) == [value.encode() for value in self.target]

    def teardown(self) -> None:
        keys = self.ours.keys
        self.shared.client.delete(keys.timeout, keys.waiting, keys.target, keys.index, keys.values)


@pytest.mark.parametrize("courses", [8, pytest.param(1_000, marks=pytest.mark.soak)])
def test_any_course_of_two_clients_does_what_a_list_would(shared, courses):
    chosen = settings(
        max_examples=courses,
        stateful_step_count=25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = type("SharedTwoClients", (TwoClients,), {"shared": shared})
    run_state_machine_as_test(machine, settings=chosen)
