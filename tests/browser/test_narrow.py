"""On a telephone, on half a screen and enlarged twice: everything is there, and nothing is wider than the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import Web
from tests.console.stage import Stage

Visit = Callable[..., Page]
WIDTHS = (320, 390, 720)
LANGUAGES = ("en", "zh-hans")


@pytest.fixture
def visit(chromium: Browser, operator: Client, web: Web) -> Iterator[Visit]:
    """A page as somebody who is signed in sees it, so wide, in this language, with scripts or without."""
    made: list[BrowserContext] = []

    def open_(address: str, width: int, language: str = "en", *, scripts: bool = True) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, java_script_enabled=scripts, reduced_motion="reduce"
        )
        made.append(context)
        cookies = {"sessionid": operator.cookies["sessionid"].value, "django_language": language}
        context.add_cookies([{"name": name, "value": text, "url": web.address} for name, text in cookies.items()])
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.goto(web.address + address)
        return page

    yield open_
    for context in made:
        context.close()


def within(element: Locator, width: int) -> None:
    """It is seen, whole."""
    expect(element).to_be_visible()
    box = element.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width, element


def keep(page: Page, shots: Path | None, name: str) -> None:
    if shots:
        page.screenshot(path=str(shots / f"{name}.png"))


@pytest.mark.parametrize("scripts", [True, False], ids=["script", "no-script"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [*WIDTHS, 1_440])
def test_all_of_the_header_is_within_reach(
    visit: Visit, shots: Path | None, width: int, language: str, scripts: bool
) -> None:
    page = visit("/topics/", width, language, scripts=scripts)
    bar = page.locator("header.bar")
    within(bar.locator("#find"), width)
    within(bar.locator("[data-palette]"), width)
    bar.locator("summary").click()
    keep(page, shots, f"menu-{width}-{language}-{scripts}")
    for name in ("language", "theme"):
        within(bar.locator(f"button[name={name}]"), width)
    within(bar.get_by_role("link", name="Settings" if language == "en" else "设置", exact=True), width)
    menu = bar.locator(".menu").last.bounding_box()
    assert menu is not None
    assert menu["y"] + menu["height"] < page.evaluate("innerHeight")
    leave = bar.get_by_role("button", name="Sign out" if language == "en" else "退出登录", exact=True)
    within(leave, width)
    within(bar.locator("[data-clock]:visible"), width)
    leave.click()
    page.wait_for_url("**/login/**")


def test_an_id_that_is_too_short_to_be_cut_is_broken(visit: Visit, stage: Stage) -> None:
    stage.producer.send("orders", b"1")
    page = visit("/clients/one/?" + urlencode({"id": stage.admin.producers()[0].client_id}), 320)
    # as of a program on a host that has run many: what is shown here has a host and a number of this machine
    page.locator("h1 .cut").evaluate("(cut) => { cut.lastChild.data = 'web@32768#dddddddd' }")
    within(page.locator("h1 .cut"), 320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_menu_is_used_by_keys_and_closes(visit: Visit) -> None:
    page = visit("/topics/", 390)
    menu = page.locator("details.account")
    menu.locator("summary").press("Enter")
    expect(menu.locator("button[name=theme]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu.locator("button[name=theme]")).to_be_hidden()
    expect(menu.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    page.mouse.click(5, 700)
    expect(menu.locator("button[name=theme]")).to_be_hidden()


def test_language_and_theme_change_without_a_script(visit: Visit) -> None:
    page = visit("/topics/?search=o", 390, scripts=False)
    before = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    page.locator("header.bar summary").click()
    page.locator("button[name=theme]").click()
    page.wait_for_url("**/topics/?search=o")
    assert page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor") != before
    page.locator("header.bar summary").click()
    expect(page.locator("button[name=theme]")).to_have_text("Light")
    page.locator("button[name=language]").click()
    page.wait_for_url("**/topics/?search=o")
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [390, 720])
def test_the_help_of_the_keys_is_read(visit: Visit, shots: Path | None, width: int, language: str) -> None:
    page = visit("/topics/", width, language)
    page.keyboard.press("?")
    shown = page.locator("#help")
    within(shown, width)
    keep(page, shots, f"help-{width}-{language}")
    box = shown.bounding_box()
    assert box is not None
    assert box["width"] > 300
    for text in shown.locator("dd").all():
        within(text, width)
    assert page.evaluate("document.querySelector('#help').scrollWidth <= document.querySelector('#help').clientWidth")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_pages_are_behind_a_button_and_all_of_them_are_seen(visit: Visit, width: int) -> None:
    page = visit("/audit/", width)
    pages = page.locator(".rail li a")
    expect(pages.first).to_be_hidden()
    page.get_by_role("button", name="Menu", exact=True).click()
    for each in pages.all():
        within(each, width)
    expect(page.locator(".rail [aria-current]")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(pages.first).to_be_hidden()
    page.get_by_role("button", name="Menu", exact=True).click()
    page.get_by_role("link", name="Topics").click()
    expect(page).to_have_url(re.compile("/topics/$"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_beside_the_page_the_pages_need_no_button(visit: Visit) -> None:
    page = visit("/audit/", 1_440)
    expect(page.get_by_role("button", name="Menu", exact=True)).to_be_hidden()
    expect(page.locator(".rail [aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("address", ["/find/?q=o", "/timers/list/", "/messages/", "/compare/", "/login/"])
def test_no_button_is_a_bar_with_its_label_at_one_end(visit: Visit, address: str) -> None:
    page = visit(address, 390) if address != "/login/" else visit("/", 390)
    if address == "/login/":
        page.context.clear_cookies(name="sessionid")
        page.reload()
    for button in page.locator("main button.btn:visible").all():
        wide = button.evaluate("e => e.getBoundingClientRect().width > 300")
        assert not wide or button.evaluate("e => getComputedStyle(e).justifyContent") == "center"


@pytest.mark.parametrize("width", [390, 720, 1_440])
def test_a_row_of_figures_that_is_not_full_has_no_block_of_another_colour(visit: Visit, width: int) -> None:
    page = visit("/transactions/", width)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        shown = page.locator("main .figures").evaluate("e => getComputedStyle(e).backgroundColor")
        sheet = page.locator("main .sheet").first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert shown == sheet


#: for each drawing that is wider than its place: how far its right edge is beyond that of the place
BEYOND = """all => all.map((place) => {
    const drawn = place.firstElementChild.getBoundingClientRect(), room = place.getBoundingClientRect();
    return [drawn.width > room.width, Math.round(drawn.right - room.right)];
})"""


@pytest.mark.parametrize("scripts", [True, False])
def test_a_course_of_what_was_opens_at_its_newest_end(visit: Visit, scripts: bool) -> None:
    page = visit("/topics/orders/", 390, scripts=scripts)
    places = page.locator("#over-panels .scroll").evaluate_all(BEYOND)
    assert places
    assert all(is_wider and beyond <= 1 for is_wider, beyond in places), places


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(
    ("address", "given", "field"),
    [
        ("/timers/list/?topic=orders&key=x", "2", "key"), ("/audit/?actor=anna", "1", "actor"),
        ("/dead-letters/of/billing/?topic=orders&state=all", "2", "topic"),
        ("/transactions/list/?group=a", "1", "group"), ("/messages/?topic=orders&tag=paid", "1", "tag"),
    ],
)  # fmt: skip
def test_filters_are_one_line_that_opens_and_says_how_many_are_given(
    visit: Visit, address: str, given: str, field: str, scripts: bool
) -> None:
    page = visit(address, 390, scripts=scripts)
    line, written = page.locator("main .filters > summary"), page.locator(f"main .filters [name={field}]")
    expect(line.locator(".pill")).to_have_text(given)
    expect(written).to_be_hidden()
    line.click()
    expect(written).to_be_visible()
    page.set_viewport_size({"width": 1_440, "height": 900})
    expect(written).to_be_visible()
    expect(line).to_be_hidden()


def test_on_a_desk_filters_need_no_click(visit: Visit) -> None:
    page = visit("/timers/list/", 1_440)
    page.locator("main .filters [name=topic]").fill("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/timers/list/?topic=orders**")
    expect(page.locator("main .filters > summary")).to_be_hidden()


def test_a_filter_that_is_wrong_is_not_behind_the_line(visit: Visit) -> None:
    page = visit("/timers/list/?from=soon", 390)
    expect(page.locator("main .filters [name=from]")).to_be_visible()


#: of a list: how far it scrolls, and how many of its values have a name before them
LINES = """list => [
    list.scrollWidth - list.clientWidth,
    [...list.querySelectorAll("td[data-name]")].filter(
        (e) => e.checkVisibility() && getComputedStyle(e, "::before").content.includes(e.dataset.name)).length,
]"""


@pytest.mark.parametrize("address", ["/topics/", "/groups/", "/messages/", "/topics/orders/0/", "/topics/orders/tail/"])
def test_rows_of_lists_are_lines_with_the_name_of_each_value(stage: Stage, visit: Visit, address: str) -> None:
    stage.fill()
    stage.consume()
    page = visit(address, 390)
    beyond, named = page.locator("main .scroll:has(> .cards)").last.evaluate(LINES)
    assert beyond <= 0
    assert named > 0
    page.set_viewport_size({"width": 1_440, "height": 900})
    _beyond, named = page.locator("main .scroll:has(> .cards)").last.evaluate(LINES)
    assert named == 0, "on a desk the head of a table names its columns"


def test_what_still_scrolls_has_a_line_at_its_edge(visit: Visit) -> None:
    page = visit("/api/docs/", 390)
    places = page.locator("main .scroll:has(> table)")
    assert places.first.evaluate("e => e.scrollWidth > e.clientWidth")
    assert places.first.evaluate("e => getComputedStyle(e).backgroundImage").count("linear-gradient") == 6


@pytest.mark.parametrize("language", LANGUAGES)
def test_signing_in_is_on_the_first_screen_of_a_telephone(visit: Visit, language: str) -> None:
    page = visit("/", 390, language)
    page.context.clear_cookies(name="sessionid")
    page.set_viewport_size({"width": 390, "height": 664})
    page.reload()
    expect(page.locator("main form button.go")).to_be_in_viewport(ratio=1)
    plate = page.locator(".plate").bounding_box()
    assert plate is not None
    assert plate["height"] <= 664 / 4
