"""Check-back addresses in Django's admin: who may, the secret once, the audit, and the same refusals as by REST."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from console.features.checkback import registry
from console.features.checkback.models import CheckAddress
from console.operations.models import AuditEntry

pytestmark = pytest.mark.django_db
LIST = "/admin/console/checkaddress/"
NEW = {"group": "shop", "url": "https://hooks.example/checks", "is_enabled": "on", "reason": "orders are made there"}


@pytest.fixture(autouse=True)
def listed(settings: Any) -> None:
    settings.CHECKBACK_ORIGINS = ["https://hooks.example"]


def signed_in(*permissions: str) -> Client:
    """Somebody of the staff who may do so much."""
    user = get_user_model().objects.create_user("anna", password="a long secret", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client()
    browser.force_login(user)
    return browser


def told(page: str) -> list[str]:
    return re.findall(r"chk_[A-Za-z0-9_-]{43}", page)


def test_an_address_is_made_changed_and_removed(django_user_model: Any) -> None:
    browser = signed_in(*(f"{step}_checkaddress" for step in ("view", "add", "change", "delete")))
    page = browser.post(LIST + "add/", NEW, follow=True).content.decode()
    row = CheckAddress.objects.get()
    assert told(page) == [registry.secret_of(row)]
    assert (row.group, row.url, row.is_enabled, row.actor) == ("shop", NEW["url"], True, "anna")
    assert told(browser.get(f"{LIST}{row.pk}/change/").content.decode()) == []
    moved = {"url": "https://hooks.example/other", "reason": "moved", "is_new_secret_wanted": "on"}
    page = browser.post(f"{LIST}{row.pk}/change/", moved, follow=True).content.decode()
    before, row = row, CheckAddress.objects.get()
    assert (row.url, row.is_enabled) == ("https://hooks.example/other", False)
    assert told(page) == [registry.secret_of(row)] != [registry.secret_of(before)]
    browser.post(f"{LIST}{row.pk}/delete/", {"post": "yes"})
    assert not CheckAddress.objects.exists()
    steps = AuditEntry.objects.order_by("pk").values_list("kind", "actor", "reason")
    assert list(steps) == [
        ("check_addresses.register", "anna", "orders are made there"),
        ("check_addresses.change", "anna", "moved"),
        ("check_addresses.remove", "anna", "removed in Django's admin"),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": "https://evil.example/"}, "is not allowed"),
        ({"url": "http://hooks.example/"}, "is not allowed"),
        ({"url": "https://hooks.example@evil.example/"}, "Write it as"),
        ({"group": "a group"}, "group"),
        ({"group": "escapement"}, "answered by the database"),
        ({"reason": ""}, "This field is required"),
    ],
)
def test_what_cannot_be_registered_is_said_beside_its_field(changes: dict[str, str], words: str) -> None:
    answer = signed_in("view_checkaddress", "add_checkaddress").post(LIST + "add/", NEW | changes)
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not CheckAddress.objects.exists()


def test_who_may_only_look_changes_nothing() -> None:
    browser = signed_in("view_checkaddress")
    assert browser.get(LIST).status_code == 200
    assert browser.post(LIST + "add/", NEW).status_code == 403
    assert not CheckAddress.objects.exists()
