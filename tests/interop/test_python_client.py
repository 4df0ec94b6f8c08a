"""`broker.client` against Apache RocketMQ and against our broker: one contract for both."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator

import pytest

from broker.client import Admin, Consumer, Message, Producer, prepare
from tests.interop.servers import LEVELS, Server
from tests.interop.waiting import wait_until

WAIT_S = 40
LATENESS_LIMIT_MS = 3_000
Inbox = queue.Queue[tuple[Message, int]]


@pytest.fixture
def producer(server: Server) -> Iterator[Producer]:
    with Producer("python-producer", server.namesrv) as one:
        yield one


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(server.namesrv) as one:
        yield one


@pytest.fixture
def inbox() -> Inbox:
    """What a consumer's handler got, with the time it did, in ms."""
    return queue.Queue()


@pytest.fixture
def consumer(server: Server, group: str, topic: str, inbox: Inbox) -> Iterator[Consumer]:
    """A consumer of the test's topic from its first message on, not started."""
    one = Consumer(group, server.namesrv, from_where="first")
    one.subscribe(topic, "*", lambda message: inbox.put((message, now_ms())))
    yield one
    one.stop()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_sent_message_arrives_as_it_was_sent(producer: Producer, consumer: Consumer, inbox: Inbox, topic: str) -> None:
    sent = producer.send(topic, "payload \u4e2d", tag="paid", keys=["k1", "k2"], properties={"colour": "red"})
    consumer.start()
    message, _ = inbox.get(timeout=WAIT_S)
    assert message.body == "payload \u4e2d".encode()
    assert message.properties["TAGS"] == "paid"
    assert message.properties["KEYS"].split() == ["k1", "k2"]
    assert message.properties["colour"] == "red"
    assert message.properties["UNIQ_KEY"] == sent.message_id
    assert (message.queue_id, message.queue_offset) == (sent.queue_id, sent.queue_offset)


def test_delayed_message_is_never_early(producer: Producer, consumer: Consumer, inbox: Inbox, topic: str) -> None:
    producer.send(topic, "seed")
    consumer.start()
    inbox.get(timeout=WAIT_S)
    before_ms = now_ms()
    producer.send(topic, "later", delay_level=1)
    message, arrived_ms = inbox.get(timeout=WAIT_S)
    assert message.body == b"later"
    assert 1_000 <= arrived_ms - before_ms < 1_000 + LATENESS_LIMIT_MS


def test_batch_is_stored_whole_and_in_order(producer: Producer, admin: Admin, topic: str) -> None:
    producer.send(topic, "seed", queue_id=1)
    results = producer.send_batch(topic, [prepare(f"part {i}", tag="b") for i in range(30)], queue_id=0)
    assert len({result.message_id for result in results}) == 30
    assert wait_until(lambda: len(admin.pull(topic, 0, 0, 32)) == 30)
    assert [message.body for message in admin.pull(topic, 0, 0, 32)] == [f"part {i}".encode() for i in range(30)]


def test_handler_that_fails_gets_the_message_again(server: Server, producer: Producer, topic: str, group: str) -> None:
    tries: queue.Queue[int] = queue.Queue()

    def handle(message: Message) -> None:
        tries.put(message.reconsume_times)
        if message.reconsume_times == 0:
            raise ValueError("not the first time")

    producer.send(topic, "again")
    consumer = Consumer(group, server.namesrv, from_where="first")
    consumer.subscribe(topic, "*", handle)
    with consumer:
        assert [tries.get(timeout=WAIT_S), tries.get(timeout=WAIT_S)] == [0, 1]


def test_admin_finds_a_message_by_each_of_its_names(producer: Producer, admin: Admin, topic: str) -> None:
    sent = producer.send(topic, "needle", keys=["needle-key"])
    assert wait_until(lambda: admin.messages_by_key(topic, "needle-key") != [])
    assert admin.message_by_offset_id(sent.offset_message_id).body == b"needle"
    found = admin.message_by_id(topic, sent.message_id)
    assert found is not None
    assert found.body == b"needle"


def test_admin_sees_what_waits_in_a_lane_with_its_due_time(producer: Producer, admin: Admin, topic: str) -> None:
    due_ms = now_ms() + 7_200_000
    sent = producer.send(topic, "in two hours", delay_level=18)
    lane = "SCHEDULE_TOPIC_XXXX"
    assert wait_until(lambda: admin.queue_entries(lane, 17, sent.queue_offset, 1).entries != ())
    entry = admin.queue_entries(lane, 17, sent.queue_offset, 1).entries[0]
    assert due_ms <= entry.tags_code < due_ms + LATENESS_LIMIT_MS
    parked = admin.pull(lane, 17, sent.queue_offset, 1)[0]
    assert parked.properties["REAL_TOPIC"] == topic
    stats = {each.queue.queue_id: each for each in admin.topic_stats(lane).queues}
    assert stats[17].max_offset > sent.queue_offset
    assert admin.delay_offsets().get(18, 0) <= sent.queue_offset


def test_admin_reads_tables(producer: Producer, admin: Admin, server: Server, topic: str) -> None:
    producer.send(topic, "seed")
    assert [(broker.name, broker.address) for broker in admin.brokers()] == [("broker-a", server.address)]
    assert topic in {each.name for each in admin.topics()}
    assert len(admin.route(topic).writable()) == 4
    assert len(admin.delay_levels()) == len(LEVELS.split())
    assert admin.runtime() != {}


def test_admin_reads_progress_and_connections_of_a_group(
    admin: Admin, producer: Producer, consumer: Consumer, inbox: Inbox, topic: str, group: str
) -> None:
    for i in range(4):
        producer.send(topic, str(i), queue_id=i)
    consumer.start()
    for _ in range(4):
        inbox.get(timeout=WAIT_S)
    assert len(admin.connections(group).connections) == 1
    consumer.stop()
    assert wait_until(lambda: sum(1 for each in admin.consume_stats(group).queues if each.queue.topic == topic) == 4)
    assert admin.consume_stats(group).lag == 0


def test_a_messages_way_is_told_and_read(server: Server, admin: Admin, inbox: Inbox, topic: str, group: str) -> None:
    with Producer("python-traced", server.namesrv, trace=True) as producer:
        sent = producer.send(topic, "told", keys=["k1"])
    consumer = Consumer(group, server.namesrv, from_where="first", trace=True)
    consumer.subscribe(topic, "*", lambda message: inbox.put((message, now_ms())))
    with consumer:
        inbox.get(timeout=WAIT_S)
    assert wait_until(lambda: len(admin.traces(sent.message_id)) >= 3, WAIT_S)
    told = admin.traces(sent.message_id)
    assert [(each.kind, each.group) for each in told] == [
        ("sent", "python-traced"), ("delivered", group), ("handled", group),
    ]  # fmt: skip
    assert [each.succeeded for each in told] == [True, None, True]


def test_a_consumer_says_what_it_does(
    server: Server, producer: Producer, admin: Admin, consumer: Consumer, inbox: Inbox, topic: str, group: str
) -> None:
    sent = producer.send(topic, "payload")
    consumer.start()
    inbox.get(timeout=WAIT_S)

    def offsets() -> dict[int, int | None]:
        held = admin.running_info(group, consumer.core.client_id).queues
        return {each.queue.queue_id: each.offset for each in held if each.queue.topic == topic}

    assert wait_until(lambda: offsets().get(sent.queue_id) == 1, WAIT_S)
    info = admin.running_info(group, consumer.core.client_id, with_stack=True)
    assert "MainThread" in info.stack
    assert topic in {each.topic for each in info.topics}


def test_topic_is_created_and_deleted(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, queues=7)
    assert wait_until(lambda: len(admin.route(topic).writable()) == 7)
    admin.delete_topic(topic)
    assert topic not in {each.name for each in admin.topics()}
