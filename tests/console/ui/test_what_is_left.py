"""What is left until a moment: one answer in the head of a page, in its line of life, and as the browser counts it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from console.components import message
from console.features.messages.shapes import life_of
from console.features.timers.pages import line_of
from console.features.timers.shapes import LifeEvent, LifeKind, TimerLife, TimerRow
from console.features.transactions.shapes import LifeEvent as TransactionStep
from console.features.transactions.shapes import TransactionEvent, TransactionLife, TransactionRow, TransactionState
from console.site.evidence import Evidence
from console.templatetags.escapement import due
from console.templatetags.transactions import life_drawing

NOW, MINUTE = 1_790_000_000_000, 60_000
EXACT = Evidence("broker-a", 1, True)


def timer(due_ms: int) -> str:
    row = TimerRow(
        7, 0, due_ms, "orders", 0, 10, "A" * 32, "", ("late",), "", "", NOW - 5 * MINUTE, NOW - 5 * MINUTE, 0
    )
    events = (LifeEvent(LifeKind.ACCEPTED, NOW - 5 * MINUTE, 7),)
    return str(line_of(TimerLife(EXACT, NOW, "pending", row, events)))


def half(due_ms: int) -> str:
    row = TransactionRow(7, TransactionState.DUE, 7, store_ms=NOW - 5 * MINUTE, next_check_ms=due_ms)
    events = (TransactionStep(TransactionEvent.HALF, NOW - 5 * MINUTE),)
    return str(life_drawing(TransactionLife(EXACT, NOW, 7, row, events)))


def counted(drawing: str) -> list[tuple[str, str]]:
    return re.findall(r'data-due-ms="(\d+)">([^<]+)<', drawing)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("left_ms", [13_200, -34 * MINUTE, 0])
def test_the_line_says_what_the_head_says(left_ms: int, language: str) -> None:
    """A check that was late by half an hour was 0.000 s away; a timer's line counted from its last event."""
    with translation.override(language):
        at_ms = NOW + left_ms
        said = re.sub("<[^>]+>", "", due(at_ms, NOW))
        assert counted(timer(at_ms)) == counted(half(at_ms)) == [(str(at_ms), said)]


def test_what_waits_on_a_lane_is_counted_from_now() -> None:
    data = replace(message(NOW), pending=True, due_ms=NOW + 20 * MINUTE)
    assert counted(str(life_of(data))) == [(str(data.due_ms), "20 min")]


@pytest.mark.parametrize(("language", "form"), [("en", "# late"), ("zh-hans", "已晚 #")])
def test_the_browser_is_told_how_what_is_late_is_written(language: str, form: str) -> None:
    with translation.override(language):
        assert f'data-late="{form}"' in render_to_string("base.html", {})
