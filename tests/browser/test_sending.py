"""A message is written on its topic's page and sent: the job that other consoles have a form for, with its steps."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.browser.test_journeys import hands_on, nothing_broke
from tests.console.stage import Stage


def test_shots(stage: Stage, web: Web, context: BrowserContext, shots: Path | None) -> None:
    stage.producer.send("orders", '{"order": 1}', keys=["order-1"], tag="paid", properties={"shop": "north"})
    stage.consume()
    page, complaints = opened(context, web.address + "/topics/orders/send/")
    for size in (1440, 390):
        page.set_viewport_size({"width": size, "height": 900})
        page.goto(web.address + "/topics/orders/send/")
        page.screenshot(path=shots / f"form-{size}.png", full_page=True)
        page.locator("[name=body]").fill('{\n  "order": 4711\n}')
        page.get_by_label("JSON (checked)").check()
        page.locator("[name=keys]").fill("order-4711")
        page.locator("[name=when]").select_option("moment")
        page.locator("[name=moment]").fill("+1h")
        page.locator("[name=schedule_key]").fill("order-4711/remind")
        page.locator("summary", has_text="Properties, sharding").click()
        page.locator("[name=properties]").fill("shop=north")
        page.screenshot(path=shots / f"filled-{size}.png", full_page=True)
        page.get_by_role("button", name="Preview…").click()
        page.wait_for_url("**/operations/**")
        page.screenshot(path=shots / f"preview-{size}.png", full_page=True)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator("[name=reason]").fill("because")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_contain_text("done")
    page.screenshot(path=shots / "done.png", full_page=True)
    page.get_by_role("link", name="See the timer").click()
    page.screenshot(path=shots / "timer.png", full_page=True)
    page.goto(web.address + "/topics/orders/send/")
    page.locator("[name=body]").fill('{"order": 4711,}')
    page.get_by_label("JSON (checked)").check()
    page.get_by_role("button", name="Preview…").click()
    expect(page.locator(".fault").first).to_be_visible()
    page.screenshot(path=shots / "refused.png", full_page=True)
    page.goto(web.address + "/topics/orders/")
    page.screenshot(path=shots / "topic.png")
    print(complaints)
