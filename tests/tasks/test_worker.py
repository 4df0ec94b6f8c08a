"""A worker with a real broker: tasks run, the urgent ones first, and none is left at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from broker.client import Admin, Producer
from broker.tasks import EscapementBackend
from broker.tasks.attempt import Worker
from broker.tasks.models import TaskRow
from broker.tasks.worker import Workshop, prepare_topics
from broker.testing import BrokerThread
from tests.tasks import shop
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

HELD_S = 3.0


class Working:
    """A worker in a thread of the test's process."""

    def __init__(self, namesrv: str, backend: EscapementBackend, threads: int) -> None:
        self._topics = [topic for level in zip(*map(backend.named.topics, ["default", "mails"]), strict=True)
                        for topic in level]  # fmt: skip
        prepare_topics(namesrv, backend.named.group, self._topics)
        self._made = threading.Event()
        self._worker = Worker("worker-1", backend.named, HELD_S)
        self._namesrv, self._count = namesrv, threads
        self.left = -1
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._workshop = Workshop(self._namesrv, self._worker, self._topics, self._count)
        self._made.set()
        self.left = await self._workshop.run(drain_s=20)

    def start(self) -> None:
        self._thread.start()
        assert self._made.wait(10)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._workshop.stop)

    def join(self) -> None:
        self._thread.join(30)
        assert self.left == 0


@contextmanager
def working(broker: BrokerThread, backend: EscapementBackend, threads: int = 4) -> Iterator[Working]:
    worker = Working(broker.namesrv, backend, threads)
    worker.start()
    try:
        yield worker
    finally:
        shop.go_on.set()
        worker.stop()
        worker.join()


def are_over(count: int) -> bool:
    return TaskRow.objects.filter(finished_at__isnull=False).count() == count


def test_tasks_run_those_that_wait_and_those_that_come(broker: BrokerThread, backend: EscapementBackend) -> None:
    for number in range(30):
        shop.remind.enqueue(number)
    with working(broker, backend):
        until(lambda: are_over(30))
        for number in range(30, 40):
            shop.remind.using(queue_name="mails").enqueue(number)
        until(lambda: are_over(40))
    assert sorted(shop.done) == list(range(40))
    assert set(TaskRow.objects.values_list("status", flat=True)) == {"SUCCESSFUL"}


def test_a_task_runs_when_it_is_due_and_not_before(broker: BrokerThread, backend: EscapementBackend) -> None:
    with working(broker, backend):
        run_after = timezone.now() + timedelta(milliseconds=300)
        shop.remind.using(run_after=run_after).enqueue(1)
        until(lambda: are_over(1))
    started_at = TaskRow.objects.get().started_at
    assert started_at is not None
    assert timedelta(0) <= started_at - run_after < timedelta(seconds=5)


def test_a_task_that_fails_is_tried_again_after_its_pauses(broker: BrokerThread, backend: EscapementBackend) -> None:
    with working(broker, backend):
        result = shop.charge.enqueue(2)
        until(lambda: are_over(1))
    result.refresh()
    assert (result.return_value, result.attempts, len(result.errors)) == ("charged", 3, 2)


def test_what_is_urgent_passes_what_waits(broker: BrokerThread, backend: EscapementBackend) -> None:
    for number, priority in enumerate([-100, 0, -1, 0, 1, 100]):
        shop.remind.using(priority=priority).enqueue(number)
    with working(broker, backend, threads=1):
        until(lambda: are_over(6))
    assert [sorted(shop.done[part]) for part in (slice(0, 2), slice(2, 4), slice(4, 6))] == [[4, 5], [1, 3], [0, 2]]


def test_a_worker_that_stops_finishes_what_it_began_and_takes_nothing_more(
    broker: BrokerThread, backend: EscapementBackend
) -> None:
    with working(broker, backend, threads=1) as worker:
        shop.hold.enqueue(1)
        assert shop.begun.wait(20)
        shop.remind.enqueue(2)
        worker.stop()
        shop.go_on.set()
        worker.join()
    assert shop.done == [1]
    with working(broker, backend):
        until(lambda: are_over(2))
    assert shop.done == [1, 2]


def test_a_worker_that_is_busy_leaves_tasks_to_others(broker: BrokerThread, backend: EscapementBackend) -> None:
    with working(broker, backend, threads=1):
        shop.hold.enqueue(1)
        assert shop.begun.wait(20)
        for number, priority in ((2, 1), (3, 0), (4, -1)):
            shop.remind.using(priority=priority).enqueue(number)
        with working(broker, backend, threads=1):
            until(lambda: are_over(3))
    assert sorted(shop.done) == [1, 2, 3, 4]
    assert shop.done[-1] == 1


def test_a_task_that_takes_longer_than_it_is_held_runs_once(broker: BrokerThread, backend: EscapementBackend) -> None:
    with working(broker, backend):
        shop.hold.enqueue(1)
        assert shop.begun.wait(20)
        first = TaskRow.objects.get().held_until
        assert first is not None
        until(lambda: timezone.now() > first + timedelta(seconds=1))
        shop.go_on.set()
        until(lambda: are_over(1))
    assert (shop.done, len(TaskRow.objects.get().worker_ids)) == ([1], 1)


def test_a_message_that_is_no_task_is_dropped(broker: BrokerThread, backend: EscapementBackend) -> None:
    with Producer("stranger", broker.namesrv) as producer:
        producer.send("tasks_default", "no task")
    shop.remind.enqueue(1)
    with working(broker, backend, threads=1):
        until(lambda: are_over(1))
    with Admin(broker.namesrv) as admin:
        assert sum(queue.max_offset for queue in admin.topic_stats("tasks_default").queues) == 2


def test_a_worker_outlives_its_broker(
    broker: BrokerThread, backend: EscapementBackend, caplog: pytest.LogCaptureFixture
) -> None:
    with working(broker, backend):
        shop.remind.enqueue(1)
        until(lambda: are_over(1))
        broker.stop()
        until(lambda: "can be received now" in caplog.text)
        broker.start()
        until(lambda: "are received again" in caplog.text)
        shop.remind.enqueue(2)
        until(lambda: are_over(2))
    assert shop.done == [1, 2]


def test_topics_and_group_that_are_there_stay_as_they_are(broker: BrokerThread, backend: EscapementBackend) -> None:
    topics = backend.named.topics("default")
    with Admin(broker.namesrv) as admin:
        admin.create_topic(topics[0], queues=7)
        prepare_topics(broker.namesrv, backend.named.group, topics)
        settings: dict[str, Any] | None = admin.topic_settings(topics[0])
        assert settings is not None
        assert settings["readQueueNums"] == 7
        assert admin.topic_settings(topics[2]) is not None
