"""The Timers page in words: warnings, the pause, the clock, and what a broker does not tell."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from html import unescape

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from console.features.timers.read import TOPICS
from console.features.timers.shapes import (
    FIRST_COUNT,
    ClockSteps,
    Forecast,
    Herd,
    Lateness,
    Stretch,
    TimerFigures,
    TimerFilter,
    TimerList,
    TimerRow,
    TimersPage,
    TopicTimers,
    Wheel,
    WheelSlot,
)
from console.site.evidence import Evidence, StaleReason
from console.ui.live import page_of, parts_of
from tests.console.stage import HOSTILE

NOW = 1_795_247_527_123
#: 2026-11-22 00:00:00 UTC
MIDNIGHT = 1_795_305_600_000
EXACT = Evidence("broker-a", NOW, True, None, (14_004,))


def row(text: str = "order-4711", rolled: int = 0) -> TimerRow:
    return TimerRow(
        position=300, offset=1, due_ms=NOW + 5_000, topic=text, queue_id=0, size_bytes=640, message_id="AB" * 16,
        unique_key="U", keys=(text,), tag=text, schedule_key=text, store_ms=NOW, born_ms=NOW, rolled=rolled,
    )  # fmt: skip


def stretch(step_ms: int, length: int) -> Stretch:
    return Stretch(NOW, step_ms, tuple(WheelSlot(NOW + index * step_ms, index, index * 300) for index in range(length)))


PAGE = TimersPage(
    evidence=EXACT, now_ms=NOW, broker="broker-a", zoom="1h", at_ms=None,
    figures=TimerFigures(paused=False, pending=9_812_440, next_due_ms=NOW + 19, overdue=0, early_total=0),
    topics=(TopicTimers("orders", 7, Lateness("orders", 10, 0.4, 2.6, 9.0, ((1.0, 9), (10.0, 1)))),), topics_left=0,
    lateness=Lateness("", 10, 0.4, 2.6, 9.0, ((1.0, 9), (10.0, 1))),
    first=TimerList(EXACT, NOW, TimerFilter(), (row(),)),
    wheel=Wheel(EXACT, (stretch(1_000, 60), stretch(60_000, 60), stretch(3_600_000, 24)), stretch(30_000, 120)),
    forecast=Forecast(EXACT, stretch(30_000, 120), 25_000.0),
)  # fmt: skip
PARTS = {
    "#stale",
    "#paused",
    "#figures",
    "#first",
    "#wheel",
    "#forecast",
    "#strip",
    "#by-topic",
    "#lateness",
    "#wheel-state",
}


def parts(page: TimersPage) -> dict[str, str]:
    html = render_to_string("live/timers.html", {"data": page, "sequence": 1, "live": True})
    return {target: words(part) for target, part in parts_of(html).items()}


def words(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def test_every_part_that_lives_has_its_place() -> None:
    html = render_to_string("live/timers.html", {"data": PAGE, "sequence": 1, "live": True})
    assert set(parts_of(html)) == PARTS
    for target in PARTS:
        assert html.count(f'id="{target[1:]}"') == 1, target


def test_a_herd_is_warned_of_with_its_topics() -> None:
    herd = Herd(MIDNIGHT, 500_000, 20_000, (("orders", 400_000), ("bills", 100_000)))
    shown = parts(replace(PAGE, forecast=Forecast(EXACT, stretch(3_600_000, 24), 25_000.0, (herd,))))
    assert "500,000 due at 00:00:00; capacity 25,000/s; the last one about 20.0 s late" in shown["#forecast"]
    assert "orders 400,000, bills 100,000" in shown["#forecast"]
    assert "500,000" in shown["#figures"]
    assert "outlined: a burst" in shown["#wheel"]


def test_a_capacity_that_was_never_measured_is_no_number() -> None:
    shown = parts(replace(PAGE, forecast=Forecast(EXACT, stretch(30_000, 120), None)))
    assert "not measured yet" in shown["#forecast"]
    assert "/s." not in shown["#forecast"].split("not measured yet")[0]


@pytest.mark.parametrize(
    ("overdue", "said"), [(0, "0 messages are overdue"), (1, "1 message is"), (4_711, "4,711 messages are")]
)
def test_a_pause_is_a_banner(overdue: int, said: str) -> None:
    shown = parts(replace(PAGE, figures=replace(PAGE.figures, paused=True, overdue=overdue)))
    assert "All timers are paused." in shown["#paused"]
    assert said in shown["#paused"]
    assert "paused" in shown["#wheel"]
    assert "paused" not in parts(PAGE)["#paused"]


def test_steps_of_the_clock_are_shown() -> None:
    def state(back_ms: int, forward_ms: int) -> str:
        return parts(replace(PAGE, figures=TimerFigures(clock=ClockSteps(back_ms, forward_ms, NOW))))["#wheel-state"]

    assert "no step seen" in state(0, 0)
    assert "set back by up to 1 h, 2026-11-21" in state(3_600_000, 0)
    assert "set forward by up to 8 d" in state(0, 8 * 86_400_000)
    assert "set back by up to 1.00 s, set forward by up to 2.00 s" in state(1_000, 2_000)


def test_what_is_not_told_is_not_zero() -> None:
    shown = parts(
        replace(PAGE, figures=TimerFigures(), wheel=None, forecast=None, lateness=None, topics=(), polled=True)
    )
    assert "not reported by this broker" in shown["#figures"]
    assert " 0 " not in shown["#figures"]
    assert "Not reported by this broker" in shown["#forecast"]
    assert "Apache RocketMQ broker" in shown["#paused"]


def test_a_broker_that_is_away_leaves_words() -> None:
    away = replace(EXACT, as_of_ms=None, stale_reason=StaleReason.BROKER_UNREACHABLE)
    gone = replace(
        PAGE, evidence=away, figures=TimerFigures(), wheel=None, forecast=None, lateness=None, topics=(),
        first=TimerList(away, NOW, TimerFilter(), ()),
    )  # fmt: skip
    shown = parts(gone)
    assert "the broker cannot be reached" in shown["#stale"]
    for target in ("#first", "#wheel", "#forecast", "#strip", "#by-topic"):
        assert "Unknown now" in shown[target], target


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text(text: str) -> None:
    first = TimerList(EXACT, NOW, TimerFilter(text, text), (row(text),))
    herd = Herd(MIDNIGHT, 500_000, 20_000, ((text, 1),))
    page = replace(
        PAGE, topics=(TopicTimers(text, 1),), first=first, forecast=Forecast(EXACT, stretch(30_000, 120), 1.0, (herd,))
    )
    html = render_to_string("live/timers.html", {"data": page, "sequence": 1, "live": True})
    assert set(parts_of(html)) == PARTS
    for bad in ("<script", "<img", "onerror=alert(1)>", "<svg onload", "' onmouseover='"):
        assert bad not in html


@pytest.mark.parametrize("zoom", ["10y", "1y", "30d", "7d", "1d", "1h", "1m", "1s"])
@pytest.mark.parametrize("at_ms", [None, NOW + 10**9])
def test_the_page_lives_at_every_zoom(zoom: str, at_ms: int | None) -> None:
    page = page_of("timers", f"zoom={zoom}" + (f"&at={at_ms}" if at_ms else ""))
    assert page is not None
    assert dict(page.query)["zoom"] == zoom
    assert parts(replace(PAGE, zoom=zoom, at_ms=at_ms))["#strip"]


def test_the_fullest_page_is_small() -> None:
    full = TopicTimers("t" * 127, 10**7, Lateness("t" * 127, 10**6, 0.4, 2.6, 9.0, ((1.0, 9), (10.0, 1), (50.0, 3))))
    rows = tuple(replace(row("k" * 200), position=10**12 + number, topic="t" * 127) for number in range(FIRST_COUNT))
    herds = tuple(Herd(MIDNIGHT + number, 500_000, 20_000, (("t" * 127, 9),) * 5) for number in range(5))
    page = replace(
        PAGE, zoom="7d", topics=(full,) * TOPICS, first=TimerList(EXACT, NOW, TimerFilter(), rows),
        wheel=replace(PAGE.wheel, strip=stretch(3_600_000, 168)),
        forecast=Forecast(EXACT, stretch(3_600_000, 168), 1.0, herds),
    )  # fmt: skip
    html = render_to_string("timers/page.html", {"data": page, "here": "timers", "live": "timers", "number": "x" * 36})
    assert len(html.encode()) < 110_000
    assert len(gzip.compress(html.encode(), 6)) < 18_500


def test_it_speaks_chinese() -> None:
    with translation.override("zh-hans"):
        shown = parts(PAGE)
    assert "Fires next" not in shown["#first"]
    assert "Forecast" not in shown["#forecast"]
