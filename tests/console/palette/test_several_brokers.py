"""The palette's commands at several brokers: they lead to the one that has the key, or say which have it."""

from __future__ import annotations

import re
import time
from typing import Any

from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from console.operations.models import Operation
from tests.console.several import A, B, Several

HOUR_MS = 3_600_000


def acted(browser: Client, text: str, under: str = "") -> Any:
    return browser.post(f"{under}/find/act/", {"do": text})


def timer(brokers: Several, broker: str, key: str) -> None:
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    brokers.producers[broker].send("orders", "x", keys=[key], deliver_at_ms=due_ms)


def test_a_command_leads_to_the_broker_that_has_the_key(brokers: Several, operator: Client) -> None:
    timer(brokers, B, "order-7")
    answer = acted(operator, "cancel order-7 it was withdrawn")
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/at/broker-b/operations/")
    row = Operation.objects.get()
    assert (row.kind, row.broker, row.preview["count"]) == ("timers.cancel", B, 1)
    assert ">it was withdrawn</textarea>" in operator.get(answer.headers["Location"]).content.decode()


def test_where_several_have_it_they_are_named_and_nothing_is_begun(brokers: Several, operator: Client) -> None:
    for name in (A, B):
        timer(brokers, name, "order-7")
    answer = acted(operator, "cancel order-7 it was withdrawn")
    assert answer.status_code == 422
    assert not Operation.objects.exists()
    forms = re.findall(r'action="(/at/[^"]+)"', answer.content.decode())
    assert forms == ["/at/broker-a/find/act/", "/at/broker-b/find/act/"]
    assert acted(operator, "cancel order-7 it was withdrawn", "/at/broker-b").status_code == 303
    assert Operation.objects.get().broker == B


def test_transactions_are_decided_at_their_broker(brokers: Several, operator: Client) -> None:
    with TransactionProducer("payers", brokers.cluster.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        half = producer.send_half("orders", prepare("x", keys=["order-5"]), broker=B)
    answer = acted(operator, "commit order-5 it is paid")
    assert answer.status_code == 303, answer.content
    row = Operation.objects.get()
    assert (row.broker, row.preview["count"]) == (B, 1)
    assert [each["position"] for each in row.parameters["targets"]] == [half.position]


def test_a_key_that_nobody_has_is_said_and_a_broker_that_is_away_takes_nothing_with_it(
    brokers: Several, operator: Client
) -> None:
    assert acted(operator, "commit order-9 it is paid").status_code == 422
    acted(operator, "cancel order-9 it was withdrawn")
    assert Operation.objects.get().preview["count"] == 0
    timer(brokers, B, "order-7")
    brokers[A].stop()
    answer = acted(operator, "cancel order-7 it was withdrawn")
    assert answer.headers["Location"].startswith("/at/broker-b/operations/")
