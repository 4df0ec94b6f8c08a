"""Reliable mode, when something goes wrong or ends in between."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from broker.client import Admin, Producer
from broker.client.errors import InvalidArgument
from broker.redisson import DelayedQueue
from broker.redisson.errors import NotAllowed
from broker.redisson.repair import begin_import, import_progress, pause_import, preview_import
from broker.redisson.to_topic import ModeMover, NotSent, Outbound, make_reliable, read_mode
from broker.redisson.transfer import TransferService
from tests.redisson.java import ScriptedJava
from tests.redisson.test_transfer import status_of
from tests.redisson.unsure import Unsure, bodies
from tests.waiting import until


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
    until(lambda: len(bodies(admin, topic)) >= 31)
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
            until(lambda: service.status().queues and status_of(service, "orders").problem)
            assert service.status().state == "moving"  # the server of the queues is fine
        finally:
            service.stop()
    assert read_mode(queue).sending == 1
