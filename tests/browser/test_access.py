# ruff: noqa: F811 - fixtures taken from another module are parameters here
"""Everybody can use every page: axe finds nothing in any theme, on a telephone, in either language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import BrowserContext, Page, ViewportSize

from tests.browser.conftest import Web
from tests.browser.everything import fill
from tests.browser.test_delayed_queues import queues  # noqa: F401 - a fixture
from tests.browser.test_transactions import stage  # noqa: F401 - a fixture: a broker that asks about halves soon
from tests.console.stage import Stage

#: what a theme can change; every other rule sees the same page in all of them
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
TELEPHONE: ViewportSize = {"width": 320, "height": 700}
DESK: ViewportSize = {"width": 1440, "height": 1000}
#: elements beyond the right edge that do not scroll in a box of their own
TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > 321 && !e.closest(".x, .rail, .seg, pre, .sr"))
  .map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`)"""
AXE = """async (options) => (await axe.run(document, {...options, resultTypes: ["violations"]}))
  .violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(", "))"""


def judged(page: Page, options: dict[str, Any]) -> list[str]:
    """Rules that the page breaks, of any impact, with where."""
    found: list[str] = page.evaluate(AXE, options)
    return found


def faults_of(page: Page, *, in_all_looks: bool, shot: Path | None = None) -> list[str]:
    """What is wrong with the page that is open; colours and widths do not ask for the language."""
    page.evaluate("document.querySelectorAll('main details').forEach((e) => (e.open = true))")
    page.evaluate(AXE_SCRIPT)
    if shot:
        page.screenshot(path=f"{shot}-light.png", full_page=True)
    found = [f"light: {text}" for text in judged(page, {})]
    if in_all_looks:
        found += themes_of(page, shot)
    page.set_viewport_size(TELEPHONE)
    if shot:
        page.screenshot(path=f"{shot}-320.png", full_page=True)
    if in_all_looks:
        found += [f"320 px: {text}" for text in judged(page, {})]
    found += [f"320 px: beyond the edge: {text}" for text in page.evaluate(TOO_WIDE)[:3]]
    if page.evaluate("document.documentElement.scrollWidth") > 320:
        found.append("320 px: the page scrolls sideways")
    page.set_viewport_size(DESK)
    return found + [f"violation: {text}" for text in page.evaluate("violations")]


def themes_of(page: Page, shot: Path | None) -> list[str]:
    """What is wrong with the colours, dark and forced."""
    page.emulate_media(color_scheme="dark")
    if shot:
        page.screenshot(path=f"{shot}-dark.png", full_page=True)
    found = [f"dark: {text}" for text in judged(page, COLOURS)]
    page.emulate_media(color_scheme="light", forced_colors="active")
    found += [f"forced colours: {text}" for text in judged(page, COLOURS)]
    page.emulate_media(color_scheme="light", forced_colors="none")
    return found


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_breaks_a_rule(
    stage: Stage, web: Web, context: BrowserContext, queues: redis.Redis, shots: Path | None, language: str
) -> None:
    pages = fill(stage)
    context.add_cookies([{"name": "django_language", "value": language, "url": web.address}])
    page = context.new_page()
    faults: list[str] = []
    here = ""
    page.on("console", lambda said: said.type == "error" and complain(said.text))
    page.on("pageerror", lambda error: complain(str(error)))

    def complain(text: str) -> None:
        if here != "nothing there":
            faults.append(f"{here}: console: {text}")

    for here, address in pages.items():
        page.goto(web.address + address)
        if page.locator("h1").count() != 1:
            faults.append(f"{here}: not one h1")
        shot = shots / f"{here.replace(' ', '-')}-{language}" if shots else None
        faults += [f"{here}: {fault}" for fault in faults_of(page, in_all_looks=language == "en", shot=shot)]
    context.clear_cookies(name="sessionid")
    page.goto(web.address + "/login/")
    faults += [f"login: {fault}" for fault in faults_of(page, in_all_looks=True)]
    assert not faults, "\n".join(faults)
