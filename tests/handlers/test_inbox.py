"""Handlers that do each message once, whatever comes how often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group as Invoice
from django.db import connection, connections
from django.utils import timezone

from broker.client import DeadLetter, Message, RetryIn
from broker.handlers import HandlingError, consumer, forget_all
from broker.handlers.inbox import clean, key_of, once
from broker.handlers.models import InboxMessage

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30


def message(body: bytes = b"4711", **properties: str) -> Message:
    told = {"UNIQ_KEY": "A" * 32} | properties
    return Message("orders", 0, 0, 0, 0, body, told, 0, 0, 0, ("127.0.0.1", 1), 0, ("127.0.0.1", 1), 0, 0)


def bills() -> int:
    return Invoice.objects.filter(name__startswith="bill-").count()


def write(message: Message) -> None:
    Invoice.objects.create(name=f"bill-{bills()}-{message.body.decode()}")


def test_a_message_that_comes_again_is_not_handled_again() -> None:
    handle = once(write, "billing")
    first = message()
    handle(first)
    handle(replace(first, reconsume_times=3, topic="%RETRY%billing"))
    assert bills() == 1
    once(write, "shipping")(first)
    handle(message(UNIQ_KEY="B" * 32))
    assert bills() == 3


@pytest.mark.parametrize("end", [ValueError("no"), RetryIn(timedelta(1)), DeadLetter("no")])
@pytest.mark.parametrize("is_returned", [False, True])
def test_what_failed_leaves_neither_bill_nor_row(end: Exception, is_returned: bool) -> None:
    if is_returned and isinstance(end, ValueError):
        return

    def fail(message: Message) -> object:
        write(message)
        if is_returned:
            return end
        raise end

    with pytest.raises(type(end)):
        once(fail, "billing")(message())
    assert (bills(), InboxMessage.objects.count()) == (0, 0)
    once(write, "billing")(message())
    assert bills() == 1


@pytest.mark.parametrize("first_fails", [False, True])
def test_of_two_at_a_time_the_second_waits_for_the_first(first_fails: bool) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def slow(message: Message) -> None:
        write(message)
        begun.set()
        go_on.wait(WAIT_S)
        if first_fails:
            raise ValueError

    def run(handler: Callable[[Message], None], name: str) -> None:
        try:
            once(handler, "billing")(message())
            done.append(name)
        except ValueError:
            done.append(f"{name} failed")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(slow, "first"))]
    threads[0].start()
    assert begun.wait(WAIT_S)
    threads.append(threading.Thread(target=run, args=(write, "second")))
    threads[1].start()
    wait_until_blocked()
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert bills() == 1
    assert sorted(done) == ["first failed" if first_fails else "first", "second"]


def wait_until_blocked() -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    for _ in range(100_000):
        with connection.cursor() as cursor:
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
    raise AssertionError("the second does not wait")


def test_a_key_is_the_same_for_each_copy_and_fits_the_column() -> None:
    assert key_of(message()) == "A" * 32
    lacking = replace(message(), properties={"ORIGIN_MESSAGE_ID": "C" * 32})
    assert key_of(lacking) == "C" * 32
    assert key_of(replace(message(), properties={})) == message().offset_message_id
    assert len(key_of(message(UNIQ_KEY="x" * 300))) == 64


def test_old_rows_go(settings: Any) -> None:
    settings.ESCAPEMENT_INBOX_DAYS = 7
    for key, days in (("old", 8), ("young", 6)):
        InboxMessage.objects.create(group="billing", message_key=key)
        InboxMessage.objects.filter(message_key=key).update(handled_at=timezone.now() - timedelta(days=days))
    assert clean() == 1
    assert list(InboxMessage.objects.values_list("message_key", flat=True)) == ["young"]


def test_what_cannot_be_done_once_is_refused() -> None:
    async def bill(message: Message) -> None: ...

    forget_all()
    with pytest.raises(HandlingError, match="coroutine"):
        consumer("orders", "billing", once=True)(bill)
    with pytest.raises(HandlingError, match="batches"):
        consumer("orders", "billing", once=True, batch=5)(write)
    with pytest.raises(HandlingError, match="timeout"):
        consumer("orders", "billing", once=True, timeout=timedelta(seconds=5))(write)
    forget_all()
