"""The table of routes against a small model, in any order of events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.namesrv.registration import DataVersion, QueueData, Registration
from broker.namesrv.routes import RouteTable
from broker.rocketmq.errors import RequestRefused

EXPIRY_MS = 120_000
NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.integers(0, 2)
ADDRESSES = st.sampled_from([f"host:{port}" for port in range(1, 6)])
TOPICS = st.frozensets(st.sampled_from(["T", "U", "V", "W"]), min_size=1)
LINES = st.integers(0, 3)


@dataclass(eq=False)
class Line:
    """A connection."""

    address: str

    def close(self) -> None:
        """Nothing else has to happen here."""


@dataclass
class Broker:
    """A broker in the model."""

    address: str
    line: int
    heard_ms: int


class Names(RuleBasedStateMachine):
    """Brokers come, stay and leave; the model is a dictionary of them and the topics of each name."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.lines = [Line(f"line:{number + 1}") for number in range(4)]
        self.now_ms = 1
        self.brokers: dict[tuple[str, int], Broker] = {}
        self.topics: dict[str, set[str]] = {}
        self.wiped: set[str] = set()

    @rule(
        name=NAMES, number=IDS, address=ADDRESSES, topics=TOPICS, line=LINES,
        is_old=st.booleans(), is_complete=st.booleans(), counter=st.integers(1, 2),
    )  # fmt: skip
    def registers(
        self, name: str, number: int, address: str, topics: frozenset[str], line: int, is_old: bool, is_complete: bool,
        counter: int,
    ) -> None:  # fmt: skip
        new = Registration(
            cluster="C", broker_name=name, broker_id=number, address=address, version=DataVersion(counter),
            is_acting_enabled=None if is_old else False, is_complete=is_complete,
            topics={topic: QueueData(name, 4, 4, 6) for topic in topics},
        )  # fmt: skip
        if (name, number) not in self.brokers and len(topics) == 1:
            with pytest.raises(RequestRefused):
                self.table.register(new, self.lines[line], self.now_ms)
            return
        self.table.register(new, self.lines[line], self.now_ms)
        for key, one in list(self.brokers.items()):
            if one.address == address and key != (name, number):
                self.forget(key, keeps=name)
        self.brokers[name, number] = Broker(address, line, self.now_ms)
        if number == 0 or (not is_old and number == min(each for other, each in self.brokers if other == name)):
            known = self.topics.setdefault(name, set())
            if is_complete:
                known.clear()
            known |= topics

    @rule(name=NAMES, address=ADDRESSES)
    def leaves(self, name: str, address: str) -> None:
        self.table.leave("C", address, name)
        for key, one in list(self.brokers.items()):
            if key[0] == name and one.address == address:
                self.forget(key)

    @rule(line=LINES)
    def loses_its_connection(self, line: int) -> None:
        self.table.connection_ended(self.lines[line])
        for key, one in list(self.brokers.items()):
            if one.line == line:
                self.forget(key)

    @rule(address=ADDRESSES)
    def is_heard(self, address: str) -> None:
        self.table.heard("C", address, self.now_ms)
        for one in self.brokers.values():
            if one.address == address:
                one.heard_ms = self.now_ms

    @rule(passed_ms=st.sampled_from([1, 60_000, 120_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        late = {key: one for key, one in self.brokers.items() if self.now_ms - one.heard_ms > EXPIRY_MS}
        ended = self.table.expire(self.now_ms)
        assert sorted(each.address for each in ended) == sorted(self.lines[one.line].address for one in late.values())
        for key in late:
            self.forget(key)

    @rule(name=NAMES, is_writable=st.booleans())
    def is_wiped(self, name: str, is_writable: bool) -> None:
        count = self.table.set_writable(name, is_writable=is_writable)
        assert count == len(self.topics.get(name, ()))
        if any(key[0] == name for key in self.brokers):
            (self.wiped.discard if is_writable else self.wiped.add)(name)

    @rule(topic=st.sampled_from(["T", "U"]))
    def topic_is_deleted(self, topic: str) -> None:
        self.table.delete_topic(topic)
        for known in self.topics.values():
            known.discard(topic)

    def forget(self, key: tuple[str, int], keeps: str | None = None) -> None:
        del self.brokers[key]
        if key[0] != keeps and not any(name == key[0] for name, _ in self.brokers):
            self.topics.pop(key[0], None)
            self.wiped.discard(key[0])

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        addresses: dict[str, dict[int, str]] = {}
        for (name, number), one in self.brokers.items():
            addresses.setdefault(name, {})[number] = one.address
        assert {group.name: group.addresses for group in self.table.groups()} == addresses
        assert len(self.table) == len(self.brokers)
        for topic in ("T", "U", "V", "W"):
            found = {group.name: queues.permission for group, queues in self.table.route(topic)}
            wanted = {name: 4 if name in self.wiped else 6 for name, topics in self.topics.items() if topic in topics}
            assert found == wanted
        assert self.table.topics() == set().union(*self.topics.values())


TestNames = Names.TestCase
