"""A message is written and sent, by keyboard alone (the seventh of docs/JOURNEYS.md) and from its topic's page."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, expect

from console.operations.models import Operation
from tests.browser.conftest import Web
from tests.browser.test_journeys import REASON, hands_on, nothing_broke
from tests.console.stage import Stage


def test_a_message_is_sent_from_its_topic(stage: Stage, web: Web, context: BrowserContext) -> None:
    hands, complaints = hands_on(web, context)
    page = hands.page
    hands.press("Control+k")
    hands.type("send orders")
    hands.choose("Send a message to orders")
    expect(page.locator("textarea[name=body]")).to_be_focused()
    hands.type('{"order": 4711}')
    hands.press("Tab")
    hands.type("order-4711")
    hands.press("Enter")
    expect(page.locator("#preview-figures")).to_contain_text("no subscriptions")
    hands.type(REASON)
    hands.press("Enter")
    expect(page.locator("#state")).to_contain_text("done")
    assert hands.steps == 9
    page.get_by_role("link", name="Open message").first.click()
    expect(page.locator("h1")).to_have_text("order-4711")
    expect(page.locator("main")).to_contain_text('"order": 4711')
    nothing_broke(hands, complaints)


def test_from_the_page_of_its_topic_and_again_from_its_own(stage: Stage, web: Web, context: BrowserContext) -> None:
    """What a choice asks for is there once it is made; what is refused keeps all of it."""
    hands, complaints = hands_on(web, context)
    page = hands.page
    page.goto(f"{web.address}/topics/orders/")
    page.get_by_role("link", name="Send a message…").click()
    page.locator("textarea[name=body]").fill('{"order": 1}')
    page.get_by_role("button", name="Preview…").click()
    page.locator("textarea[name=reason]").fill(REASON)
    page.get_by_role("button", name="Send message").click()
    # five steps until here
    page.get_by_role("link", name="Open message").first.click()
    page.get_by_role("link", name="Send a copy…").click()
    expect(page.locator("textarea[name=body]")).to_have_value('{"order": 1}')
    expect(page.locator("[name=moment]")).to_be_hidden()
    expect(page.locator("[name=producer_group]")).to_be_hidden()
    page.get_by_text("Properties, sharding key, half message").click()
    for is_half in (True, False):
        page.locator("[name=half]").set_checked(is_half)
        assert page.locator("[name=producer_group]").evaluate("field => field.required") is is_half
    page.locator("textarea[name=body]").fill('{"order": 2,}')
    page.locator("[name=when]").select_option("moment")
    page.locator("[name=moment]").fill("+1h")
    page.get_by_role("button", name="Preview…").click()
    expect(page.locator("#wrong-body")).to_contain_text("line 1, column 13")
    expect(page.locator("textarea[name=body]")).to_be_focused()
    expect(page.locator("[name=moment]")).to_have_value("+1h")
    complaints.clear()  # the browser says of a form that is refused that it was
    page.locator("textarea[name=body]").fill('{"order": 2}')
    page.get_by_role("button", name="Preview…").click()
    expect(page.locator("#preview-figures")).to_contain_text("after you confirm")
    page.locator("textarea[name=reason]").fill(REASON)
    page.get_by_role("button", name="Send message").click()
    page.get_by_role("link", name="Open timer").first.click()
    expect(page.locator("main")).to_contain_text("orders")
    assert [row.results for row in Operation.objects.order_by("created_at")] == [{"sent": 1}, {"waits": 1}]
    nothing_broke(hands, complaints)
