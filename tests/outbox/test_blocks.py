"""transactional() on a real PostgreSQL: what the database did is what the broker is told."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Group as Order
from django.db import Error, OperationalError, ProgrammingError, connection, connections, transaction

from broker.client import BrokerUnreachable, Decision, Producer, Timeout
from broker.client.errors import PlainSendRefused
from broker.outbox import NotInTransaction, producer, transactional
from broker.outbox.configuration import BlockEnded, NotConfigured, WrongThread
from broker.outbox.models import OutboxHalf
from console.security.gate import ROLES
from tests.client.halfbroker import HalfBroker
from tests.interop.waiting import wait_until
from tests.outbox.raising import Changed, raised

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 20
COMMIT, ROLLBACK, UNKNOWN = Decision.COMMIT, Decision.ROLLBACK, Decision.UNKNOWN


def codes(broker: HalfBroker) -> dict[str, list[int]]:
    """Body of each half -> what the broker was told of it."""
    return {half.body.decode(): half.codes for half in broker.halves.values()}


def orders() -> set[str]:
    return set(Order.objects.exclude(name__in=ROLES).values_list("name", flat=True))


def states() -> set[str]:
    return set(OutboxHalf.objects.values_list("state", flat=True))


def test_a_message_is_committed_with_its_transaction_and_not_before(broker: HalfBroker) -> None:
    """https://github.com/celery/celery/pull/8491"""
    with transactional() as block:
        Order.objects.create(name="4711")
        half = block.send("orders", "4711", tag="made", keys=["4711"])
        stored = broker.half(half.transaction_id)
        assert (stored.codes, stored.properties["PGROUP"], stored.sys_flag) == ([], "shop", 4)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text, (SELECT system_identifier FROM pg_control_system())")
            xid, system = cursor.fetchone()
        kind, found_system, _, found_xid = stored.properties["ESC_XID"].split("/")
        assert (kind, found_system, found_xid) == ("pg", str(system), xid)
    assert (orders(), codes(broker), states()) == ({"4711"}, {"4711": [COMMIT]}, {"confirmed"})


def test_the_module_s_producer_is_that_of_the_innermost_block(broker: HalfBroker) -> None:
    with transactional():
        producer.send("orders", "outer")
        with transactional(producer_group="billing"):
            producer.send("bills", "inner")
    assert {half.properties["PGROUP"]: half.codes for half in broker.halves.values()} == {
        "shop": [COMMIT],
        "billing": [COMMIT],
    }


def test_a_block_that_raises_leaves_neither_row_nor_message(broker: HalfBroker) -> None:
    with raised(Changed), transactional() as block:
        Order.objects.create(name="4711")
        block.send("orders", "4711")
        raise Changed
    assert (orders(), codes(broker), states()) == (set(), {"4711": [ROLLBACK]}, set())


def test_what_a_rolled_back_savepoint_sent_is_rolled_back(broker: HalfBroker) -> None:
    with transactional() as block:
        block.send("orders", "kept")
        with raised(Changed), transactional() as inner:
            inner.send("orders", "inner block")
            raise Changed
        assert codes(broker) == {"kept": [], "inner block": [ROLLBACK]}
        with raised(Changed), transaction.atomic():
            block.send("orders", "plain savepoint")
            raise Changed
        with transaction.atomic():
            block.send("orders", "kept too")
    assert codes(broker) == {
        "kept": [COMMIT],
        "inner block": [ROLLBACK],
        "plain savepoint": [ROLLBACK],
        "kept too": [COMMIT],
    }


def test_a_savepoint_in_a_block_that_rolls_back_goes_with_it(broker: HalfBroker) -> None:
    with raised(Changed), transactional() as block:
        with transactional() as inner:
            inner.send("orders", "inner")
        block.send("orders", "outer")
        raise Changed
    assert codes(broker) == {"inner": [ROLLBACK], "outer": [ROLLBACK]}


def test_inside_a_transaction_of_the_user_that_one_decides(broker: HalfBroker) -> None:
    with transaction.atomic():
        with transactional() as block:
            block.send("orders", "first")
        with transactional() as block:
            block.send("orders", "second")
        assert codes(broker) == {"first": [], "second": []}
    assert codes(broker) == {"first": [COMMIT], "second": [COMMIT]}


def test_a_rollback_from_outside_is_found_by_a_check(broker: HalfBroker) -> None:
    with raised(Changed), transaction.atomic():
        with transactional() as block:
            half = block.send("orders", "4711")
        broker.check(half.transaction_id)
        stored = broker.half(half.transaction_id)
        broker.wait(lambda: stored.decisions)
        assert stored.codes == [UNKNOWN]
        raise Changed
    broker.check(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert stored.codes == [UNKNOWN, ROLLBACK]


def test_a_lost_commit_is_made_good_by_a_check_and_copies_are_dropped(broker: HalfBroker) -> None:
    broker.end_code = 1
    with transactional() as block:
        half = block.send("orders", "4711")
    stored = broker.half(half.transaction_id)
    assert (stored.codes, states()) == ([COMMIT], {"owed"})
    broker.end_code = 0
    broker.check(half.transaction_id, offset=5)
    assert wait_until(lambda: states() == {"done"})
    broker.check(half.transaction_id, offset=6)
    broker.wait(lambda: len(stored.decisions) == 3)
    assert stored.codes == [COMMIT, COMMIT, ROLLBACK]


def test_a_confirmed_commit_that_the_broker_lost_is_committed_again(broker: HalfBroker) -> None:
    with transactional() as block:
        half = block.send("orders", "4711")
    broker.check(half.transaction_id)
    stored = broker.half(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert stored.codes == [COMMIT, COMMIT]


def test_a_database_that_ends_the_connection_rolls_both_back(broker: HalfBroker) -> None:
    with raised(OperationalError), transactional() as block:
        Order.objects.create(name="4711")
        block.send("orders", "4711")
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert (orders(), codes(broker), states()) == (set(), {"4711": [ROLLBACK]}, set())


def test_so_does_one_that_ends_it_in_a_block_inside_another(broker: HalfBroker) -> None:
    with raised(Error), transactional() as block:
        block.send("orders", "outer")
        with transactional() as inner:
            inner.send("orders", "inner")
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert (codes(broker), states()) == ({"outer": [ROLLBACK], "inner": [ROLLBACK]}, set())


def test_an_error_after_the_commit_does_not_roll_back(broker: HalfBroker) -> None:
    def fail() -> None:
        raise Changed

    with raised(Changed), transactional() as block:
        transaction.on_commit(fail)
        Order.objects.create(name="4711")
        block.send("orders", "4711")
    assert (orders(), codes(broker)) == ({"4711"}, {"4711": [COMMIT]})


def test_without_a_broker_nothing_is_committed(broker: HalfBroker, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    with raised(BrokerUnreachable), transactional() as block:
        Order.objects.create(name="4711")
        block.send("orders", "4711", timeout_ms=500)
    assert orders() == set()


def test_a_half_that_is_not_answered_commits_nothing_and_is_rolled_back_by_a_check(broker: HalfBroker) -> None:
    broker.is_silent_to_halves = True
    with raised(Timeout), transactional() as block:
        Order.objects.create(name="4711")
        block.send("orders", "4711", timeout_ms=300)
    (stored,) = broker.halves.values()
    broker.check(stored.properties["UNIQ_KEY"])
    broker.wait(lambda: stored.decisions)
    assert (orders(), stored.codes) == (set(), [ROLLBACK])


def test_sends_in_the_wrong_place_say_what_to_do(broker: HalfBroker) -> None:
    with pytest.raises(NotInTransaction, match="send_later"):
        producer.send("orders", "4711")
    with transactional() as block:
        with ThreadPoolExecutor(1) as threads, pytest.raises(WrongThread):
            threads.submit(block.send, "orders", "4711").result()
        with Producer("plain", broker.namesrv) as plain, pytest.raises(PlainSendRefused, match="transactional"):
            plain.send("orders", "4711")
    with pytest.raises(BlockEnded):
        block.send("orders", "4711")
    with pytest.raises(NotConfigured, match="shop, billing"), transactional(producer_group="other"):
        raise AssertionError
    assert broker.halves == {}


def test_plain_sends_go_out_at_once_where_they_are_wanted(broker: HalfBroker) -> None:
    with Producer("plain", broker.namesrv) as plain, raised(Changed), transactional(plain_sends=True):
        plain.send("metrics", "tried")
        raise Changed
    assert broker.plain == [("metrics", b"tried")]


@pytest.mark.parametrize("groups", [None, [], "shop", ["bad name"]])
def test_groups_must_be_set(broker: HalfBroker, settings: Any, groups: object) -> None:
    settings.ESCAPEMENT_PRODUCER_GROUPS = groups
    with pytest.raises(NotConfigured, match="ESCAPEMENT_PRODUCER_GROUPS"), transactional():
        raise AssertionError


def test_as_a_decorator_for_calls_at_once(broker: HalfBroker) -> None:
    everybody = threading.Barrier(4)

    @transactional
    def order(number: int) -> None:
        Order.objects.create(name=str(number))
        producer.send("orders", str(number))
        everybody.wait(PATIENCE_S)
        if number % 2:
            raise Changed

    def call(number: int) -> str:
        try:
            order(number)
        except Changed:
            return "raised"
        finally:
            connections.close_all()
        return "done"

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == ["done", "raised"] * 2
    assert orders() == {"0", "2"}
    assert codes(broker) == {"0": [COMMIT], "1": [ROLLBACK], "2": [COMMIT], "3": [ROLLBACK]}


def test_a_durable_block_is_the_outermost(broker: HalfBroker) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"), transactional(durable=True):
        raise AssertionError


def test_many_halves_of_one_transaction_share_their_fate(broker: HalfBroker) -> None:
    seen: queue.Queue[int] = queue.Queue()
    with transactional() as block:
        for number in range(50):
            block.send("orders", str(number))
        transaction.on_commit(lambda: seen.put(len(broker.halves)))
    assert seen.get(timeout=PATIENCE_S) == 50
    assert codes(broker) == {str(number): [COMMIT] for number in range(50)}


def test_without_its_table_a_block_leaves_no_half_open(broker: HalfBroker) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE escapement_outbox RENAME TO escapement_outbox_away")
    try:
        with raised(ProgrammingError), transactional() as block:
            block.send("orders", "4711")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE escapement_outbox_away RENAME TO escapement_outbox")
    assert codes(broker) == {"4711": [ROLLBACK]}
