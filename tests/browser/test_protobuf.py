"""A compiled descriptor is uploaded by a browser, and the body of a message is read by it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Web
from tests.browser.test_journeys import REASON, hands_on, nothing_broke
from tests.console.messages.proto_shop import ORDER, SHOP, order
from tests.console.stage import Stage


def test_a_descriptor_is_uploaded_and_a_body_is_read(
    stage: Stage, web: Web, context: BrowserContext, tmp_path: Path
) -> None:
    file = tmp_path / "orders.binpb"
    file.write_bytes(SHOP)
    sent = stage.producer.send("orders", order(id=4711, customer="Anna", state=2, lines=[{"sku": "a", "count": 2}]))
    hands, complaints = hands_on(web, context)
    page = hands.page
    page.goto(f"{web.address}/topics/orders/")
    page.get_by_role("link", name="Protobuf descriptor…").click()
    page.locator("input[name=set]").set_input_files(file)
    page.get_by_role("button", name="Preview change…").click()
    expect(page.locator("main")).to_contain_text("2 message types")
    page.locator("select[name=type]").select_option(ORDER)
    page.locator("textarea[name=reason]").fill(REASON)
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#state")).to_contain_text("done")
    page.goto(f"{web.address}/messages/{sent.offset_message_id}/")
    expect(page.locator("main")).to_contain_text('"customer": "Anna"')
    page.locator(f'a[href="/topics/orders/descriptor/"]:has-text("{ORDER}")').click()
    expect(page.locator("main")).to_contain_text(ORDER)
    nothing_broke(hands, complaints)
