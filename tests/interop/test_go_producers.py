"""Apache's Go client sends to our broker: every way of sending, and what arrives is what was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from broker.client import Admin, SimpleConsumer
from tests.interop.golang import GoConsumer, GoProducer, ask_broker
from tests.interop.process import ChildFailed
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

Go = Callable[..., Any]
LATENESS_LIMIT_MS = 3_000
#: GET_PRODUCER_CONNECTION_LIST
PRODUCERS = 204


def test_message_arrives_with_body_tag_keys_and_properties(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    sent = go_producer.send(topic, "payload \u00e9\u4e2d", tag="paid", keys="order-1 order-2", colour="red")
    arrived = go(GoConsumer, escapement, group, topic).receive(1)[0]
    assert (arrived["body"], arrived["tags"]) == ("payload \u00e9\u4e2d", "paid")
    assert arrived["keys"].split() == ["order-1", "order-2"]
    assert arrived["properties"]["colour"] == "red"
    same = ("msgId", "offsetMsgId", "queueId", "queueOffset")
    assert [arrived[name] for name in same] == [sent[name] for name in same]
    with Admin(escapement.namesrv) as admin:
        assert wait_until(lambda: admin.messages_by_key(topic, "order-2") != [])
        assert admin.message_by_offset_id(sent["offsetMsgId"]).body.decode() == "payload \u00e9\u4e2d"


def test_each_way_of_sending_stores_each_message_once(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    for kind in ("sync", "async", "oneway"):
        go_producer.send(topic, kind, kind=kind, count=5)
    wanted = {f"{kind}-{i}" for kind in ("sync", "async", "oneway") for i in range(5)}
    consumer = go(GoConsumer, escapement, group, topic)
    consumer.await_bodies(wanted)
    assert Counter(event["body"] for event in consumer.events("message")) == Counter(wanted)


def test_batch_is_stored_in_order_on_one_queue(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    sent = go_producer.send(topic, "part", kind="batch", count=20, tag="b", colour="red")
    assert len(sent["offsetMsgId"].split(",")) == 20
    arrived = go(GoConsumer, escapement, group, topic, expression="b").receive(20)
    assert {event["queueId"] for event in arrived} == {sent["queueId"]}
    by_offset = sorted(arrived, key=lambda event: event["queueOffset"])
    assert [event["body"] for event in by_offset] == [f"part-{i}" for i in range(20)]
    assert {event["properties"]["colour"] for event in arrived} == {"red"}


def test_compressed_body_comes_back_inflated_in_go_and_in_python(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    body = "large " * 5_000
    sent = go_producer.send(topic, body)
    assert go(GoConsumer, escapement, group, topic).receive(1)[0]["body"] == body
    with SimpleConsumer(f"{group}-python", escapement.namesrv) as consumer:
        received = consumer.receive(topic)
    assert [each.body.decode() for each in received] == [body]
    with Admin(escapement.namesrv) as admin:
        assert admin.message_by_offset_id(sent["offsetMsgId"]).size < 2_000


def test_delayed_message_arrives_at_its_level_and_never_early(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "now")
    consumer = go(GoConsumer, escapement, group, topic)
    consumer.receive(1)
    go_producer.send(topic, "one second", delay_level=1)
    arrived = consumer.receive(2)[1]
    assert arrived["body"] == "one second"
    assert 0 <= arrived["arrivedMs"] - arrived["bornMs"] - 1_000 < LATENESS_LIMIT_MS


def test_sender_chooses_the_queue_by_number_or_by_sharding_key(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    for queue_id in (3, 1):
        assert go_producer.send(topic, "chosen", queue_id=queue_id)["queueId"] == queue_id
    hashing = go(GoProducer, escapement, f"{group}-hash", selector="hash")
    of_one_key = [hashing.send(topic, "kept together", SHARDING_KEY="customer-7")["queueId"] for _ in range(6)]
    assert len(set(of_one_key)) == 1


def test_question_is_answered_through_the_broker(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "seed")
    consumer = go(GoConsumer, escapement, group, topic, mode="reply")
    consumer.receive(1)
    asking = go(GoProducer, escapement, f"{group}-asks", instance="asks")
    asking.send(topic, "seed")
    # the client says who it is a second after its start; until then no answer finds it, at RocketMQ neither
    assert wait_until(lambda: ask_broker(escapement, PRODUCERS, producerGroup=f"{group}-asks").code == 0)
    for kind in ("ask", "ask-async"):
        answer = asking.ask(kind, topic, 20_000, "how late is it?", until="answered")[-1]
        assert answer["body"] == "HOW LATE IS IT?"


def test_question_that_nobody_answers_ends_at_its_time(escapement: Server, go: Go, topic: str, group: str) -> None:
    asking = go(GoProducer, escapement, group, instance="asks")
    asking.send(topic, "seed")
    with pytest.raises(ChildFailed, match="timeout"):
        asking.ask("ask", topic, 300, "anybody?", until="answered")


def test_trace_of_producer_and_consumer_is_written(escapement: Server, go: Go, topic: str, group: str) -> None:
    sent = go(GoProducer, escapement, f"{group}-makes", trace=True).send(topic, "traced", keys="k")
    go(GoConsumer, escapement, group, topic, trace=True).receive(1)
    with Admin(escapement.namesrv) as admin:

        def kinds() -> set[str]:
            return {trace.kind for trace in admin.traces(sent["msgId"])}

        assert wait_until(lambda: len(kinds()) == 3), kinds()


def test_namespace_is_a_part_of_the_topic_and_of_the_group(escapement: Server, go: Go, topic: str, group: str) -> None:
    go(GoProducer, escapement, group, namespace="shop").send(topic, "inside")
    arrived = go(GoConsumer, escapement, group, topic, namespace="shop").receive(1)
    assert arrived[0]["body"] == "inside"
    with Admin(escapement.namesrv) as admin:
        assert f"shop%{topic}" in {each.name for each in admin.topics()}
        assert wait_until(lambda: f"shop%{group}" in {each.name for each in admin.groups()})


def test_second_name_server_is_asked_when_the_first_is_not_there(
    escapement: Server, go: Go, topic: str, group: str
) -> None:
    both = f"127.0.0.1:1;{escapement.namesrv}"
    producer = go(GoProducer, escapement, f"{group}-makes", namesrv=both)
    assert producer.send(topic, "found")["status"] == 0
    assert go(GoConsumer, escapement, group, topic, namesrv=both).receive(1)[0]["body"] == "found"
