"""Takes pictures from the running demonstration: the two of the README, and every page of the console twice.

    make run                                                         # in one terminal, for six minutes at least
    .venv/bin/python -m tests.browser.demonstration USER PASSWORD    # in another, with the password that was chosen

Every page is taken on a desk by day in English, and on a telephone by night in Chinese.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.palette_png import small

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8000"
README = {"light": ROOT / "docs" / "schedule.png", "dark": ROOT / "docs" / "schedule-dark.png"}
EVERY = ROOT / "docs" / "screens" / "demonstration"
#: Debian's Chromium without its own windows, which the other tests of pages use as well
CHROMIUM = "/usr/bin/chromium-headless-shell"
#: one of each: the page of what the first link within a list leads to
OPENED = {
    "topic": ("/topics/", "main tbody a[href^='/topics/flight-']"),
    "group": ("/groups/", "main tbody a[href^='/groups/']"),
    "lane": ("/schedule/", "main tbody a[href^='/schedule/']"),
    "timer": ("/timers/list/", "main tbody a[href^='/timers/']"),
    "transaction": ("/transactions/list/", "main tbody a[href^='/transactions/']"),
    "message": ("/messages/?topic=flight-arrival", "main tbody a[href^='/messages/']"),
    "dead-letters-of": ("/dead-letters/", "main tbody a[href^='/dead-letters/']"),
}
#: what is behind a button of a page in the rail
BESIDE = {
    "timers-list": "/timers/list/", "transactions-list": "/transactions/list/", "send": "/topics/flight-gate/send/",
    "alert-rule": "/alerts/rules/new/", "own-settings": "/account/settings/",
}  # fmt: skip


def main() -> int:
    """Take all pictures."""
    user, password = sys.argv[1:] if len(sys.argv) == 3 else (ROOT / "var" / "first-login").read_text().split()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        state = _signed_in(browser, user, password)
        for scheme, path in README.items():
            _take(_opened(browser, state, (1440, 960), scheme, "en"), "/schedule/", path, browser)
        addresses = _addresses(_opened(browser, state, (1440, 960), "light", "en"))
        EVERY.mkdir(parents=True, exist_ok=True)
        looks = {"1440": ((1440, 960), "light", "en"), "390": ((390, 844), "dark", "zh-hans")}
        for look, (size, scheme, language) in looks.items():
            context = _opened(browser, state, size, scheme, language)
            for name, address in addresses.items():
                _take(context, address, EVERY / f"{name}-{look}.png", browser)
            anonymous = _opened(browser, None, size, scheme, language)
            _take(anonymous, "/login/", EVERY / f"login-{look}.png", browser)
        browser.close()
    return 0


def _signed_in(browser: Browser, user: str, password: str) -> object:
    page = browser.new_page()
    page.goto(f"{ADDRESS}/login/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("main form button.go")
    expect(page.locator("h1"), "change the first password in a browser, and give the new one").to_have_text("Overview")
    return page.context.storage_state()


def _opened(browser: Browser, state: object, size: tuple[int, int], scheme: str, language: str) -> BrowserContext:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", storage_state=state
    )
    context.add_cookies([{"name": "django_language", "value": language, "url": ADDRESS}])
    return context


def _addresses(context: BrowserContext) -> dict[str, str]:
    """Return the name and address of every page in the rail, of those beside them, and of one of each kind."""
    page = context.new_page()
    page.goto(ADDRESS)
    rail = [link.get_attribute("href") or "" for link in page.locator(".rail li a").all()]
    found = {address.strip("/").replace("/", "-") or "overview": address for address in rail}
    found |= BESIDE
    for name, (address, link) in OPENED.items():
        page.goto(ADDRESS + address)
        if page.locator(link).count():
            found[name] = page.locator(link).first.get_attribute("href") or address
        else:
            print(f"{address} has nothing yet: no picture of {name}")  # noqa: T201 - a program that is run by hand
    return found


def _take(context: BrowserContext, address: str, path: Path, browser: Browser) -> None:
    page = context.new_page()
    page.goto(ADDRESS + address)
    _settle(page)
    path.write_bytes(small(browser.new_page(), page.screenshot(animations="disabled", caret="hide")))
    page.close()
    print(path.relative_to(ROOT))  # noqa: T201 - a program that is run by hand


def _settle(page: Page) -> None:
    if page.locator("#live").count():
        expect(page.locator("#live")).to_contain_class("verd")
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    sys.exit(main())
