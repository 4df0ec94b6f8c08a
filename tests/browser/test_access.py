# ruff: noqa: F811 - fixtures taken from another module are parameters here
"""Everybody can use every page: axe finds nothing in any look, in either language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis
from django.test import Client
from playwright.sync_api import BrowserContext

from tests.browser.conftest import Web
from tests.browser.everything import fill
from tests.browser.looks import faults_of
from tests.browser.reading import apart, left_in_english
from tests.browser.test_delayed_queues import queues  # noqa: F401 - a fixture
from tests.browser.test_transactions import stage  # noqa: F401 - a fixture: a broker that asks about halves soon
from tests.console.stage import Stage

#: what REST answers is English for all, and so are the names of classes and marks on the page of components
IN_ENGLISH = {"the API", "a call", "components"}
STYLES = Path(__file__).resolve().parents[2] / "static" / "css"
#: what a dark scheme and forced colours may change; more would have them asked every rule (tests/browser/looks.py)
OF_COLOURS = {
    "border", "border-color", "color", "color-scheme", "fill", "forced-color-adjust", "outline", "outline-color",
    "outline-offset", "stroke",
}  # fmt: skip
_THEMED = re.compile(r"@media \((?:forced-colors|prefers-color-scheme)[^{]*\{|:root\[data-theme[^{]*\{")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_breaks_a_rule(
    stage: Stage,
    web: Web,
    context: BrowserContext,
    operator: Client,
    queues: redis.Redis,
    shots: Path | None,
    language: str,
) -> None:
    pages = fill(stage)
    faults = english_faults(operator, pages) if language == "en" else []
    context.add_cookies([{"name": "django_language", "value": language, "url": web.address}])
    page = context.new_page()
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
        faults += [f"{here}: {fault}" for fault in faults_of(page, shot)]
    context.clear_cookies(name="sessionid")
    page.goto(web.address + "/login/")
    faults += [f"login: {fault}" for fault in faults_of(page)]
    assert not faults, "\n".join(faults)


def english_faults(reader: Client, pages: dict[str, str]) -> list[str]:
    """English words on pages in Chinese, and signs of a sentence that stand apart in either language."""
    found = []
    for name, address in pages.items():
        for language in ("en", "zh-hans"):
            html = reader.get(address, headers={"accept-language": language}).content.decode()
            found += [f"{name}, {language}: a blank before {sign!r}" for sign in apart(html)]
            if language != "en" and name not in IN_ENGLISH:
                found += [f"{name}: in English: {word}" for word in left_in_english(html)]
    return found


def test_themes_change_colours_only() -> None:
    text = "".join(path.read_text() for path in sorted(STYLES.glob("*.css")))
    found: set[str] = set()
    for match in _THEMED.finditer(text):
        found |= set(re.findall(r"[{;]\s*([a-z-]+)\s*:(?=[^{};]*[;}])", "{" + block(text, match.end())))
    assert "outline" in found, "no theme was found"
    assert found <= OF_COLOURS


def block(text: str, start: int) -> str:
    """What stands from here to the brace that ends it, that included."""
    depth, end = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start:end]
