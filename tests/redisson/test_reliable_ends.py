"""Reliable mode, when something goes wrong or ends in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis

from broker.client import Admin, Producer
from broker.client.errors import BrokerUnreachable, ClientError, InvalidArgument
from broker.client.outgoing import Outgoing
from broker.client.types import Message, SendResult
from broker.redisson import DelayedQueue
from broker.redisson.errors import NotAllowed
from broker.redisson.importing import begin_import, import_progress, pause_import, preview_import
from broker.redisson.modes import make_reliable, read_mode
from broker.redisson.outbound import NotSent, Outbound
from broker.redisson.transfer import TransferService
from broker.redisson.transfermoving import ModeMover
from tests.mirror.running import RunningBroker, running_broker
from tests.redisson.java import ScriptedJava
from tests.redisson.meddling import Died
from tests.redisson.test_transfer import eventually, status_of

FAR = 10**13


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def producer(broker: RunningBroker) -> Iterator[Producer]:
    with Producer(group="redisson", namesrv=broker.namesrv) as client:
        yield client


_topics = iter(range(1000))


@pytest.fixture
def topic(producer: Producer) -> str:
    """A topic of this test's own."""
    return f"orders-{next(_topics)}"


class Unsure:
    """A producer whose answers get lost, or which dies, after the messages have been stored."""

    def __init__(self, producer: Producer, *, dies: bool = False) -> None:
        self._producer = producer
        self._dies = dies
        self.fail = True
        self.sent = 0

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        results = self._producer.send_each(topic, messages, timeout_ms=timeout_ms)
        self.sent += len(messages)
        if not self.fail:
            return results
        if self._dies:
            raise Died
        return [BrokerUnreachable("broker", "the answer got lost") for _ in results]


def bodies(admin: Admin, topic: str) -> list[bytes]:
    found: list[Message] = []
    for queue_id, stats in enumerate(admin.topic_stats(topic).queues):
        if stats.max_offset:
            found += admin.pull(topic, queue_id, 0, 1000)
    return sorted(message.body for message in found)


def test_a_topic_that_cannot_be_is_refused(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client)
    for wrong in ("", "no blanks", "SCHEDULE_TOPIC_XXXX"):
        with pytest.raises(InvalidArgument):
            make_reliable(queue, wrong)
    with pytest.raises(NotAllowed):
        make_reliable(DelayedQueue("orders", client, read_only=True), "orders")
    assert client.keys() == []


def test_a_queue_becomes_timers_while_java_keeps_offering(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str
) -> None:
    queue, java = DelayedQueue("orders", client), ScriptedJava(client, "orders")
    now_ms = queue.server.now_ms()[0]
    dues = [now_ms + 4000 + 40 * number for number in range(30)]
    for number, due in enumerate(dues):
        java.offer(b"v%02d" % number, due)
    found = preview_import(queue, max_delay_ms=4500)
    assert (found.waiting, found.overdue, found.last_due_ms) == (30, 0, dues[-1])
    assert 0 < found.too_far < 30
    assert import_progress(queue) is None

    begin_import(queue, topic)
    outbound = Outbound(producer, admin, owner="a")
    outbound.move(queue, read_mode(queue), 7, 0, False)
    pause_import(queue)
    outbound.move(queue, read_mode(queue), 7, 0, False)
    progress = import_progress(queue)
    assert progress is not None
    assert (progress.is_on, progress.sent, progress.left, progress.is_done) == (False, 7, 23, False)
    begin_import(queue, topic)
    java.offer(b"v30", dues[-1] + 40)

    # The answer to one batch gets lost: each of these is pending in the broker, or delivered, when it is sent again.
    with pytest.raises(NotSent):
        Outbound(Unsure(producer), admin, owner="a").move(queue, read_mode(queue), 7, 0, False)
    for _ in range(4):
        outbound.move(queue, read_mode(queue), 7, 0, False)
    progress = import_progress(queue)
    assert progress is not None and progress.is_done and progress.sent == 31
    assert queue.size() == 0
    eventually(lambda: len(bodies(admin, topic)) >= 31)
    assert bodies(admin, topic) == [b"v%02d" % number for number in range(31)]


def test_an_import_of_what_is_due_delivers_it(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str
) -> None:
    queue = DelayedQueue("orders", client)
    queue.offer("due", at=1)
    begin_import(queue, topic)
    Outbound(producer, admin).move(queue, read_mode(queue), 10, 0, False)
    assert bodies(admin, topic) == [b"due"]


def test_a_broker_that_is_away_is_waited_for(client: redis.Redis, tmp_path: Path, free_port: int) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, "orders")
    queue.offer("x", at=1)
    namesrv = f"127.0.0.1:{free_port}"
    with Producer(group="redisson", namesrv=namesrv) as producer, Admin(namesrv) as admin:
        service = TransferService(client, mover=ModeMover(Outbound(producer, admin)))
        service.start()
        try:
            eventually(lambda: service.status().queues and status_of(service, "orders").problem)
            assert service.status().state == "moving"  # the server of the queues is fine
        finally:
            service.stop()
    assert read_mode(queue).sending == 1
