"""The 5.x client (gRPC) through Apache RocketMQ's own proxy, in front of Apache RocketMQ and in front of our broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.interop.grpcclients import GrpcClient
from tests.interop.popping import bodies
from tests.interop.process import ChildFailed
from tests.interop.proxied import House, housed


@pytest.fixture(scope="module", params=["apache", "escapement"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from housed(request.param, GrpcClient, tmp_path_factory.mktemp(f"proxied-{request.param}"))


def test_messages_are_sent_received_and_acknowledged(house: House) -> None:
    group, client = house.group(), house.client
    assert house.left(group, "normal") == []
    client.send("normal", "one", tag="a", key="k1")
    client.send("normal", "three", tag="b")
    received = client.receive_all(group, "normal", 2)
    assert bodies(received) == ["one", "three"]
    (one,) = [event for event in received if event["body"] == "one"]
    assert (one["tag"], one["keys"], one["attempt"], one["topic"]) == ("a", "k1", 1, "normal")
    for event in received:
        client.ack(event)
    assert house.left(group, "normal") == []


def test_tags_and_filters_hold(house: House) -> None:
    tagged, filtered, client = house.group(), house.group(), house.client
    house.left(tagged, "normal")
    house.left(filtered, "normal")
    for body, tag in (("1", "x"), ("22", "y"), ("333", "x")):
        client.send("normal", body, tag=tag)
    assert bodies(client.receive_all(tagged, "normal", 2, expression="x")) == ["1", "333"]
    wanted = "sql:length >= 2 AND TAGS IS NOT NULL AND TAGS = 'y'"
    assert bodies(client.receive_all(filtered, "normal", 1, expression=wanted)) == ["22"]


def test_what_is_not_acknowledged_comes_again_and_time_can_be_changed(house: House) -> None:
    group, client = house.group(), house.client
    house.left(group, "normal")
    client.send("normal", "again")
    (first,) = client.receive_all(group, "normal", 1, invisible_ms=60_000)
    client.change(first, 10_000)
    (second,) = client.receive_all(group, "normal", 1, wait_s=5)
    assert (second["body"], second["attempt"], second["id"]) == ("again", 2, first["id"])
    assert second["arrivedMs"] - first["arrivedMs"] >= 9_000
    client.ack(second)


def test_a_message_group_is_kept_in_order(house: House) -> None:
    group, client = house.group(in_order=True), house.client
    for number in range(4):
        client.send("fifo", f"{number}", group="customer-7")
    got: list[str] = []
    while len(got) < 4:
        (event,) = client.receive_all(group, "fifo", 1, count=1)
        assert event["group"] == "customer-7"
        got.append(event["body"])
        client.ack(event)
    assert got == ["0", "1", "2", "3"]


def test_delayed_and_recalled(house: House) -> None:
    group, client = house.group(), house.client
    house.left(group, "delay")
    now_ms = time.time_ns() // 1_000_000
    recalled = client.send("delay", "recalled", delivery_ms=now_ms + 8_000)
    client.send("delay", "delivered", delivery_ms=now_ms + 8_000)
    assert client.recall("delay", recalled["handle"]) == recalled["id"]
    received = client.receive_all(group, "delay", 1, wait_s=5)
    assert bodies(received) == ["delivered"]
    assert received[0]["arrivedMs"] >= now_ms + 8_000
    client.ack(received[0])
    assert house.left(group, "delay") == []


def test_transactions_are_committed_rolled_back_and_refused_elsewhere(house: House) -> None:
    group, client = house.group(), house.client
    house.left(group, "trans")
    client.transaction("trans", "committed", "commit")
    client.transaction("trans", "rolled back", "rollback")
    received = client.receive_all(group, "trans", 1)
    assert bodies(received) == ["committed"]
    client.ack(received[0])
    assert house.left(group, "trans") == []
    with pytest.raises(ChildFailed, match="topic"):
        client.send("trans", "plain")


def test_the_push_consumer_gets_what_is_sent(house: House) -> None:
    group, client = house.group(), house.client
    house.left(group, "normal")
    client.push(group, "normal")
    since = client.count()
    for number in range(5):
        client.send("normal", f"pushed-{number}")
    wanted = {f"pushed-{number}" for number in range(5)}
    client.child.wait_for(
        lambda _: wanted <= {event["body"] for event in client.events("pushed", since)} or None, 60, "five messages"
    )
