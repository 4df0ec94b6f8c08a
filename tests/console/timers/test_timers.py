"""The Timers pages on a real broker: what waits, in order, at every zoom, page by page, and the life of one."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from console.features.timers import read as timers_read
from console.features.timers.shapes import ZOOMS, LifeKind, TimerFilter, TimerRow
from console.site.clock import now_ms
from tests.console.stage import HOSTILE, Stage, one_word
from tests.console.ui.test_pages import tags_of, words

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
LIMIT_BYTES = 100_000


def listed(wanted: TimerFilter) -> list[TimerRow]:
    """All pages of a list."""
    rows: list[TimerRow] = []
    cursor: str | None = None
    while True:
        page = timers_read.timer_list(wanted, cursor, 7)
        rows.extend(page.rows)
        cursor = page.cursor
        if cursor is None:
            return rows


@pytest.fixture
def base_ms(stage: Stage) -> int:
    """A whole minute, far enough to last as long as a test does."""
    return (now_ms() // MINUTE + 10) * MINUTE


@pytest.fixture
def filled(stage: Stage, base_ms: int) -> list[int]:
    """40 timers within a minute, some at the same ms; the moments in the order of sending."""
    moments = [base_ms + (number * 7_919) % 50_000 // 4 * 4 for number in range(39)]
    moments.append(moments[0])
    for number, moment in enumerate(moments):
        stage.producer.send("orders", f"{number}", keys=[f"order-{number}"], deliver_at_ms=moment)
    stage.mirror.run_once()
    return moments


def test_what_waits_is_listed_in_due_order_whatever_the_size_of_a_page(stage: Stage, filled: list[int]) -> None:
    rows = listed(TimerFilter(topic="orders"))
    expected = sorted(range(40), key=lambda number: (filled[number], number))
    assert [row.name for row in rows] == [f"order-{number}" for number in expected]
    assert [row.due_ms for row in rows] == sorted(filled)
    assert all(row.topic == "orders" and row.size_bytes > 0 and row.store_ms for row in rows)


def test_filters_by_topic_key_and_range(stage: Stage, filled: list[int], base_ms: int) -> None:
    stage.admin.create_topic("bills")
    stage.producer.send("bills", "x", keys=["order-3"], deliver_at_ms=base_ms, schedule_key="bill-1")
    assert [row.topic for row in listed(TimerFilter(topic="bills"))] == ["bills"]
    assert {row.topic for row in listed(TimerFilter(key="order-3"))} == {"orders", "bills"}
    assert [row.schedule_key for row in listed(TimerFilter(topic="bills", key="bill-1"))] == ["bill-1"]
    first = min(filled)
    within = listed(TimerFilter(topic="orders", from_ms=first, to_ms=first + 1))
    assert [row.due_ms for row in within] == [moment for moment in filled if moment == first]
    assert listed(TimerFilter(topic="orders", to_ms=first)) == []


def test_the_page_counts_what_waits(stage: Stage, operator: Client, filled: list[int]) -> None:
    data = timers_read.timers()
    assert data.figures.pending == 40
    assert data.figures.next_due_ms == min(filled)
    assert (data.figures.early_total, data.figures.paused, data.polled) == (0, False, False)
    assert [(row.topic, row.pending) for row in data.topics] == [("orders", 40)]
    assert data.wheel is not None
    assert data.wheel.rings[1].total == 40
    assert [row.due_ms for row in data.first.rows] == sorted(filled)[:16]
    stage.producer.send("orders", "x", deliver_at_ms=min(filled) - 877)
    assert timers_read.timers().figures.next_due_ms == min(filled) - 877
    page = words(operator.get("/timers/"))
    assert "Fires next" in page
    assert "order-0" in page or "order-39" in page


@pytest.mark.parametrize("zoom", list(ZOOMS))
def test_every_zoom_is_small_clean_and_counts_the_same(
    stage: Stage, operator: Client, filled: list[int], base_ms: int, zoom: str
) -> None:
    data = timers_read.timers(zoom, base_ms)
    assert data.wheel is not None
    assert data.forecast is not None
    window = (data.wheel.strip.start_ms, data.wheel.strip.end_ms)
    shift = 0 if zoom == "1s" else SECOND
    expected = sum(window[0] < moment + shift <= window[1] for moment in filled)
    assert data.wheel.strip.total == expected
    assert data.forecast.stretch.total == expected
    response = operator.get(f"/timers/?zoom={zoom}&at={base_ms}")
    assert response.status_code == 200
    assert len(response.content) < LIMIT_BYTES
    for tag, attributes in tags_of(response.content.decode()):
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        assert tag != "script" or "src" in attributes


def test_a_slot_opens_into_the_next_and_at_last_into_its_messages(
    stage: Stage, operator: Client, filled: list[int], base_ms: int
) -> None:
    address, opened = "/timers/?zoom=10y", []
    while "list" not in address:
        page = operator.get(address).content.decode()
        strip = page[page.index('class="chart strip"') :]
        link = unescape(re.findall(r'<a href="([^"]+)"><title>', strip)[0])
        address = link if link.startswith("/") else "/timers/" + link
        opened.append(address.split("&")[0])
    assert opened[:-1] == [f"/timers/?zoom={zoom}" for zoom in ("30d", "1d", "1h", "1m", "1s")]
    shown = operator.get(address)
    first = min(filled)
    assert [(filled[int(number)] - 1) // 10 for number in re.findall(r">order-(\d+)</a>", shown.content.decode())] == [
        (first - 1) // 10
    ] * sum((moment - 1) // 10 == (first - 1) // 10 for moment in filled)


def test_hostile_keys_are_text(stage: Stage, operator: Client, base_ms: int) -> None:
    for number, text in enumerate(HOSTILE):
        stage.producer.send(
            "orders", text, tag=one_word(text), keys=[one_word(text)], deliver_at_ms=base_ms + number,
            schedule_key=text, properties={"note": text},
        )  # fmt: skip
    rows = listed(TimerFilter(topic="orders"))
    assert [row.schedule_key for row in rows] == list(HOSTILE)
    for path in (
        "/timers/",
        "/timers/list/",
        "/timers/list/?key=" + "%3Cscript%3E",
        *(f"/timers/{row.position}/" for row in rows),
    ):
        content = operator.get(path).content.decode()
        for bad in ("<script>alert", "<img src=x", "<svg onload", "' onmouseover='"):
            assert bad not in content, path


@pytest.mark.parametrize(
    "query", ["from=yesterday", "to=2026-11-21T15:00:00", "from=NaN", "to=" + "9" * 40, "from=%2B1+fortnight"]
)
def test_a_bound_that_is_none_is_said_beside_its_field(stage: Stage, operator: Client, query: str) -> None:
    response = operator.get("/timers/list/?" + query)
    assert response.status_code == 422
    assert 'role="alert"' in response.content.decode()


def test_a_cursor_that_is_none_breaks_nothing(stage: Stage, operator: Client, filled: list[int]) -> None:
    for cursor in ("nonsense", "-1", "%00", "x" * 600):
        assert operator.get("/timers/list/?cursor=" + cursor).status_code == 200


def test_the_life_of_one(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "x", keys=["one"], deliver_at_ms=now_ms() + HOUR)
    row = listed(TimerFilter(key="one"))[0]
    life = timers_read.timer_life(row.position)
    assert (life.state, [event.kind for event in life.events]) == ("pending", [LifeKind.ACCEPTED])
    assert "It fires in" in words(operator.get(f"/timers/{row.position}/"))
    assert operator.get("/timers/7/").status_code == 404
    assert operator.get(f"/timers/{2**70}/").status_code == 404


def test_a_timer_that_fired_says_how_late(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "x", keys=["soon"], deliver_at_ms=now_ms() + 1_500)
    row = listed(TimerFilter(key="soon"))[0]
    stage.wait_for(lambda: stage.admin.messages_by_key("orders", "soon", 5))
    life = timers_read.timer_life(row.position)
    assert life.state == "released"
    assert [event.kind for event in life.events] == [LifeKind.ACCEPTED, LifeKind.RELEASED]
    assert life.events[-1].late_ms is not None
    assert 0 <= life.events[-1].late_ms < 1_000
    assert "after it was due" in words(operator.get(f"/timers/{row.position}/"))
    stage.wait_for(lambda: timers_read.timers().lateness)
    data = timers_read.timers()
    assert data.lateness is not None
    assert data.lateness.count == 1
    assert data.figures.released_total == 1
    # kept over restarts, which those of transactions are not
    page = words(operator.get("/timers/"))
    assert "1 since the first start, restarts included" in page
    assert "Since the first start cancelled" in page


def test_a_broker_that_is_away_is_said(operator: Client, settings: object) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    for path in ("/timers/", "/timers/list/", "/timers/300/"):
        response = operator.get(path)
        assert response.status_code == 200, path
        assert "Nothing to show yet" in words(response), path


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("/timers/list/", "No timer is pending."),
        ("/timers/list/?topic=orders", "No timer matches."),
        ("/transactions/list/?state=open", "No undecided half messages."),
        ("/transactions/list/?state=parked", "No parked half messages."),
        ("/transactions/list/?state=decided", "No decisions yet."),
        ("/transactions/list/?state=open&topic=orders", "No transaction matches."),
    ],
)
def test_an_empty_list_says_whether_a_filter_is_why(stage: Stage, operator: Client, page: str, said: str) -> None:
    assert said in words(operator.get(page))
