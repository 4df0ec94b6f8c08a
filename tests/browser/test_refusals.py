"""The pages of a refusal break no rule either: who may not, what was not started, who is not let in."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import BrowserContext, Route

from tests.browser.conftest import Web
from tests.browser.looks import faults_of
from tests.browser.reading import left_in_english
from tests.console.people import browser_of, person

#: where the provider would be: nobody answers there
NOWHERE = "http://127.0.0.1:9"


def refusals(operator: Client, settings: Any) -> dict[str, tuple[int, Client, dict[str, Any]]]:
    """What each is asked by whom, and the status of its answer."""
    settings.OIDC_ISSUER, settings.OIDC_NAME = NOWHERE, "钥匙"
    person("anna")
    viewer, guesser = browser_of(person("demo")), Client()
    wrong = {"username": "anna", "password": "guess"}
    while guesser.post("/login/", wrong).status_code != 429:
        pass
    draft = {"kind": "topics.create", "name": "a b"}
    return {
        "may not": (403, viewer, {"path": "/people/"}),
        "not there": (404, viewer, {"path": "/nowhere/"}),
        "not started": (422, operator, {"path": "/operations/draft/", "data": draft}),
        "wrong password": (200, Client(), {"path": "/login/", "data": {**wrong, "username": "carl"}}),
        "locked out": (429, guesser, {"path": "/login/", "data": wrong}),
        "provider down": (502, Client(), {"path": "/login/provider/"}),
        "provider unsure": (403, Client(), {"path": "/login/provider/back/"}),
    }


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_of_a_refusal_breaks_a_rule(
    web: Web, context: BrowserContext, operator: Client, settings: Any, language: str
) -> None:
    page = context.new_page()
    faults = []
    for name, (status, browser, asked) in refusals(operator, settings).items():
        ask = browser.post if "data" in asked else browser.get
        answer = ask(**asked, headers={"accept-language": language})
        assert answer.status_code == status, (name, answer.status_code)
        html = answer.content.decode()
        page.route(f"{web.address}/refused/", _given(html))
        page.goto(f"{web.address}/refused/")
        page.unroute(f"{web.address}/refused/")
        if page.locator("h1").count() != 1:
            faults.append(f"{name}: not one h1")
        if not page.locator("main a, main button").count():
            faults.append(f"{name}: leads nowhere")
        faults += [f"{name}: {fault}" for fault in faults_of(page)]
        if language != "en":
            faults += [f"{name}: in English: {word}" for word in left_in_english(html)]
    assert not faults, "\n".join(faults)


def _given(html: str) -> Any:
    def give(route: Route) -> None:
        route.fulfill(body=html, content_type="text/html; charset=utf-8")

    return give
