"""Tasks of a worker keep their connection to the database, as requests do, and one that breaks is opened anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import shared_task
from celery.app.trace import build_tracer
from celery.fixups.django import DjangoWorkerFixup
from celery.signals import beat_embedded_init, task_postrun, task_prerun, worker_process_init
from django.db import connection, connections
from psycopg import connect

from console.site.celery import app


@shared_task(name="tests.which_connection")
def which_connection() -> int:
    """Tell who serves this task in PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.fixture
def in_a_worker(transactional_db: None) -> Iterator[None]:
    """What Celery does around tasks in a worker of a Django project, and only there."""
    fixup = DjangoWorkerFixup(app)
    fixup.install()
    yield
    beat_embedded_init.disconnect(fixup.close_database)
    task_prerun.disconnect(fixup.on_task_prerun)
    task_postrun.disconnect(fixup.on_task_postrun)
    worker_process_init.disconnect(fixup.on_worker_process_init)
    connections.close_all()


def ran() -> int:
    tracer = build_tracer(which_connection.name, which_connection, app=app)
    answer: int = tracer("an-id", (), {}, {}).retval
    return answer


def test_one_connection_serves_many_tasks(in_a_worker: None) -> None:
    assert len({ran() for _ in range(3)}) == 1


def test_a_connection_that_broke_is_opened_anew(in_a_worker: None, database_url: str) -> None:
    first = ran()
    with connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    assert ran() != first


def test_an_old_connection_is_opened_anew(in_a_worker: None) -> None:
    first = ran()
    connection.close_at = 0
    assert ran() != first
