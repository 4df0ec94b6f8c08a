"""What a message may do to its task, by what the row says; and what comes of an attempt."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from broker.client import Admin
from broker.tasks import EscapementBackend, TaskCancelled, WorkerDied, cancel
from broker.tasks.attempt import MOST_DEATHS, Worker, attempt, renew
from broker.tasks.framework import TaskResult, task_finished, task_started
from broker.tasks.models import TaskRow
from broker.tasks.retrying import Retry, read_retry, retry
from broker.tasks.sending import Order
from broker.testing import BrokerThread
from tests.tasks import shop
from tests.tasks.conftest import tasks

pytestmark = pytest.mark.django_db(transaction=True)

HELD_S = 60.0


@pytest.fixture
def worker(backend: EscapementBackend) -> Worker:
    """A worker that runs in the test's own thread."""
    return Worker("worker-1", backend.named, HELD_S)


def order_of(result: TaskResult[Any, Any], turn: int = 0) -> Order:
    """The message of a task."""
    return Order(result.id, turn, "default")


def change(result: TaskResult[Any, Any], **values: Any) -> None:
    """Have the row say something else."""
    assert TaskRow.objects.filter(pk=result.id).update(**values) == 1


def test_a_task_that_succeeds_has_its_value(worker: Worker) -> None:
    result = shop.remind.enqueue(4711, text="soon")
    assert attempt(order_of(result), "token", worker) is None
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", {"number": 4711, "text": "soon"})
    assert (result.attempts, result.worker_ids, result.errors) == (1, ["worker-1"], [])
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at


def test_a_coroutine_is_run_and_a_context_says_which_attempt_it_is(worker: Worker) -> None:
    results = [shop.remind_later.enqueue(7), shop.count.enqueue()]
    for result in results:
        attempt(order_of(result), "token", worker)
        result.refresh()
    assert [result.return_value for result in results] == [7, 1]


@pytest.mark.parametrize(
    ("name", "path", "part"),
    [
        ("fail", "builtins.LookupError", "no such order"),
        ("leave", "builtins.SystemExit", "3"),
        ("give_set", "builtins.TypeError", "Unsupported type"),
    ],
)
def test_a_task_that_fails_has_its_traceback(worker: Worker, name: str, path: str, part: str) -> None:
    result = getattr(shop, name).enqueue()
    assert attempt(order_of(result), "token", worker) is None
    result.refresh()
    (error,) = result.errors
    assert (result.status, error.exception_class_path) == ("FAILED", path)
    assert part in error.traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_task_that_is_over_is_not_run_again(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    for _ in range(2):
        assert attempt(order_of(result), "token", worker) is None
    assert shop.done == [1]


@pytest.mark.parametrize("turn", [1, 2])
def test_a_message_of_another_turn_does_nothing(worker: Worker, turn: int) -> None:
    result = shop.remind.enqueue(1)
    assert attempt(order_of(result, turn), "token", worker) is None
    result.refresh()
    assert (shop.done, result.status) == ([], "READY")


def test_a_message_whose_task_is_deleted_does_nothing(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    TaskRow.objects.all().delete()
    assert attempt(order_of(result), "token", worker) is None
    assert shop.done == []


def test_a_task_of_a_worker_that_lives_comes_again_when_more_is_known(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    change(result, status="RUNNING", holder="other", held_until=timezone.now() + timedelta(seconds=10))
    again_ms = attempt(order_of(result), "token", worker)
    assert again_ms is not None
    assert 9_000 < again_ms < 11_000
    assert shop.done == []


def test_a_task_of_a_worker_that_died_runs_again(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    past = timezone.now() - timedelta(seconds=1)
    change(result, status="RUNNING", holder="other", held_until=past, worker_ids=["dead"])
    assert attempt(order_of(result), "token", worker) is None
    result.refresh()
    assert (result.status, result.worker_ids) == ("SUCCESSFUL", ["dead", "worker-1"])


def test_a_task_at_which_workers_die_is_given_up(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    past = timezone.now() - timedelta(seconds=1)
    change(result, status="RUNNING", holder="other", held_until=past, worker_ids=["dead"] * MOST_DEATHS)
    assert attempt(order_of(result), "token", worker) is None
    result.refresh()
    assert (result.status, result.errors[-1].exception_class) == ("FAILED", WorkerDied)
    assert shop.done == []


def test_renewing_keeps_a_task_with_its_worker(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    past = timezone.now() - timedelta(seconds=1)
    change(result, status="RUNNING", holder="other", held_until=past)
    renew("default", ["other"], HELD_S)
    assert attempt(order_of(result), "token", worker) is not None


def test_the_outcome_of_an_attempt_that_was_taken_over_is_dropped(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    result = shop.count.enqueue()

    def take_over(**_: Any) -> None:
        change(result, holder="another")

    task_started.connect(take_over)
    try:
        assert attempt(order_of(result), "token", worker) is None
    finally:
        task_started.disconnect(take_over)
    result.refresh()
    assert result.status == "RUNNING"
    assert "was taken over while it ran here" in caplog.text


def test_a_task_without_its_function_fails(worker: Worker) -> None:
    result = shop.remind.enqueue(1)
    change(result, task_path="tests.tasks.shop.gone")
    assert attempt(order_of(result), "token", worker) is None
    row = TaskRow.objects.get()
    assert (row.status, row.errors[0]["exception_class_path"]) == ("FAILED", "builtins.ImportError")


def test_a_failed_attempt_is_tried_again_by_a_timer(worker: Worker, broker: BrokerThread) -> None:
    result = shop.charge_later.enqueue()
    attempt(order_of(result), "token", worker)
    result.refresh()
    assert (result.status, len(result.errors), result.finished_at) == ("READY", 1, None)
    row = TaskRow.objects.get()
    now_ms = int(timezone.now().timestamp() * 1000)
    with Admin(broker.namesrv) as admin:
        (timer,) = admin.timers(now_ms, now_ms + 2 * 3_600_000).items
        assert (timer.schedule_key, timer.tag) == (result.id, "charge_later")
        body = admin.message_at(timer.position).body
    assert json.loads(body)["turn"] == row.turn == 1
    assert attempt(order_of(result), "token", worker) is None  # a copy of the first message
    assert TaskRow.objects.get().turn == 1
    attempt(order_of(result, 1), "token", worker)
    result.refresh()
    assert (result.status, len(result.errors), result.attempts) == ("FAILED", 2, 2)


def test_retries_of_tasks_that_say_nothing_are_those_of_the_backend(broker: BrokerThread, settings: Any) -> None:
    settings.TASKS = tasks(RETRY={"times": 1, "pause": timedelta(hours=1)})
    from broker.tasks.framework import task_backends

    worker = Worker("worker-1", task_backends["default"].named, HELD_S)
    result = shop.fail.enqueue()
    attempt(order_of(result), "token", worker)
    result.refresh()
    assert result.status == "READY"


def test_receivers_hear_once_that_a_task_is_over(worker: Worker) -> None:
    heard: list[tuple[str, str]] = []

    def started(task_result: TaskResult[Any, Any], **_: Any) -> None:
        heard.append(("started", task_result.status))

    def finished(task_result: TaskResult[Any, Any], **_: Any) -> None:
        heard.append(("finished", task_result.status))

    task_started.connect(started)
    task_finished.connect(finished)
    try:
        for result in (shop.remind.enqueue(1), shop.fail.enqueue(), shop.charge_later.enqueue()):
            attempt(order_of(result), "token", worker)
        cancel(result.id)
    finally:
        task_started.disconnect(started)
        task_finished.disconnect(finished)
    assert heard == [
        ("started", "RUNNING"), ("finished", "SUCCESSFUL"), ("started", "RUNNING"), ("finished", "FAILED"),
        ("started", "RUNNING"), ("finished", "FAILED"),
    ]  # fmt: skip
    result.refresh()
    assert [error.exception_class for error in result.errors] == [ConnectionError, TaskCancelled]


def test_pauses_grow_up_to_the_longest() -> None:
    wanted = Retry(5, timedelta(seconds=10), 3.0, timedelta(seconds=60))
    pauses = [wanted.pause_after(failures, OSError()) for failures in range(1, 7)]
    assert [pause and pause.total_seconds() for pause in pauses] == [10, 30, 60, 60, 60, None]


def test_other_exceptions_are_not_tried_again() -> None:
    wanted = Retry(5, on=(ConnectionError,))
    assert wanted.pause_after(1, ConnectionResetError()) is not None
    assert wanted.pause_after(1, ValueError()) is None
    assert Retry(5).pause_after(1, SystemExit()) is None


@pytest.mark.parametrize(
    "given",
    [
        {"times": -1}, {"times": 1, "pause": timedelta(-1)}, {"times": 1, "longest": timedelta(0)},
        {"times": 1, "factor": 0.5}, {"pause": timedelta(1)}, {"times": 1, "often": True},
    ],
)  # fmt: skip
def test_retries_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_retry(given)


def test_retry_is_for_the_function() -> None:
    with pytest.raises(ValueError, match="below @task"):
        retry(times=1)(shop.remind)
