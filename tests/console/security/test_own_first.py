"""Who sees some topics only is told of his own first, and what is of the whole broker after it, under one heading."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils.translation import override

from broker.mirror.models import HalfMessage, MirrorState
from console import components
from console.features.timers import read as timers_read
from console.features.timers.shapes import Lateness, TopicTimers
from console.security.topic_scope import TopicScope, VisibleTopics, scoped
from tests.console.people import browser_of, person
from tests.console.security.test_limited import filled as filled
from tests.console.security.test_limited import limited_person, text_of
from tests.console.security.test_name_patterns import made
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

MINE = VisibleTopics(("mine",))
NOW = 1_800_000_000_000
WHOLE = 'class="stack whole-broker"'
#: what is offered to do with rows, and to somebody who may send
ACTS = ("Cancel, reschedule or deliver now", "All of this range, with actions", "Commit, roll back or check:")
SENDING = "Send a message to one of your topics"


def figures_of(part: str) -> dict[str, str]:
    """The figures of a part of a page by their names."""
    pairs = re.findall(r"<dt>(.*?)</dt>\s*<dd[^>]*>(.*?)</dd>", part, re.DOTALL)
    return {_plain(name): _plain(value) for name, value in pairs}


def _plain(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split())


#: page by page: figures of one's own, and of the whole broker
TOLD: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "/": (
        {"Timers pending": "1", "Half messages undecided": "1"},
        {"Pending on delay levels": "2", "Due within an hour": "2"},
    ),
    "/timers/": ({"Pending": "1"}, {"Pending": "2"}),
    "/transactions/": ({"Undecided": "1", "Parked": "0"}, {"Undecided": "2"}),
    "/schedule/": ({}, {"Pending": "2"}),
    "/schedule/16/": ({}, {"Pending": "2"}),
    "/due/?window=1d": (
        {"Redisson queues": "1", "Transaction checks": "1"},
        {"Delay levels": "2", "Timers": "2", "In all": "4"},
    ),
}  # fmt: skip


@pytest.fixture
def patient(stage: Stage) -> None:
    """The broker asks about no half while a test lasts, however long that is: what falls due is to stay."""
    stage.admin.change_broker_settings({"transactionTimeOut": "3600000"})


def test_ones_own_stands_before_what_is_of_the_whole_broker(patient: None, filled: Stage) -> None:
    limited, everybody = browser_of(limited_person("anna", "ord")), browser_of(person("ben", role="operator"))
    filled.wait_for(lambda: (filled.mirror.run_once(), HalfMessage.objects.filter(state="open").count() == 2)[1])
    for address, (own, whole) in TOLD.items():
        page = text_of(limited, address)
        assert page.count(WHOLE) == 1, address
        assert "whole broker</small>" not in page, address
        before, _heading, after = page.partition(WHOLE)
        assert own.items() <= figures_of(before).items(), (address, figures_of(before))
        assert whole.items() <= figures_of(after).items(), (address, figures_of(after))
        assert not set(figures_of(before)) - set(own) & set(whole), address
        assert WHOLE not in text_of(everybody, address), address
    # what can be told for the whole broker alone is not beside what is one's own
    before = text_of(limited, "/timers/").partition(WHOLE)[0]
    assert 'id="first"' in before
    assert not [part for part in ('id="wheel"', 'id="strip"', 'id="lateness"') if part in before]
    assert 'id="falls-due"' not in text_of(limited, "/").partition(WHOLE)[0]
    # a chart of both would add them up again
    due: Any = limited.get("/due/?window=1d").context["data"]
    assert (due.total, sum(slot.total for slot in due.rows)) == (4, 4)


def test_an_empty_list_offers_what_can_be_done(filled: Stage) -> None:
    filled.admin.create_topic("shop-1", queues=1)
    filled.mirror.run_once()
    for name, prefix, role, may_send in (
        ("anna", "shop", "operator", True), ("ben", "shop", "viewer", False), ("carl", "none", "operator", False),
    ):  # fmt: skip
        browser = browser_of(limited_person(name, prefix, role=role))
        for address in ("/timers/", "/timers/list/", "/transactions/"):
            page = text_of(browser, address)
            assert not [act for act in ACTS if act in page], (name, address)
            assert "it appears within a second" not in page, (name, address)
        for address in ("/timers/", "/timers/list/"):
            page = text_of(browser, address)
            assert (SENDING in page) is may_send, (name, address)
            assert ('href="/topics/shop-1/send/"' in page) is may_send, (name, address)
        figures = figures_of(text_of(browser, "/timers/").partition(WHOLE)[0])
        assert (figures["Pending"], figures["Next due"]) == ("0", "\u2013"), name
    own = text_of(browser_of(limited_person("dora", "ord")), "/timers/")
    assert ACTS[0] in own


def test_lateness_and_pending_are_of_the_topics_that_are_seen() -> None:
    late = Lateness("", 3, 1.0, 4.0, 4.0, ((1.0, 2), (4.0, 1)))
    rows = (TopicTimers("theirs", 800, late), TopicTimers("mine", 4, late), TopicTimers("mine-2", 2))
    page, scope = replace(components.timers(NOW), topics=rows), TopicScope(MINE)
    own = timers_read.own_figures(page, scope, NOW + 5)
    assert (own.pending, own.next_due_ms) == (6, NOW + 5)
    assert (own.lateness_count, own.lateness_p50_ms, own.lateness_p99_ms) == (3, 1.0, 4.0)
    # of a broker that does not answer nothing is known, and of a snapshot only what the fullest topics had
    unknown = replace(page, figures=replace(page.figures, pending=None), topics=())
    assert timers_read.own_figures(unknown, scope, None).pending is None
    assert timers_read.own_figures(replace(page, is_past=True, topics_left=1), scope, None).pending is None


def test_what_is_overdue_in_all_is_not_told_as_ones_own() -> None:
    page = components.timers(NOW)
    paused = replace(page, figures=replace(page.figures, paused=True, overdue=12))
    with override("en"):
        assert "12 messages are overdue" in render_to_string("timers/paused.html", {"data": paused})
        with scoped(MINE):
            shown = render_to_string("timers/paused.html", {"data": paused})
    assert "All timers are paused." in shown
    assert "overdue" not in shown


def test_a_topic_that_the_console_does_not_know_is_no_empty_page(db: None) -> None:
    made("mine")
    browser = browser_of(person("all"))
    MirrorState.mirror_writer.update(as_of_ms=NOW - 10 * 365 * 86_400_000)
    lost: Any = browser.get("/topics/nowhere/")
    assert lost.status_code == 404
    assert "was not there when the console last heard from the broker" in words(lost)
    assert browser.get("/topics/mine/").status_code == 200
    MirrorState.mirror_writer.update(as_of_ms=None)
    waiting: Any = browser.get("/topics/nowhere/")
    assert "The console waits for the broker: whether there is such a topic is not known yet." in words(waiting)
    assert 'id="queues"' not in waiting.content.decode()
