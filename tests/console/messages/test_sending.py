"""A message that is written in the console: checked field by field, previewed, and sent as it was written."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from broker.client import Admin, Message, SimpleConsumer
from console.operations.models import AuditEntry, Operation
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

DRAFT = "/operations/draft/"
HOUR_MS = 3_600_000


def form(**given: str) -> dict[str, str]:
    """What the page's form sends."""
    return {"kind": "messages.send", "topic": "orders", "body": "hello", "body_as": "text", "when": "now", **given}


def previewed(browser: Client, **given: str) -> str:
    """The address of the preview of what the form asks for."""
    answer: Any = browser.post(DRAFT, form(**given))
    assert answer.status_code == 303, words(answer)
    return str(answer.headers["Location"])


def sent(browser: Client, **given: str) -> Operation:
    """The operation, once it is confirmed."""
    address = previewed(browser, **given)
    assert browser.post(f"{address}confirm/", {"reason": "because"}).status_code == 303
    return Operation.objects.get(pk=address.strip("/").rpartition("/")[2])


def count(stage: Stage) -> int:
    return sum(each.max_offset for each in stage.admin.topic_stats("orders").queues)


def test_what_was_written_is_what_a_consumer_gets(stage: Stage, operator: Client) -> None:
    more = {"keys": " order-1  paid ", "tag": "created", "properties": "shop=north\n\nnote=a = b", "sharding_key": "7"}
    with SimpleConsumer("billing", stage.broker.namesrv) as consumer:
        list(consumer.receive("orders"))
        row = sent(operator, body='{\r\n  "order": 1.10\r\n}', body_as="json", **more)
        assert row.results == {"sent": 1}, row.items.get().result
        (got,) = consumer.receive("orders", wait_ms=5000)
    assert got.message.body == b'{\n  "order": 1.10\n}'
    print(got)
