"""The five pages with charts over time: words, links, marks, a table; who sees some topics only; in Chinese."""

from __future__ import annotations

import html
import re
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.kept_figures import HOUR_MS, MINUTE_MS, Figures, FigureSubject, keep_figures
from console.operations.marks import MOST, marks_between
from console.operations.models import Operation
from console.past import Snapshot
from console.security.topic_scope import ALL
from console.ui import live
from console.ui.live import page_of
from tests.console.people import browser_of
from tests.console.security.test_limited import limited_person
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.test_snapshots_pages import text_of

KIND = FigureSubject.Kind
PAGES = {
    "/": ["Throughput", "Pending", "Lateness p99", "Lag"],
    "/schedule/": ["Throughput", "Pending", "Lateness p99"],
    "/timers/": ["Throughput", "Pending", "Lateness p99"],
    "/topics/orders/": ["Throughput", "Lag", "Pending", "Lateness p99"],
    "/groups/billing/": ["Throughput", "Lag"],
}


def minute() -> int:
    return time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS


@pytest.fixture
def kept(stage: Stage) -> Stage:
    """Half an hour of figures in which a message a second went through everything."""
    stage.fill()
    stage.consume()
    end_ms = minute()
    for at in range(30):
        slot_ms = end_ms - (30 - at) * MINUTE_MS
        Snapshot.objects.create(broker="broker-a", slot_ms=slot_ms, at_ms=slot_ms, lanes=b"x", timers=b"x")
        subjects = [("flow", "accepted"), ("flow", "consumed"), ("lanes", ""), ("timers", ""), ("topic", "orders"),
                    ("group", "billing")]  # fmt: skip
        keep_figures("broker-a", slot_ms, [Figures(*each, 60 * at, 1_000 + at, 7, 1_500) for each in subjects])
    return stage


def done(kind: str, parameters: dict[str, Any], seconds_ago: float = 600, **more: Any) -> Operation:
    started = timezone.now() - timedelta(seconds=seconds_ago)
    return Operation.objects.create(
        kind=kind, parameters=parameters, state="done", started_at=started, actor="anna", **more
    )


def section(html: str) -> str:
    found = re.search(r'<section class="sheet" id="over-time".*?</section>', html, re.DOTALL)
    assert found is not None
    return found[0]


def test_every_page_draws_its_measures(kept: Stage, operator: Client) -> None:
    for path, titles in PAGES.items():
        shown = section(text_of(operator, path))
        assert re.findall(r"<h3>([\w ]+?) <span", shown) == titles, path
        assert shown.count("<polyline") >= len(titles), path
        assert "highest 1.0/s at " in shown, path
        assert all(f'href="?over={name}#over-time"' in shown for name in ("hour", "day", "week")), path
        # half of the hour is not known, and no zero: what is known may begin and end within a slot of the twenty
        assert shown.count(">\u2013</td>") >= 9 * len(titles), path
    assert "highest 1.5 ms at" in section(text_of(operator, "/timers/"))


def test_a_stretch_of_ones_own_stays_with_what_the_page_shows(kept: Stage, operator: Client) -> None:
    start_ms, end_ms = minute() - 20 * MINUTE_MS, minute() - 10 * MINUTE_MS
    shown = section(text_of(operator, f"/timers/?zoom=1d&from={start_ms}&to={end_ms}"))
    assert f'data-start="{start_ms}" data-end="{end_ms}"' in shown
    assert 'aria-current="true"' not in shown
    assert 'href="?zoom=1d&amp;over=day#over-time"' in shown
    assert f"?zoom=1d&amp;from={start_ms - 10 * MINUTE_MS}&amp;to={start_ms}#over-time" in shown
    assert "Later" in shown
    assert "1 minute each" in shown


def test_operations_are_marks_on_the_axis_of_what_they_touched(kept: Stage, operator: Client) -> None:
    reset = done("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "last"})
    cancelled = done("timers.cancel", {"filter": {"topic": "payroll"}}, preview={"topics": [["payroll", 3]]})
    for path, row, other in (
        ("/groups/billing/", reset, cancelled), ("/topics/orders/", reset, cancelled), ("/timers/", cancelled, reset),
    ):  # fmt: skip
        shown = section(text_of(operator, path))
        assert f'<a href="/operations/{row.pk}/"><title>' in shown, path
        assert str(other.pk) not in shown, path
        assert ", anna</a>" in shown
    # close together they are one mark, of all operations
    assert '<a href="/operations/"><title>' in section(text_of(operator, "/"))


def test_marks_are_few_and_only_what_is_seen(kept: Stage) -> None:
    for number in range(120):
        done("timers.pause", {}, seconds_ago=29.9 * number)
    now_ms = minute() + MINUTE_MS
    marks = marks_between(now_ms - HOUR_MS, now_ms, ["broker-a"])
    # each is near the one before it, and still they are no single mark
    assert len(marks) == MOST
    assert {mark.count for mark in marks[1:-1]} <= {2, 3}
    assert marks_between(now_ms - HOUR_MS, now_ms, ["broker-a"], kinds=("topics.",)) == ()
    browser = browser_of(limited_person("anna", "ord"))
    assert "/operations/" not in section(text_of(browser, "/timers/"))


def test_hostile_names_stay_text(kept: Stage, operator: Client) -> None:
    done("timers.pause", {}, reason=HOSTILE[0])
    Operation.objects.update(actor=HOSTILE[0] + HOSTILE[1])
    shown = section(text_of(operator, "/timers/"))
    assert HOSTILE[0] not in shown
    assert HOSTILE[1] not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_who_sees_some_topics_is_told_the_lag_in_these_and_not_of_all(kept: Stage) -> None:
    browser = browser_of(limited_person("anna", "ord"))
    for path, titles in PAGES.items():
        shown = section(text_of(browser, path))
        wanted = [title for title in titles if title != "Lag" or path != "/"]
        assert re.findall(r"<h3>([\w ]+?) <span", shown) == wanted, path
    assert browser.get("/topics/payroll/").status_code == 404


def test_a_past_moment_has_no_charts_of_today(kept: Stage, operator: Client) -> None:
    for path in ("/timers/", "/schedule/"):
        assert 'id="over-time"' not in text_of(operator, f"{path}?as_of=-10d")


def test_before_anything_is_kept_the_charts_say_so(stage: Stage, operator: Client) -> None:
    for path in ("/", "/timers/", "/topics/orders/"):
        assert "nothing known" in section(text_of(operator, path))


def test_the_charts_are_in_chinese(kept: Stage, operator: Client) -> None:
    done("timers.pause", {})
    shown = section(operator.get("/timers/?over=week", headers={"accept-language": "zh-hans"}).content.decode())
    for english in ("Over time", "highest", "Throughput", "each", "nothing known", "Pause", "week"):
        assert english not in re.sub(r"<[^>]*>", "", shown), english
    assert "历史曲线" in shown


@pytest.mark.parametrize("over", ["hour", "day", "week"])
def test_charts_cost_a_page_few_queries_and_bytes(kept: Stage, operator: Client, over: str) -> None:
    for path in PAGES:
        address = f"{path}?over={over}"
        operator.get(address)
        with CaptureQueriesContext(connection) as captured:
            answer = operator.get(address)
        told = [each["sql"] for each in captured if "console_figuresubject" in each["sql"]]
        assert len(told) == 1, path
        assert len(section(answer.content.decode())) < 40_000, path
        assert len(answer.content) < 100_000, path


def test_charts_of_an_open_page_move_with_it(kept: Stage, operator: Client) -> None:
    for path in PAGES:
        shown = text_of(operator, path)
        address = re.search(r'hx-ws:connect="/ws/live/([^"]+)"', shown)
        assert address is not None, path
        page = replace(page_of(*html.unescape(address[1]).split("?")) or page_of("overview"), visible=ALL)
        first = live._made(page, "en", 1, None)
        for part in ("#over-lead", "#over-panels", "#over-table"):
            assert part in first.parts, path
            assert f'id="{part[1:]}"' in shown, path
        with CaptureQueriesContext(connection) as asked:
            again = live._made(page, "en", 2, replace(first, made_s=0, mark=object()))
        assert not [each for each in asked.captured_queries if "minutefigures" in each["sql"]], "they are kept a while"
        assert again.parts["#over-panels"] == first.parts["#over-panels"]
    slot_ms = minute() - 40 * MINUTE_MS
    Snapshot.objects.create(broker="broker-a", slot_ms=slot_ms, at_ms=slot_ms, lanes=b"x", timers=b"x")
    keep_figures("broker-a", slot_ms, [Figures("group", "billing", 60_000, 5, 7, 1_500)])
    old = replace(first, made_s=0, mark=object(), charts_s=0)
    assert live._made(page, "en", 3, old).parts["#over-panels"] != first.parts["#over-panels"]


def test_a_stretch_that_is_over_stays_as_it_is(kept: Stage, operator: Client) -> None:
    at_ms = minute()
    shown = text_of(operator, f"/groups/billing/?from={at_ms - 20 * MINUTE_MS}&to={at_ms - 5 * MINUTE_MS}")
    assert 'hx-ws:connect="/ws/live/group/billing"' in shown
    page = page_of("group/billing")
    assert page is not None
    assert "#over-panels" not in live._made(replace(page, visible=ALL), "en", 1, None).parts
