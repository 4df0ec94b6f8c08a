"""What a page names can be taken along: by a click, by a key, and with no clipboard to ask for."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import Stage

#: pastes into a field of the page what was copied
PASTED = "navigator.clipboard.readText()"


def test_ids_names_and_bodies_are_copied(stage: Stage, web: Web, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=web.address)
    sent = stage.producer.send("orders", '{"order": 4711}', keys=["order-4711"], queue_id=0)
    stage.mirror.run_once()
    page, complaints = opened(context, f"{web.address}/topics/")
    row = page.get_by_role("row", name="orders")
    row.hover()
    row.locator("[data-copies]").click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_be_visible()
    assert page.evaluate(PASTED) == "orders"
    assert page.url.endswith("/topics/")
    page.goto(f"{web.address}/messages/{sent.offset_message_id}/")
    page.locator("#body-title").locator("xpath=../..").get_by_role("button", name="Copy").first.click()
    expect(page.locator("#copied")).to_have_text("Copied")
    assert page.evaluate(PASTED) == '{\n  "order": 4711\n}'
    page.locator("h1").click()
    page.keyboard.press("i")
    expect(page.locator("#copied")).to_have_text("Copied")
    until_pasted(page, "order-4711")
    # by plain HTTP from another machine a page has no clipboard: the older way does
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    copy = page.locator(f'[data-copies="{sent.offset_message_id}"]').first
    copy.click()
    expect(copy).to_be_focused()
    page.evaluate("delete navigator.clipboard")
    until_pasted(page, sent.offset_message_id)
    assert complaints == []


def until_pasted(page: Page, text: str) -> None:
    page.wait_for_function(f"async (text) => await {PASTED} === text", arg=text)


def test_without_a_script_there_is_nothing_to_press(stage: Stage, web: Web, context: BrowserContext) -> None:
    browser = context.browser
    assert browser is not None
    bare = browser.new_context(java_script_enabled=False, storage_state=context.storage_state())
    page = bare.new_page()
    page.goto(f"{web.address}/topics/orders/")
    expect(page.locator("h1")).to_have_text("orders")
    assert page.locator("[data-copies]").count() > 0
    expect(page.locator("[data-copies]").first).to_be_hidden()
    bare.close()
