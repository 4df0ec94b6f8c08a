"""Pages as of a moment: what a snapshot has, what it does not, who sees it, and two moments side by side."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from django.test import Client, RequestFactory

from broker.mirror.models import MirrorState
from console.features.timers import apache_records
from console.features.timers.pages import timers_kept
from console.features.timers.shapes import window_of
from console.past import Asked, Snapshot, asked_of, last_time_of_day
from console.site.mirrored import mirrored
from console.snapshots import Taken, keep, take
from console.ui.charts import Column, kept_svg
from tests.console.people import browser_of
from tests.console.security.test_limited import FOREIGN, limited_person
from tests.console.security.test_limited import filled as filled
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

PAGES = ("/schedule/", "/timers/", "/groups/")
HOUR_MS = 3_600_000


def text_of(browser: Client, path: str, status: int = 200) -> str:
    page: Any = browser.get(path)
    assert page.status_code == status, path
    return (b"".join(page) if page.streaming else page.content).decode()


def taken() -> Snapshot:
    [row] = take()
    assert row is not None
    return row


def move(row: Snapshot, by_ms: int) -> None:
    """As if it had been taken at another moment."""
    Snapshot.objects.filter(pk=row.pk).update(at_ms=row.at_ms + by_ms, slot_ms=row.slot_ms + by_ms)


def test_pages_show_the_snapshot_and_nothing_to_do(filled: Stage, operator: Client) -> None:
    row = taken()
    filled.producer.send("orders", "too late", delay_level=16)
    filled.producer.send("orders", "too late", queue_id=0)
    filled.mirror.run_once()
    for path in PAGES:
        now, then = text_of(operator, path), text_of(operator, f"{path}?as_of={row.at_ms}")
        assert "data-past" in then
        assert "hx-ws:connect" in now
        assert "hx-ws:connect" not in then, path
        assert "/draft/" not in then, path
        assert ("/draft/" in now) is (path != "/schedule/")
        assert f"/compare/?from={row.at_ms}" in then
    data = operator.get("/schedule/", {"as_of": row.at_ms}).context["data"]
    assert (data.lanes[15].backlog, operator.get("/schedule/").context["data"].lanes[15].backlog) == (2, 3)
    groups = operator.get("/groups/", {"as_of": row.at_ms, "search": "bill"}).context["data"]
    assert [each.name for each in groups.rows] == ["billing"]
    zoomed = operator.get("/timers/", {"as_of": row.at_ms, "zoom": "1d"}).context["data"]
    assert (zoomed.zoom, zoomed.figures.pending, zoomed.wheel.strip.total) == ("1d", 2, 2)
    listed = json.loads(text_of(operator, f"/groups/?as_of={row.at_ms}&as=json"))
    assert {each["name"]: each["lag"] for each in listed} == {each.name: each.lag for each in groups_at(operator, row)}


def test_a_broker_that_tells_no_forecast_is_kept_as_its_page_is(filled: Stage, operator: Client) -> None:
    here = mirrored()
    page = apache_records.timers(here, window_of("1d", None, here.now_ms))
    kept = timers_kept(here, page)
    keep(Taken("broker-a", here.now_ms, None, kept, None, None, {}))
    answer = operator.get("/timers/", {"as_of": here.now_ms, "zoom": "1d"})
    data = answer.context["data"]
    assert (data.polled, data.figures.pending) == (True, 2)
    assert (data.wheel.strip.total, data.zoom, data.forecast) == (2, "1d", None)
    assert "Not reported by this broker" in answer.content.decode()


def groups_at(browser: Client, row: Snapshot) -> Any:
    return browser.get("/groups/", {"as_of": row.at_ms}).context["data"].rows


def test_what_is_not_kept_is_said(filled: Stage, operator: Client) -> None:
    for path in PAGES:
        assert "No snapshot is kept yet." in text_of(operator, f"{path}?as_of=-1h")
    row = taken()
    MirrorState.mirror_writer.update(error="no route")
    move(row, -HOUR_MS)
    away = taken()
    for path in PAGES:
        before = text_of(operator, f"{path}?as_of={row.at_ms - HOUR_MS - 1}")
        assert "No snapshot at or before" in before
        assert "Next snapshot" in before
        assert "Previous snapshot" not in before
        assert "<table" not in before, path
        assert "No snapshot was kept in the 5" in text_of(operator, f"{path}?as_of={away.at_ms - 60_000}"), path
        assert "is not a time" in text_of(operator, f"{path}?as_of=yesterday", 422), path
    for path in ("/schedule/", "/groups/"):
        lost = text_of(operator, f"{path}?as_of={away.at_ms}")
        assert "No data for this page at that time: the broker cannot be reached." in lost
        assert "<table" not in lost
    assert "is not a time" in text_of(operator, "/compare/?from=soon", 422)
    page = operator.get("/compare/?from=1795244400000").content.decode()
    field = re.search(r'<input\s+name="from"\s+value="([^"]*)"', page)
    assert field and field[1] == "2026-11-21T07:00:00+00:00"
    for path in ("/compare/", "/compare/?from=-10d", f"/compare/?from=-10d&to={away.at_ms}"):
        assert "data-past" in text_of(operator, path), path


def test_now_is_compared_with_a_moment_a_press_away_and_a_default_is_said(filled: Stage, operator: Client) -> None:
    """Nothing said that empty fields compare with an hour ago, and every span had to be typed."""
    taken()
    assert "By default, now is compared with an hour ago." in text_of(operator, "/compare/")
    page = operator.get("/compare/").content.decode()
    spans = re.findall(r'href="(\?from=-[^"]+)"', page)
    assert spans == ["?from=-10min", "?from=-1h", "?from=-1d"]
    for span_ms, span in zip((HOUR_MS // 6, HOUR_MS, 24 * HOUR_MS), spans, strict=True):
        answer = operator.get(f"/compare/{span}")
        before = answer.context["before"]
        assert abs(time.time() * 1000 - span_ms - before.at_ms) < 10_000
        (chosen,) = re.findall(r'href="([^"]+)"\s+aria-current="true"', answer.content.decode())
        assert chosen == span


def test_two_moments_side_by_side(filled: Stage, operator: Client) -> None:
    row = taken()
    move(row, -HOUR_MS)
    for _ in range(5):
        filled.producer.send("orders", "more", queue_id=0)
        filled.producer.send("orders", "more", delay_level=16)
    filled.mirror.run_once()
    found = operator.get("/compare/", {"from": "-30min"}).context["data"]
    assert found.before.at_ms == row.at_ms - HOUR_MS
    lanes = {line.name: dict(line.pairs) for line in found.lanes}
    assert (lanes["16"]["waiting"].difference, lanes["16"]["end_offset"].difference) == (5, 5)
    assert lanes["15"]["waiting"].difference == 0
    groups = {line.name: dict(line.pairs) for line in found.groups}
    assert (groups["billing"]["lag"].difference, groups["wages"]["lag"].difference) == (5, 0)
    assert found.groups[0].name == "billing"
    lines = list(csv.DictReader(io.StringIO(text_of(operator, "/compare/?from=-30min&as=csv"))))
    (line,) = (each for each in lines if (each["part"], each["name"], each["figure"]) == ("lane", "16", "waiting"))
    assert (line["before"], line["after"], line["difference"]) == ("2", "7", "5")


def test_only_what_moved_is_drawn_and_what_is_new_moved_by_all_of_it(filled: Stage, operator: Client) -> None:
    """198 rows of nothing stood there, and a new topic's 59 timers were no difference."""
    move(taken(), -HOUR_MS)
    filled.admin.create_topic("ordinary")
    filled.admin.create_group("fresh")
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    for _ in range(3):
        filled.producer.send("ordinary", "x", deliver_at_ms=due_ms)
        filled.producer.send("orders", "more", queue_id=0)
    filled.wait_for(lambda: len(filled.admin.timers(0, 2**62).items) == 5)
    filled.mirror.run_once()
    answer = operator.get("/compare/", {"from": "-30min"})
    data = answer.context["data"]
    pairs = {(line.part, line.name): line.pairs[0][1] for line in (*data.topics, *data.groups)}
    assert pairs["timers", "ordinary"] == (0, 3, False)
    assert pairs["timers", "ordinary"].difference == 3
    assert pairs["timers", "payroll"].difference == 0
    page = words(answer)
    assert "ordinary 0 3 +3" in page
    assert "payroll" not in page
    assert "1 of 3 changed" in page


def test_without_a_snapshot_of_before_nothing_is_drawn(filled: Stage, operator: Client) -> None:
    answer = operator.get("/compare/", {"from": "-30min"})
    page = answer.content.decode()
    assert "no snapshot" in page
    assert "no snapshot is kept yet" in page
    assert "<table" not in page


def test_nobody_sees_by_looking_back_what_is_not_seen(filled: Stage, operator: Client, server: redis.Redis) -> None:
    row = taken()
    move(row, -HOUR_MS)
    at_ms = row.at_ms - HOUR_MS
    for topic in ("orders", FOREIGN):
        filled.producer.send(topic, "more", queue_id=0)
    filled.mirror.run_once()
    anna = browser_of(limited_person("anna", "ord"))
    compare = f"/compare/?from={at_ms}"
    paths = [f"{path}?as_of={at_ms}" for path in PAGES[1:]] + [compare]
    for path in (*paths, f"{compare}&as=csv", f"/groups/?as_of={at_ms}&as=json"):
        shown, told = text_of(anna, path), text_of(operator, path)
        assert "orders" in shown or "billing" in shown, path
        assert FOREIGN in told or "wages" in told, path
        assert FOREIGN not in shown, path
        assert "wages" not in shown, path
    # of a group that reads it, too, only what is of the own topics is there
    filled.admin.move_group("billing", FOREIGN, 0, 0)
    filled.mirror.run_once()
    Snapshot.objects.all().delete()
    later = taken()
    shown = text_of(anna, f"/groups/?as_of={later.at_ms}")
    assert "billing" in shown
    assert FOREIGN not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02:30", "2026-11-22T02:30:00+00:00"), ("2:30:05", "2026-11-22T02:30:05+00:00"),
        ("12:00", "2026-11-22T12:00:00+00:00"), ("12:00:01", "2026-11-21T12:00:01+00:00"),
        ("24:00", None), ("2:60", None), ("-1h", None), ("half past two", None),
    ],
)  # fmt: skip
def test_a_time_of_day_is_the_last_one(text: str, expected: str | None) -> None:
    noon = datetime(2026, 11, 22, 12, 0, 0, 900, tzinfo=UTC)
    found = last_time_of_day(text, noon)
    assert (found and found.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "at_ms"), [("2026-11-20T08:00:00+08:00", 1_795_132_800_000), ("1795132800000", 1_795_132_800_000)]
)
def test_a_moment_is_understood(text: str, at_ms: int) -> None:
    assert asked_of(RequestFactory().get("/", {"as_of": text})) == Asked(text, at_ms)


def test_the_palette_leads_to_the_comparison(operator: Client) -> None:
    assert "/compare/" in text_of(operator, "/find/?q=compare&part=1")


def test_a_moment_is_chosen_from_all_that_is_kept(filled: Stage, operator: Client) -> None:
    row = taken()
    for minutes in (3, 2, 1):
        earlier = Snapshot.objects.get(pk=row.pk)
        earlier.pk, earlier.slot_ms, earlier.at_ms = None, row.slot_ms - minutes * 60_000, row.at_ms - minutes * 60_000
        earlier.lanes_pending = None if minutes == 2 else 5
        earlier.save()
    page = text_of(operator, f"/timers/?as_of={row.at_ms}&zoom=1d")
    links = re.findall(r'<a href="([^"]*)" tabindex="-1"><title>([^<]*)</title><rect', page)
    assert [address for address, _ in links] == [
        f"?zoom=1d&amp;as_of={row.at_ms - minutes * 60_000}" for minutes in (3, 2, 1, 0)
    ]
    assert [words.partition(": ")[2] for _, words in links] == [
        f"{waiting} pending, lag {row.lag}" for waiting in ("7", "\u2013", "7", "4")
    ]
    anna = browser_of(limited_person("anna", "ord"))
    assert f"lag {row.lag}" not in text_of(anna, f"/timers/?as_of={row.at_ms}")


def test_what_is_unknown_breaks_a_line() -> None:
    columns = [Column(waiting, 0, "", "") for waiting in (4, 8, None, 2, None, 1, 1)]
    drawn = kept_svg(columns, chosen=1, label="", ticks=())
    assert drawn.count('<polyline class="line-steel"') == 2
    assert drawn.count('<circle class="line-steel"') == 1
    assert drawn.count('<polyline class="line-quiet"') == 1


def test_a_young_broker_is_compared_with_its_oldest_snapshot(filled: Stage, operator: Client) -> None:
    row = taken()
    filled.producer.send("orders", "more", delay_level=16)
    filled.mirror.run_once()
    page = operator.get("/compare/")
    found = page.context["data"]
    assert (found.is_oldest, found.before.at_ms, found.is_known) == (True, row.at_ms, True)
    assert {line.name: dict(line.pairs) for line in found.lanes}["16"]["waiting"].difference == 1
    assert "compared with the oldest one, of" in words(page)
    # one of that age is taken without a word; two moments before all snapshots are not made up
    move(row, -2 * HOUR_MS)
    page = operator.get("/compare/")
    assert (page.context["data"].is_oldest, "compared with the oldest" in words(page)) == (False, False)
    assert not operator.get("/compare/?from=-10d&to=-9d").context["data"].is_known


def test_comparing_is_in_the_menu(filled: Stage, operator: Client) -> None:
    rail = text_of(operator, "/").split('<nav class="rail"')[1].split("</nav>")[0]
    assert 'href="/compare/"' in rail
    assert re.search(r'href="/compare/"[^>]*aria-current="page"', text_of(operator, "/compare/"))


def test_both_scales_of_the_kept_snapshots_are_said(filled: Stage, operator: Client) -> None:
    row = taken()
    move(row, -HOUR_MS)
    taken()
    page = operator.get(f"/schedule/?as_of={row.at_ms}")
    sums = page.context["past"].sums
    most = max(each.waiting for each in sums), max(each.lag for each in sums)
    said = words(page)
    assert f"pending on delay levels and as timers, 0 to {most[0]:,}" in said
    assert f"lag of all groups, 0 to {most[1]:,}" in said
    assert "Each line has its own scale." in said
    columns = [Column(1_234, 7, "", ""), Column(10, None, "", "")]
    drawn = kept_svg(columns, chosen=None, label="", ticks=())
    assert '<text class="text-steel" x="0" y="10">1,234</text>' in drawn
    assert '<text class="text-end" x="1000" y="10">7</text>' in drawn
    # who does not see the lag has one line, and one scale
    assert "text-end" not in kept_svg([Column(5, None, "", "")], chosen=None, label="", ticks=())
