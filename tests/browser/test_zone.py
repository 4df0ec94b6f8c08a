"""The reader's own zone: offered by the browser, obeyed by what the server writes and by what the script counts on."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import Stage

#: ahead of UTC by a part of an hour, and no summer time
TEHRAN = "Asia/Tehran"
#: whether the clock in the bar says the time of a zone, to the minute before or after
GOES = """([clock, zone]) => {
  const at = (ms) => new Date(ms).toLocaleString("sv-SE", { timeZone: zone }).slice(0, 16);
  return [Date.now(), Date.now() - 60000].map(at).includes(clock.textContent.slice(0, 16));
}"""


def test_the_account_menu_offers_local_time(stage: Stage, web: Web, chromium: Browser, context: BrowserContext) -> None:
    made = chromium.new_context(timezone_id=TEHRAN, storage_state=context.storage_state())
    stage.fill()
    page, complaints = opened(made, f"{web.address}/topics/orders/")
    clock = page.locator("#clock .num")
    assert clock.evaluate(f"(clock) => ({GOES})([clock, 'UTC'])")
    page.locator("summary", has_text="operator").click()
    page.get_by_role("button", name="Times in local time").click()
    expect(page.locator("html")).to_have_attribute("data-zone", TEHRAN)
    expect(page.locator("#clock")).to_contain_text("+0330")
    # the script goes on from where the server began
    page.wait_for_function(f"() => ({GOES})([document.querySelector('#clock .num'), '{TEHRAN}'])")
    expect(page.locator("time[title$='+0330']").first).to_be_attached()
    # an open page that is brought up to date stays in it
    expect(page.locator("#live")).to_contain_text("Live")
    stage.producer.send("orders", "x", keys=["k"])
    stage.mirror.run_once()
    expect(page.locator("main [title$='UTC']")).to_have_count(0)
    page.locator("summary", has_text="operator").click()
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("button", name="Comfortable rows").click()
    expect(page.locator("html")).to_have_attribute("data-density", "comfortable")
    page.goto(f"{web.address}/topics/orders/")
    assert page.locator(".table td").first.evaluate("(cell) => getComputedStyle(cell).height") == "38px"
    page.locator("summary", has_text="operator").click()
    page.get_by_role("button", name=re.compile("Times in UTC")).click()
    expect(page.locator("html")).not_to_have_attribute("data-zone", TEHRAN)
    assert complaints == []
    made.close()
