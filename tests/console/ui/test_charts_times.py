"""What drawings tell the cursor: as many figures as slots, over the moments that they show."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from console.templatetags.charts import minute_svg, spread_svg
from console.templatetags.dashboards import heat_svg, time_svg
from console.ui.charts import Column, Stop, Times, kept_svg, life_svg, spark_svg
from console.ui.timer_charts import Cell, Hub, Slot, forecast_svg, strip_svg, wheel_svg

NOON_MS = 1_795_262_400_000
HOW = {"label": "", "figure": "{:g}".format, "address": "?at={}".format}


def told(svg: str) -> dict[str, str]:
    """The attributes of a drawing that are for the cursor."""
    root = ET.fromstring(svg)  # noqa: S314 - drawn here
    return {name.removeprefix("data-"): value for name, value in root.attrib.items() if name.startswith("data-")}


def test_even_stretches_tell_a_figure_a_slot() -> None:
    minute = told(minute_svg([0, 3, 1_000] + [0] * 57, start_s=NOON_MS // 1000, label="", now="", peak_text=""))
    assert (int(minute["start"]), int(minute["end"])) == (NOON_MS, NOON_MS + 60_000)
    assert minute["values"] == "0|3|1,000|0|=56"
    span_ms = NOON_MS, NOON_MS + 4_000
    cells = [Cell(2, 7, "t", "")]
    strip = told(strip_svg(cells, 4, label="", pointer=None, ticks=[], rolls=[], span_ms=span_ms))
    assert (strip["values"], strip["box"].split()[:2]) == ("0|0|7|0", ["0", "1050"])
    bars = {"capacity": None, "capacity_text": "", "ticks": [], "warnings": [], "is_now": True}
    assert told(forecast_svg([0.0, 2.5], label="", span_ms=span_ms, **bars))["values"] == "0/s|2.5/s"
    times = Times(*span_ms, ["", "2/s"])
    assert told(spark_svg([None, 2.0], label="", times=times))["values"] == "|2/s"
    # one that stands again is written once
    times = Times(*span_ms, ["2/s", "2/s", *[""] * 9, "2/s", "3", "3", "3"])
    assert told(spark_svg([2.0], label="", times=times))["values"] == "2/s|2/s||=8|2/s|3|=2"
    # nothing is known, nothing is told
    assert told(spark_svg([None, 2.0], label="")) == {}


def test_an_empty_lane_says_so_once() -> None:
    lane = {"delay_ms": 60_000, "start_ms": 500, "end_ms": 7_200_000, "label": ""}
    assert told(spread_svg([0] * 50, **lane))["values"] == "0"
    # one that was never used has no figure
    assert told(spread_svg([0] * 50, is_known=False, **lane))["values"] == "\u2013"
    full = told(spread_svg([1] * 50, **lane))
    assert (full["time"], full["least"], full["reach"], full["values"]) == ("log", "500", "7200000", "1|=49")


@pytest.mark.parametrize("moments", [[NOON_MS], [NOON_MS, NOON_MS - 1]])
def test_moments_that_are_no_course_are_not_told(moments: list[int]) -> None:
    assert told(life_svg([Stop(ms, "a", "b", "done") for ms in moments], label="")) == {}


def test_snapshots_and_stops_tell_their_moments() -> None:
    moments = [NOON_MS, NOON_MS + 60_000, NOON_MS + 3_600_000]
    columns = [Column(1, None, "", "", ms, f"{ms % 7} waiting") for ms in moments]
    kept = told(kept_svg(columns, chosen=None, label="", ticks=()))
    assert [int(ms) for ms in kept["moments"].split()] == moments
    assert kept["values"].count("|") == 2
    life = told(life_svg([Stop(ms, "a", "b", "done") for ms in moments], label=""))
    assert [int(ms) for ms in life["moments"].split()] == moments


def test_a_wheel_tells_each_ring() -> None:
    times = [Times(NOON_MS, NOON_MS + 60_000 * 60**turn, ["1", "2"]) for turn in range(3)]
    hub = Hub("", "", "")
    wheel = told(wheel_svg([[Slot(1), Slot(2)]] * 3, label="", now="", marks=("", "", ""), hub=hub, times=times))
    assert wheel["values"] == "1|2;1|2;1|2"
    assert [ring.split()[0] for ring in wheel["rings"].split(";")] == [str(NOON_MS)] * 3


def test_a_dashboard_tells_gaps_as_unknown() -> None:
    moments = [(NOON_MS, 4.0), (NOON_MS + 120_000, 6.0)]
    bars = told(time_svg(moments, step_ms=60_000, clock=str, **HOW))
    assert (bars["values"], int(bars["end"])) == ("4||6", NOON_MS + 180_000)
    hours = ET.fromstring(  # noqa: S314 - drawn here
        heat_svg([(NOON_MS + 1_500_000, 4.0)], local=lambda ms: datetime.fromtimestamp(ms / 1000, UTC), **HOW)
    )
    (cell,) = [link for link in hours.iter() if "data-at" in link.attrib]
    assert int(cell.attrib["data-at"]) == NOON_MS
