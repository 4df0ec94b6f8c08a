"""What a person with a browser sees: pages by keys, live, and after the connection was lost."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.test import Client
from playwright.sync_api import BrowserContext, Route, expect
from playwright.sync_api import TimeoutError as Late

from broker.mirror.announcer import Announcer
from broker.mirror.clock_file import ClockLine, clock_file
from console.site.clock import real_now_ms
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.spans import SPANS, in_chinese

NEW_YEAR_MS, HOUR_MS = 1_767_225_600_000, 3_600_000


def test_hostile_messages_run_nothing(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    for path in ("/topics/orders/0/", "/schedule/17/"):
        page, complaints = opened(context, web.address + path)
        links = page.locator("main tbody a[href^='/messages/']")
        addresses = [links.nth(index).get_attribute("href") for index in range(min(links.count(), 8))]
        for address in addresses:
            page.goto(web.address + str(address))
            assert page.evaluate("violations") == []
        assert complaints == []


def test_everything_is_reached_by_keys(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    page, _ = opened(context, web.address + "/")
    page.keyboard.press("s")
    expect(page.locator("h1")).to_have_text("Delay levels")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Level 2")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("s")
    expect(page.locator("#find")).to_have_value("s")
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    expect(page.locator("h1")).to_have_text("Topics")


def test_a_page_knows_that_it_is_live_when_its_own_script_comes_late(
    stage: Stage, web: Web, context: BrowserContext
) -> None:
    stage.fill()
    page = context.new_page()

    def late(route: Route) -> None:
        # whatever opens the socket without the console's script has had its time
        with contextlib.suppress(Late):
            page.wait_for_event("websocket", timeout=1_000).wait_for_event("framereceived", timeout=1_000)
        route.continue_()

    page.route("**/js/clocks*.js", late)
    page.goto(web.address + "/schedule/", wait_until="commit")
    expect(page.locator("#live")).to_contain_text("Live")


def test_a_live_frame_changes_digits_and_nothing_else(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer
) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/schedule/")
    expect(page.locator("#live")).to_contain_text("Live")
    page.set_viewport_size({"width": 1440, "height": 500})
    page.locator("#lane-3 a").focus()
    page.evaluate("window.scrollTo(0, 120)")
    expect(page.locator("#lane-16 td").nth(1)).to_have_text("12")
    stage.producer.send("orders", "x", delay_level=16)
    stage.mirror.run_once()
    expect(page.locator("#lane-16 td").nth(1)).to_have_text("13")
    expect(page.locator("#lane-3 a")).to_be_focused()
    assert page.evaluate("window.scrollY") == 120
    assert page.evaluate("violations") == []
    assert complaints == []


def test_a_lost_connection_is_said_and_made_good(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    page, _ = opened(context, web.address + "/schedule/")
    expect(page.locator("#live")).to_contain_text("Live")
    web.stop()
    expect(page.locator("#live")).to_contain_text("Stale since")
    stage.producer.send("orders", "x", delay_level=16)
    stage.mirror.run_once()
    web.start()
    expect(page.locator("#live")).to_contain_text("Live", timeout=30_000)
    expect(page.locator("#lane-16 td").nth(1)).to_have_text("13")


def test_spans_are_counted_down_in_the_form_of_the_server(stage: Stage, web: Web, context: BrowserContext) -> None:
    page, _ = opened(context, web.address + "/find/")
    counted = "async (all) => { const { span } = await import('/static/js/clocks.js'); return all.map(span); }"
    assert page.evaluate(counted, [ms for ms, _ in SPANS]) == [text for _, text in SPANS]
    context.set_extra_http_headers({"accept-language": "zh-hans"})
    page.reload()
    assert page.evaluate(counted, [ms for ms, _ in SPANS]) == [in_chinese(text) for _, text in SPANS]


def test_light_and_dark_are_remembered(web: Web, context: BrowserContext) -> None:
    page, _ = opened(context, web.address + "/")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_signing_in_with_a_wrong_password_says_so(web: Web, context: BrowserContext) -> None:
    context.clear_cookies()
    page, complaints = opened(context, web.address + "/schedule/")
    page.fill("[name=username]", "operator")
    page.fill("[name=password]", "wrong")
    page.click("button.go")
    expect(page.locator("[role=alert]")).to_be_visible()
    page.fill("[name=username]", "operator")
    page.fill("[name=password]", "a long secret")
    page.click("button.go")
    expect(page.locator("h1")).to_have_text("Delay levels")
    assert complaints == []


def test_the_palette_goes_anywhere_by_keys(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/topics/")
    page.locator("main a").first.focus()
    page.keyboard.press("Control+k")
    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_contain_text("Overview")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Due")
    page.keyboard.press("Escape")
    expect(page.locator("main a").first).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("ord")
    expect(chosen).to_contain_text("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders/")
    page.get_by_role("link", name="Go to…").click()
    page.keyboard.type("late-3")
    expect(chosen).to_contain_text("late-3")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("late-3")
    page.keyboard.press("Control+k")
    page.keyboard.type("<img src=x onerror=alert(1)>")
    expect(chosen).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("#palette img").count() == 0
    assert page.evaluate("violations") == []
    assert complaints == []


def test_enter_waits_for_the_answer_to_the_last_letter(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/")
    held: list[Route] = []
    page.route("**/find/?q=ord&part=1", lambda route: held.append(route))
    page.keyboard.press("Control+k")
    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_contain_text("Overview")
    with page.expect_request("**/find/?q=ord&part=1"):
        page.keyboard.type("ord")
    page.keyboard.press("Enter")
    assert page.locator("#palette").is_visible()
    held[0].continue_()
    page.wait_for_url("**/topics/orders/")
    assert complaints == []


def test_without_javascript_the_same_places_are_found(stage: Stage, web: Web, operator: Client) -> None:
    stage.fill()
    answer = operator.get("/find/", {"q": "ord"})
    assert "/topics/orders/" in answer.content.decode()
    assert operator.get("/find/", {"q": "s"}).context["jumps"][0].key == "S"
    zh = operator.get("/find/", {"q": "levels"}, headers={"accept-language": "zh-hans"})
    assert zh.context["jumps"][0].address == "/schedule/"


def test_a_topic_is_followed(stage: Stage, web: Web, context: BrowserContext, teller: Announcer) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/topics/orders/tail/")
    expect(page.locator("#live")).to_contain_text("Live")
    for text in HOSTILE:
        stage.producer.send("orders", text, keys=["newest"], queue_id=1)
    stage.mirror.run_once()
    expect(page.locator("#tail tbody tr").first).to_contain_text("newest")
    expect(page.locator("#tail tbody")).to_contain_text(HOSTILE[0])
    assert page.locator("#tail tbody tr").count() <= 50
    assert page.evaluate("violations") == []
    assert complaints == []


def test_an_open_page_goes_on_from_where_a_simulated_clock_leapt(
    stage: Stage, web: Web, context: BrowserContext, settings: Any, tmp_path: Path
) -> None:
    settings.VAR = tmp_path
    line = ClockLine(60.0, NEW_YEAR_MS, real_now_ms())
    clock_file().write(line)
    page, complaints = opened(context, web.address + "/")
    clocks = page.locator("#clock .num"), page.locator("#simulated .num")
    for clock in clocks:
        expect(clock).to_contain_text("2026-01-01 00:")
    # as the mirror hears it of a broker that was killed: it goes on ahead of what it wrote down last
    clock_file().write(replace(line, simulated_ms=NEW_YEAR_MS + 6 * HOUR_MS))
    for clock in clocks:
        expect(clock).to_contain_text("2026-01-01 06:")
    assert complaints == []


def test_the_switch_of_themes_names_the_other_one(stage: Stage, web: Web, context: BrowserContext) -> None:
    page, complaints = opened(context, web.address + "/")
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_have_text("Dark")
    page.emulate_media(color_scheme="dark")
    expect(switch).to_have_text("Light")
    page.locator("header.bar summary").click()
    switch.click()
    expect(switch).to_have_text("Dark")
    assert complaints == []


def test_what_falls_due_while_a_page_is_open_is_not_late(stage: Stage, web: Web, context: BrowserContext) -> None:
    """A countdown said "713 ms late" for an instant, until the server told of the next one."""
    page, complaints = opened(context, f"{web.address}/due/")
    page.evaluate(
        """() => {
            const at = (id, marks, ms) => `<time id="${id}" ${marks} data-due-ms="${Date.now() + ms}"></time>`;
            document.querySelector("main").insertAdjacentHTML("beforeend", at("passes", "", -700)
                + at("past", "", -60000) + at("late", "data-is-late", -60000) + at("ahead", "data-in", 3600000));
        }"""
    )
    expect(page.locator("#passes")).to_have_text("now")
    expect(page.locator("#past")).to_have_text(re.compile("^1 min( 0. s)? ago$"))
    expect(page.locator("#late")).to_have_text(re.compile("^1 min( 0. s)? late$"))
    expect(page.locator("#ahead")).to_have_text(re.compile("^in 59 min"))
    assert complaints == []
