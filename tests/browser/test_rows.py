"""Rows of lists by the mouse: a click anywhere opens, Shift chooses a range, the bar stays, times are a press away."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import Stage

CUT = "each => each.filter((one) => one.scrollWidth > one.clientWidth).length"
SELECTED = "() => getSelection().toString()"


def beside_the_link(row: Locator) -> dict[str, Any]:
    """A place in the last cell of a row."""
    box = row.bounding_box()
    assert box is not None
    return {"x": box["width"] - 4, "y": box["height"] / 2}


def test_a_click_anywhere_in_a_row_opens_it(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    page, complaints = opened(context, f"{web.address}/topics/")
    row = page.locator("#topics tbody tr").filter(has_text="orders").first
    row.click(position=beside_the_link(row))
    page.wait_for_url("**/topics/orders/")
    page.go_back()
    for options in ({"button": "middle"}, {"modifiers": ["Control"]}):
        with context.expect_page() as other:
            row.click(position=beside_the_link(row), **options)  # type: ignore[arg-type]  # either of both
        expect(other.value).to_have_url(re.compile("/topics/orders/$"))
        other.value.close()
    assert page.url.endswith("/topics/")
    # who selects text stays where it is
    cell = row.locator("td").nth(1)
    box = cell.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    assert page.evaluate(SELECTED) != ""
    assert page.url.endswith("/topics/")
    assert complaints == []


def timers(stage: Stage, page: Page, web: Web) -> Locator:
    """The boxes of a list with forty timers."""
    due_ms = time.time_ns() // 1_000_000 + 3_600_000
    for number in range(40):
        stage.producer.send("orders", "x", deliver_at_ms=due_ms + number, keys=[f"key-{number}"])
    stage.mirror.run_once()
    page.goto(f"{web.address}/timers/list/")
    return page.locator("#timers tbody input[type=checkbox]")


def test_a_range_is_chosen_and_the_bar_stays_in_sight(stage: Stage, web: Web, context: BrowserContext) -> None:
    page, complaints = opened(context, f"{web.address}/timers/list/")
    boxes = timers(stage, page, web)
    expect(boxes).to_have_count(40)
    count = page.locator("[data-select-count]")
    boxes.nth(2).click()
    boxes.nth(9).click(modifiers=["Shift"])
    expect(count).to_have_text("8")
    assert page.evaluate(SELECTED) == ""
    boxes.nth(9).click()
    boxes.nth(6).click(modifiers=["Shift"])
    expect(count).to_have_text("4")
    # while rows are chosen, a click in another row chooses it, and nothing is lost by a slip
    row = page.locator("#timers tbody tr").nth(20)
    row.click(position=beside_the_link(row))
    expect(boxes.nth(20)).to_be_checked()
    expect(count).to_have_text("5")
    assert "/timers/list/" in page.url
    for width, height in ((1440, 700), (390, 700)):
        page.set_viewport_size({"width": width, "height": height})
        page.locator("#timers tbody tr").last.scroll_into_view_if_needed()
        expect(page.get_by_role("button", name="Reschedule…")).to_be_in_viewport(ratio=1)
        expect(count).to_be_in_viewport()
    assert complaints == []


def test_a_time_is_a_press_away_in_the_zone_of_the_page(stage: Stage, web: Web, context: BrowserContext) -> None:
    context.add_cookies([{"name": "zone", "value": "Asia/Shanghai", "url": web.address}])
    page, complaints = opened(context, f"{web.address}/topics/orders/send/")
    page.locator("select[name=when]").select_option("moment")
    field = page.locator("input[name=moment]")
    page.get_by_role("button", name="In 1 h").click()
    # it counts from the confirmation
    expect(field).to_have_value("1 h")
    page.get_by_role("button", name="Tomorrow 09:00").click()
    expect(field).to_have_value(re.compile(r"^\d{4}-\d\d-\d\dT09:00:00\+08:00$"))
    chosen = datetime.fromisoformat(field.input_value())
    assert (chosen.hour, chosen.minute) == (9, 0)
    assert (chosen.date() - datetime.now(chosen.tzinfo).date()).days == 1
    expect(field).to_be_focused()
    assert complaints == []


def test_a_move_is_a_press_away_and_says_whether_distances_stay(
    stage: Stage, web: Web, context: BrowserContext
) -> None:
    context.add_cookies([{"name": "zone", "value": "Asia/Shanghai", "url": web.address}])
    page, complaints = opened(context, f"{web.address}/timers/list/")
    boxes = timers(stage, page, web)
    boxes.nth(0).click()
    boxes.nth(1).click()
    page.get_by_role("button", name="Reschedule…").click()
    page.get_by_role("button", name="1 h", exact=True).click()
    expect(page.locator("#preview-figures")).to_contain_text("+1 h from its own due time")
    expect(page.locator('[aria-pressed="true"]')).to_have_text("1 h")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.locator("#hit .scroll").evaluate_all(CUT) == 0, "a table that fits has no shade at its edge"
    page.get_by_role("button", name="tomorrow 09:00").click()
    expect(page.locator("#preview-figures")).to_contain_text("09:00:00.000 CST")
    expect(page.locator("#preview-figures")).to_contain_text("All at one time")
    # Enter in the field is its own button, and none of those above
    page.locator("input[name=moment]").fill("+90 min")
    page.locator("input[name=moment]").press("Enter")
    expect(page.locator("#preview-figures")).to_contain_text("+1 h 30 min from its own due time")
    assert complaints == []


def test_create_goes_into_the_name(stage: Stage, web: Web, context: BrowserContext) -> None:
    page, complaints = opened(context, f"{web.address}/topics/")
    page.get_by_role("link", name="Create topic…").click()
    expect(page.locator("#create")).to_be_focused()
    expect(page.locator("#create")).to_be_in_viewport(ratio=1)
    page.keyboard.type("bills")
    expect(page.locator("#create")).to_have_value("bills")
    assert complaints == []


def test_what_the_head_of_a_page_leads_to_is_not_behind_the_bar(
    stage: Stage, web: Web, context: BrowserContext
) -> None:
    page, complaints = opened(context, f"{web.address}/people/")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 700})
        page.goto(f"{web.address}/people/")
        page.get_by_role("link", name="Create role…").first.click()
        title = page.locator("#new-role-title")
        expect(title).to_be_in_viewport()
        bar, box = page.locator(".bar").bounding_box(), title.bounding_box()
        assert bar is not None and box is not None
        assert box["y"] >= bar["y"] + bar["height"]
    assert complaints == []
