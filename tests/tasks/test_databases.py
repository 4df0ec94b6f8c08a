"""Several databases: the one whose transaction is open decides, and its outbox has the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction

from broker.outbox.models import OutboxHalf, OutboxMessage
from broker.tasks import EscapementBackend, cancel, decided_by
from broker.tasks.attempt import Worker, attempt
from broker.tasks.framework import InvalidTask, task_backends
from broker.tasks.models import TaskRow
from broker.tasks.sending import Order
from broker.testing import BrokerThread
from tests.outbox.raising import Changed, raised
from tests.tasks import shop
from tests.tasks.conftest import tasks
from tests.tasks.test_enqueueing import orders

# all databases, so that the one of this module may be asked too
pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")
SMALL = "small_tasks"


@pytest.fixture(scope="module", autouse=True)
def small_database(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An entry of DATABASES that is SQLite, for this module only."""
    connections.settings[SMALL] = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    name = str(tmp_path_factory.mktemp("small") / "small.sqlite3")
    connections.settings[SMALL].update(NAME=name, OPTIONS={"timeout": 20}, CONN_MAX_AGE=0)
    yield
    connections[SMALL].close()
    del connections[SMALL]
    del connections.settings[SMALL]


@pytest.fixture
def sqlite(broker: BrokerThread, settings: Any) -> Iterator[str]:
    """Its alias; it has the tables, and TASKS names it beside the first one."""
    settings.TASKS = tasks(DATABASES=["default", SMALL])
    with connections[SMALL].schema_editor() as editor:
        for model in (OutboxHalf, OutboxMessage, TaskRow):
            editor.create_model(model)
    yield SMALL
    with connections[SMALL].schema_editor() as editor:
        for model in (OutboxHalf, OutboxMessage, TaskRow):
            editor.delete_model(model)


def test_the_open_transaction_decides(broker: BrokerThread, sqlite: str) -> None:
    with raised(Changed), transaction.atomic(using=sqlite):
        shop.remind.enqueue(1)
        raise Changed
    with transaction.atomic(using=sqlite):
        kept = shop.remind.enqueue(2)
    plain = shop.remind.enqueue(3)
    assert {each["id"]: each["database"] for each in orders(broker)} == {kept.id: sqlite, plain.id: "default"}
    assert TaskRow.objects.using(sqlite).count() == TaskRow.objects.count() == 1


def test_a_task_is_found_run_and_cancelled_where_it_is(broker: BrokerThread, sqlite: str) -> None:
    backend = task_backends["default"]
    assert isinstance(backend, EscapementBackend)
    with transaction.atomic(using=sqlite):
        runs, ends = shop.remind.enqueue(1), shop.remind.enqueue(2)
    assert cancel(ends.id).outcome == "cancelled"
    attempt(Order(runs.id, 0, sqlite), "token", Worker("one", backend.named, 60))
    assert [backend.get_result(each.id).status for each in (runs, ends)] == ["SUCCESSFUL", "FAILED"]


def test_where_two_are_open_the_caller_says_which(broker: BrokerThread, sqlite: str) -> None:
    with transaction.atomic(), transaction.atomic(using=sqlite):
        with pytest.raises(InvalidTask, match="say which of them decides"):
            shop.remind.enqueue(1)
        with decided_by(sqlite):
            shop.remind.enqueue(2)
    assert [each["database"] for each in orders(broker)] == [sqlite]


def test_a_transaction_of_a_database_without_tasks_is_refused(broker: BrokerThread, sqlite: str, settings: Any) -> None:
    settings.TASKS = tasks()
    with transaction.atomic(using=sqlite):
        with pytest.raises(InvalidTask, match="would run whatever becomes of it"):
            shop.remind.enqueue(1)
        with decided_by("default"):
            shop.remind.enqueue(2)
        assert len(orders(broker)) == 1
    with decided_by(sqlite), pytest.raises(InvalidTask, match="see DATABASES"):
        shop.remind.enqueue(3)
