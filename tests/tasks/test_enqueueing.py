"""A task is there if and only if its transaction commits; outside of one at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from broker.client import Admin, RouteNotFound, TimerTooFar
from broker.outbox.after_commit import Worker
from broker.outbox.models import OutboxMessage
from broker.outbox.transaction_block import producer_of
from broker.tasks import EscapementBackend
from broker.tasks.framework import InvalidTask, TaskResult, TaskResultDoesNotExist, task_enqueued
from broker.tasks.models import TaskRow
from broker.tasks.sending import MOST_AT_ONCE
from broker.testing import BrokerThread
from tests.outbox.raising import Changed, raised
from tests.tasks import shop
from tests.tasks.conftest import tasks

pytestmark = pytest.mark.django_db(transaction=True)

IN_AN_HOUR = timedelta(hours=1)
WITHOUT_ZONE = datetime.fromisoformat("2100-01-01")


def orders(broker: BrokerThread, topic: str = "tasks_default") -> list[dict[str, Any]]:
    """What stands in the messages of a topic."""
    try:
        return [json.loads(message.body) for message in broker.messages(topic)]
    except RouteNotFound:
        return []


def timers(broker: BrokerThread) -> list[Any]:
    """The timers that wait."""
    now_ms = int(timezone.now().timestamp() * 1000)
    with Admin(broker.namesrv) as admin:
        return admin.timers(now_ms, now_ms + 10 * 24 * 3_600_000).items


def test_outside_of_a_transaction_a_task_is_sent_at_once(broker: BrokerThread) -> None:
    result = shop.remind.enqueue(4711, text="soon")
    assert (result.status, result.args, result.kwargs) == ("READY", [4711], {"text": "soon"})
    (message,) = broker.messages("tasks_default")
    assert json.loads(message.body) == {"id": result.id, "turn": 0, "database": "default"}
    assert (message.tags, message.properties["KEYS"]) == ("remind", result.id)
    assert message.properties["taskPath"] == "tests.tasks.shop.remind"
    assert not OutboxMessage.objects.exists()


def test_a_task_shares_the_fate_of_its_transaction(broker: BrokerThread) -> None:
    with transaction.atomic():
        kept = shop.remind.enqueue(1)
        with raised(Changed), transaction.atomic():
            shop.remind.enqueue(2)
            raise Changed
        assert orders(broker) == []
    with raised(Changed), transaction.atomic():
        shop.remind.enqueue(3)
        raise Changed
    assert [each["id"] for each in orders(broker)] == [kept.id]
    assert list(TaskRow.objects.values_list("args", flat=True)) == [[1]]
    assert not OutboxMessage.objects.exists()


def test_tasks_of_a_broker_that_is_away_wait_in_the_outbox(broker: BrokerThread) -> None:
    broker.stop()
    waiting = [shop.remind.enqueue(1), shop.remind.enqueue(2)]
    assert OutboxMessage.objects.count() == 2
    broker.start()
    worker = Worker(producer_of("shop"), "default")
    while worker.turn().sent == 0:
        OutboxMessage.objects.update(next_attempt_at=None)
        worker._away.clear()
    assert {each["id"] for each in orders(broker)} == {each.id for each in waiting}


def test_run_after_is_a_timer_with_the_name_of_the_task(broker: BrokerThread) -> None:
    run_after = timezone.now() + IN_AN_HOUR
    result = shop.remind.using(run_after=run_after).enqueue(1)
    (timer,) = timers(broker)
    assert (timer.topic, timer.tag, timer.keys) == ("tasks_default", "remind", [result.id])
    assert timer.schedule_key == result.id
    assert 0 <= timer.due_ms - run_after.timestamp() * 1000 < 1
    assert result.task.run_after == run_after
    assert orders(broker) == []


def test_a_moment_that_is_past_is_at_once(broker: BrokerThread) -> None:
    shop.remind.using(run_after=timezone.now() - IN_AN_HOUR).enqueue(1)
    assert len(orders(broker)) == 1


@pytest.mark.parametrize(
    ("priority", "topic"), [(100, "tasks_default_high"), (1, "tasks_default_high"), (-1, "tasks_default_low")]
)
def test_priority_is_a_topic_of_its_own(broker: BrokerThread, priority: int, topic: str) -> None:
    shop.remind.using(priority=priority).enqueue(1)
    assert len(orders(broker, topic)) == 1


def test_a_timer_that_the_broker_refuses_is_refused_to_the_caller(broker: BrokerThread) -> None:
    with pytest.raises(TimerTooFar):
        shop.remind.using(run_after=timezone.now() + timedelta(days=365 * 500)).enqueue(1)
    assert not TaskRow.objects.exists()
    assert not OutboxMessage.objects.exists()


def test_arguments_are_json(broker: BrokerThread) -> None:
    assert shop.remind.enqueue((1, 2)).args == [[1, 2]]
    with pytest.raises(TypeError):
        shop.remind.enqueue({1, 2})
    assert TaskRow.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"queue_name": "nobody"}, "not valid"),
        ({"priority": 101}, "priority"),
        ({"run_after": WITHOUT_ZONE}, "aware"),
    ],
)
def test_what_could_not_run_is_no_task(broker: BrokerThread, change: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidTask, match=part):
        shop.remind.using(**change)


def test_a_queue_that_cannot_be_a_topic_is_refused(broker: BrokerThread, settings: Any) -> None:
    settings.TASKS = {"default": {**tasks()["default"], "QUEUES": []}}
    with pytest.raises(InvalidTask, match="cannot be a topic"):
        shop.remind.using(queue_name="two words")


def test_receivers_hear_of_a_task_that_is_enqueued(broker: BrokerThread) -> None:
    heard: list[TaskResult[Any, Any]] = []

    def receive(sender: type, task_result: TaskResult[Any, Any], **_: Any) -> None:
        assert sender is EscapementBackend
        heard.append(task_result)

    task_enqueued.connect(receive)
    try:
        result = shop.remind.enqueue(1)
    finally:
        task_enqueued.disconnect(receive)
    assert [each.id for each in heard] == [result.id]


async def test_coroutines_enqueue_and_ask(broker: BrokerThread) -> None:
    result = await shop.remind_later.aenqueue(1)
    again = await shop.remind_later.aget_result(result.id)
    assert (again.id, again.status, again.args) == (result.id, "READY", [1])
    await again.arefresh()
    assert again.enqueued_at == result.enqueued_at


def test_an_unknown_result_does_not_exist(backend: EscapementBackend) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result("nothing")


def test_hooks_of_a_transaction_send_all_its_tasks_at_once(
    broker: BrokerThread,
) -> None:
    with transaction.atomic():
        for number in range(20):
            shop.remind.enqueue(number)
        hooks = len(connection.run_on_commit)
    assert hooks == 20
    assert len(orders(broker)) == 20


def test_of_very_many_tasks_the_outbox_has_the_messages(broker: BrokerThread) -> None:
    with transaction.atomic():
        for number in range(MOST_AT_ONCE + 1):
            shop.remind.enqueue(number)
    assert OutboxMessage.objects.count() == MOST_AT_ONCE + 1
    shop.remind.enqueue(0)
    assert len(orders(broker)) == 1


@pytest.mark.django_db
def test_in_a_test_case_the_captured_hooks_send(
    broker: BrokerThread, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        result = shop.remind.enqueue(1)
        assert orders(broker) == []
    assert [each["id"] for each in orders(broker)] == [result.id]
