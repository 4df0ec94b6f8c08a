"""Apache's Go client consumes from our broker: filters, retries, order, broadcasting, shares, pulls, administrators."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from broker.client import Admin
from tests.interop.golang import GoConsumer, GoProducer, GoPuller, ask_broker
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

Go = Callable[..., Any]
GET_CONSUMER_RUNNING_INFO = 307
CONSUME_MESSAGE_DIRECTLY = 309


def client_of(server: Server, group: str) -> str:
    """The id of the one client of a group."""
    with Admin(server.namesrv) as admin:
        return admin.connections(group).connections[0].client_id


def committed(server: Server, group: str, topic: str) -> int:
    """How many messages of a topic a group is through with."""
    with Admin(server.namesrv) as admin:
        queues = admin.consume_stats(group).queues
    return sum(each.consumer_offset for each in queues if each.queue.topic == topic)


def test_tags_and_filters_let_only_theirs_through(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    for number, tag in enumerate(("a", "BBBB", "AaAa", "c", "a")):
        go_producer.send(topic, f"{tag}{number}", tag=tag, queue_id=0, number=number)
    # "AaAa" and "BBBB" share one hash code: the client must drop what the broker cannot tell apart
    by_tag = go(GoConsumer, escapement, f"{group}-tag", topic, expression="c || AaAa")
    by_filter = go(GoConsumer, escapement, f"{group}-sql", topic, sql=True, expression="number BETWEEN 1 AND 3")
    assert sorted(event["body"] for event in by_tag.receive(2)) == ["AaAa2", "c3"]
    assert sorted(event["body"] for event in by_filter.receive(3)) == ["AaAa2", "BBBB1", "c3"]
    go_producer.send(topic, "last", tag="c", queue_id=0, number=2)
    by_filter.await_bodies({"last"})
    by_tag.await_bodies({"last"})
    assert (len(by_tag.events("message")), len(by_filter.events("message"))) == (3, 4)


def test_rejected_message_comes_again_and_ends_as_a_dead_letter(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    sent = go_producer.send(topic, "hopeless", keys="k")
    consumer = go(GoConsumer, escapement, group, topic, mode="reject-9", most_retries=1)
    first, second = consumer.receive(2, timeout_s=90)
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    assert (second["topic"], second["body"]) == (topic, "hopeless")
    # the first retry waits at level 3: 10 s
    assert second["storeMs"] - first["arrivedMs"] >= 10_000 - 50
    dead = f"%DLQ%{group}"
    with Admin(escapement.namesrv) as admin:
        assert wait_until(lambda: [each.max_offset for each in admin.topic_stats(dead).queues] == [1])
        letter = admin.pull(dead, 0, 0, 1)[0]
    assert (letter.unique_key, letter.body) == (sent["msgId"], b"hopeless")
    assert letter.properties["RETRY_TOPIC"] == topic


def test_orderly_consumer_sees_each_queue_in_order(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    for queue_id in range(4):
        go_producer.send(topic, f"q{queue_id}", queue_id=queue_id, count=10)
    arrived = go(GoConsumer, escapement, group, topic, mode="orderly").receive(40)
    for queue_id in range(4):
        mine = [event["body"] for event in arrived if event["queueId"] == queue_id]
        assert mine == [f"q{queue_id}-{i}" for i in range(10)]


def test_orderly_consumer_holds_a_queue_until_a_message_is_through(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "step", queue_id=1, count=3)
    arrived = go(GoConsumer, escapement, group, topic, mode="suspend-2").receive(9)
    tries = [(event["body"], event["reconsumeTimes"]) for event in arrived]
    assert tries == [(f"step-{i}", times) for i in range(3) for times in range(3)]


def test_broadcast_reaches_every_consumer(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "seed")
    ears = [go(GoConsumer, escapement, group, topic, mode="broadcast", instance=name) for name in ("one", "two")]
    go_producer.send(topic, "to all", count=8)
    wanted = {"seed", *(f"to all-{i}" for i in range(8))}
    for ear in ears:
        ear.await_bodies(wanted)
        assert Counter(event["body"] for event in ear.events("message")) == Counter(wanted)


def test_two_consumers_share_the_queues_and_the_second_gives_its_own_back(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "seed")
    one = go(GoConsumer, escapement, group, topic, instance="one")
    one.await_queues(4)
    two = go(GoConsumer, escapement, group, topic, instance="two")
    # the broker tells the first (request 40): well inside the client's own 20 s round
    shares = [*two.await_queues(2, timeout_s=15), *one.await_queues(2, timeout_s=15)]
    assert sorted(shares) == [0, 1, 2, 3]
    for queue_id in range(4):
        go_producer.send(topic, f"to {queue_id}", queue_id=queue_id)
    one.await_bodies({f"to {queue_id}" for queue_id in one.await_queues(2)})
    two.await_bodies({f"to {queue_id}" for queue_id in two.await_queues(2)})
    two.close()
    assert one.await_queues(4, timeout_s=15) == [0, 1, 2, 3]


def test_committed_offsets_survive_the_consumer(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "old", count=8)
    first = go(GoConsumer, escapement, group, topic)
    first.receive(8)
    # said every five seconds; a client that is closed while its handler returns from the last one forgets that one
    assert wait_until(lambda: committed(escapement, group, topic) == 8)
    first.close()
    assert committed(escapement, group, topic) == 8
    go_producer.send(topic, "new")
    assert go(GoConsumer, escapement, group, topic, instance="second").receive(1)[0]["body"] == "new"


def test_pull_consumer_reads_from_any_offset_and_commits(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "pulled", queue_id=2, count=5)
    for queue_id in (0, 1, 3):
        go_producer.send(topic, f"alone in {queue_id}", queue_id=queue_id)
    puller = go(GoPuller, escapement, group, topic)
    wanted = {*(f"pulled-{i}" for i in range(5)), *(f"alone in {queue_id}" for queue_id in (0, 1, 3))}

    def brings_all() -> bool:
        # each call is about the next queue; at the retry topic's, once that is among them, it waits 20 s
        puller.ask("next", 32, until="pulled", timeout_s=60)
        return {event["body"] for event in puller.events("message")} == wanted

    assert wait_until(brings_all, timeout_s=100)
    *messages, end = puller.ask("from", 2, 1, 3, until="pulled")
    bodies = [event["body"] for event in messages if event["event"] == "message"]
    assert bodies == ["pulled-1", "pulled-2", "pulled-3"]
    assert (end["next"], end["min"], end["max"]) == (4, 0, 5)

    def is_kept() -> bool:
        # the client forgets what it was told of a queue that it is given only afterwards
        puller.ask("commit", 2, 4, until="committed")
        return committed(escapement, group, topic) == 4

    assert wait_until(is_kept)


def test_pull_consumer_is_given_messages_of_its_queues(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "polled", count=6)
    puller = go(GoPuller, escapement, group, topic)
    wanted = {f"polled-{i}" for i in range(6)}

    def polled() -> bool:
        puller.ask("poll", 1_000, "success", until="polled")
        return {event["body"] for event in puller.events("message")} == wanted

    assert wait_until(polled)
    puller.close()
    assert wait_until(lambda: committed(escapement, group, topic) == 6)


def test_consumer_tells_what_it_does_and_handles_a_message_on_request(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    sent = go_producer.send(topic, "once more")
    consumer = go(GoConsumer, escapement, group, topic)
    consumer.receive(1)
    client = client_of(escapement, group)
    asked = {"consumerGroup": group, "clientId": client}
    info = ask_broker(escapement, GET_CONSUMER_RUNNING_INFO, jstackEnable="false", **asked)
    assert info.code == 0, info.remark
    assert b'"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"' in info.body
    direct = ask_broker(escapement, CONSUME_MESSAGE_DIRECTLY, msgId=sent["offsetMsgId"], **asked)
    assert direct.code == 0, direct.remark
    assert json.loads(direct.body)["consumeResult"] == 0
    assert [event["body"] for event in consumer.receive(2)] == ["once more", "once more"]


def test_group_that_is_set_back_reads_again(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "again", queue_id=0, count=3)
    consumer = go(GoConsumer, escapement, group, topic)
    consumer.receive(3)
    with Admin(escapement.namesrv) as admin:
        admin.move_group(group, topic, 0, 1)
    # the client waits 10 s before it leaves a queue, and up to 20 s until it takes it again
    bodies = [event["body"] for event in consumer.receive(5, timeout_s=90)]
    assert sorted(bodies[3:]) == ["again-1", "again-2"]
