"""The official Java clients, old and new, against Apache RocketMQ and against our broker: the same must happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.client import Admin
from tests.interop.programs import JavaConsumer, JavaProducer, Program, read_all
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
Producers = Callable[..., JavaProducer]
Consume = Callable[..., JavaConsumer]
# Apache RocketMQ looks every 100 ms and delivers within a few tens more; a loaded machine adds its own.
LATENESS_LIMIT_MS = 3_000


def test_message_arrives_with_body_tag_keys_and_properties(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    sent = producers(server, version).send(topic, "payload \u00e9\u4e2d", tag="paid", keys="order-1 order-2")
    assert sent["status"] == "SEND_OK"
    arrived = consume(server, group, topic, version=version).receive(1)[0]
    assert (arrived["body"], arrived["tags"], arrived["keys"]) == ("payload \u00e9\u4e2d", "paid", "order-1 order-2")
    assert arrived["msgId"] == sent["msgId"]
    assert arrived["properties"]["number"] == "0"
    assert (arrived["queueId"], arrived["queueOffset"]) == (sent["queueId"], sent["queueOffset"])


def test_binary_headers_send_as_json_ones_do(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version, binary_headers=True)
    assert producer.send(topic, "binary", count=5)["status"] == "SEND_OK"
    arrived = consume(server, group, topic, version=version).receive(5)
    assert sorted(event["body"] for event in arrived) == [f"binary-{i}" for i in range(5)]


def test_compressed_body_comes_back_inflated(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producers(server, version).send(topic, "x" * 20_000)
    assert consume(server, group, topic, version=version).receive(1)[0]["body"] == "x" * 20_000


def test_oneway_messages_are_stored(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producers(server, version).send(topic, "first")
    producers(server, version).send(topic, "oneway", kind="oneway", count=10)
    assert len(consume(server, group, topic, version=version).receive(11)) == 11


def test_batch_is_stored_in_order_on_one_queue(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    sent = producers(server, version).send(topic, "part", kind="batch", count=20, tag="b")
    assert len(sent["msgId"].split(",")) == 20
    assert len(sent["offsetMsgId"].split(",")) == 20
    arrived = consume(server, group, topic, version=version).receive(20)
    by_offset = sorted(arrived, key=lambda event: event["queueOffset"])
    assert [event["body"] for event in by_offset] == [f"part-{i}" for i in range(20)]
    assert {event["queueId"] for event in arrived} == {sent["queueId"]}


def test_delayed_message_arrives_at_its_level_and_never_early(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version)
    producer.send(topic, "now")
    consumer = consume(server, group, topic, version=version)
    consumer.receive(1)
    producer.send(topic, "one second", delay_level=1)
    arrived = consumer.receive(2)[1]
    assert arrived["body"] == "one second"
    assert arrived["properties"]["REAL_TOPIC"] == topic
    late_ms = arrived["arrivedMs"] - arrived["bornMs"] - 1_000
    assert 0 <= late_ms < LATENESS_LIMIT_MS


def test_tag_filter_lets_only_its_tags_through(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version)
    for tag in ("a", "BBBB", "AaAa", "c", "a"):
        producer.send(topic, tag, tag=tag, queue_id=0)
    arrived = consume(server, group, topic, version=version, expression="c || AaAa").receive(2)
    # "AaAa" and "BBBB" share one hash code: the client must drop what the broker cannot tell apart.
    assert sorted(event["body"] for event in arrived) == ["AaAa", "c"]


def test_rejected_message_comes_again_through_the_retry_topic(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producers(server, version).send(topic, "again", keys="k")
    consumer = consume(server, group, topic, version=version, mode="reject-1")
    first, second = consumer.receive(2, timeout_s=45)
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    assert second["topic"] == topic
    assert second["body"] == first["body"]
    # The first retry waits at level 3 of the default table: 10 s.
    assert 10_000 <= second["storeMs"] - first["arrivedMs"] + 50 < 10_000 + LATENESS_LIMIT_MS


def test_message_that_may_not_be_retried_becomes_a_dead_letter(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str, tmp_path: Path
) -> None:
    sent = producers(server, version).send(topic, "hopeless", keys="k")
    consume(server, group, topic, version=version, mode="reject-all").receive(1)
    dead = f"%DLQ%{group}"
    with Admin(server.namesrv) as admin:
        assert wait_until(lambda: sum(queue.max_offset for queue in admin.topic_stats(dead).queues) == 1)
    letter = read_all(server.namesrv, [dead], work=tmp_path, version=version)[dead][0]
    assert (letter["msgId"], letter["body"]) == (sent["msgId"], "hopeless")
    assert letter["properties"]["RETRY_TOPIC"] == topic


def test_two_consumers_share_the_queues_and_the_second_gives_its_own_back(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version)
    producer.send(topic, "seed")
    one = consume(server, group, topic, version=version, instance="one", rebalance_ms=20_000)
    one.await_queues(4, timeout_s=45)
    two = consume(server, group, topic, version=version, instance="two", rebalance_ms=20_000)
    # The broker tells the first (request 40): well inside the clients' own 20 s round.
    shares = [*two.await_queues(2, timeout_s=15), *one.await_queues(2, timeout_s=15)]
    assert sorted(shares) == [0, 1, 2, 3]
    for queue in range(4):
        producer.send(topic, f"to {queue}", queue_id=queue)
    held = {0: 2, 1: 2}
    one.receive(held[0])
    two.receive(held[1])
    two.close()
    assert one.await_queues(4, timeout_s=15) == [0, 1, 2, 3]


def test_orderly_consumer_sees_each_queue_in_order(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version)
    for queue in range(4):
        producer.send(topic, f"q{queue}", queue_id=queue, count=10)
    arrived = consume(server, group, topic, version=version, mode="orderly").receive(40, timeout_s=60)
    assert Counter(event["queueId"] for event in arrived) == Counter(dict.fromkeys(range(4), 10))
    for queue in range(4):
        mine = [event for event in arrived if event["queueId"] == queue]
        assert [event["body"] for event in mine] == [f"q{queue}-{i}" for i in range(10)]


def test_committed_offsets_survive_the_consumer(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str
) -> None:
    producer = producers(server, version)
    producer.send(topic, "old", count=8)
    first = consume(server, group, topic, version=version)
    first.receive(8)
    first.close()
    producer.send(topic, "new")
    second = consume(server, group, topic, version=version, instance="second")
    assert second.receive(1)[0]["body"] == "new"


def test_admin_tools_see_what_was_sent(
    server: Server, version: str, producers: Producers, consume: Consume, topic: str, group: str, tmp_path: Path
) -> None:
    producer = producers(server, version)
    sent = producer.send(topic, "looked up", tag="t", keys="needle", queue_id=1)
    consumer = consume(server, group, topic, version=version)
    consumer.receive(1)
    consumer.close()
    admin = Program("Inspect", [server.namesrv, f"admin-{group}"], version=version, work=tmp_path)
    try:
        stats = {event["queueId"]: event for event in admin.ask("topic-stats", topic, until="end")[:-1]}
        assert sorted(stats) == [0, 1, 2, 3]
        assert (stats[1]["min"], stats[1]["max"]) == (0, 1)
        lag = [event for event in admin.ask("consume-stats", group, until="end")[:-1] if event["topic"] == topic]
        assert {event["queueId"]: event["consumer"] for event in lag}[1] == 1
        found = admin.ask("by-key", topic, "needle", until="end")[0]
        assert found["body"] == "looked up"
        for identity in (sent["msgId"], sent["offsetMsgId"]):
            assert admin.ask("view", topic, identity, until="end")[0]["body"] == "looked up"
        bounds, entry, _ = admin.ask("consume-queue", server.address, topic, 1, 0, 10, until="end")
        assert (bounds["min"], bounds["max"]) == (0, 1)
        assert entry["position"] == found["position"]
    finally:
        admin.close()
