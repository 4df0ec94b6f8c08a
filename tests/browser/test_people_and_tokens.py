"""Broker users, people and tokens with a real browser: made, shown once, rotated, ended, as who does it sees it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.db import connections
from playwright.sync_api import Browser, Page, expect

from broker.client import Admin, BrokerRefused
from console.security import tokens
from tests.browser.conftest import WATCH, Web
from tests.console.access.test_broker_users import guarded  # noqa: F401 - a fixture
from tests.console.people import browser_of
from tests.mirror.running import RunningBroker


@pytest.fixture
def boss(guarded: RunningBroker, chromium: Browser, valkey: str, free_port: int) -> Iterator[Page]:  # noqa: F811 - the fixture
    """A page of a superuser, at a console whose broker has access control."""
    user = get_user_model().objects.create_superuser("boss", password="a long secret")
    web = Web(free_port)
    web.start()
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.add_init_script(WATCH)
    context.set_default_timeout(15_000)
    key = browser_of(user).cookies[django_settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": django_settings.SESSION_COOKIE_NAME, "value": key, "url": web.address}])
    page = context.new_page()
    page.goto(f"{web.address}/people/")
    yield page
    assert page.evaluate("violations") == []
    context.close()
    web.stop()


@pytest.fixture(autouse=True)
def _fresh_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


def go(page: Page, path: str) -> None:
    page.goto(urljoin(page.url, path), wait_until="domcontentloaded")


def confirm(page: Page, kind: str, typed: str = "", **fields: str) -> None:
    """Send the form of this kind, and confirm what its preview says."""
    form = page.locator(f"form:has(input[name=kind][value='{kind}'])").first
    for name, text in fields.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("each => each.tagName") == "SELECT":
            field.select_option(text)
        else:
            field.fill(text)
    form.locator("button").last.click()
    page.fill("[name=reason]", "a test")
    if typed:
        page.fill("[name=typed]", typed)
    page.locator("form:has([name=reason]) button:is(.go, .harm)").click()


def shown_once(page: Page) -> str:
    """Take the secret; it is gone when the page is loaded again."""
    secret = page.locator("pre.secret")
    expect(page.get_by_text("Shown once and not stored: copy it now.")).to_be_visible()
    text = (secret.text_content() or "").strip()
    go(page, page.url.removesuffix("confirm/"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert text not in page.content()
    return text


def opens(broker: RunningBroker, name: str, secret: str) -> bool:
    with Admin(broker.namesrv, access_key=name, secret_key=secret) as admin:
        try:
            return bool(admin.access_users(name))
        except BrokerRefused:
            return False


def test_who_may_what_is_made_shown_once_rotated_and_ended(boss: Page, guarded: RunningBroker) -> None:  # noqa: F811 - the fixture
    a_person_comes_and_is_closed_out(boss)
    a_token_is_made_rotated_and_revoked(boss)
    a_broker_user_is_made_rotated_and_deleted(boss, guarded)


def a_person_comes_and_is_closed_out(boss: Page) -> None:
    confirm(boss, "people.add", name="anna")
    password = shown_once(boss)
    anna = get_user_model().objects.get(username="anna")
    assert anna.check_password(password)
    go(boss, "/people/")
    expect(boss.get_by_role("row", name="anna")).to_contain_text("must change the password")
    boss.get_by_role("link", name="anna").click()
    confirm(boss, "people.reset_password")
    assert shown_once(boss) != password
    go(boss, f"/people/{anna.pk}/")
    confirm(boss, "people.change", is_active="no")
    go(boss, "/people/")
    expect(boss.get_by_role("row", name="anna")).to_contain_text("disabled")


def a_token_is_made_rotated_and_revoked(boss: Page) -> None:
    go(boss, "/tokens/")
    confirm(boss, "tokens.make", name="billing", publish="orders")
    first = shown_once(boss)
    go(boss, "/tokens/")
    expect(boss.get_by_role("row", name="billing")).to_contain_text("publish orders")
    confirm(boss, "tokens.renew")
    second = shown_once(boss)
    assert [tokens.grant_of(each) is not None for each in (first, second)] == [True, True]
    go(boss, "/tokens/")
    expect(boss.get_by_role("row", name=f"esc_{tokens.prefix_of(first)}")).to_contain_text("replaced")
    for token in (first, second):
        go(boss, "/tokens/")
        row = boss.get_by_role("row", name=f"esc_{tokens.prefix_of(token)}")
        row.get_by_role("button", name="Revoke token…").click()
        boss.fill("[name=reason]", "a test")
        boss.locator("form:has([name=reason]) button:is(.go, .harm)").click()
        expect(boss.get_by_role("heading", level=1)).to_be_visible()
    assert [tokens.grant_of(each) for each in (first, second)] == [None, None]
    go(boss, "/tokens/")
    expect(boss.get_by_role("button", name="Revoke token…")).to_have_count(0)


def a_broker_user_is_made_rotated_and_deleted(boss: Page, broker: RunningBroker) -> None:
    go(boss, "/access/")
    confirm(boss, "access.create", name="alice", is_super="yes")
    first = shown_once(boss)
    assert opens(broker, "alice", first)
    go(boss, "/access/alice/")
    confirm(boss, "access.rotate", overlap_hours="2")
    second = shown_once(boss)
    go(boss, "/access/alice/")
    expect(boss.get_by_text("The old secret is valid until")).to_be_visible()
    confirm(boss, "access.end_old_secret")
    expect(boss.get_by_role("heading", level=1)).to_be_visible()
    assert [opens(broker, "alice", each) for each in (first, second)] == [False, True]
    go(boss, "/access/alice/")
    confirm(boss, "access.change")
    go(boss, "/access/")
    expect(boss.get_by_role("row", name="alice")).to_contain_text("disabled")
    go(boss, "/access/alice/")
    confirm(boss, "access.delete", typed="alice")
    go(boss, "/access/")
    expect(boss.get_by_role("row", name="alice")).to_have_count(0)
