"""Rows of send_later that cannot be sent: they wait for a broker for ever, and what is refused is seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.utils import timezone

from broker.client import BrokerRefused, BrokerUnreachable, NoBroker, NotWritable, RouteNotFound, Timeout, TimerLimit
from broker.outbox import send_later
from broker.outbox.after_commit import MOST_REFUSALS, Worker, is_refusal
from broker.outbox.configuration import NotConfigured
from broker.outbox.models import OutboxMessage
from broker.outbox.transaction_block import close_all, producer_of
from broker.rocketmq.topics import TEMPLATE_TOPIC
from tests.client.halfbroker import HalfBroker

pytestmark = pytest.mark.django_db(transaction=True)
ILLEGAL, BUSY, UNAVAILABLE, FLOW_CONTROL, NO_PERMISSION, TOPIC_NOT_EXIST = 13, 2, 14, 215, 16, 17
#: as an earlier release writes rows
OLD_INSERT = (
    "INSERT INTO escapement_outbox_message (topic, body, properties, unique_id, written_at, attempts, last_error)"
)


@pytest.fixture
def away(settings: Any, broker: HalfBroker, free_port: int) -> Iterator[Any]:
    """Switch between a broker that is there (False) and none (True)."""
    addresses = {False: settings.ESCAPEMENT_NAMESRV, True: f"127.0.0.1:{free_port}"}

    def switch(is_away: bool) -> None:
        settings.ESCAPEMENT_NAMESRV = addresses[is_away]

    return switch


def once() -> str:
    """What a worker says that sends what is there."""
    said = StringIO()
    call_command("outbox", "--once", stdout=said)
    return said.getvalue()


def make_due() -> None:
    """The time of every next attempt has come."""
    OutboxMessage.objects.update(next_attempt_at=None)


def refuse_until_stuck(row: OutboxMessage) -> None:

    OutboxMessage.objects.filter(pk=row.pk).update(refusals=MOST_REFUSALS - 1, next_attempt_at=None)
    once()


def test_an_absent_broker_never_ends_a_message(broker: HalfBroker, away: Any) -> None:
    send_later("orders", "4711")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE escapement_outbox_message SET attempts = 999")
    away(True)
    for _ in range(3):
        once()
    away(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT attempts FROM escapement_outbox_message")
        assert cursor.fetchall() == [(999,)]
        cursor.execute("UPDATE escapement_outbox_message SET next_attempt_at = NULL")
    once()
    assert broker.plain == [("orders", b"4711")]


@pytest.mark.parametrize("code", [BUSY, UNAVAILABLE, FLOW_CONTROL])
def test_what_may_pass_counts_nothing(broker: HalfBroker, code: int) -> None:
    broker.send_code = code
    send_later("orders", "4711")
    once()
    row = OutboxMessage.objects.get()
    assert (row.refusals, row.stuck_at, f"code {code}" in row.last_error) == (0, None, True)
    assert row.next_attempt_at is not None
    broker.send_code = 0
    make_due()
    once()
    assert broker.plain[-1:] == [("orders", b"4711")]


def test_only_refusals_are_refusals() -> None:

    absent = [BrokerUnreachable("b", "x"), Timeout("b", 1), NoBroker("orders"), TimerLimit(1, None)]
    assert not any(is_refusal(each) for each in absent)
    assert not any(is_refusal(each) for each in (RouteNotFound("orders"), NotWritable("orders")))
    assert not any(is_refusal(BrokerRefused(code, "a fault of the broker")) for code in (1, TOPIC_NOT_EXIST))
    assert all(is_refusal(BrokerRefused(code, None)) for code in (ILLEGAL, NO_PERMISSION))


@pytest.mark.parametrize("why", ["no route", "no queue that is written"])
def test_a_topic_whose_broker_is_away_while_others_are_there_is_waited_for(broker: HalfBroker, why: str) -> None:
    """The name server knows another broker; of this topic nothing, or only a broker that does not take messages."""
    broker.away |= {"orders", TEMPLATE_TOPIC} if why == "no route" else set()
    broker.permission = 6 if why == "no route" else 4
    row = send_later("orders", "4711")
    OutboxMessage.objects.update(refusals=MOST_REFUSALS - 1)
    for _ in range(3):
        make_due()
        close_all()  # a new worker knows no brokers from before
        once()
    row.refresh_from_db()
    assert (row.refusals, row.stuck_at) == (MOST_REFUSALS - 1, None)
    said = StringIO()
    call_command("outbox", "--status", stdout=said)
    assert "orders: 1 pending" in said.getvalue() and "0 stuck, next attempt" in said.getvalue()
    assert ("knows no topic 'orders'" if why == "no route" else "no queue that can be written") in said.getvalue()
    broker.away.clear()
    broker.permission = 6
    make_due()
    close_all()
    once()
    assert broker.plain == [("orders", b"4711")]


def test_what_is_refused_again_and_again_is_stuck_and_can_be_sent_again(
    broker: HalfBroker, caplog: pytest.LogCaptureFixture
) -> None:
    row = send_later("orders", "bad")
    send_later("orders", "good")
    broker.refused[b"bad"] = ILLEGAL
    assert "orders: 1 pending" in once()
    assert broker.plain == [("orders", b"good")]
    row.refresh_from_db()
    assert (row.refusals, row.stuck_at) == (1, None)
    assert row.next_attempt_at is not None
    assert row.next_attempt_at <= timezone.now() + timedelta(minutes=1)
    refuse_until_stuck(row)
    for _ in range(2):
        once()
    stuck = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["is stuck" in record.getMessage() for record in stuck] == [True]
    said = StringIO()
    call_command("outbox", "--status", stdout=said)
    assert "1 stuck: The broker refused the request with code 13" in said.getvalue()
    broker.refused.clear()
    once()
    assert broker.plain == [("orders", b"good")]
    call_command("outbox", "--send-again", "--topic", "bills", stdout=said)
    assert OutboxMessage.objects.filter(stuck_at__isnull=False).exists()
    call_command("outbox", "--send-again", "--topic", "orders", "--id", str(row.pk), stdout=said)
    assert said.getvalue().endswith("0 stuck messages are retried\n1 stuck messages are retried\n")
    assert once().endswith("nothing is pending\n")
    assert broker.plain == [("orders", b"good"), ("orders", b"bad")]


def test_a_stuck_row_holds_up_those_of_its_key_alone(broker: HalfBroker) -> None:
    first = send_later("orders", "a1", sharding_key="a")
    broker.refused[b"a1"] = ILLEGAL
    for body, key in (("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b"), ("plain", None)):
        send_later("orders", body, sharding_key=key)
    once()
    refuse_until_stuck(first)
    assert {body for _, body in broker.plain} == {b"b1", b"b2", b"plain"}
    assert broker.plain.index(("orders", b"b1")) < broker.plain.index(("orders", b"b2"))
    broker.refused.clear()
    call_command("outbox", "--send-again", stdout=StringIO())
    once()
    assert [body for _, body in broker.plain[3:]] == [b"a1", b"a2", b"a3"]


def test_sharding_key_and_queue_id_are_obeyed(broker: HalfBroker) -> None:
    broker.queues = 4
    with transaction.atomic():
        for _ in range(6):
            send_later("orders", "same", sharding_key="4711")
        for _ in range(6):
            send_later("orders", "third", queue_id=2)
    once()
    queues = {body: set() for body in (b"same", b"third")}  # type: dict[bytes, set[int]]
    for (_, body), queue in zip(broker.plain, broker.plain_queues, strict=True):
        queues[body].add(queue)
    assert queues[b"third"] == {2}
    assert len(queues[b"same"]) == 1
    assert len(broker.plain) == 12


def test_a_worker_takes_nothing_behind_a_row_of_the_same_key_that_another_one_has(broker: HalfBroker) -> None:
    for number in range(3):
        send_later("orders", str(number), sharding_key="a")
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT id FROM escapement_outbox_message ORDER BY id LIMIT 1 FOR UPDATE")
        assert Worker(producer_of("shop"), "default").turn().sent == 0
    finally:
        other.rollback()
        other.close()
    assert Worker(producer_of("shop"), "default").turn().sent == 3
    assert [body for _, body in broker.plain] == [b"0", b"1", b"2"]


def test_the_group_of_a_message_for_later_can_be_chosen(broker: HalfBroker) -> None:

    row = send_later("orders", "4711", producer_group="billing")
    assert row.producer_group == "billing"
    with pytest.raises(NotConfigured):
        send_later("orders", "4711", producer_group="nobody")
    once()
    assert broker.plain == [("orders", b"4711")]


def test_the_admin_page_shows_what_waits_and_sends_again(broker: HalfBroker) -> None:
    row = send_later("orders", "bad")
    broker.refused[b"bad"] = ILLEGAL
    refuse_until_stuck(row)
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="x"))
    page = browser.get("/admin/escapement_outbox/outboxmessage/")
    assert "code 13" in page.content.decode()
    browser.get(f"/admin/escapement_outbox/outboxmessage/{row.pk}/change/")
    chosen = {"action": "send_again", "_selected_action": [row.pk]}
    answer = browser.post("/admin/escapement_outbox/outboxmessage/", chosen, follow=True)
    assert answer.status_code == 200
    row.refresh_from_db()
    assert (row.stuck_at, row.refusals) == (None, 0)


def test_rows_that_earlier_versions_gave_up_are_sent_after_the_migration(broker: HalfBroker) -> None:
    app = "escapement_outbox"
    newest = [key for key in MigrationExecutor(connection).loader.graph.leaf_nodes() if key[0] == app]
    MigrationExecutor(connection).migrate([(app, "0001_outbox")])
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                f"{OLD_INSERT} VALUES ('orders', '4711', 'UNIQ_KEY\x01A\x02', 'A', now(), 1000, 'No connection')"
            )
    finally:
        MigrationExecutor(connection).migrate(newest)
    with connection.cursor() as cursor:  # as an older release that is still running
        cursor.execute(f"{OLD_INSERT} VALUES ('orders', '4712', 'UNIQ_KEY\x01B\x02', 'B', now(), 0, '')")
    once()
    assert [body for _, body in broker.plain] == [b"4711", b"4712"]
