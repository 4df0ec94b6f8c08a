"""Another SECRET_KEY: nobody is signed out, and second factors and addresses of check-backs go on, while the older key
is named; secrets of authenticators are sealed in the database."""

from __future__ import annotations

import importlib
import time
from io import StringIO
from typing import Any

import pyotp
import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from console.features.alerts import sealed_secret
from console.features.alerts.models import AlertRule
from console.features.checkback.models import CheckAddress, digest, make_secret, new_salt
from console.features.checkback.registry import secret_of
from console.security import keys, second_factor
from console.security.models import SecondFactor
from console.security.sessions import signed_in
from console.ui.sockets import _seen, marks_of
from tests.console.people import browser_of, person

OLD, NEW = "the old key " * 5, "the new key " * 5
PASSWORD = "a long secret"


@pytest.fixture(autouse=True)
def _old_key(settings: Any, db: None) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = OLD, []


def renew(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [OLD]


def enrolled(name: str) -> tuple[Any, pyotp.TOTP]:
    """A person whose authenticator's code of now was not taken yet."""
    user, totp = person(name), pyotp.TOTP(second_factor.new_secret())
    assert second_factor.set_up(user, totp.secret, totp.now())
    again(user)
    return user, totp


def again(user: Any) -> None:
    SecondFactor.objects.filter(user=user).update(last_step=int(time.time()) // 30 - 3)


def command() -> str:
    said = StringIO()
    call_command("secret_key", stdout=said)
    return said.getvalue()


def test_a_session_goes_on_and_is_signed_anew_and_doors_without_cookies_leave_it(settings: Any) -> None:
    browser = browser_of(person("anna"))
    old = browser.session.session_key
    renew(settings)
    # an open page's socket and the reference of REST come first after a start
    assert marks_of([old])[old] is not None
    assert _seen(old) is not None
    assert str(signed_in(old)) == "anna"
    assert Session.objects.filter(session_key=old).exists()
    assert browser.get("/operations/").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.get("/operations/").status_code == 200
    assert browser.session.session_key != old


def test_without_the_older_key_a_session_ends(settings: Any) -> None:
    browser = browser_of(person("anna"))
    old = str(browser.session.session_key)
    settings.SECRET_KEY = NEW
    assert _seen(old) is None
    assert browser.get("/operations/").status_code == 302


def test_between_the_two_steps_of_a_sign_in_the_key_may_change(settings: Any) -> None:
    _user, totp = enrolled("anna")
    browser = Client()
    browser.post("/login/", {"username": "anna", "password": PASSWORD, "next": "/"})
    renew(settings)
    assert browser.post("/login/second/", {"code": totp.now(), "next": "/"}).status_code == 303


def test_the_secret_of_an_authenticator_is_sealed_for_its_person(settings: Any) -> None:
    (anna, totp), (ben, _other) = enrolled("anna"), enrolled("ben")
    row = SecondFactor.objects.get(user=anna)
    assert row.secret.startswith("sealed:")
    assert totp.secret not in row.secret
    # a row of somebody else opens nothing, whoever writes it there, and is not taken for a wrong code
    SecondFactor.objects.filter(user=ben).update(secret=row.secret)
    assert second_factor.verify(ben, totp.now()) == ""
    assert SecondFactor.objects.get(user=ben).wrong == 0
    assert second_factor.verify(anna, totp.now()) == second_factor.TOTP


def test_a_second_factor_is_read_by_the_older_key_and_sealed_anew_by_the_command(settings: Any) -> None:
    user, totp = enrolled("anna")
    renew(settings)
    assert second_factor.verify(user, totp.now()) == second_factor.TOTP
    assert command().startswith("1 second factors were sealed anew.")
    assert command().startswith("0 second factors were sealed anew.")
    settings.SECRET_KEY_FALLBACKS = []
    again(user)
    assert second_factor.verify(user, totp.now()) == second_factor.TOTP


def test_the_secret_of_a_webhook_is_read_by_the_older_key_and_sealed_anew_by_the_command(settings: Any) -> None:
    kept = sealed_secret.seal("SEC-1")
    row = AlertRule.objects.create(what="still", limit=1, webhook_format="dingtalk", webhook_secret=kept)
    renew(settings)
    assert sealed_secret.unsealed(row) == "SEC-1"
    assert "1 secrets of webhooks were sealed anew." in command()
    settings.SECRET_KEY_FALLBACKS = []
    row.refresh_from_db()
    assert sealed_secret.unsealed(row) == "SEC-1"
    settings.SECRET_KEY = "lost " * 10
    assert "No key opens the secrets of these webhooks, enter them again: group with lag" in command()


def test_a_key_that_is_lost_is_said(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    user, totp = enrolled("anna")
    settings.SECRET_KEY = NEW
    assert second_factor.verify(user, totp.now()) == ""
    assert "SECRET_KEY does not open the second factor" in caplog.text
    with pytest.raises(CommandError, match="No key opens the second factors of anna"):
        command()


def test_the_address_of_a_check_back_keeps_its_secret_while_its_key_is_named(settings: Any) -> None:
    salt = new_salt()
    secret = make_secret("shop", salt, OLD)
    row = CheckAddress.objects.create(group="shop", url="https://shop.test/", salt=salt, digest=digest(secret))
    renew(settings)
    assert secret_of(row) == secret
    assert "Check-back addresses need a new secret: shop." in command()
    settings.SECRET_KEY_FALLBACKS = []
    assert secret_of(row) is None


def test_secrets_that_were_kept_in_clear_are_sealed_by_the_migration_and_come_back_with_it() -> None:
    migration: Any = importlib.import_module("console.migrations.0029_sealed_secrets")
    user, totp = enrolled("anna")
    sealed = SecondFactor.objects.get(user=user).secret
    with connection.schema_editor() as editor:
        migration.unseal(apps, editor)
        assert SecondFactor.objects.get(user=user).secret == totp.secret
        migration.seal(apps, editor)
        migration.seal(apps, editor)
    row = SecondFactor.objects.get(user=user)
    assert row.secret != sealed
    assert keys.unseal(f"second factor {user.pk}", row.secret) == totp.secret
    assert second_factor.verify(user, totp.now()) == second_factor.TOTP
