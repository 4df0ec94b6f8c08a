"""`manage.py tasks_results` and `tasks_worker`: what they say, delete and refuse."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from broker.tasks import cancel
from broker.tasks.models import TaskRow
from broker.testing import BrokerThread
from tests.tasks import shop
from tests.tasks.conftest import tasks
from tests.tasks.test_enqueueing import IN_AN_HOUR, orders

pytestmark = pytest.mark.django_db(transaction=True)


def said(*arguments: str) -> list[str]:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().splitlines()


def test_tasks_are_counted_by_queue_and_state(broker: BrokerThread) -> None:
    assert said("tasks_results") == ["default: no tasks; those that are over are kept for 14 days"]
    cancel(shop.remind.enqueue(1).id)
    shop.remind.using(run_after=timezone.now() + IN_AN_HOUR).enqueue(2)
    failed, ready = said("tasks_results")
    assert failed == "default: default FAILED 1"
    assert ready.startswith("default: default READY 1, the first due 2")


def test_what_is_over_for_long_is_deleted(broker: BrokerThread, settings: Any) -> None:
    settings.TASKS = tasks(KEEP_DAYS=2)
    for number, days in enumerate((0, 1, 3, 3)):
        result = shop.remind.enqueue(number)
        cancel(result.id)
        TaskRow.objects.filter(pk=result.id).update(finished_at=timezone.now() - timedelta(days=days))
    TaskRow.objects.filter(pk=result.id).update(status="READY")
    assert said("tasks_results", "--clean") == ["default: 1 tasks deleted"]
    assert said("tasks_results", "--clean", "--days", "0.5") == ["default: 1 tasks deleted"]
    assert TaskRow.objects.count() == 2


def test_tasks_whose_messages_are_lost_are_sent_again(broker: BrokerThread) -> None:
    lost, waits = shop.remind.enqueue(1), shop.remind.using(run_after=timezone.now() + IN_AN_HOUR).enqueue(2)
    TaskRow.objects.filter(pk=lost.id).update(due_at=timezone.now() - IN_AN_HOUR)
    assert said("tasks_results", "--send-again", "5") == ["default: 1 tasks resent"]
    assert [each["turn"] for each in orders(broker)].count(1) == 1
    assert {row.pk: row.turn for row in TaskRow.objects.all()} == {lost.id: 1, waits.id: 0}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["tasks_results", "--days", "1"], "--days belongs to --clean"),
        (["tasks_results", "--backend", "other"], "another backend"),
        (["tasks_worker", "--backend", "other"], "another backend"),
        (["tasks_worker", "--queue", "nobody"], "not in QUEUES"),
        (["tasks_worker", "--threads", "0"], "--threads 0 is not valid"),
    ],
)
def test_what_cannot_be_done_is_said(broker: BrokerThread, settings: Any, arguments: list[str], part: str) -> None:
    other = tasks()["default"] | {"BACKEND": "tests.tasks.dummy.DummyBackend"}
    settings.TASKS = tasks() | {"other": {"BACKEND": other["BACKEND"]}}
    with pytest.raises(CommandError, match=part):
        call_command(*arguments)


def test_a_worker_without_queues_or_groups_says_so(broker: BrokerThread, settings: Any) -> None:
    settings.TASKS = {"default": {**tasks()["default"], "QUEUES": []}}
    with pytest.raises(CommandError, match="say which"):
        call_command("tasks_worker")
    settings.ESCAPEMENT_PRODUCER_GROUPS = []
    with pytest.raises(CommandError, match="ESCAPEMENT_PRODUCER_GROUPS"):
        call_command("tasks_worker")
