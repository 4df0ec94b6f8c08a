"""What docs/CONSUMING.md shows is what the decorator takes."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from broker import handlers
from broker.handlers import forget_all
from tests.house.sources import ROOT

DOCUMENT = (ROOT / "docs" / "CONSUMING.md").read_text()


def test_the_handlers_of_the_document_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("escapement")
    monkeypatch.setitem(sys.modules, "escapement", package)
    monkeypatch.setitem(sys.modules, "escapement.handlers", handlers)
    (code,) = re.findall(r"```python handlers\n(.*?)```", DOCUMENT, re.DOTALL)
    try:
        exec(code, {"__name__": "shop.handlers"})  # noqa: S102 - the document is ours
        seen = [(each.group, each.topic, each.expression, each.place) for each in handlers.registered()]
    finally:
        forget_all()
    assert seen == [
        ("billing", "orders", "created || paid", "shop.handlers.bill"),
        ("billing", "refunds", "*", "shop.handlers.refund"),
    ]
