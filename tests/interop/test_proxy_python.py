"""Apache's Python client of the 5.x API through Apache RocketMQ's own proxy in front of our broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.interop.popping import bodies
from tests.interop.process import ChildFailed
from tests.interop.proxied import House, housed
from tests.interop.pythongrpc import PythonGrpcClient


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from housed("escapement", PythonGrpcClient, tmp_path_factory.mktemp("proxied-python"))


def test_messages_are_sent_received_and_acknowledged(house: House) -> None:
    group, client = house.group(), house.client
    assert client.receive(group, "normal") == []
    client.send("normal", "one", tag="a", key="k1")
    client.send("normal", "three", tag="b")
    received = client.receive_all(group, "normal", 2)
    assert bodies(received) == ["one", "three"]
    (one,) = [event for event in received if event["body"] == "one"]
    assert (one["tag"], one["keys"], one["attempt"], one["topic"]) == ("a", ["k1"], 1, "normal")
    assert one["properties"]["length"] == "3"
    for event in received:
        client.ack(event)
    assert client.receive(group, "normal") == []


def test_tags_and_filters_hold(house: House) -> None:
    tagged, filtered, client = house.group(), house.group(), house.client
    wanted = "sql:length >= 2 AND TAGS IS NOT NULL AND TAGS = 'y'"
    assert client.receive(tagged, "normal", expression="x") == []
    assert client.receive(filtered, "normal", expression=wanted) == []
    for body, tag in (("1", "x"), ("22", "y"), ("333", "x")):
        client.send("normal", body, tag=tag)
    assert bodies(client.receive_all(tagged, "normal", 2, expression="x")) == ["1", "333"]
    assert bodies(client.receive_all(filtered, "normal", 1, expression=wanted)) == ["22"]


def test_what_is_not_acknowledged_comes_again_and_time_can_be_changed(house: House) -> None:
    group, client = house.group(), house.client
    client.receive(group, "normal")
    client.send("normal", "again")
    (first,) = client.receive_all(group, "normal", 1, invisible_ms=60_000)
    client.change(first, 10_000)
    (second,) = client.receive_all(group, "normal", 1)
    assert (second["body"], second["attempt"], second["id"]) == ("again", 2, first["id"])
    client.ack(second)


def test_messages_of_a_group_come_in_order(house: House) -> None:
    group, client = house.group(in_order=True), house.client
    client.receive(group, "fifo")
    for body in ("1", "2", "3"):
        client.send("fifo", body, group="order-1")
    got = []
    for _ in range(3):
        (event,) = client.receive_all(group, "fifo", 1, count=1)
        client.ack(event)
        got.append(event["body"])
    assert got == ["1", "2", "3"]


def test_delayed_message_can_be_recalled_and_is_never_early(house: House) -> None:
    group, client = house.group(), house.client
    client.receive(group, "delay")
    due_ms = time.time_ns() // 1_000_000 // 1000 * 1000 + 4_000
    client.send("delay", "on time", delivery_ms=due_ms)
    recalled = client.send("delay", "recalled", delivery_ms=due_ms)
    assert client.recall("delay", recalled["recall"])
    assert bodies(client.receive_all(group, "delay", 1)) == ["on time"]
    assert time.time_ns() // 1_000_000 >= due_ms
    with pytest.raises(ChildFailed):
        client.recall("delay", "no handle")
    assert client.receive(group, "delay") == []


def test_transactions_end_as_their_sender_or_his_answer_to_the_check_says(house: House) -> None:
    group, client = house.group(), house.client
    client.receive(group, "trans")
    client.transaction("trans", "committed", "commit")
    client.transaction("trans", "rolled back", "rollback")
    client.transaction("trans", "left", "leave")
    assert bodies(client.receive_all(group, "trans", 2)) == ["committed", "left"]
    assert [event["body"] for event in client.events("checked")] == ["left"]


def test_push_consumer_gets_all_and_what_failed_again(house: House) -> None:
    group, client = house.group(), house.client
    client.receive(group, "normal")
    since = client.count()
    client.push(group, "normal")
    for body in ("pushed", "fails"):
        client.send("normal", body)

    def look(_: list[str]) -> bool | None:
        got = [(event["body"], event["attempt"]) for event in client.events("message", since)]
        return {("pushed", 1), ("fails", 1), ("fails", 2)} <= set(got) or None

    assert client.child.wait_for(look, 60, "all that was pushed")
