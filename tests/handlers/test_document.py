"""What docs/CONSUMING.md shows is what the decorator takes."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import get_type_hints

import msgspec
import pytest

from broker import handlers
from broker.client import event
from broker.handlers import forget_all
from tests.house.sources import ROOT


@event("documents.order.paid")
class OrderPaid(msgspec.Struct):
    number: str
    amount: int


DOCUMENT = (ROOT / "docs" / "CONSUMING.md").read_text()


def test_the_handlers_of_the_document_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    events = ModuleType("shop.events")
    events.OrderPaid = OrderPaid  # type: ignore[attr-defined] # it is made here
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.events", events)
    (code,) = re.findall(r"```python handlers\n(.*?)```", DOCUMENT, re.DOTALL)
    try:
        own = code.replace("from escapement_mq.", "from broker.")
        exec(own, {"__name__": "shop.handlers"})  # noqa: S102 - the document is ours
        seen = [(each.group, each.topic, each.expression, each.place, each.once) for each in handlers.registered()]
        (book,) = [each.handler for each in handlers.registered() if each.topic == "payments"]
    finally:
        forget_all()
    assert seen == [
        ("accounting", "payments", "*", "shop.handlers.book", True),
        ("billing", "orders", "created || paid", "shop.handlers.bill", False),
        ("billing", "refunds", "*", "shop.handlers.refund", False),
    ]
    assert get_type_hints(book) == {"payment": OrderPaid}
