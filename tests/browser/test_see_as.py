"""To see the console as a role: begun on the page of users, told on every page in every look, and stopped there."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import BrowserContext, expect

from console.security.gate import ensure_roles
from tests.browser.conftest import Web
from tests.browser.looks import faults_of
from tests.browser.opening import opened


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_role_is_seen_as_and_stopped(web: Web, context: BrowserContext, shots: Path | None, language: str) -> None:
    ensure_roles()
    context.add_cookies([{"name": "django_language", "value": language, "url": web.address}])
    page, complaints = opened(context, f"{web.address}/people/")
    form = page.locator("form[action='/see-as/']")
    form.locator("select").select_option(str(Group.objects.get(name="viewer").pk))
    form.locator("button").click()
    bar = page.locator(".seeing")
    expect(bar).to_contain_text("viewer")
    assert faults_of(page, shots / f"see-as-{language}" if shots else None) == []
    page.goto(f"{web.address}/timers/")
    expect(bar).to_be_visible()
    expect(page.locator("#live")).to_contain_class("verd")
    bar.locator("button").click()
    expect(page.locator("main")).to_be_visible()
    expect(bar).to_have_count(0)
    assert complaints == []
