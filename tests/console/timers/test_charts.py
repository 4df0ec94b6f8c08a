"""The wheel, the strip, the forecast and lateness: right places, clean markup, small enough."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.timers import WheelBucket
from console.features.timers.shapes import DAY, FURTHEST_MS, ZOOMS, stretch_of, window_of
from console.ui.timer_charts import (
    CENTRE,
    FORECAST_FOOT,
    LATE_EDGES,
    LATENESS_FOOT,
    RADII,
    Cell,
    HerdMark,
    Hub,
    Mark,
    Slot,
    at,
    binned,
    forecast_svg,
    lateness_svg,
    sector,
    small_svg,
    strip_svg,
    wheel_svg,
)

COUNTS = st.lists(st.integers(0, 10**7), min_size=1, max_size=60)
HUB = Hub("next due", "0.019 s", "orders", "slot 1", 1_795_247_527_000)
NOW = 1_795_247_527_123


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)  # noqa: S314 - our own markup
    assert all(
        "style" not in element.attrib and not any(k.startswith("on") for k in element.attrib) for element in root.iter()
    )
    return root


@given(st.floats(0, 0.999), st.floats(10, 300))
def test_a_hand_points_clockwise_from_the_top(turn: float, radius: float) -> None:
    x, y = at(turn, radius)
    assert math.hypot(x - CENTRE, y - CENTRE) == pytest.approx(radius)
    assert math.atan2(x - CENTRE, CENTRE - y) % math.tau == pytest.approx(math.tau * turn % math.tau, abs=1e-6)


@given(st.integers(1, 60), st.data())
def test_slots_never_overlap(length: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, length - 1))
    inner, outer = RADII[0]
    path = sector(index / length, (index + 1) / length, inner, outer)
    numbers = [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", path)]
    points = [(numbers[0], numbers[1]), (numbers[7], numbers[8]), (numbers[9], numbers[10]), (numbers[16], numbers[17])]
    for x, y in points:
        turn = math.atan2(x - CENTRE, CENTRE - y) / math.tau % 1
        assert index / length - 0.001 <= turn <= (index + 1) / length + 0.001 or length == 1


def test_a_ring_draws_what_is_due_and_links_it() -> None:
    rings = [[Slot(0)] * 60, [Slot(0)] * 60, [Slot(0)] * 24]
    rings[0][0] = Slot(3, "14:32:07 &lt;b&gt;", "/timers/?zoom=1s&amp;at=1", is_herd=True)
    root = parsed(wheel_svg(rings, label="wheel", now="now", marks=("a", "b", "c"), hub=HUB))
    links = list(root.iter("a"))
    assert [link.attrib["href"] for link in links] == ["/timers/?zoom=1s&at=1"]
    assert links[0].attrib["tabindex"] == "-1"
    assert links[0].findtext("title") == "14:32:07 <b>"
    assert len([path for path in root.iter("path") if path.attrib["class"] == "outlined"]) == 1
    assert [text.attrib["data-due-ms"] for text in root.iter("text") if "data-due-ms" in text.attrib] == [
        str(HUB.due_ms)
    ]


def test_a_full_wheel_and_a_full_strip_leave_room_on_the_page() -> None:
    title, href = "2026-11-21 14:32 · 123,456 · 41.2 MB", "/timers/?zoom=1m&amp;at=1795247527000"
    rings = [[Slot(10**6, title, href)] * length for length in (60, 60, 24)]
    wheel = wheel_svg(rings, label="wheel", now="now", marks=("a", "b", "c"), hub=HUB)
    strip = strip_svg([Cell(i, 9, title, href) for i in range(168)], 168, label="", pointer=None, ticks=[], rolls=[])
    bars = forecast_svg([5.0] * 168, label="", capacity=9, capacity_text="", ticks=[], warnings=[], is_now=True)
    assert len(wheel) + len(strip) + len(bars) < 72_000


@given(COUNTS)
def test_a_strip_has_a_link_for_every_slot_in_which_something_is_due(counts: list[int]) -> None:
    cells = [Cell(index, count, str(count), f"?at={index}") for index, count in enumerate(counts) if count]
    marks = [Mark(0.0, "pointer"), Mark(0.9, "roll")]
    root = parsed(strip_svg(cells, len(counts), label="x", pointer=marks[0], ticks=[], rolls=marks[1:]))
    rects = [link.find("path") for link in root.iter("a")]
    assert len(rects) == sum(count > 0 for count in counts)
    places = [float(re.findall(r"[\d.]+", rect.attrib["d"])[0]) for rect in rects if rect is not None]
    assert places == sorted(places)
    assert all(0 <= place < 1120 for place in places)


@given(st.lists(st.just(0.0) | st.floats(1e-7, 1e6), min_size=1, max_size=168), st.one_of(st.none(), st.floats(1, 1e6)))
def test_no_bar_is_higher_than_the_scale(per_s: list[float], capacity: float | None) -> None:
    svg = forecast_svg(
        per_s,
        label="x",
        capacity=capacity,
        capacity_text="c",
        ticks=[],
        warnings=[HerdMark(0.5, "a", "b")],
        is_now=True,
    )
    root = parsed(svg)
    bars = [
        bar
        for path in root.iter("path")
        if path.attrib["class"][0] == "h"
        for bar in re.findall(r"v-([\d.]+)", path.attrib["d"])
    ]
    assert len(bars) == sum(value > 0 for value in per_s)
    assert all(0 < float(high) <= FORECAST_FOOT - 7 for high in bars)
    drawn = any(path.attrib["class"] == "cap" for path in root.iter("path"))
    assert drawn == (capacity is not None and max(per_s) > 0 and capacity <= 3 * max(per_s))


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=40))
def test_lateness_in_bars_loses_no_release(counts: list[int]) -> None:
    few = binned([(float(2**index), count) for index, count in enumerate(counts)])
    assert [edge for edge, _ in few] == [*LATE_EDGES, None]
    assert sum(count for _, count in few) == sum(counts)
    for svg in (lateness_svg(few, label="x"), small_svg(few, label="x")):
        parsed(svg)


def test_one_release_is_a_low_bar_and_its_words_are_no_zero_to_zero() -> None:
    """Bars were from 0 to 0, 0 to 2, 10 to 81, and one release each drew towers as high as the drawing."""
    drawn = parsed(lateness_svg(binned([(0.0, 1), (1.5, 1), (81.0, 1), (None, 1)]), label="x"))
    words = [(text.text or "").replace("\u2013", "-") for text in drawn.iter("text")]
    edges = ["0-1", "1-2", "2-5", "5-10", "10-20", "20-50", "50-100", "0.1-1 s", ">1 s"]
    assert [word for word in words if word != "1"] == edges
    assert words.count("1") == 4
    assert max(float(bar.attrib["height"]) for bar in drawn.iter("rect")) < LATENESS_FOOT / 4


def test_a_moment_has_one_place_in_strip_and_forecast_and_no_word_is_cut() -> None:
    ticks = [Mark(0.98, "22:20:00")]
    strip = strip_svg([], 60, label="", pointer=None, ticks=ticks, rolls=[], span_ms=(0, 60_000))
    below = forecast_svg([1.0], label="", capacity=None, capacity_text="", ticks=[], warnings=[], is_now=False,
                         span_ms=(0, 60_000))  # fmt: skip
    boxes = [re.search(r'data-box="([\d.]+) ([\d.]+)', svg) for svg in (strip, below)]
    assert boxes[0] and boxes[1] and boxes[0].groups() == boxes[1].groups()
    at = [float(text.attrib["x"]) for text in parsed(strip).iter("text")]
    assert at and at[0] + 8 * len("22:20:00") < 1_120


@pytest.mark.parametrize("name", list(ZOOMS))
def test_a_zoom_is_never_more_than_a_broker_answers(name: str) -> None:
    zoom = ZOOMS[name]
    assert zoom.span_ms % zoom.step_ms == 0
    assert zoom.span_ms // zoom.step_ms <= 168
    assert zoom.opens is None or ZOOMS[zoom.opens].step_ms < zoom.step_ms


@pytest.mark.parametrize("name", list(ZOOMS))
@pytest.mark.parametrize("at_ms", [None, 0, NOW, NOW + 10 * 365 * DAY, 10**18])
def test_a_window_begins_where_its_slots_do(name: str, at_ms: int | None) -> None:
    window = window_of(name, at_ms, NOW)
    assert window.start_ms % max(window.zoom.step_ms, 1_000) == 0
    wanted = min(NOW if at_ms is None else at_ms, NOW + FURTHEST_MS)
    assert window.start_ms <= wanted < window.end_ms
    assert window.following == (at_ms is None)


def test_an_unknown_zoom_is_the_usual_one() -> None:
    assert window_of("x' OR 1=1", None, NOW).zoom.name == "1h"


def test_a_stretch_has_no_gaps_and_knows_which_bytes_it_knows() -> None:
    buckets = [
        WheelBucket(1_000, 2, 10),
        WheelBucket(1_500, 1, 5),
        WheelBucket(3_000, 4, None),
        WheelBucket(9_000, 1, 1),
    ]
    found = stretch_of(buckets, 0, 4_000, 1_000)
    assert [(slot.count, slot.size_bytes) for slot in found.slots] == [(0, 0), (3, 15), (0, 0), (4, None)]
    assert (found.total, found.peak, found.end_ms) == (7, 4, 4_000)
