# ruff: noqa: F811 - fixtures taken from other modules are parameters here
"""What one came for stands whole: ids in tables, lanes on half a screen, a page on paper; keys can be switched off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from broker.client import Decision, TransactionProducer, prepare
from console.components import LONG_NAME
from tests.browser.conftest import Web
from tests.browser.test_narrow import Visit, visit  # noqa: F401 - a fixture
from tests.console.stage import Stage

LONG = "flight-payments-settlement-1f2e7b1c-8a9d-4f2b-9c3d-1234567890ab"
#: ids whose text is wider than its cell
CUT = """() => [...document.querySelectorAll("main .table td.stretch:has(.mono), main .table .cut-start")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)"""
#: what is copied of it
COPIED = "(element) => { getSelection().selectAllChildren(element); return getSelection().toString(); }"


@pytest.fixture
def halves(stage: Stage) -> Iterator[Stage]:
    with TransactionProducer(LONG, stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        for _ in range(3):
            producer.send_half("orders", prepare("x"))
        stage.mirror.run_once()
        yield stage


def widened(page: Page) -> int:
    """By how many pixels the tables of a page are wider than their place."""
    return int(page.evaluate("Math.max(...[...document.querySelectorAll('main .scroll')]"
                             ".map((e) => e.scrollWidth - e.clientWidth))"))  # fmt: skip


def test_ids_stand_whole_and_others_give_way(halves: Stage, visit: Visit) -> None:
    """24 ids were "FD00000…" beside two names of 36 characters in full, and "Would be asked" was beyond the edge."""
    for address, language in (("/transactions/list/", "en"), ("/transactions/", "zh-hans")):
        page = visit(address, 1_440, language)
        expect(page.locator("main .table td.stretch").first).to_be_visible()
        assert page.evaluate(CUT) == []
        assert widened(page) <= 0


def test_an_id_without_room_gives_way_in_its_middle_and_is_copied_whole(visit: Visit) -> None:
    cut = visit("/design/", 390).locator("#long-id .cut")
    assert cut.locator(".cut-start").evaluate("(start) => start.scrollWidth > start.clientWidth")
    end = cut.evaluate("""(cut) => {
      const range = new Range();
      range.selectNodeContents(cut.lastChild);
      return [range, cut.parentElement].map((each) => each.getBoundingClientRect().right);
    }""")
    assert 0 < end[0] <= end[1], "its end is in sight"
    assert [cut.get_attribute("title"), cut.evaluate(COPIED)] == [LONG_NAME, LONG_NAME]


def test_lanes_are_a_table_on_half_a_screen_and_lines_on_a_telephone(halves: Stage, visit: Visit) -> None:
    """At 1024 px they were 18 cards of 70 px, and the page 2,617 px high."""
    page = visit("/schedule/", 1_024)
    row = page.locator("#lane-16, #lane-l16, main .lanes tbody tr").first.bounding_box()
    assert row is not None
    assert row["height"] < 40
    assert widened(page) <= 0
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator("main .lanes thead")).to_be_hidden()
    on_paper(visit("/", 1_024))


def on_paper(page: Page) -> None:
    """It has the moment of printing, and no sheet leaves the page before it empty."""
    printed = page.locator("p.printed")
    expect(printed).to_be_hidden()
    page.emulate_media(media="print")
    expect(printed).to_be_visible()
    assert "UTC" in printed.inner_text()
    breaks = page.evaluate("[...document.querySelectorAll('main .sheet')].map(e => getComputedStyle(e).breakInside)")
    assert set(breaks) == {"auto"}


def test_single_keys_are_switched_off_and_on_again(halves: Stage, visit: Visit, web: Web) -> None:
    """Whoever typed "flight" beside the field ended among the timers, and nothing could be done about it."""
    page = visit("/account/settings/", 1_024)
    page.get_by_role("button", name="Disable single-key shortcuts").click()
    page.locator("body").press("g")
    page.keyboard.type("flight1?")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    assert page.url == web.address + "/account/settings/"
    page.reload()
    page.get_by_role("button", name="Enable single-key shortcuts").click()
    page.locator("body").press("g")
    page.wait_for_url("**/groups/")
