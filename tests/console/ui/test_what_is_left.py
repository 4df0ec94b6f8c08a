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
from console.templatetags.escapement import due, due_in
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


@pytest.mark.parametrize(
    ("left_ms", "as_of_ms", "said"),
    [
        (1, NOW, "1 ms"),
        (0, NOW, "now"),
        # what is on its way was late for an instant, each time that one fell due
        (-713, NOW, "now"),
        (-2_000, NOW, "now"),
        (-2_001, NOW, "2.00 s late"),
        # it was pending five seconds ago, when it was not due
        (-4_000, NOW - 5_000, "now"),
        (-8_000, NOW - 5_000, "8.00 s late"),
        (4_000, NOW - 5_000, "4.00 s"),
    ],
)
def test_what_falls_due_is_now_before_it_is_late(left_ms: int, as_of_ms: int, said: str) -> None:
    shown = str(due(NOW + left_ms, NOW, as_of_ms=as_of_ms))
    assert re.sub("<[^>]+>", "", shown) == said
    assert ("data-is-late" in shown) == said.endswith("late")


@pytest.mark.parametrize(("left_ms", "said"), [(9_000, "in 9.00 s"), (-713, "now"), (-9_000, "9.00 s late")])
def test_a_sentence_says_it_as_well(left_ms: int, said: str) -> None:
    assert re.sub("<[^>]+>", "", str(due_in(NOW + left_ms, NOW))) == said


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("en", {"late": "# late", "in": "in #", "ago": "# ago", "now": "now"}),
        ("zh-hans", {"late": "已晚 #", "in": "# 后", "ago": "# 前", "now": "现在"}),
    ],
)
def test_the_browser_is_told_how_each_is_written(language: str, forms: dict[str, str]) -> None:
    with translation.override(language):
        page = render_to_string("base.html", {})
    for name, form in forms.items():
        assert f'data-{name}="{form}"' in page
