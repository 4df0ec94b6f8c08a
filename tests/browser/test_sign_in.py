"""Signing in with a real browser: a first password is changed, a second factor is set up, asked for, and lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pyotp
import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, Page, expect

from console.security.door import Door, through
from console.security.models import SecondFactor
from tests.browser.conftest import WATCH, Web

GIVEN, OWN = "given by somebody", "my own long secret"


def fill_in(page: Page, **fields: str) -> None:
    for name, text in fields.items():
        page.fill(f"[name={name}]", text)
    page.click("form.sheet button.go")


def shot(page: Page, shots: Path | None, name: str) -> None:
    if shots is None:
        return
    for width in (390, 1440):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=shots / f"{name}-{width}-{scheme}.png", full_page=True)


def test_a_new_person_comes_in_and_sets_up_a_second_factor(web: Web, chromium: Browser, shots: Path | None) -> None:
    with through(Door(command="manage.py createsuperuser")):
        user = get_user_model().objects.create_superuser("anna", password=GIVEN)
    context = chromium.new_context(viewport={"width": 390, "height": 900}, reduced_motion="reduce")
    context.add_init_script(WATCH)
    page = context.new_page()
    page.goto(f"{web.address}/access/")
    fill_in(page, username="anna", password=GIVEN)
    expect(page).to_have_url(f"{web.address}/account/password/")
    shot(page, shots, "password")
    fill_in(page, password=GIVEN, new=OWN, again=OWN)
    expect(page).to_have_url(f"{web.address}/")
    page.goto(f"{web.address}/account/second-factor/")
    secret = page.locator("#secret").text_content() or ""
    shot(page, shots, "set-up")
    fill_in(page, code=pyotp.TOTP(secret).now(), password=OWN)
    codes = re.findall(r"[A-Z2-9-]{19}", page.locator("#codes").text_content() or "")
    assert len(codes) == 10
    SecondFactor.objects.filter(user=user).update(last_step=int(time.time()) // 30 - 3)
    page.click("form.acts button")
    page.goto(f"{web.address}/login/")
    fill_in(page, username="anna", password=OWN)
    expect(page).to_have_url(re.compile(r"/login/second/"))
    fill_in(page, code="000000")
    expect(page.get_by_role("alert")).to_be_visible()
    shot(page, shots, "second")
    fill_in(page, code=pyotp.TOTP(secret).now())
    expect(page).to_have_url(f"{web.address}/")
    for address in ("people", "tokens", "access"):
        page.goto(f"{web.address}/{address}/")
        shot(page, shots, address)
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.evaluate("violations") == [], address
    context.close()


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_the_sentence_stands_on_no_wheel_and_the_language_is_chosen_without_a_script(
    chromium: Browser, web: Web, locale: str
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, locale=locale, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{web.address}/login/?next=/topics/")
    plate, sentence = page.locator(".plate").bounding_box(), page.locator(".plate p").bounding_box()
    assert plate
    assert sentence
    # so far from below the movement has faded away
    clear = 5.5 * 16
    assert plate["y"] + plate["height"] - sentence["y"] <= clear
    title = {"en": "登录", "zh-CN": "Sign in"}[locale]
    page.get_by_role("button", name={"en": "简体中文", "zh-CN": "English"}[locale]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert page.url == f"{web.address}/login/?next=/topics/"
    context.close()
