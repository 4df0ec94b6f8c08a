"""Charts: the geometry is right and the markup is clean."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from console.templatetags.charts import minute_svg, progress_svg, spread_svg
from console.templatetags.escapement import delay_name, span
from console.templatetags.transactions import HalfMark, OpMark, board_svg
from console.ui.charts import Stop, heat, life_svg, log_place, nice_ceiling, spark_svg
from tests.console.ui.spans import SPANS, in_chinese

COUNTS = st.lists(st.integers(0, 10**7), min_size=1, max_size=60)


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)  # noqa: S314 - our own markup
    assert all(
        "style" not in element.attrib and not any(k.startswith("on") for k in element.attrib) for element in root.iter()
    )
    return root


@given(COUNTS)
def test_a_lane_has_a_bar_for_every_bucket_in_which_something_is_due(counts: list[int]) -> None:
    root = parsed(spread_svg(counts, delay_ms=60_000, start_ms=500, end_ms=7_200_000, label="x"))
    bars = [r for r in root.iter("rect") if r.attrib["class"] != "h0"]
    assert len(bars) == sum(count > 0 for count in counts)
    assert all(0 <= float(bar.attrib["x"]) < 250 and 0 < float(bar.attrib["height"]) <= 22 for bar in bars)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_is_never_paler(one: int, other: int) -> None:
    assert heat(min(one, other), 100_000) <= heat(max(one, other), 100_000)


@pytest.mark.parametrize(("ms", "where"), [(0, 0), (500, 0), (7_200_000, 250), (99_999_999, 250)])
def test_the_axis_ends_where_it_says(ms: int, where: float) -> None:
    assert log_place(ms, 500, 7_200_000, 250) == where


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_waits_is_always_visible(released: float, persisted: float) -> None:
    root = parsed(progress_svg(released, min(released, persisted)))
    waiting = [r for r in root.iter("rect") if r.attrib["class"] == "h4"]
    assert bool(waiting) == (released < 1)
    assert all(float(rect.attrib["width"]) >= 1.99 for rect in waiting)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=60, max_size=60))
def test_a_gap_breaks_the_line(values: list[float | None]) -> None:
    root = parsed(spark_svg(values, label="x"))
    runs = sum(1 for i, v in enumerate(values) if v is not None and (i == 0 or values[i - 1] is None))
    drawn = len(list(root.iter("polygon")))
    assert drawn == (runs if max((v or 0) for v in values) > 0 else 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 59))
def test_a_line_leads_through_every_value(values: list[int], at: int) -> None:
    lines = [each.attrib["points"].split() for each in parsed(spark_svg(values, label="x")).iter("polyline")]
    assert len(lines) == (max(values) > 0 and len(values) > 1)
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line]
        at %= len(values)
        x, y = at * 64 / (len(values) - 1), 15 - 13.5 * values[at] / max(values)
        (left, above), (right, beside) = next((a, b) for a, b in itertools.pairwise(points) if x <= b[0] + 0.05)
        assert abs(above + (beside - above) * (x - left) / (right - left) - y) < 0.8
        # no three in a row are as high
        assert not any(a[1] == b[1] == c[1] for a, b, c in zip(points, points[1:], points[2:], strict=False))


@given(st.lists(st.integers(0, 10**6), min_size=60, max_size=60))
def test_the_fullest_second_is_the_highest_bar(counts: list[int]) -> None:
    root = parsed(minute_svg(counts, start_s=1_700_000_000, label="x", now="now", peak_text="p"))
    heights = [float(r.attrib["height"]) for r in root.iter("rect")]
    assert len(heights) == sum(count > 0 for count in counts)
    assert all(height <= 72 for height in heights)


@given(st.floats(0.001, 1e12))
def test_a_scale_ends_at_a_round_number_not_below(value: float) -> None:
    top = nice_ceiling(value)
    assert value <= top * 1.0001 and top <= value * 10.01


def test_a_life_has_a_dot_for_every_record() -> None:
    stops = [Stop(0, "parked", "14:02", "done"), Stop(9, "released", "14:32", "done", gap="30 min")]
    assert len(list(parsed(life_svg(stops, label="x")).iter("circle"))) == 2


@pytest.mark.parametrize(("ms", "text"), SPANS)
def test_spans_have_units_and_are_no_times_of_day(ms: float, text: str) -> None:
    assert span(ms) == text
    with translation.override("zh-hans"):
        assert span(ms) == in_chinese(text)


@pytest.mark.parametrize(
    ("ms", "text"), [(1_000, "1 s"), (1_800_000, "30 min"), (7_200_000, "2 h"), (1_500, "1,500 ms")]
)
def test_delays_have_short_names(ms: int, text: str) -> None:
    assert delay_name(ms) == text


def half_mark(kind: str = "fresh") -> HalfMark:
    return HalfMark("1", "tx", "orders", "payers", "2 s", kind, "", "/transactions/1/")


@given(st.integers(1, 20), st.data())
def test_every_decision_on_the_board_is_a_line_and_no_card_covers_another(count: int, data: st.DataObject) -> None:
    decided = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    cards = data.draw(st.integers(1, max(1, len(decided))))
    parts = [decided[number::cards] for number in range(cards) if decided[number::cards]]
    ops = [OpMark("7", "1", "commit", "1 s", [(row, "committed") for row in part]) for part in parts]
    root = parsed(board_svg([half_mark() for _ in range(count)], ops, label="x", heads=["h"] * 8))
    lines = [path for path in root.iter("path") if path.attrib["class"] == "line-verd"]
    assert len(lines) == len(decided)
    tops = [float(rect.attrib["y"]) for rect in root.iter("rect")]
    assert all(below - above >= 28 for above, below in itertools.pairwise(tops))
    assert all(top >= 0 and top + 28 <= float(root.attrib["viewBox"].split()[3]) for top in tops)


@pytest.mark.parametrize("kind", ["committed", "rolled", "decided", "undecided", "alone", "parked", "fresh", "unknown"])
def test_every_state_of_a_half_has_a_shape(kind: str) -> None:
    root = parsed(board_svg([half_mark(kind)], [], label="x", heads=["h"] * 8))
    assert len([each for each in root.iter() if each.tag in ("circle", "path") and each.attrib["class"] != "axis"]) == 1
