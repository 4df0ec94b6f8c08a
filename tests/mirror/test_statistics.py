"""What PostgreSQL knows of the mirror's rows is true as soon as there are many."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

from broker.client import Admin
from broker.mirror.follower import Mirror
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue

FEW, MANY = 4, 64


def known(table: type) -> int:
    """Rows that the planner counts with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = %s::regclass", [table._meta.db_table])
        return round(cursor.fetchone()[0])


def looks(work: Callable[[], object]) -> int:
    """How often the planner's statistics are made while `work` runs."""
    with CaptureQueriesContext(connection) as asked:
        work()
    return sum("ANALYZE" in each["sql"] for each in asked)


def test_rows_of_a_first_reading_are_planned_for(mirror: Mirror, admin: Admin) -> None:
    for number in range(MANY):
        admin.create_topic(f"topic-{number}", queues=4)
    mirror.run_once()
    assert known(Queue) == Queue.objects.count() >= MANY * 4
    assert known(ConsumerGroup) == ConsumerGroup.objects.count()
    assert known(ConsumerOffset) == ConsumerOffset.objects.count()


def test_it_is_looked_again_when_rows_multiply(mirror: Mirror, admin: Admin) -> None:
    for number in range(FEW):
        admin.create_topic(f"topic-{number}", queues=4)
    assert looks(mirror.run_once) == 0, "few rows are planned well enough unseen"
    admin.create_topic("wide", queues=256)
    assert looks(mirror.run_once) == 1
    admin.create_topic("more", queues=64)
    assert looks(mirror.run_once) == 0, "what is there has not multiplied"
    admin.create_topic("wider", queues=512)
    assert looks(mirror.run_once) == 1
    assert known(Queue) == Queue.objects.count()
    assert looks(mirror.run_once) == 0
    assert looks(mirror.rebuild) == 1
