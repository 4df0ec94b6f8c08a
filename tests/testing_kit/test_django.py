"""In a Django project: settings lead to the broker of the test, and all ways of publishing with a transaction work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import TestCase

from broker.client import Message, Producer
from broker.handlers import consumer, forget_all
from broker.outbox import send_later, send_on_commit, transactional
from broker.outbox.configuration import namesrv
from broker.outbox.models import OutboxHalf, OutboxMessage
from broker.testing import Escapement, EscapementTestCase


@pytest.fixture(autouse=True)
def project(settings: Any) -> Iterator[None]:
    settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
    forget_all()
    yield
    forget_all()


def users() -> list[str]:
    return list(get_user_model().objects.order_by("username").values_list("username", flat=True))


def send_and_fail() -> None:
    with transactional() as block:
        block.send("orders", "never")
        raise ZeroDivisionError


def test_settings_lead_to_it_while_it_runs() -> None:
    before = namesrv()
    with Escapement() as escapement:
        assert namesrv() == escapement.namesrv != before
        assert django_settings.ESCAPEMENT_CLIENT == {}
    assert namesrv() == before


# In the transaction that TestCase rolls back (the mark django_db).


@pytest.mark.django_db
def test_within_the_transaction_of_a_test_a_commit_is_captured(escapement: Escapement) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        with transactional() as block:
            block.send("orders", "4711", delay_ms=60_000)
        assert [each.kind for each in escapement.pending] == ["half"]
    assert [each.kind for each in escapement.pending] == ["timer"]
    escapement.forward(minutes=1)
    escapement.assert_sent("orders", body="4711")
    assert OutboxHalf.objects.count() == 1


@pytest.mark.django_db
def test_within_the_transaction_of_a_test_what_is_not_captured_stays_a_half(escapement: Escapement) -> None:
    with transactional() as block:
        block.send("orders", "4711")
    escapement.assert_nothing_sent()
    (half,) = escapement.pending
    assert half.kind == "half"


@pytest.mark.django_db
def test_within_the_transaction_of_a_test_a_rollback_is_one(escapement: Escapement) -> None:
    with pytest.raises(ZeroDivisionError):
        send_and_fail()
    escapement.assert_nothing_sent()
    escapement.assert_nothing_pending()


@pytest.mark.django_db
def test_within_the_transaction_of_a_test_the_outbox_is_sent_step_by_step(escapement: Escapement) -> None:
    with transaction.atomic():
        send_later("orders", "4711", tag="t")
        send_later("orders", "4712", delay_ms=60_000)
    escapement.assert_nothing_sent()
    assert escapement.send_outbox() == 2
    assert escapement.send_outbox() == 0
    escapement.assert_sent("orders", body="4711", tag="t")
    escapement.assert_pending("orders", body="4712")
    assert OutboxMessage.objects.count() == 0


@pytest.mark.django_db
def test_within_the_transaction_of_a_test_a_send_on_commit_is_captured(escapement: Escapement) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        send_on_commit("orders", "4711")
        escapement.assert_nothing_sent()
    escapement.assert_sent("orders", body="4711")


@pytest.mark.django_db
def test_handlers_see_and_change_the_rows_of_the_test(escapement: Escapement) -> None:
    @consumer("users", group="accounts")
    def make(message: Message) -> None:
        get_user_model().objects.create(username=f"{message.body.decode()}{len(users())}")

    @consumer("users", group="later")
    async def make_later(message: Message) -> None:
        await get_user_model().objects.acreate(username=f"z{await sync_to_async(lambda: len(users()))()}")

    get_user_model().objects.create(username="a")
    escapement.send("users", "b")
    escapement.consume_all()
    assert users() == ["a", "b1", "z2"]


@pytest.mark.django_db
def test_what_the_broker_refuses_of_the_outbox_is_an_error(escapement: Escapement) -> None:
    send_later("orders", "1", delay_ms=60_000, schedule_key="a")
    send_later("orders", "2", delay_ms=60_000, schedule_key="a")
    with pytest.raises(AssertionError, match="could not be sent: orders: "):
        escapement.send_outbox()


# With real commits (django_db(transaction=True)).


@pytest.mark.django_db(transaction=True)
def test_with_real_commits_nothing_is_to_be_captured(escapement: Escapement) -> None:
    with transactional() as block:
        block.send("orders", "4711")
    escapement.assert_sent("orders", body="4711")
    with pytest.raises(ZeroDivisionError):
        send_and_fail()
    send_on_commit("orders", "4712")
    send_later("orders", "4713")
    escapement.send_outbox()
    assert [each.text for each in escapement.sent("orders")] == ["4711", "4712", "4713"]
    escapement.assert_nothing_pending()


@pytest.mark.django_db(transaction=True)
def test_with_real_commits_a_check_finds_the_truth(escapement: Escapement) -> None:
    with transaction.atomic():
        with transactional() as block:
            block.send("orders", "4711")
        escapement.forward(minutes=5)  # asked in vain: the transaction is under way
        assert [each.kind for each in escapement.pending] == ["half"]
    escapement.assert_sent("orders", body="4711")


@pytest.mark.django_db(transaction=True)
def test_one_test_after_the_other_finds_its_own_broker(escapement: Escapement) -> None:
    for _ in range(2):
        with transactional() as block:
            block.send("orders", "4711")
    escapement.assert_sent("orders", times=2)


@pytest.mark.django_db(transaction=True)
async def test_in_a_coroutine(escapement: Escapement) -> None:
    @consumer("users", group="accounts")
    async def make(message: Message) -> None:
        await get_user_model().objects.acreate(username=message.body.decode())

    @sync_to_async
    def work() -> None:
        with transactional() as block:
            block.send("users", "b", delay_ms=60_000)

    await work()
    await escapement.aforward(minutes=1)
    await escapement.aconsume_all()
    assert await sync_to_async(users)() == ["b"]


@pytest.mark.django_db(transaction=True)
def test_with_real_commits_a_cancelled_timer_never_comes(escapement: Escapement) -> None:
    with transactional() as block:
        for key in ("paid", "unpaid", "late"):
            block.timers.put("reminders", key, key, delay_ms=20 * 60_000)
    with transactional() as block:
        block.timers.cancel("reminders", "paid")
        block.timers.move("reminders", "late", delay_ms=50 * 60_000)
    with contextlib.suppress(ZeroDivisionError), transactional() as block:
        block.timers.cancel("reminders", "unpaid")
        raise ZeroDivisionError
    escapement.forward(minutes=30)
    assert [each.text for each in escapement.sent("reminders")] == ["unpaid"]
    escapement.forward(minutes=30)
    assert [each.text for each in escapement.sent("reminders")] == ["unpaid", "late"]


@pytest.mark.django_db
def test_a_timer_is_cancelled_with_the_commit_of_a_test(escapement: Escapement) -> None:
    with Producer("office", escapement.namesrv) as office:
        office.timers.put("reminders", "paid", "pay!", delay_ms=20 * 60_000)
        with TestCase.captureOnCommitCallbacks(execute=True), transactional() as block:
            block.timers.cancel("reminders", "paid")
        assert office.timers.get("reminders", "paid") is None
    escapement.forward(minutes=30)
    escapement.assert_nothing_sent("reminders")


# Without pytest.


class OrderTests(EscapementTestCase, TestCase):
    """Django's TestCase with the mixin."""

    def test_one(self) -> None:
        with self.captureOnCommitCallbacks(execute=True), transactional() as block:
            block.send("orders", "4711", delay_ms=60_000)
        self.escapement.forward(minutes=1)
        self.escapement.assert_sent("orders", body="4711")

    def test_two(self) -> None:
        self.escapement.assert_nothing_sent()
        send_later("orders", "4711")
        assert self.escapement.send_outbox() == 1
