"""Cancelling and moving: the answer is definite, and holds whatever the broker does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from broker.client import TimerTooFar
from broker.outbox.models import OutboxMessage
from broker.tasks import Answer, EscapementBackend, TaskCancelled, acancel, areschedule, cancel, reschedule
from broker.tasks.attempt import Worker, attempt
from broker.tasks.framework import InvalidTask, TaskResultDoesNotExist
from broker.tasks.models import TaskRow
from broker.tasks.sending import Order
from broker.testing import BrokerThread
from tests.outbox.raising import Changed, raised
from tests.tasks import shop
from tests.tasks.test_enqueueing import IN_AN_HOUR, orders, timers

pytestmark = pytest.mark.django_db(transaction=True)


def in_an_hour(number: int = 1) -> Any:
    """A task that waits."""
    return shop.remind.using(run_after=timezone.now() + IN_AN_HOUR).enqueue(number)


def test_a_cancelled_task_says_so_and_its_timer_is_gone(broker: BrokerThread) -> None:
    result = in_an_hour()
    assert cancel(result.id, reason="paid") == Answer("cancelled", "cancelled")
    assert timers(broker) == []
    result.refresh()
    assert (result.status, result.errors[-1].exception_class) == ("FAILED", TaskCancelled)
    assert "paid" in result.errors[-1].traceback
    assert result.finished_at is not None
    assert cancel(result.id) == Answer("already_cancelled")


def test_a_cancelled_task_does_not_run_though_its_message_is_there(backend: EscapementBackend) -> None:
    result = shop.remind.enqueue(1)
    assert cancel(result.id) == Answer("cancelled")
    assert attempt(Order(result.id, 0, "default"), "token", Worker("one", backend.named, 60)) is None
    assert shop.done == []


def test_what_runs_or_is_over_is_not_cancelled(backend: EscapementBackend) -> None:
    result = shop.remind.enqueue(1)
    TaskRow.objects.update(status="RUNNING")
    assert (cancel(result.id).outcome, reschedule(result.id, None).outcome) == ("running", "running")
    TaskRow.objects.update(status="SUCCESSFUL")
    assert (cancel(result.id).outcome, reschedule(result.id, None).outcome) == ("finished", "finished")


def test_a_broker_that_is_away_changes_nothing_about_the_answer(broker: BrokerThread) -> None:
    result = in_an_hour()
    broker.stop()
    answer = cancel(result.id)
    assert (answer.outcome, answer.is_done) == ("cancelled", True)
    assert answer.timer not in (None, "cancelled")


def test_a_task_that_was_not_sent_yet_is_not_sent(broker: BrokerThread) -> None:
    broker.stop()
    result = in_an_hour()
    assert OutboxMessage.objects.count() == 1
    assert cancel(result.id) == Answer("cancelled", "not_sent_yet")
    assert not OutboxMessage.objects.exists()


def test_cancelling_shares_the_fate_of_its_transaction(broker: BrokerThread) -> None:
    result = in_an_hour()
    with raised(Changed), transaction.atomic():
        assert cancel(result.id) == Answer("cancelled")
        raise Changed
    result.refresh()
    assert (result.status, len(timers(broker))) == ("READY", 1)
    with transaction.atomic():
        answer = cancel(result.id)
        assert len(timers(broker)) == 1
    assert (answer, timers(broker)) == (Answer("cancelled", "cancelled"), [])


def test_a_moved_task_has_one_timer_at_its_new_moment(broker: BrokerThread, backend: EscapementBackend) -> None:
    result = in_an_hour()
    moment = timezone.now() + timedelta(hours=5)
    assert reschedule(result.id, moment) == Answer("rescheduled", "replaced")
    (timer,) = timers(broker)
    assert 0 <= timer.due_ms - moment.timestamp() * 1000 < 1
    assert backend.get_result(result.id).task.run_after == moment
    worker = Worker("one", backend.named, 60)
    assert attempt(Order(result.id, 0, "default"), "token", worker) is None
    assert shop.done == []
    attempt(Order(result.id, 1, "default"), "token", worker)
    assert shop.done == [1]


def test_a_task_that_is_moved_to_now_is_sent_at_once(broker: BrokerThread) -> None:
    result = in_an_hour()
    assert reschedule(result.id, None) == Answer("rescheduled", "cancelled")
    assert (timers(broker), [each["turn"] for each in orders(broker)]) == ([], [1])


def test_a_moment_that_the_broker_refuses_leaves_the_task_as_it_was(broker: BrokerThread) -> None:
    result = in_an_hour()
    (before,) = timers(broker)
    with pytest.raises(TimerTooFar):
        reschedule(result.id, timezone.now() + timedelta(days=365 * 500))
    (after,) = timers(broker)
    assert after.due_ms == before.due_ms
    assert not OutboxMessage.objects.exists()


def test_what_cannot_be_asked_is_refused(broker: BrokerThread) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        cancel("nothing")
    with pytest.raises(InvalidTask, match="aware"):
        reschedule(in_an_hour().id, timezone.now().replace(tzinfo=None))


def test_a_backend_of_somebody_else_has_no_tasks_here(broker: BrokerThread, settings: Any) -> None:
    here = settings.TASKS["default"]
    immediate = here["BACKEND"].replace("broker.tasks.EscapementBackend", "django_tasks.backends.dummy.DummyBackend")
    settings.TASKS = {"default": here, "other": {"BACKEND": immediate}}
    with pytest.raises(InvalidTask, match="another backend"):
        cancel("1", backend="other")


async def test_coroutines_move_and_cancel(broker: BrokerThread) -> None:
    result = await shop.remind.using(run_after=timezone.now() + IN_AN_HOUR).aenqueue(1)
    assert (await areschedule(result.id, timezone.now() + timedelta(hours=2))).is_done
    assert (await acancel(result.id)).timer == "cancelled"
