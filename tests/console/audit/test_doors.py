"""The audit of doors that know no operation: signing in, accounts and roles, tokens, remoting."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.test import Client

from broker import log_lines
from console.features.audit import administration
from console.features.audit import operations as doors
from console.operations import chain
from console.operations.models import AuditEntry, ReadAdministration
from console.security import tokens
from console.security.door import Door, through
from console.security.models import ApiToken, MaskRule, TopicPermission
from tests.console.people import browser_of, person
from tests.console.stage import staged
from tests.waiting import until

PASSWORD = "a long secret"


def told() -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("actor", "what", "kind"))


def newest() -> AuditEntry:
    found = AuditEntry.objects.order_by("pk").last()
    assert found is not None
    return found


def sign_in(name: str, password: str = PASSWORD, browser: Client | None = None) -> Client:
    browser = browser or Client()
    browser.post("/login/", {"username": name, "password": password})
    return browser


def test_a_signal_that_changes_what_is_logged_is_kept(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESCAPEMENT_LOG_LEVELS_FILE", "/dev/null")
    previous = signal.signal(signal.SIGUSR2, log_lines._change_levels)
    try:
        signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, previous)
    until(lambda: bool(told()))
    assert told() == [("SIGUSR2", "done", "settings.log_levels")]
    assert newest().result["why"] == "levels of /dev/null: as at the start"
    assert f"({os.getpid()})" in newest().result["name"]


def test_signing_in_and_out_is_kept_with_the_address(db: None) -> None:
    person("anna")
    sign_in("anna").post("/logout/")
    assert told() == [("anna", "done", "people.sign_in"), ("anna", "done", "people.sign_out")]
    assert newest().result == {"address": "127.0.0.1"}
    assert newest().user is not None


def test_a_wrong_password_and_the_lock_that_follows_are_kept(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    person("anna-locked")
    for _ in range(5):
        sign_in("anna-locked", "wrong")
    assert sorted(told()) == [
        ("anna-locked", "denied", "people.locked_out"),
        *[("anna-locked", "denied", "people.sign_in")] * 2,
    ]
    assert "wrong" not in str(list(AuditEntry.objects.values_list("reason", "actor")))


def test_a_name_that_nobody_has_is_not_kept_as_it_may_be_a_password(db: None) -> None:
    sign_in("my-secret-password", "x")
    sign_in("nul\0", "x")
    assert set(told()) == {("", "denied", "people.sign_in")}
    assert "my-secret" not in str(newest().result)


def test_strangers_cannot_fill_the_audit(db: None, settings: Any) -> None:
    settings.AUDIT_STRANGERS_AN_HOUR = len(doors._strangers) + 3
    for number in range(8):
        sign_in(f"name-{number}", "x")
    assert len(told()) == 3


def test_what_the_program_does_by_itself_is_not_kept(db: None) -> None:
    user = person("anna")
    user.is_active = False
    user.save()
    Group.objects.create(name="tenants")
    assert told() == []


def test_accounts_and_roles_are_kept_with_what_was_and_what_is(db: None) -> None:
    boss = get_user_model().objects.create_superuser("boss", password=PASSWORD)
    anna, viewer = person("anna", role=""), Group.objects.get(name="viewer")
    with through(Door(command="manage.py shell")):
        anna.is_superuser = True
        anna.save()
        assert newest().actor.startswith("manage.py shell by ")
        assert newest().result["changes"] == {"is_superuser": [False, True]}
        anna.set_password("another long secret")
        anna.save()
        assert newest().result["changes"] == {"password": ["…", "…"]}
        anna.groups.add(viewer)
        assert (newest().kind, newest().result["name"]) == ("accounts.change", "anna")
        assert newest().result["changes"] == {"groups": [[], ["viewer"]]}
        viewer.user_set.remove(anna)
        assert (newest().kind, newest().result["name"]) == ("roles.change", "viewer")
        assert newest().result["changes"] == {"members": [["anna"], []]}
        viewer.permissions.add(Permission.objects.get(codename="unmask"))
        assert "unmask" in str(newest().result["changes"]["permissions"][1]) or newest().result["changes"]
        anna.user_permissions.set([])
        viewer.permissions.clear()
        assert len(newest().result["changes"]["permissions"][0]) > 3
        anna.last_login = boss.date_joined
        count = len(told())
        anna.save(update_fields=["last_login"])
        assert len(told()) == count
        anna.delete()
        assert (newest().kind, newest().result["name"]) == ("accounts.delete", "anna")
        TopicPermission.objects.create(group=viewer, pattern="a-*")
        assert (newest().kind, newest().result["facts"]) == (
            "topic_permissions.create", {"group": "viewer", "pattern": "a-*"},
        )  # fmt: skip
        rule = MaskRule.objects.create(prefix="pay-", why="cards")
        rule.is_on = False
        rule.save()
        assert (newest().kind, newest().result["changes"]) == ("masks.change", {"is_on": [True, False]})


def test_who_changes_a_role_in_the_admin_is_named(db: None) -> None:
    boss = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    answer = boss.post(
        "/admin/console/topicpermission/add/", {"group": Group.objects.get(name="viewer").pk, "pattern": "a-*"}
    )
    assert answer.status_code == 302
    assert told() == [("boss", "done", "topic_permissions.create")]


def test_tokens_are_kept_with_their_number_and_without_what_opens(db: None) -> None:
    with through(Door(command="manage.py token")):
        call_command("token", "create", "billing", read=["a-"])
        row = ApiToken.objects.get()
        assert newest().kind == "tokens.create"
        assert row.prefix in newest().result["name"]
        assert newest().result["facts"]["scopes"] == [{"pattern": "a-", "actions": ["read"]}]
        assert row.digest not in str(newest().result)
        tokens.revoke(row)
        assert newest().kind == "tokens.revoke"
        other, _ = tokens.create("other", [], created_by=person("anna"))
        tokens.revoke_all_of(other.created_by)
        assert (newest().kind, other.prefix in newest().result["name"]) == ("tokens.revoke", True)


def test_all_of_it_is_shown_in_words(db: None) -> None:
    sign_in("anna", "wrong")
    with through(Door(command="manage.py shell")):
        Group.objects.create(name="<b>tenants</b>")
        MaskRule.objects.create(prefix="p", why="w").delete()
    page = browser_of(person("viewer")).get("/audit/").content.decode()
    assert "Sign in" in page
    assert "wrong name or password" in page
    assert "Create a role" in page
    assert "&lt;b&gt;tenants&lt;/b&gt;" in page
    assert (
        browser_of(person("ben")).get("/audit/?kind=masks.delete").content.decode().count('<td data-name="Action">')
        == 1
    )


@pytest.mark.django_db(transaction=True)
def test_remoting_is_taken_over_once_and_goes_on_after_a_restart(tmp_path: Path, settings: Any) -> None:
    with staged(tmp_path / "store", settings) as stage:
        stage.admin.create_topic("invoices")
        assert administration.read() > 0
        assert administration.read() == 0
        entries = AuditEntry.objects.filter(kind="remoting.request")
        names = [each.result["fields"].get("topic") for each in entries.order_by("pk")]
        assert names[-2:] == ["orders", "invoices"]
        assert newest().actor.startswith("127.0.0.1:")
        assert newest().result["request"] == "UPDATE_AND_CREATE_TOPIC"
        count = entries.count()
    with staged(tmp_path / "store", settings) as stage:
        stage.admin.delete_topic("invoices", "cancel")
        assert administration.read() > 0
        new = [each.result["request"] for each in entries.order_by("pk")[count:]]
        assert "DELETE_TOPIC_IN_BROKER" in new
        count += len(new)
        row = ReadAdministration.objects.get()
        row.number = 0
        row.log = "of a store that is gone"
        row.save()
        assert administration.read() == count
    assert chain.verify().flaw is None


@pytest.mark.django_db(transaction=True)
def test_what_was_kept_no_longer_is_said_to_be_unknown(tmp_path: Path, settings: Any) -> None:
    with staged(tmp_path / "store", settings) as stage:
        administration.read()
        row = ReadAdministration.objects.get()
        found = stage.admin.administration()
    first = found.requests[0]
    later = type(first)(
        row.number + 4, first.at_ms, "eve", "10.0.0.9:1", code=215, request="DELETE_TOPIC_IN_BROKER", answer=16
    )
    administration._take(row.broker, type(found)(row.log, 1, later.number, [later]))
    assert told()[-2:] == [("", "failed", "remoting.lost"), ("User:eve", "failed", "remoting.request")]
    assert AuditEntry.objects.get(kind="remoting.lost").result["count"] == 3
