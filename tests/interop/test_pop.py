"""POP of the official Java client 5.5.0, against Apache RocketMQ and against our broker: the same must happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import ServerFactory
from tests.interop.popping import CLIENT, JavaPopConsumer, JavaPopper, bodies
from tests.interop.programs import JavaProducer, Program
from tests.interop.servers import Server, StoreShape

Producers = Callable[..., JavaProducer]
Popper = Callable[..., JavaPopper]
PopConsumer = Callable[..., JavaPopConsumer]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start programs that end with the test."""
    programs: list[Program] = []

    def start(kind: type[Program], *arguments: object, **options: object) -> Program:
        program = kind(*arguments, work=tmp_path, **options)  # type: ignore[arg-type]  # as each takes them
        programs.append(program)
        return program

    yield start
    for program in programs:
        program.child.kill()


@pytest.fixture
def send(server: Server, producers: Producers, topic: str) -> Callable[..., None]:
    """Send messages to queue 0 of the topic, which the first one makes."""

    def send_all(*wanted: str, tag: str = "", queue_id: int = 0) -> None:
        producer = producers(server, CLIENT)
        for body in wanted:
            producer.send(topic, body, tag=tag, queue_id=queue_id)

    return send_all


@pytest.fixture
def popper(started: Callable[..., JavaPopper], server: Server, group: str, topic: str) -> JavaPopper:
    """A consumer that pops by hand."""
    return started(JavaPopper, server, group, topic)


def test_the_push_consumer_gets_every_message_once(
    server: Server, started: Callable[..., JavaPopConsumer], popper: JavaPopper, producers: Producers, topic: str,
    group: str,
) -> None:  # fmt: skip
    producer = producers(server, CLIENT)
    producer.send(topic, "early", queue_id=0)
    consumer = started(JavaPopConsumer, server, group, topic)
    assert consumer.receive(1)[0]["body"] == "early"
    for queue_id in range(4):
        for number in range(5):
            producer.send(topic, f"{queue_id}-{number}", queue_id=queue_id, keys="k", tag="t")
    events = consumer.receive(21)[1:]
    assert bodies(events) == sorted(f"{queue_id}-{number}" for queue_id in range(4) for number in range(5))
    assert {(event["topic"], event["tags"], event["keys"]) for event in events} == {(topic, "t", "k")}
    assert popper.pop(poll_ms=8_000) == [], "all is acknowledged"
    assert len(consumer.events("message")) == 21


def test_the_push_consumer_gets_a_rejected_message_again(
    server: Server, started: Callable[..., JavaPopConsumer], send: Callable[..., None], topic: str, group: str
) -> None:
    send("again")
    consumer = started(JavaPopConsumer, server, group, topic, mode="reject-1")
    first, second = consumer.receive(2, timeout_s=60)
    assert [first["reconsumeTimes"], second["reconsumeTimes"]] == [0, 1]
    assert (second["topic"], second["msgId"], second["body"]) == (topic, first["msgId"], "again")
    assert second["arrivedMs"] - first["arrivedMs"] >= 9_000, "the client's first delay is 10 s"


def test_what_a_dead_consumer_held_goes_to_another(
    server: Server, started: Callable[..., JavaPopConsumer], popper: JavaPopper, send: Callable[..., None], topic: str,
    group: str,
) -> None:  # fmt: skip
    send("one", "two")
    assert bodies(popper.pop_all(2, invisible_ms=5_000)) == ["one", "two"]
    popper.child.kill()
    consumer = started(JavaPopConsumer, server, group, topic)
    assert bodies(consumer.receive(2, timeout_s=60)) == ["one", "two"]
    assert {event["reconsumeTimes"] for event in consumer.events("message")} == {1}


def test_pop_and_acknowledge(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("one", "two", "three")
    one, two, three = popper.pop_all(3, invisible_ms=3_000)
    assert [event["body"] for event in (one, two, three)] == ["one", "two", "three"]
    assert [event["queueOffset"] for event in (one, two, three)] == [0, 1, 2]
    assert popper.ack(one) == "OK"
    assert popper.ack_many([two, three]) == "OK"
    assert popper.pop(poll_ms=8_000) == []


def test_what_is_not_acknowledged_is_tried_again_and_again(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("pay", tag="t")
    (first,) = popper.pop_all(1, invisible_ms=2_000)
    (second,) = popper.pop_all(1, invisible_ms=2_000)
    (third,) = popper.pop_all(1, invisible_ms=60_000)
    assert [event["reconsumeTimes"] for event in (first, second, third)] == [0, 1, 2]
    assert {event["msgId"] for event in (first, second, third)} == {first["msgId"]}
    assert {event["topic"] for event in (first, second, third)} == {popper.topic}
    assert [event["handle"].split(" ")[4] for event in (first, second, third)] == ["0", "1", "1"]
    assert {event["properties"].get("TAGS") for event in (first, second, third)} == {"t"}
    firsts = [event["properties"]["1ST_POP_TIME"] for event in (first, second, third)]
    assert len(set(firsts)) == 1
    assert popper.ack(third) == "OK"


def test_more_and_less_time(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("long", "short")
    long, short = popper.pop_all(2, invisible_ms=4_000)
    longer = popper.change(long, 120_000)
    popper.change(short, 1_000)
    (again,) = popper.pop_all(1)
    assert (again["body"], again["reconsumeTimes"]) == ("short", 1)
    assert popper.ack(longer) == "OK"
    assert popper.ack(again) == "OK"
    assert popper.pop(poll_ms=6_000) == []


def test_one_queue_and_one_tag(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("zero", tag="a", queue_id=0)
    send("one", tag="a", queue_id=1)
    send("other", tag="b", queue_id=1)
    assert bodies(popper.pop_all(1, queue=1, expression="a || c")) == ["one"]
    assert bodies(popper.pop_all(1, expression="a || c")) == ["zero"]
    assert popper.pop(expression="a", poll_ms=500) == []


def test_a_pop_waits_and_is_woken(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("first")
    assert popper.ack(popper.pop_all(1)[0]) == "OK"
    since = popper.count()
    popper.child.say("\t".join(["pop", popper.topic, "-1", "32", "60000", "15000", "false", "*", ""]))
    send("news")
    popped = popper.await_event("popped", since=since)
    assert (popped["status"], popped["count"]) == ("FOUND", 1)


def test_popping_in_order(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("1", "2", "3", "4")
    first, second = popper.pop(2, order=True, invisible_ms=60_000, attempt="a1", poll_ms=3_000)
    assert [first["body"], second["body"]] == ["1", "2"]
    assert first["handle"].split(" ")[3] == "999"
    assert popper.pop(order=True, attempt="a2", poll_ms=500) == [], "the queue is blocked"
    again = popper.pop(2, order=True, invisible_ms=60_000, attempt="a1")
    assert [event["body"] for event in again] == ["1", "2"], "the same attempt gets the same"
    assert [popper.ack(event) for event in again] == ["OK", "OK"]
    third, fourth = popper.pop(order=True, invisible_ms=2_000, poll_ms=3_000)
    assert [third["body"], fourth["body"]] == ["3", "4"]
    assert popper.ack(third) == "OK"
    (left,) = popper.pop(order=True, poll_ms=9_000)
    assert (left["body"], left["reconsumeTimes"]) == ("4", 1)
    assert popper.ack(left) == "OK"


def test_in_order_the_next_pop_begins_at_the_first_that_is_not_acknowledged(
    popper: JavaPopper, send: Callable[..., None]
) -> None:
    send("0", "1", "2", "3")
    held = popper.pop(3, order=True, invisible_ms=60_000, attempt="a1", poll_ms=3_000)
    assert [event["body"] for event in held] == ["0", "1", "2"]
    assert popper.ack(held[0]) == "OK"
    popper.change(held[1], 3_000)
    assert popper.ack(held[2]) == "OK"
    assert popper.pop(3, order=True, attempt="a2") == [], "the queue is blocked"
    again = popper.pop(3, order=True, invisible_ms=60_000, attempt="a2", poll_ms=15_000)
    assert [(event["body"], event["reconsumeTimes"]) for event in again] == [("1", 1), ("2", 1), ("3", 0)]
    same = popper.pop(3, order=True, invisible_ms=60_000, attempt="a2")
    assert [(event["body"], event["reconsumeTimes"]) for event in same] == [("1", 1), ("2", 1), ("3", 0)]
    popper.ack(held[1])
    assert popper.pop(3, order=True, attempt="a3") == [], "a handle of an older pop ends nothing"
    send("4")
    assert popper.ack_many([same[2], same[0]]) == "OK"
    assert popper.pop(3, order=True, attempt="a3") == []
    assert popper.ack(same[1]) == "OK"
    assert bodies(popper.pop(order=True, invisible_ms=2_000, poll_ms=9_000)) == ["4"]


def test_a_notification(popper: JavaPopper, send: Callable[..., None]) -> None:
    send("first")
    assert popper.has_messages(3_000)
    assert popper.ack(popper.pop_all(1)[0]) == "OK"
    assert not popper.has_messages(300)
    since = popper.count()
    popper.child.say("\t".join(["notify", popper.topic, "15000"]))
    send("news")
    assert popper.await_event("notified", since=since)["has"] == 1


@pytest.mark.parametrize("kind", ["apache", "escapement"])
def test_what_was_out_at_a_kill_comes_again_and_what_was_done_does_not(
    kind: str, start_server: ServerFactory, started: Callable[..., JavaPopper], tmp_path: Path, topic: str, group: str
) -> None:
    shape = StoreShape()
    server = start_server(kind, tmp_path / "store", shape)
    producer = started(JavaProducer, server.namesrv, "senders", version=CLIENT)
    for number in range(6):
        producer.send(topic, str(number), queue_id=0)  # type: ignore[attr-defined]  # a producer
    popper = started(JavaPopper, server, group, topic)
    held = popper.pop_all(6, invisible_ms=20_000)
    assert popper.ack_many(held[:3]) == "OK"
    server.kill()
    server.start()
    again = set(bodies(started(JavaPopper, server, group, topic).pop_all(3, seconds=70)))
    if kind == "apache":
        # it gives the acknowledged ones again, too: what it knows of them was in memory only
        assert again >= {"3", "4", "5"}
    else:
        assert again == {"3", "4", "5"}
