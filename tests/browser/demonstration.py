"""Takes the two pictures of the README from the running demonstration.

    make run                                              # in one terminal, for six minutes at least
    .venv/bin/python -m tests.browser.demonstration       # in another

Signs in with the first login that `make run` made, at the console's usual address.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.palette_png import small

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8000"
PICTURES = {"light": ROOT / "docs" / "schedule.png", "dark": ROOT / "docs" / "schedule-dark.png"}
#: Debian's Chromium without its own windows, which the other tests of pages use as well
CHROMIUM = "/usr/bin/chromium-headless-shell"


def main() -> int:
    """One picture a look."""
    user, password = (ROOT / "var" / "first-login").read_text().split()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme, path in PICTURES.items():
            path.write_bytes(small(browser.new_page(), _picture(browser, scheme, user, password)))
            print(path.relative_to(ROOT))  # noqa: T201 - a program that is run by hand
        browser.close()
    return 0


def _picture(browser: Browser, scheme: str, user: str, password: str) -> bytes:
    page = browser.new_page(viewport={"width": 1440, "height": 960}, color_scheme=scheme, reduced_motion="reduce")
    page.goto(f"{ADDRESS}/schedule/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit], form button")
    expect(page.locator("#live")).to_contain_class("verd")
    page.evaluate("document.fonts.ready")
    return page.screenshot(animations="disabled", caret="hide")


if __name__ == "__main__":
    sys.exit(main())
