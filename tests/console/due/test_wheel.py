"""The wheel of the first page: the next minute, hour and day, each slot shared by lanes and timers."""

from __future__ import annotations

import re
import time

import pytest
from django.test import Client

from console.features.due.shapes import DueKind
from console.features.overview.pages import read_overview
from console.site.broker import hang_up
from console.site.evidence import StaleReason
from console.templatetags.due import due_wheel
from tests.console.stage import Stage
from tests.console.ui.test_snapshots_pages import text_of


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def wound(stage: Stage) -> Stage:
    """One on a lane in half a minute, three timers: within the minute, the hour and the day."""
    stage.producer.send("orders", "x", delay_level=4)
    for ahead_s in (20, 1_500, 7_200):
        stage.producer.send("orders", "x", deliver_at_ms=now_ms() + ahead_s * 1000)
    stage.wait_for(lambda: stage.admin.timer_status().pending == 3)
    stage.mirror.run_once()
    return stage


def test_each_ring_has_what_is_due_in_it(wound: Stage) -> None:
    wheel = read_overview().wheel
    assert [(sum(ring.lanes or ()), sum(ring.timers or ())) for ring in wheel.rings] == [(1, 1), (1, 2), (1, 3)]
    assert [(len(ring.totals), ring.slot_ms) for ring in wheel.rings] == [(60, 1_000), (60, 60_000), (24, 3_600_000)]
    seconds = wheel.rings[0]
    lane = next(index for index, count in enumerate(seconds.lanes or ()) if count)
    timer = next(index for index, count in enumerate(seconds.timers or ()) if count)
    assert timer < lane
    assert read_overview().due_in_an_hour == 3
    assert not wheel.unknown


def test_the_hub_says_what_is_first_whichever_it_is(wound: Stage) -> None:
    wheel = read_overview().wheel
    assert wheel.next_kind is DueKind.TIMERS
    assert wheel.next_due_ms is not None
    assert 0 < wheel.next_due_ms - now_ms() <= 20_000
    wound.producer.send("orders", "x", delay_level=2)
    wound.mirror.run_once()
    assert read_overview().wheel.next_kind is DueKind.LANES


def test_paused_timers_are_not_next(wound: Stage) -> None:
    wound.admin.pause_timers(True)
    assert read_overview().wheel.next_kind is DueKind.LANES


def test_a_broker_that_does_not_answer_is_said_not_to_be_known(wound: Stage) -> None:
    hang_up()
    wound.broker.stop()
    wheel = read_overview().wheel
    assert wheel.drawn == (DueKind.LANES,)
    assert [each.why for each in wheel.unknown] == [StaleReason.BROKER_UNREACHABLE]


def test_the_page_draws_both_kinds_and_leads_to_them(wound: Stage, operator: Client) -> None:
    drawing = str(due_wheel(read_overview().wheel, now_ms()))
    assert re.findall(r'<a href="([^"]+)"', drawing) == ["/schedule/", "/timers/"]
    assert drawing.count('class="fill-lane"') == drawing.count('class="fill-timer"') == 1
    assert "data-due-ms" in drawing
    shown = text_of(operator, "/")
    assert "Due within an hour" in shown
    assert "outer ring the next 60 seconds (2 due)" in shown


def test_nothing_is_pending_is_said_in_words(stage: Stage) -> None:
    stage.mirror.run_once()
    assert ">nothing</text>" in str(due_wheel(read_overview().wheel, now_ms()))
