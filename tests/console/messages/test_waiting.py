"""The Messages page finds what waits under a key: timers, messages on lanes, halves; and ids of either kind."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from console.site.clock import now_ms
from tests.console.people import browser_of
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage

HOUR_MS = 3_600_000
NOTHING = "nothing is pending under it"


@pytest.fixture
def waits(stage: Stage) -> Stage:
    """A timer, a message on a lane and a half, all under one key."""
    stage.admin.create_topic("bills", queues=1)
    stage.producer.send("orders", "x", keys=["order-7"], deliver_at_ms=now_ms() + HOUR_MS)
    stage.producer.send("orders", "x", keys=["order-7"], delay_level=16)
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as payers:
        payers.send_half("bills", prepare("x", keys=["order-7"]))
    stage.mirror.run_once()
    return stage


def links(page: str, of: str) -> list[str]:
    """The addresses of single timers or transactions."""
    return re.findall(rf'href="(/{of}/\d+/)"', page)


def found(browser: Client, **given: str) -> str:
    return unescape(browser.get("/messages/", given).content.decode())


def test_what_waits_is_found_where_messages_are_sought(waits: Stage, operator: Client) -> None:
    """The page said that no message has a key that a pending timer has."""
    (timer,) = waits.admin.timers(0, 2**62).items
    (half,) = waits.admin.transactions("open").items
    page = found(operator, q="order-7")
    assert links(page, "timers") == [f"/timers/{timer.position}/"]
    assert links(page, "transactions") == [f"/transactions/{half.position}/"]
    assert "1 message" in page, "the one on the lane is among those found"
    assert NOTHING not in page
    of_topic = found(operator, q="order-7", topic="bills")
    assert (len(links(of_topic, "timers")), len(links(of_topic, "transactions"))) == (0, 1)
    assert "it is pending, see above" in of_topic
    assert NOTHING in found(operator, q="order-8")


def test_what_a_reader_does_not_see_is_not_found(waits: Stage) -> None:
    browser = browser_of(limited_person("ann", "bills"))
    page = found(browser, q="order-7")
    assert (len(links(page, "timers")), len(links(page, "transactions"))) == (0, 1)


def test_a_message_id_is_sought_though_it_looks_like_an_offset_id(waits: Stage, operator: Client) -> None:
    """Both have 32 digits: who sought a message id without a topic was told that there is no such message."""
    (timer,) = waits.admin.timers(0, 2**62).items
    assert timer.message_id
    assert links(found(operator, q=timer.message_id), "timers") == [f"/timers/{timer.position}/"]
    led = operator.get("/find/key/", {"q": timer.message_id})
    assert led.headers["Location"] == f"/timers/{timer.position}/"
    sent = waits.producer.send("orders", "x", keys=["order-9"])
    waits.mirror.run_once()
    assert "1 message" in found(operator, q=sent.message_id)
    straight = operator.get("/messages/", {"q": sent.offset_message_id})
    assert straight.headers["Location"] == f"/messages/{sent.offset_message_id}/"


def test_more_timers_than_are_shown_lead_to_their_list(stage: Stage, operator: Client) -> None:
    for _nth in range(17):
        stage.producer.send("orders", "x", keys=["order-7"], deliver_at_ms=now_ms() + HOUR_MS)
    page = found(operator, q="order-7")
    assert len(links(page, "timers")) == 16
    assert 'href="/timers/list/?key=order-7"' in page
