"""Pages for somebody who sees some topics only: read on past others' rows, there and back, and only so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from broker.client import Decision, TransactionProducer, prepare
from console import components
from console.features.overview.findings import forget
from console.features.overview.pages import read_overview
from console.features.schedule import read as lane_read
from console.features.timers import read as timers_read
from console.features.timers.read import without_names
from console.features.timers.shapes import TimerFilter
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import FIRST_COUNT
from console.operations import reading
from console.operations.models import Operation
from console.security.topic_scope import ALL, TopicScope, VisibleTopics, scoped
from console.site import reading_on
from console.site.reading_on import Filled, fill
from tests.console.people import browser_of
from tests.console.security.test_limited import FOREIGN, HOUR_MS, limited_person, text_of
from tests.console.stage import Stage

MINE = VisibleTopics(("ord",))
#: every so many-th is of `orders`
EACH, SENT, COUNT = 4, 120, 5


def paged(rows: list[int], keep: Callable[[int], bool], count: int) -> list[Filled[Any, int, int]]:
    """All pages of a list that is read by offset."""
    pages: list[Filled[Any, int, int]] = []
    place: int | None = 0
    while place is not None:
        found: Filled[Any, int, int] = fill(
            lambda at, step: (rows[at or 0 : (at or 0) + step], (at or 0) + step),
            lambda page: (page[0], page[1] if page[1] < len(rows) else None), keep, place, count,
        )  # fmt: skip
        pages.append(found)
        place = found.following
    return pages


@given(st.lists(st.integers(0, 3), max_size=300), st.integers(1, 40))
def test_pages_hold_all_that_is_kept_in_order_and_none_is_too_long(rows: list[int], count: int) -> None:
    pages = paged(rows, lambda row: row == 0, count)
    assert [row for page in pages for row in page.rows] == [0] * rows.count(0)
    assert all(len(page.rows) == count for page in pages[:-1])
    assert all(page.looked == 0 for page in pages)


def test_a_look_that_ends_early_says_how_far_it_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_on, "MOST_LOOKED", 50)
    pages = paged([1] * 200 + [0], lambda row: row == 0, 10)
    assert pages[0].rows == ()
    assert pages[0].looked >= 50
    assert pages[0].looked == pages[0].following
    assert [row for page in pages for row in page.rows] == [0]


@pytest.fixture
def mixed(stage: Stage) -> Stage:
    """Lane 16 and timers: every fourth is of `orders`."""
    forget()
    stage.admin.create_topic(FOREIGN, queues=1)
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    for number in range(SENT):
        topic = FOREIGN if number % EACH else "orders"
        stage.producer.send(topic, "x", keys=[f"{topic}-{number}"], delay_level=16)
        stage.producer.send(topic, "x", keys=[f"{topic}-{number}"], deliver_at_ms=due_ms + number)
    stage.wait_for(lambda: len(stage.admin.timers(0, 2**62, limit=1_000).items) == SENT)
    stage.mirror.run_once()
    return stage


def test_a_lane_is_paged_there_and_back(mixed: Stage) -> None:
    mine = [f"orders-{number}" for number in range(0, SENT, EACH)]
    with scoped(MINE):
        page, there = lane_read.lane(16, None, COUNT), []
        while True:
            there.append([key for row in page.messages for key in row.keys])
            if page.next_offset is None:
                break
            page = lane_read.lane(16, page.next_offset, COUNT)
        assert [key for keys in there for key in keys] == mine
        assert {len(keys) for keys in there[:-1]} == {COUNT}
        back = there[-1]
        while page.previous_offset is not None:
            page = lane_read.lane(16, page.previous_offset, COUNT)
            back = [key for row in page.messages for key in row.keys] + back
        assert back == mine
        last = lane_read.lane(16, None, COUNT).last_offset
        assert lane_read.lane(16, last, COUNT).messages[-1].keys == (mine[-1],)
        beyond = lane_read.lane(16, SENT, COUNT)
        assert [row.keys for row in beyond.messages] == [(key,) for key in mine[-COUNT:]]
    with scoped(ALL):
        assert len(lane_read.lane(16, None, COUNT).messages) == COUNT


def test_where_a_look_ends_the_page_says_so_and_goes_on(mixed: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_on, "MOST_LOOKED", 2)
    anna = browser_of(limited_person("anna", "ord"))
    for path in ("/timers/list/", "/schedule/16/"):
        shown = text_of(anna, path)
        assert "orders-0" in shown, path
    with scoped(VisibleTopics(("none",))):
        lane, timers = lane_read.lane(16, None, 2), timers_read.timer_list(TimerFilter(), count=2)
    assert (lane.looked, timers.looked) == (2, 2)
    assert lane.next_offset is not None
    assert timers.cursor is not None
    nobody = browser_of(limited_person("nobody", "none"))
    for path in ("/timers/list/", "/schedule/16/"):
        shown = text_of(nobody, path)
        assert "searched so far" in shown, path
        assert "Nothing pending here" not in shown, path
        assert "No timer is pending" not in shown, path
        assert 'rel="next"' in shown, path


def test_where_a_look_ends_in_others_halves_and_decisions_the_board_does_not_say_that_there_are_none(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.admin.create_topic(FOREIGN, queues=1)
    with TransactionProducer("others", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as others:
        for _ in range(FIRST_COUNT + 1):
            others.send_half(FOREIGN, prepare("x"))
            others.commit(others.send_half(FOREIGN, prepare("x")))
    stage.mirror.run_once()
    monkeypatch.setattr(reading_on, "MOST_LOOKED", 2)
    monkeypatch.setattr(transactions_pages, "MOST_COUNTED", 2)
    page = text_of(browser_of(limited_person("anna", "ord")), "/transactions/")
    for name in ("open", "decided"):
        section = page[page.index(f'id="{name}"') :]
        section = section[: section.index("</section>")]
        assert "No match so far; continue with the next page." in section, name
        assert "Nothing in the topics that you can see." not in section, name


def test_the_first_page_tells_his_figures_and_calls_the_others_those_of_all(mixed: Stage) -> None:
    every = read_overview()
    assert (every.timers_pending, every.pending) == (SENT, SENT)
    with scoped(MINE):
        mine = read_overview()
    assert mine.timers_pending == SENT // EACH
    assert mine.topics == 1 < every.topics
    assert (mine.stored_total or 0) < (every.stored_total or 0) or every.stored_total == mine.stored_total == 0
    assert "covers all topics" in text_of(browser_of(limited_person("anna", "ord")), "/")
    timers = text_of(browser_of(limited_person("ben", "ord")), "/timers/")
    assert "covers all topics" in timers


def test_operations_are_paged_there_and_back(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LISTED", COUNT)
    for number in range(SENT):
        name = FOREIGN if number % EACH else "orders"
        Operation.objects.create(kind="topics.change", state="done", parameters={"name": name}, reason=str(number))
    mine = [str(number) for number in reversed(range(0, SENT, EACH))]
    with scoped(MINE):
        page, there = reading.operation_list(), []
        while True:
            there += [row.reason for row in page.rows]
            if page.following is None:
                break
            page = reading.operation_list(page.following)
        assert there == mine
        back = [row.reason for row in page.rows]
        while page.previous is not None:
            page = reading.operation_list(page.previous)
            back = [row.reason for row in page.rows] + back
        assert back == mine


def test_topics_that_a_snapshot_did_not_keep_are_not_said_to_have_nothing() -> None:
    page = without_names(
        replace(components.timers(100_000), is_past=True, topics_left=3), TopicScope(VisibleTopics(("none",)))
    )
    with scoped(VisibleTopics(("none",))):
        shown = render_to_string("timers/topics.html", {"data": page})
        none_left = render_to_string("timers/topics.html", {"data": replace(page, topics_left=0)})
    assert "others of yours may be missing" in shown
    assert "Nothing in the topics" not in shown
    assert "Nothing in the topics" in none_left
