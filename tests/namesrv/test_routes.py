"""The table of routes: brokers come, stay and leave, topics are the master's word."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from broker.namesrv.registration import DataVersion, QueueData, Registration
from broker.namesrv.routes import Master, RouteTable
from broker.rocketmq.errors import BrokerError, RequestRefused

NOW_MS = 1_795_249_116_470


@dataclass(eq=False)
class Line:
    """A connection."""

    address: str = "10.0.0.9:5000"

    def close(self) -> None:
        """Nothing else has to happen here."""


@dataclass
class House:
    """The broker beside the table."""

    cluster: str = "C"
    broker_name: str = "house"
    broker_id: int = 0
    address: str = "10.0.0.0:10911"
    known: dict[str, QueueData] = field(default_factory=lambda: {"H": queues("house", 2)})

    def queues(self, topic: str) -> QueueData | None:
        return self.known.get(topic)

    def topics(self) -> list[str]:
        return list(self.known)


def queues(name: str, count: int = 4, permission: int = 6) -> QueueData:
    return QueueData(name, count, count, permission)


def broker(name: str = "a", number: int = 0, *topics: str, counter: int = 1, port: int | None = None) -> Registration:
    """The registration of a broker with two topics, or these."""
    return Registration(
        cluster="C", broker_name=name, broker_id=number, address=f"{name}:{port or 10_911 + number}",
        ha_address=f"{name}:{port or 20_911 + number}", version=DataVersion(counter, 1),
        topics={topic: queues(name) for topic in topics or ("T", "U")},
    )  # fmt: skip


def told(table: RouteTable, topic: str) -> dict[str, tuple[dict[int, str], int, int]]:
    """By broker name: addresses, queues, permission."""
    return {
        group.name: (dict(group.addresses), each.read_queues, each.permission) for group, each in table.route(topic)
    }


@pytest.fixture
def table() -> RouteTable:
    return RouteTable()


def test_a_broker_has_a_route_for_its_topics(table: RouteTable) -> None:
    assert table.register(broker(), Line(), NOW_MS) == Master()
    assert told(table, "T") == {"a": ({0: "a:10911"}, 4, 6)}
    assert table.topics() == table.topics("C") == {"T", "U"}
    assert table.topics("another") == set()
    assert told(table, "X") == {}


def test_a_topic_of_two_brokers_has_a_route_with_both(table: RouteTable) -> None:
    table.register(broker("a"), Line(), NOW_MS)
    table.register(broker("b"), Line(), NOW_MS)
    assert set(told(table, "T")) == {"a", "b"}


def test_a_slave_is_told_its_master_and_stands_beside_it(table: RouteTable) -> None:
    table.register(broker("a", 0), Line(), NOW_MS)
    assert table.register(broker("a", 1, "S", "T"), Line(), NOW_MS) == Master("a:20911", "a:10911")
    assert told(table, "T") == {"a": ({0: "a:10911", 1: "a:10912"}, 4, 6)}
    assert told(table, "S") == {}


def test_topics_of_an_old_slave_are_not_taken_even_without_a_master(table: RouteTable) -> None:
    assert table.register(broker("a", 1), Line(), NOW_MS) == Master()
    assert table.topics() == set()


@pytest.mark.parametrize(("is_acting", "permission"), [(False, 6), (True, 4)])
def test_a_slave_without_a_master_has_routes(table: RouteTable, is_acting: bool, permission: int) -> None:
    table.register(replace(broker("a", 2), is_acting_enabled=is_acting), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({2: "a:10913"}, 4, permission)}
    table.register(replace(broker("a", 3, "S", "V"), is_acting_enabled=is_acting), Line(), NOW_MS)
    assert told(table, "S") == {}


@pytest.mark.parametrize(("is_acting", "permission"), [(False, 6), (True, 4)])
def test_a_master_that_leaves_leaves_its_slave_with_the_topics(
    table: RouteTable, is_acting: bool, permission: int
) -> None:
    table.register(replace(broker("a", 0), is_acting_enabled=is_acting), Line(), NOW_MS)
    table.register(replace(broker("a", 1), is_acting_enabled=is_acting), Line(), NOW_MS)
    table.leave("C", "a:10911", "a")
    assert told(table, "T") == {"a": ({1: "a:10912"}, 4, permission)}
    table.register(replace(broker("a", 0), is_acting_enabled=is_acting), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({0: "a:10911", 1: "a:10912"}, 4, 6)}


def test_a_slave_that_becomes_master_has_one_id(table: RouteTable) -> None:
    table.register(broker("a", 0), Line(), NOW_MS)
    table.register(broker("a", 1, port=30_000), Line(), NOW_MS)
    table.leave("C", "a:10911", "a")
    table.register(broker("a", 0, "T", "N", port=30_000), Line(), NOW_MS)
    assert told(table, "N") == {"a": ({0: "a:30000"}, 4, 6)}
    assert len(table) == 1


def test_the_only_slave_that_becomes_master_keeps_the_topics(table: RouteTable) -> None:
    table.register(replace(broker("a", 1, port=30_000), is_acting_enabled=False), Line(), NOW_MS)
    table.register(broker("a", 0, "N", "O", port=30_000), Line(), NOW_MS)
    assert table.topics() == {"T", "U", "N", "O"}
    assert told(table, "T") == {"a": ({0: "a:30000"}, 4, 6)}


def test_another_address_takes_the_place_of_an_id(table: RouteTable) -> None:
    table.register(broker("a", 0), Line(), NOW_MS)
    table.register(broker("a", 0, port=30_000), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({0: "a:30000"}, 4, 6)}
    assert len(table) == 1


def test_who_was_master_once_does_not_take_the_place_of_who_is(table: RouteTable) -> None:
    epoch = DataVersion(1, 1, state_version=2)
    table.register(replace(broker("a", 0), version=epoch), Line(), NOW_MS)
    with pytest.raises(RequestRefused, match="state version 2"):
        table.register(broker("a", 0, port=30_000), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({0: "a:10911"}, 4, 6)}
    table.register(replace(broker("a", 0, port=30_000), version=epoch), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({0: "a:30000"}, 4, 6)}


def test_a_broker_with_another_name_at_an_address_takes_its_place(table: RouteTable) -> None:
    table.register(broker("a", port=1), Line(), NOW_MS)
    table.register(replace(broker("b", 0, "V", "W"), address="a:1"), Line(), NOW_MS)
    assert told(table, "T") == {}
    assert [group.name for group in table.groups()] == ["b"]


def test_one_topic_of_a_broker_that_is_not_there_is_refused(table: RouteTable) -> None:
    with pytest.raises(RequestRefused, match="register broker failed"):
        table.register(broker("a", 0, "T"), Line(), NOW_MS)
    assert table.groups() == []
    table.register(broker("a"), Line(), NOW_MS)
    table.register(broker("a", 0, "N", counter=2), Line(), NOW_MS)
    assert table.topics() == {"T", "U", "N"}


def test_only_a_complete_registration_takes_topics_away(table: RouteTable) -> None:
    table.register(broker("a", 0, "T", "U"), Line(), NOW_MS)
    table.register(broker("a", 0, "U", "V", counter=2), Line(), NOW_MS)
    assert table.topics() == {"T", "U", "V"}
    table.register(replace(broker("a", 0, "U", "V", counter=3), is_complete=True), Line(), NOW_MS)
    assert table.topics() == {"U", "V"}


def test_a_broker_of_another_cluster_with_a_known_name_is_refused(table: RouteTable) -> None:
    table.register(broker(), Line(), NOW_MS)
    with pytest.raises(BrokerError, match="one of cluster C"):
        table.register(replace(broker(port=9), cluster="D"), Line(), NOW_MS)
    assert told(table, "T") == {"a": ({0: "a:10911"}, 4, 6)}


def test_a_broker_whose_connection_ends_is_gone(table: RouteTable) -> None:
    line, other = Line(), Line()
    table.register(broker("a"), line, NOW_MS)
    table.register(broker("b"), line, NOW_MS)
    table.register(broker("c"), other, NOW_MS)
    table.connection_ended(line)
    assert set(told(table, "T")) == {"c"}
    table.connection_ended(line)
    assert len(table) == 1


def test_a_broker_that_has_come_again_over_another_connection_stays(table: RouteTable) -> None:
    line, other = Line(), Line()
    table.register(broker("a"), line, NOW_MS)
    table.register(broker("a"), other, NOW_MS)
    table.connection_ended(line)
    assert set(told(table, "T")) == {"a"}
    table.connection_ended(other)
    assert told(table, "T") == {}


def test_a_broker_that_says_nothing_for_two_minutes_is_gone(table: RouteTable) -> None:
    silent, alive = Line(), Line()
    table.register(broker("a"), silent, NOW_MS)
    table.register(broker("b"), alive, NOW_MS)
    table.heard("C", "b:10911", NOW_MS + 1)
    assert table.expire(NOW_MS + 120_000) == []
    assert table.expire(NOW_MS + 120_001) == [silent]
    assert set(told(table, "T")) == {"b"}


def test_a_broker_says_how_long_it_may_be_silent(table: RouteTable) -> None:
    table.register(replace(broker("a"), timeout_ms=10_000), Line(), NOW_MS)
    assert len(table.expire(NOW_MS + 10_001)) == 1


def test_who_is_not_there_lives_and_leaves_without_a_trace(table: RouteTable) -> None:
    table.heard("C", "nobody:1", NOW_MS)
    table.leave("C", "nobody:1", "nobody")
    table.register(broker("a"), Line(), NOW_MS)
    table.leave("C", "a:10911", "b")
    assert set(told(table, "T")) == {"a"}
    assert (table.version("C", "nobody:1"), table.version("C", "a:10911")) == (None, DataVersion(1, 1))


def test_a_wiped_broker_is_read_only_until_it_is_said_otherwise_or_leaves(table: RouteTable) -> None:
    table.register(broker("a"), Line(), NOW_MS)
    assert table.set_writable("a", is_writable=False) == 2
    table.register(broker("a", 0, "T", "U", "V", counter=2), Line(), NOW_MS)
    assert [told(table, topic)["a"][2] for topic in ("T", "V")] == [4, 4]
    assert table.set_writable("a", is_writable=True) == 3
    assert told(table, "T")["a"][2] == 6
    table.set_writable("a", is_writable=False)
    table.leave("C", "a:10911", "a")
    table.register(broker("a"), Line(), NOW_MS)
    assert told(table, "T")["a"][2] == 6
    assert table.set_writable("nobody", is_writable=False) == 0


def test_a_deleted_topic_comes_again_with_the_next_registration(table: RouteTable) -> None:
    table.register(broker("a"), Line(), NOW_MS)
    table.register(broker("b"), Line(), NOW_MS)
    table.delete_topic("T", "another")
    assert set(told(table, "T")) == {"a", "b"}
    table.delete_topic("T")
    assert told(table, "T") == {}
    table.register(broker("a"), Line(), NOW_MS)
    assert set(told(table, "T")) == {"a"}


def test_one_topic_is_taken_for_brokers_that_are_there(table: RouteTable) -> None:
    table.register(broker("a"), Line(), NOW_MS)
    table.put_topic("N", {"a": queues("a", 7)})
    assert told(table, "N") == {"a": ({0: "a:10911"}, 7, 6)}
    with pytest.raises(BrokerError, match="b has not registered"):
        table.put_topic("M", {"a": queues("a"), "b": queues("b")})
    assert told(table, "M") == {}


def test_brokers_are_bounded(table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1_024):
        table.register(broker(f"b{number}", 0, "T", "U"), Line(), NOW_MS)
    with pytest.raises(BrokerError, match="1,024"):
        table.register(broker("more"), Line(), NOW_MS)
    table.register(broker("b0", 0, "T", "V", counter=2), Line(), NOW_MS)
    assert "more" not in told(table, "T")


def test_topics_of_all_brokers_are_bounded(table: RouteTable) -> None:
    many = [f"T{number}" for number in range(65_536)]
    for number in range(3):
        table.register(broker(f"b{number}", 0, *many), Line(), NOW_MS)
    with pytest.raises(BrokerError, match="200,000"):
        table.register(broker("b8", 0, *many), Line(), NOW_MS)
    assert table.group("b8") is None
    table.leave("C", "b0:10911", "b0")
    table.register(broker("b8", 0, *many), Line(), NOW_MS)


# The broker beside it.


def test_the_resident_has_the_topics_of_the_moment() -> None:
    house = House()
    table = RouteTable(house)
    assert told(table, "H") == {"house": ({0: "10.0.0.0:10911"}, 2, 6)}
    house.known["N"] = queues("house", 3)
    assert told(table, "N") == {"house": ({0: "10.0.0.0:10911"}, 3, 6)}
    assert table.topics("C") == {"H", "N"}
    del house.known["H"]
    assert told(table, "H") == {}


def test_the_resident_stands_beside_those_that_register() -> None:
    table = RouteTable(House())
    table.register(broker("a", 0, "H", "T"), Line(), NOW_MS)
    assert list(told(table, "H")) == ["house", "a"]
    assert table.topics() == {"H", "T"}
    table.delete_topic("H")
    assert list(told(table, "H")) == ["house"]


def test_a_slave_of_the_resident_is_told_where_it_is() -> None:
    table = RouteTable(House())
    assert table.register(broker("house", 1), Line(), NOW_MS) == Master("", "10.0.0.0:10911")
    assert told(table, "H") == {"house": ({0: "10.0.0.0:10911", 1: "house:10912"}, 2, 6)}
    assert told(table, "T") == {}
    table.leave("C", "house:10912", "house")
    assert told(table, "H") == {"house": ({0: "10.0.0.0:10911"}, 2, 6)}


def test_nobody_takes_the_resident_s_place() -> None:
    table = RouteTable(House())
    with pytest.raises(BrokerError, match="beside this name service"):
        table.register(broker("house", 0), Line(), NOW_MS)
    with pytest.raises(BrokerError, match="beside this service"):
        table.register(replace(broker("a"), address="10.0.0.0:10911"), Line(), NOW_MS)
    with pytest.raises(BrokerError, match="has not registered"):
        table.put_topic("H", {"house": queues("house", 9)})
    table.register(replace(broker("house", 0), address="10.0.0.0:10911"), Line(), NOW_MS)
    table.leave("C", "10.0.0.0:10911", "house")
    assert table.expire(NOW_MS + 1_000_000) == []
    assert told(table, "H") == {"house": ({0: "10.0.0.0:10911"}, 2, 6)}


def test_the_resident_is_wiped_as_others_are() -> None:
    table = RouteTable(House())
    assert table.set_writable("house", is_writable=False) == 1
    assert told(table, "H")["house"][2] == 4
