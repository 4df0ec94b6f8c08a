"""Measuring on demand how fast a broker releases: an operation of the console, and by REST."""

from __future__ import annotations

import re

from django.test import Client

from console.features.due.read import read_due
from console.operations.models import AuditEntry, Operation
from tests.console.stage import Stage
from tests.console.ui.test_snapshots_pages import text_of


def draft_of(operator: Client) -> str:
    answer = operator.post("/operations/draft/", {"kind": "due.measure"})
    assert answer.status_code == 303, answer.content.decode()[:500]
    return answer.headers["Location"]


def test_it_is_previewed_confirmed_with_a_reason_and_told(stage: Stage, operator: Client) -> None:
    assert "Measure now…" in text_of(operator, "/due/")
    address = draft_of(operator)
    shown = text_of(operator, address)
    assert "not measured" in shown
    assert "A separate process of the broker" in shown
    assert operator.post(address + "confirm/", {"reason": "a new disk"}).status_code == 303
    row = Operation.objects.get()
    assert row.results == {"measured": 1}
    assert row.items.get().result["capacity_per_s"] == stage.admin.timer_status().capacity_per_s
    assert [entry.reason for entry in AuditEntry.objects.order_by("id")] == ["a new disk"] * 2
    assert re.search(r"[\d,]{4,}/s", text_of(operator, address))
    (load,) = read_due("1h").loads
    assert (load.capacity_how, load.is_measurable) == ("self_test", True)
    page = text_of(operator, "/due/")
    assert "self-test, " in page
    assert "tests itself once it has been quiet" not in page
    assert "self-test, " in text_of(operator, draft_of(operator))
