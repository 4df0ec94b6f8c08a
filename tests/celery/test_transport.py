"""kombu over the transport: what is sent arrives, is held, acknowledged, given back."""

from __future__ import annotations

import threading
import time

import pytest
from kombu import Connection, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

from broker.client import Admin, BrokerUnreachable
from broker.client import Producer as PlainProducer
from broker.testing import BrokerThread
from tests.celery.connecting import Connect, Taking, publish
from tests.waiting import until

MAILS = Queue("mails")


def test_what_is_sent_is_received_once_and_in_order(connect: Connect) -> None:
    publish(connect(), MAILS, *({"number": number} for number in range(50)))
    taking = Taking(connect(), MAILS)
    assert taking.take_and_ack(50) == [{"number": number} for number in range(50)]
    assert taking.nothing()


def test_a_channel_holds_no_more_than_it_may_and_others_get_the_rest(connect: Connect) -> None:
    publish(connect(), MAILS, *range(5))
    one = Taking(connect(), MAILS, prefetch=2)
    assert one.take(2) == [0, 1]
    assert one.nothing()
    other = Taking(connect(), MAILS)
    assert other.take(3) == [2, 3, 4]
    publish(connect(), MAILS, 5)
    other.take(4)
    one.messages[0].ack()
    publish(connect(), MAILS, 6)
    until(lambda: not one.nothing(0.05) or not other.nothing(0.05))


def test_several_queues_share_the_room(connect: Connect) -> None:
    queues = [Queue(f"room-{number}") for number in range(4)]
    taking = Taking(connect(), *queues, prefetch=2)
    for queue in queues:
        publish(connect(), queue, queue.name)
    taking.take(2)
    assert taking.nothing()
    other = Taking(connect(), *queues)
    assert sorted(taking.bodies + other.take(2)) == [queue.name for queue in queues]


def test_what_is_given_back_comes_again_at_once_and_says_so(connect: Connect) -> None:
    publish(connect(), MAILS, "again")
    taking = Taking(connect(), MAILS)
    taking.take(1)
    assert "redelivered" not in taking.messages[0].delivery_info
    taking.messages[0].reject(requeue=True)
    assert taking.take(2) == ["again", "again"]
    assert taking.messages[1].delivery_info["redelivered"]
    taking.messages[1].reject(requeue=False)
    assert taking.nothing()


def test_it_comes_again_more_often_than_other_consumers_try(connect: Connect) -> None:
    publish(connect(), MAILS, "again")
    taking = Taking(connect(), MAILS)
    for times in range(40):
        taking.take(times + 1)
        taking.messages[times].requeue()
    assert taking.take(41)[-1] == "again"


def test_what_a_channel_held_goes_to_others_when_it_closes(connect: Connect) -> None:
    publish(connect(), MAILS, *range(4))
    one = Taking(connect(), MAILS)
    one.take(4)
    one.messages[0].ack()
    one.channel.close()
    other = Taking(connect(), MAILS)
    assert sorted(other.take(3)) == [1, 2, 3]
    assert other.nothing()


def test_a_cancelled_consumer_takes_nothing_away(connect: Connect) -> None:
    other_queue = Queue("letters")
    one = Taking(connect(), MAILS, other_queue)
    one.nothing()
    one.consumer.cancel_by_queue("mails")
    publish(connect(), MAILS, "for others")
    other = Taking(connect(), MAILS)
    assert other.take(1) == ["for others"]


def test_high_priorities_come_first_where_the_queue_has_them(connect: Connect) -> None:
    ranked = Queue("ranked", max_priority=9)
    with connect() as connection, connection.channel() as channel:
        producer = Producer(channel)
        for priority in (0, 3, 9, 5, 9, 0):
            producer.publish(priority, routing_key="ranked", declare=[ranked], priority=priority)
    taking = Taking(connect(), ranked, prefetch=1)
    assert taking.take_and_ack(6) == [9, 9, 5, 3, 0, 0]
    publish(connect(), ranked, "later", priority=7)
    assert taking.take(7)[-1] == "later"


def test_without_priorities_the_order_is_kept(connect: Connect) -> None:
    with connect() as connection, connection.channel() as channel:
        for priority in (0, 9, 5):
            Producer(channel).publish(priority, routing_key="mails", declare=[MAILS], priority=priority)
    assert Taking(connect(), MAILS).take(3) == [0, 9, 5]


def test_what_has_expired_is_not_delivered(connect: Connect, broker: BrokerThread) -> None:
    publish(connect(), MAILS, "old", expiration=0.001)
    (old,) = broker.messages("mails")
    until(lambda: time.time() * 1000 > old.store_ms + 2)
    publish(connect(), MAILS, "new", expiration=60)
    assert Taking(connect(), MAILS).take(1) == ["new"]


def test_a_queue_says_how_much_waits_and_is_emptied(connect: Connect) -> None:
    publish(connect(), MAILS, *range(40))
    with connect() as connection, connection.channel() as channel:
        assert channel.queue_declare("mails", passive=True).message_count == 40
        assert channel.queue_purge("mails") == 40
        until(lambda: channel.queue_declare("mails", passive=True).message_count == 0)
        with pytest.raises(ChannelError, match="absent"):
            channel.queue_declare("absent", passive=True)


def test_one_message_is_asked_for(connect: Connect) -> None:
    publish(connect(), MAILS, "one", "two")
    with connect() as connection, connection.channel() as channel:
        bound = MAILS(channel)
        first = bound.get()
        assert first.payload == "one"
        first.ack()
        assert bound.get(no_ack=True).payload == "two"
        assert bound.get() is None


def test_a_fan_out_exchange_tells_everybody(connect: Connect) -> None:
    news = Exchange("news", type="fanout")
    takings = [Taking(connect(), Queue(f"reader-{n}", news, auto_delete=True, durable=False)) for n in range(3)]
    with connect() as connection, connection.channel() as channel:
        for number in range(5):
            Producer(channel).publish(number, exchange=news, declare=[news])
    assert [taking.take(5) for taking in takings] == [[0, 1, 2, 3, 4]] * 3


def test_a_topic_exchange_leads_to_the_queues_that_are_declared(connect: Connect) -> None:
    media = Exchange("media", type="topic")
    videos = Queue("videos", media, routing_key="video.#")
    images = Queue("images", media, routing_key="image.*")
    with connect() as connection, connection.channel() as channel:
        producer = Producer(channel)
        for key in ("video.a.b", "image.a", "image.a.b"):
            producer.publish(key, exchange=media, routing_key=key, declare=[videos, images])
    taking = Taking(connect(), videos, images)
    assert sorted(taking.take(2)) == ["image.a", "video.a.b"]
    assert taking.nothing()


def test_a_body_is_text_that_people_can_read(connect: Connect, broker: BrokerThread) -> None:
    publish(connect(), MAILS, {"to": "ann@example.org"})
    (message,) = broker.messages("mails")
    assert b'{\\"to\\": \\"ann@example.org\\"}' in message.body


def test_bytes_and_compressed_bodies_arrive_as_they_were(connect: Connect) -> None:
    publish(connect(), MAILS, b"\x00\xff", content_type="application/data", content_encoding="binary")
    publish(connect(), MAILS, "long " * 1000, compression="gzip")
    assert Taking(connect(), MAILS, accept=["json", "application/data", "text/plain"]).take(2) == [
        b"\x00\xff",
        "long " * 1000,
    ]


def test_what_no_celery_program_sent_is_handed_over_as_it_is(connect: Connect, broker: BrokerThread) -> None:
    publish(connect(), MAILS, "first")
    with PlainProducer("others", broker.namesrv) as producer:
        producer.send("mails", "plain text")
    taking = Taking(connect(), MAILS)
    taking.take_and_ack(1)
    until(lambda: not taking.nothing(0.05))
    assert taking.messages[1].body == b"plain text"


def test_names_that_no_topic_may_have(connect: Connect) -> None:
    for name in ("mails.de/at@home:1", "x" * 200, "größe"):
        publish(connect(), Queue(name), name)
        assert Taking(connect(), Queue(name)).take(1) == [name]


def test_a_prefix_parts_programs_that_share_a_broker(broker: BrokerThread) -> None:
    address = f"escapement://{broker.namesrv}"
    with Connection(f"{address}/blue") as blue, Connection(f"{address}/green") as green:
        publish(blue, MAILS, "blue")
        publish(green, MAILS, "green")
        assert Taking(green, MAILS).take(1) == ["green"]
        assert Taking(blue, MAILS).take(1) == ["blue"]
    with Admin(broker.namesrv) as admin:
        assert {"blue-mails", "green-mails"} <= {topic.name for topic in admin.topics()}


def test_no_thread_is_made_for_a_queue(connect: Connect) -> None:
    publish(connect(), MAILS, "first")
    before = threading.active_count()
    taking = Taking(connect(), *(Queue(f"many-{number}") for number in range(30)))
    publish(connect(), Queue("many-29"), "found")
    assert taking.take(1) == ["found"]
    assert threading.active_count() == before


def test_consumers_outlast_a_broker_that_is_away(connect: Connect, broker: BrokerThread) -> None:
    publish(connect(), MAILS, "before")
    taking = Taking(connect(), MAILS)
    taking.take(1)
    broker.stop()
    taking.messages[0].ack()
    broker.start()
    publish(connect(), MAILS, "after")
    assert taking.take(2) == ["before", "after"]
    taking.messages[1].ack()
    taking.channel.close()
    assert Taking(connect(), MAILS).nothing()


def test_nobody_to_connect_to_is_an_error_that_celery_tries_again(free_port: int) -> None:
    connection = Connection(f"escapement://127.0.0.1:{free_port}")
    with pytest.raises(BrokerUnreachable):
        connection.transport.establish_connection()
    assert issubclass(BrokerUnreachable, connection.connection_errors)
