"""Databases other than PostgreSQL: the row alone decides, after a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction

from broker.client import Decision
from broker.outbox import send_later, transactional
from broker.outbox.after_commit import Worker
from broker.outbox.configuration import TransactionTooLong
from broker.outbox.decisions import Origin, current_origin, decide, find_connection
from broker.outbox.models import OutboxHalf, OutboxMessage
from broker.outbox.transaction_block import producer_of
from tests.client.halfbroker import HalfBroker
from tests.outbox.raising import Changed, raised

COMMIT, ROLLBACK, UNKNOWN = Decision.COMMIT, Decision.ROLLBACK, Decision.UNKNOWN
DAY_S = 24 * 3600


# all databases, so that the one of this module may be asked too
pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")
SMALL = "small"


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
def sqlite() -> Iterator[str]:
    """Its alias; it has the outbox's tables."""
    with connections[SMALL].schema_editor() as editor:
        editor.create_model(OutboxHalf)
        editor.create_model(OutboxMessage)
    yield SMALL
    with connections[SMALL].schema_editor() as editor:
        editor.delete_model(OutboxHalf)
        editor.delete_model(OutboxMessage)


def test_elsewhere_the_row_decides_after_a_time(broker: HalfBroker, sqlite: str, settings: Any) -> None:
    with transactional(sqlite) as block:
        half = block.send("orders", "4711")
    stored = broker.half(half.transaction_id)
    assert (stored.properties["ESC_XID"], stored.codes) == (f"row/{sqlite}", [COMMIT])
    origin = Origin(f"row/{sqlite}", "")
    assert decide(connections[sqlite], origin, half.transaction_id, age_s=DAY_S) is COMMIT
    assert decide(connections[sqlite], origin, "no row", age_s=59) is UNKNOWN
    assert decide(connections[sqlite], origin, "no row", age_s=61) is ROLLBACK
    broker.check(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert stored.codes == [COMMIT, COMMIT]


def test_elsewhere_a_block_that_raises_is_rolled_back_at_once(broker: HalfBroker, sqlite: str) -> None:
    with raised(Changed), transactional(sqlite) as block:
        half = block.send("orders", "4711")
        raise Changed
    assert broker.half(half.transaction_id).codes == [ROLLBACK]


def test_elsewhere_a_transaction_may_not_outlast_the_row_s_time(broker: HalfBroker, sqlite: str, settings: Any) -> None:
    settings.ESCAPEMENT_TRANSACTION_LIMIT_S = 0.05
    with raised(TransactionTooLong), transactional(sqlite) as block:
        half = block.send("orders", "4711")
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.1:
            OutboxHalf.objects.using(sqlite).count()
    assert broker.half(half.transaction_id).codes == [ROLLBACK]
    assert not OutboxHalf.objects.using(sqlite).exists()


def test_two_databases_each_decide_for_their_own(broker: HalfBroker, sqlite: str) -> None:
    with transactional() as outer:
        kept = outer.send("orders", "postgresql")
        with raised(Changed), transactional(sqlite) as inner:
            dropped = inner.send("orders", "sqlite")
            raise Changed
        assert broker.half(dropped.transaction_id).codes == [ROLLBACK]
    assert broker.half(kept.transaction_id).codes == [COMMIT]
    assert OutboxHalf.objects.count() == 1


def test_the_worker_also_serves_other_databases(broker: HalfBroker, sqlite: str) -> None:
    with transaction.atomic(using=sqlite):
        send_later("orders", "4711", using=sqlite)
    assert Worker(producer_of("shop"), sqlite).turn().sent == 1
    assert broker.plain == [("orders", b"4711")]


def test_a_database_that_is_away_hides_no_other(free_port: int) -> None:
    small, default = connections[SMALL], connections["default"]
    away = {**default.settings_dict, "HOST": "127.0.0.1", "PORT": str(free_port)}
    connections[SMALL] = type(default)(away, SMALL)
    connections.settings["default"] = connections.settings.pop("default")  # it is asked last
    try:
        with transaction.atomic():
            assert find_connection(current_origin(default)) is default
            with pytest.raises(OperationalError):
                find_connection(Origin("pg/1/2", "3"))
    finally:
        connections[SMALL] = small
