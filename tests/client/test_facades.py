"""The synchronous API, used as a program uses it: from threads, with a broker elsewhere."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.client import Admin, Consumer, InvalidArgument, Message, Producer, prepare
from tests.client.running import BrokerThread


def test_send_from_many_threads_and_receive(broker: BrokerThread) -> None:
    received: set[bytes] = set()
    everything = threading.Event()
    consumer = Consumer("g", broker.namesrv, from_where="first")

    @consumer.on("t", "x")
    def handle(message: Message) -> None:
        received.add(message.body)
        if len(received) == 400:
            everything.set()

    with Producer("p", broker.namesrv) as producer, consumer, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda number: producer.send("t", str(number), tag="x"), range(400)))
        assert everything.wait(20)
    assert len({result.message_id for result in results}) == 400
    assert received == {str(number).encode() for number in range(400)}


def test_a_broker_that_comes_back_is_used_again(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer:
        producer.send("t", "before")
        broker.stop()
        broker.start()
        assert producer.send("t", "after", timeout_ms=10_000).status == "SEND_OK"


def test_a_consumer_goes_on_when_the_broker_comes_back(broker: BrokerThread) -> None:
    received: list[bytes] = []
    arrived = threading.Semaphore(0)
    consumer = Consumer("g", broker.namesrv, from_where="first")

    @consumer.on("t")
    def handle(message: Message) -> None:
        received.append(message.body)
        arrived.release()

    with Producer("p", broker.namesrv) as producer, consumer:
        producer.send("t", "before")
        assert arrived.acquire(timeout=20)
        broker.stop()
        broker.start()
        producer.send("t", "after", timeout_ms=10_000)
        assert arrived.acquire(timeout=30)
    assert received[-1] == b"after"


def test_batches_and_oneway_have_faces(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        admin.create_topic("t", queues=1)
        assert [each.queue_offset for each in producer.send_batch("t", [b"a", prepare("b", tag="x")])] == [0, 1]
        producer.send_oneway("t", "c")
        producer.send("t", "d")
        assert [each.body for each in admin.pull("t", 0, 0, 9)] == [b"a", b"b", b"c", b"d"]


def test_bad_input_is_refused_without_a_broker() -> None:
    producer = Producer("p", "127.0.0.1:1")
    with pytest.raises(InvalidArgument):
        producer.send("t", bytes(5 << 20))
    with pytest.raises(InvalidArgument):
        producer.send("SCHEDULE_TOPIC_XXXX", "")
    producer.close()
