"""What PostgreSQL answers for a half, by the transaction id that it carries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from broker.client import Decision
from broker.outbox import transactional
from broker.outbox.decisions import (
    KEEP_CONFIRMED_S,
    KEEP_OWED_S,
    Origin,
    clean,
    current_origin,
    decide,
    find_connection,
    read_origin,
)
from broker.outbox.models import OutboxHalf
from tests.client.halfbroker import HalfBroker
from tests.outbox.raising import Changed, raised

pytestmark = pytest.mark.django_db(transaction=True)
COMMIT, ROLLBACK, UNKNOWN = Decision.COMMIT, Decision.ROLLBACK, Decision.UNKNOWN
DAY_S = 24 * 3600


def finished(transaction_id: str | None, *, commits: bool = True) -> Origin:
    """The origin of a transaction that has ended, with a row if one is named."""
    try:
        with transaction.atomic():
            origin = current_origin(connection)
            if transaction_id is not None:
                OutboxHalf.objects.create(transaction_id=transaction_id, producer_group="shop", topic="orders")
            if not commits:
                raise Changed
    except Changed:
        pass
    return origin


@pytest.mark.parametrize(
    ("row", "commits", "age_s", "decision"),
    [
        ("A", True, 1, COMMIT),
        (None, True, 1, ROLLBACK),
        ("A", False, 1, ROLLBACK),
        (None, False, 40 * DAY_S, ROLLBACK),
        (None, True, 40 * DAY_S, UNKNOWN),
        ("A", True, 40 * DAY_S, COMMIT),
    ],
)
def test_a_transaction_that_has_ended(row: str | None, commits: bool, age_s: float, decision: Decision) -> None:
    origin = finished(row, commits=commits)
    assert decide(connection, origin, "A", age_s=age_s) is decision


def test_a_transaction_that_goes_on_is_unknown_however_old() -> None:
    with transaction.atomic():
        origin = current_origin(connection)
        OutboxHalf.objects.create(transaction_id="A", producer_group="shop", topic="orders")
        other = connections.create_connection("default")
        try:
            assert decide(other, origin, "A", age_s=40 * DAY_S) is UNKNOWN
        finally:
            other.close()


def test_the_row_decides_for_a_transaction_that_postgresql_has_forgotten() -> None:
    """Transaction 3 is older than what a new cluster keeps the status of."""
    origin = Origin(finished("A").database, "3")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_xact_status('3'::xid8)")
        assert cursor.fetchone() == (None,)
    assert decide(connection, origin, "A", age_s=1) is COMMIT
    assert decide(connection, origin, "no row", age_s=1) is UNKNOWN


def test_a_copy_of_what_was_confirmed_is_dropped() -> None:
    origin = finished("A")
    OutboxHalf.objects.update(state=OutboxHalf.State.DONE)
    assert decide(connection, origin, "A", age_s=1) is ROLLBACK


def test_only_the_very_database_is_asked() -> None:
    origin = finished("A")
    assert find_connection(origin) is connections["default"]
    kind, system, database = origin.database.split("/")
    assert find_connection(Origin(f"{kind}/{int(system) + 1}/{database}", origin.xid)) is None
    assert find_connection(Origin(f"{kind}/{system}/{int(database) + 1}", origin.xid)) is None
    assert find_connection(Origin("row/unheard-of", "")) is None


@pytest.mark.parametrize("text", ["", "pg/1/2", "pg/1/2/x", "pg/1/2/3/4", "row/", "mysql/1", "pg/1/2/3'; DROP TABLE x"])
def test_marks_that_are_not_ours_say_nothing(text: str) -> None:
    assert read_origin(text) is None


@pytest.mark.parametrize("origin", [Origin("pg/1/2", "3"), Origin("row/default", "")])
def test_marks_are_read_as_they_were_written(origin: Origin) -> None:
    assert read_origin(origin.mark()["ESC_XID"]) == origin


@pytest.mark.parametrize("mark", ["pg/1/2/3", "pg//", "row/unheard-of"])
def test_a_check_of_somebody_else_s_half_is_answered_unknown(broker: HalfBroker, mark: str) -> None:
    with transactional() as block:
        half = block.send("orders", "4711")
    stored = broker.half(half.transaction_id)
    stored.properties["ESC_XID"] = mark
    broker.check(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert stored.codes == [COMMIT, UNKNOWN]


def test_a_transaction_id_of_the_future_is_unknown(broker: HalfBroker) -> None:
    """After a restore of the database to a moment before the transaction."""
    with raised(Changed), transactional() as block:
        half = block.send("orders", "4711")
        raise Changed
    stored = broker.half(half.transaction_id)
    stored.properties["ESC_XID"] = stored.properties["ESC_XID"].rpartition("/")[0] + f"/{2**40}"
    broker.check(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert stored.codes == [ROLLBACK, UNKNOWN]


@pytest.mark.parametrize(
    ("state", "age_s", "stays"),
    [
        ("owed", KEEP_OWED_S - 60, True),
        ("owed", KEEP_OWED_S + 60, False),
        ("confirmed", KEEP_CONFIRMED_S - 60, True),
        ("confirmed", KEEP_CONFIRMED_S + 60, False),
        ("done", KEEP_CONFIRMED_S + 60, False),
    ],
)
def test_old_rows_are_cleaned_and_no_others(state: str, age_s: float, stays: bool) -> None:
    finished("A")
    OutboxHalf.objects.update(state=state, written_at=timezone.now() - timedelta(seconds=age_s))
    assert clean("default") == (0 if stays else 1)
    assert OutboxHalf.objects.exists() is stays
