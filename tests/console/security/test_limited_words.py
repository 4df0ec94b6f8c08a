"""Who sees some topics only is told nothing that is false for others: that there is none, when what is next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.template.loader import render_to_string
from django.test import Client, override_settings
from django.utils.translation import override

from console import components
from console.features.due.shapes import DueKind
from console.features.timers.shapes import TimerFigures
from console.security.topic_scope import ALL, VisibleTopics, scoped
from console.site.evidence import Evidence
from console.templatetags.due import due_wheel
from console.templatetags.timers import timer_wheel
from tests.console.people import browser_of, person
from tests.console.security.test_name_patterns import a_group, limited_to, made
from tests.console.ui.test_pages import words

MINE = VisibleTopics(("mine",))
NOW = 1_800_000_000_000
FRESH = Evidence("broker-a", NOW, False)

#: list by list what is shown of nothing: to who sees all, and to who sees some topics only
EMPTY = {
    "topics/list.html": ("No topic matches.", "No topic that you can see matches."),
    "groups/list.html": ("No group matches.", "No group that you can see matches."),
    "clients/list.html": ("No client is connected.", "No client that you can see is connected."),
    "groups/members.html": ("No client is connected.", "No client that you can see is connected."),
    "topics/readers.html": (
        "No group has consumed from it yet.", "No group that you can see has consumed from it yet.",
    ),
    "delayed_queues/list.html": ("No delayed queue is on this server.", "No queue that you can see matches."),
    "overview/findings.html": ("Nothing needs attention.", "Nothing that you can see needs attention."),
}  # fmt: skip


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Templates are drawn in English, whatever the last request was answered in."""
    with override("en"):
        yield


@pytest.mark.parametrize("template", EMPTY)
def test_an_empty_list_does_not_say_that_there_is_none(template: str) -> None:
    data = {"evidence": FRESH, "members_evidence": FRESH, "members": (), "now_ms": NOW, "total": 0}
    for visible, said in zip((ALL, MINE), EMPTY[template], strict=True):
        with scoped(visible):
            shown = render_to_string(template, {"data": data})
        other = next(each for each in EMPTY[template] if each != said)
        assert said in shown, visible
        assert other not in shown, visible


def test_pages_of_who_does_not_see_a_reader_say_so(db: None) -> None:
    made("mine", "theirs", "alone")
    a_group("both", "mine", "theirs")
    anna = browser_of(limited_to("anna", "alone"))
    readers = words(anna.get("/topics/alone/"))
    assert "No group that you can see has consumed from it yet." in readers
    assert "No group that you can see matches." in words(anna.get("/groups/"))
    assert "No group that you can see has dead letters." in words(anna.get("/dead-letters/"))
    for reader in (limited_to("carl", "mine"), person("ben")):
        assert "both" in words(browser_of(reader).get("/topics/mine/"))


def test_the_hub_of_the_timers_names_no_moment_beside_ones_own() -> None:
    page = components.timers(NOW)
    assert f'data-due-ms="{page.figures.next_due_ms}"' in timer_wheel(page)
    own = replace(page, own=TimerFigures(pending=1, next_due_ms=NOW + 77_000))
    with scoped(MINE):
        drawn, told = timer_wheel(own), render_to_string("timers/own_figures.html", {"data": own})
    assert "data-due-ms" not in drawn
    assert "of the whole broker" in drawn
    assert f'data-due-ms="{NOW + 77_000}"' in told


def test_the_hub_of_the_first_page_names_no_moment_of_somebody_elses() -> None:
    wheel = replace(components.overview(NOW).wheel, next_due_ms=NOW + 5_000, next_kind=DueKind.TIMERS)
    assert f'data-due-ms="{NOW + 5_000}"' in due_wheel(wheel, NOW)
    with scoped(MINE):
        drawn = due_wheel(wheel, NOW)
    assert "data-due-ms" not in drawn
    assert "of the whole broker" in drawn


def test_parked_halves_are_told_of_to_who_sees_any() -> None:
    board = components.board(NOW)
    data = replace(board, figures=replace(board.figures, parked=3), parked=replace(board.open, rows=()))
    template = "transactions/alone.html"
    assert "3 half messages are parked" in render_to_string(template, {"data": data})
    with scoped(MINE):
        assert "parked" not in render_to_string(template, {"data": data})
        mine = render_to_string(template, {"data": replace(data, parked=replace(board.open, rows=(1,)))})
    assert "Half messages of topics that you can see are parked" in mine
    assert "3 half" not in mine


def menu_of(browser: Client) -> set[str]:
    """The addresses of the menu."""
    page: Any = browser.get("/broker/")
    rail = page.content.decode().partition('id="rail"')[2].partition("</nav>")[0]
    return {part.partition('"')[0] for part in rail.split('href="')[1:]}


def test_the_menu_offers_what_the_gate_lets_through(db: None) -> None:
    boss = browser_of(get_user_model().objects.create_superuser("boss", password="a long secret"))
    everything = menu_of(boss)
    assert {"/people/", "/tokens/", "/access/", "/alerts/", "/admin/"} <= everything
    limited = limited_to("anna", "mine")
    limited.groups.add(person("other", role="administrator").groups.get())
    narrow = person("narrow", "view_console", role="")
    teller = person("teller", "view_console", "view_apitoken", role="")
    for user, closed in (
        (limited, {"/people/", "/tokens/", "/access/", "/admin/"}),
        (narrow, {"/people/", "/tokens/", "/access/", "/admin/", "/alerts/", "/audit/", "/dashboards/"}),
        (teller, {"/people/", "/access/", "/admin/", "/alerts/", "/audit/", "/dashboards/"}),
    ):
        browser = browser_of(user)
        assert menu_of(browser) == everything - closed, user
        for address in everything - {"/api/docs/", "/admin/"}:
            with override_settings(ESCAPEMENT_NAMESRV="127.0.0.1:1"):
                assert (browser.get(address).status_code == 403) == (address in closed), (user, address)
        # the palette and the list of keys are the menu's
        found = browser.get("/find/").content.decode()
        assert not [address for address in closed if f'href="{address}"' in found]


def test_a_refused_page_has_the_menu_and_says_why(db: None) -> None:
    limited = limited_to("anna", "mine")
    limited.groups.add(person("other", role="administrator").groups.get())
    for user, address, why in (
        (limited, "/people/", "This is about all topics, and you see some of them only."),
        (person("ben"), "/people/", "This needs the permission auth.change_user"),
        (person("carl", "view_console", role=""), "/audit/", "This needs the permission console.view_auditentry"),
    ):
        answer: Any = browser_of(user).get(address)
        assert answer.status_code == 403
        page = answer.content.decode()
        assert why in words(answer)
        assert 'id="rail"' in page
        assert 'href="/topics/"' in page
        assert 'href="/">Back to the overview' in page
    lost: Any = browser_of(limited).get("/topics/payroll/")
    assert lost.status_code == 404
    assert 'id="rail"' in lost.content.decode()
    stranger: Any = Client().get("/nowhere/")
    assert (stranger.status_code, 'id="rail"' in stranger.content.decode()) == (404, False)


def test_chinese_has_these_sentences(db: None) -> None:
    boss = browser_of(get_user_model().objects.create_superuser("boss", password="a long secret"))
    answer: Any = boss.get("/people/", headers={"accept-language": "zh-hans"})
    page = answer.content.decode().partition('id="main"')[2].partition("</main>")[0]
    # an account is enabled, not opened as a page is
    assert ("已启用" in page, "打开" in page) == (True, False)
    with override("zh-hans"), scoped(MINE):
        shown = render_to_string("groups/list.html", {"data": {"evidence": FRESH, "now_ms": NOW, "total": 0}})
    assert "No group" not in shown


def test_what_is_about_all_topics_is_not_offered(db: None) -> None:
    made("mine", "theirs")
    boss, anna, starred = person("boss", role="administrator"), limited_to("anna", "mine"), limited_to("ben", "mine*")
    for user in (anna, starred):
        user.groups.add(boss.groups.get())
    offered = ('value="topics.create"', 'value="groups.create"', 'value="timers.pause"', 'value="due.measure"')
    pages = ("/topics/", "/groups/", "/timers/", "/due/")
    everybody = [
        offer in browser_of(boss).get(page).content.decode() for page, offer in zip(pages, offered, strict=True)
    ]
    assert everybody[:2] == [True, True]
    for user in (anna, starred):
        browser = browser_of(user)
        for page, offer in zip(pages[1:], offered[1:], strict=True):
            assert offer not in browser.get(page).content.decode(), page
        assert "Only users who see all topics can create groups." in words(browser.get("/groups/"))
        assert "groups.create" not in browser.get("/find/?q=create+group").content.decode()
    # a name that is there already is no new one
    closed = browser_of(anna)
    assert 'href="#create"' not in closed.get("/topics/").content.decode()
    assert "Only users who see all topics can create other topics." in words(closed.get("/topics/"))
    assert "/topics/#create" not in closed.get("/find/?q=create+topic").content.decode()
    opened = browser_of(starred)
    assert 'value="topics.create"' in opened.get("/topics/").content.decode()
    assert "Names that you may give, * stands for anything: mine*" in words(opened.get("/topics/"))
    assert "/topics/#create" in opened.get("/find/?q=create+topic").content.decode()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"kind": "topics.create", "name": "theirs-2"}, "that you cannot see, or not all of. Somebody who sees all"),
        ({"kind": "groups.create", "name": "fresh"}, "about all topics, and you can see some of them only. Somebody"),
    ],
)
def test_a_refusal_says_who_can(db: None, form: dict[str, str], said: str) -> None:
    made("mine")
    anna = limited_to("anna", "mine")
    anna.groups.add(person("boss", role="administrator").groups.get())
    refused: Any = browser_of(anna).post("/operations/draft/", form)
    assert (refused.status_code, said in words(refused)) == (403, True), words(refused)


def test_figures_of_the_whole_broker_are_told_from_ones_own(db: None) -> None:
    made("mine")
    limited, everybody = browser_of(limited_to("anna", "mine")), browser_of(person("ben"))
    heading = 'id="whole-broker-title"'
    for page in ("/", "/timers/", "/transactions/", "/schedule/", "/due/"):
        assert limited.get(page).content.decode().count(heading) == 1, page
        assert heading not in everybody.get(page).content.decode(), page
    own, _, whole = limited.get("/").content.decode().partition(heading)
    mine, others = (set(re.findall(r"<dt>([^<]*)</dt>", part)) for part in (own, whole))
    assert {"Pending on delay levels", "Due within an hour"} <= others - mine
    assert {"Timers pending", "Half messages undecided", "Lag in your topics", "Stored in topics"} <= mine - others
    assert "p99" not in own.partition('id="figures"')[2].partition("</dl>")[0]
    # a topic's own page has figures of the topic alone
    assert heading not in limited.get("/topics/mine/").content.decode()
