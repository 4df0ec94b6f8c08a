"""People and tokens by the console's pages: what is shown once, what nobody may give away, what ends."""

from __future__ import annotations

import re
from typing import Any

import pyotp
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from console.operations.models import AuditEntry, Operation, OperationItem
from console.security import second_factor, tokens
from console.security.gate import ADMINISTRATOR
from console.security.models import ApiToken, PasswordDue, TopicPermission
from tests.console.people import browser_of, person


@pytest.fixture
def boss(db: None) -> Client:
    return browser_of(get_user_model().objects.create_superuser("boss", password="a long secret"))


def draft(browser: Client, kind: str, **fields: Any) -> Any:
    return browser.post("/operations/draft/", {"kind": kind, **fields})


def run(browser: Client, kind: str, **fields: Any) -> Any:
    drafted = draft(browser, kind, **fields)
    assert drafted.status_code == 303, drafted.content.decode()[:3_000]
    return browser.post(f"{drafted.headers['Location']}confirm/", {"reason": "a test"})


def shown(answer: Any) -> str:
    assert answer.status_code == 200
    (secret,) = re.findall(r'<pre[^>]*class="secret">([^<]+)</pre>', answer.content.decode())
    return str(secret)


def refused(answer: Any, browser: Client) -> str:
    """Why the only item was refused, as its operation's page says it."""
    assert answer.status_code == 303
    item = OperationItem.objects.order_by("-pk").first()
    assert item is not None
    assert item.outcome == "refused"
    assert browser.get(answer.headers["Location"]).status_code == 200
    return str(item.result["error"])


def test_a_person_is_added_changed_and_closed_out(boss: Client) -> None:
    password = shown(run(boss, "people.add", name="anna", roles=["operator"]))
    anna = get_user_model().objects.get(username="anna")
    assert PasswordDue.objects.filter(user=anna).exists()
    browser = Client()
    browser.post("/login/", {"username": "anna", "password": password})
    assert browser.get("/").headers["Location"] == "/account/password/"
    own = {"password": password, "new": "my own long secret", "again": "my own long secret"}
    assert browser.post("/account/password/", own).status_code == 303
    assert browser.get("/operations/").status_code == 200
    run(boss, "people.change", name="anna", roles=["viewer"], is_active="yes")
    assert [group.name for group in anna.groups.all()] == ["viewer"]
    again = shown(run(boss, "people.reset_password", name="anna"))
    assert browser.get("/operations/").headers["Location"].startswith("/login/")
    assert again != password
    run(boss, "people.change", name="anna", roles=["viewer"], is_active="no")
    closed = Client()
    closed.post("/login/", {"username": "anna", "password": again})
    assert "_auth_user_id" not in closed.session
    listed = boss.get("/people/").content.decode()
    assert "anna" in listed
    assert "disabled" in listed
    assert "disabled" in boss.get(f"/people/{anna.pk}/").content.decode()
    rows: tuple[Any, ...] = (Operation, OperationItem, AuditEntry)
    kept = str([list(model.objects.values()) for model in rows])
    assert password not in kept
    assert again not in kept
    assert "a test" in set(AuditEntry.objects.values_list("reason", flat=True))


def test_a_second_factor_is_reset(boss: Client) -> None:
    anna = person("anna")
    secret = second_factor.new_secret()
    second_factor.set_up(anna, secret, pyotp.TOTP(secret).now())
    assert "Reset the second factor" in boss.get(f"/people/{anna.pk}/").content.decode()
    run(boss, "people.reset_second_factor", name="anna")
    assert not second_factor.is_on(anna)
    assert AuditEntry.objects.filter(kind="second_factors.reset", result__name="anna").exists()


def test_who_is_made_an_administrator_finds_users_in_the_menu_until_it_ends(boss: Client) -> None:
    shown(run(boss, "people.add", name="anna", roles=[ADMINISTRATOR]))
    anna = get_user_model().objects.get(username="anna")
    PasswordDue.objects.filter(user=anna).delete()
    assert 'href="/people/"' in browser_of(anna).get("/").content.decode()
    run(boss, "people.change", name="anna", roles=["viewer"], is_active="yes")
    anna.refresh_from_db()
    assert not anna.is_staff
    assert 'href="/people/"' not in browser_of(anna).get("/").content.decode()


def test_topics_of_a_role_are_set(boss: Client) -> None:
    group = Group.objects.create(name="tenants")
    TopicPermission.objects.create(group=group, pattern="old-*")
    run(boss, "people.limit_role", role="tenants", topics="a-*\nb-\r\n a-*")
    assert sorted(group.topic_permissions.values_list("pattern", flat=True)) == ["a-*", "b-"]
    run(boss, "people.limit_role", role="tenants", topics="")
    assert not group.topic_permissions.exists()


def test_nobody_gives_away_what_is_not_ones_own(boss: Client) -> None:
    clerk = person("clerk", role="viewer")
    clerk.user_permissions.set(
        [*Group.objects.get(name=ADMINISTRATOR).permissions.filter(codename__in=("add_user", "change_user"))]
    )
    browser = browser_of(clerk)
    person("anna", role="operator")
    assert "do not have" in refused(run(browser, "people.add", name="bert", roles=["administrator"]), browser)
    assert "that you do not have" in refused(run(browser, "people.change", name="anna", roles=["viewer"]), browser)
    assert "that you do not have" in refused(run(browser, "people.reset_password", name="boss"), browser)
    assert "your own account" in refused(
        run(browser, "people.change", name="clerk", roles=["viewer", "operator"]), browser
    )
    assert not get_user_model().objects.filter(username="bert").exists()
    assert shown(run(browser, "people.add", name="bert", roles=["viewer"]))


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("people.add", {"name": "a b"}, "A name has 1 to 150"),
        ("people.add", {"name": "BOSS"}, "There is an account BOSS already."),
        ("people.add", {"name": "anna", "roles": ["none"]}, "There is no role"),
        ("people.change", {"name": "nobody"}, "There is no account nobody."),
        ("people.limit_role", {"role": "viewer", "topics": "x" * 257}, "1 to 256 characters"),
        ("tokens.make", {"name": "t", "days": "5"}, "without a scope"),
        ("tokens.make", {"name": "t", "days": "5", "publish": "a/b"}, "neither a name"),
        ("tokens.make", {"name": "t", "days": "5", "access": "a"}, "write *"),
        ("tokens.make", {"name": "t", "days": "0", "publish": "*"}, "days is from 1"),
        ("tokens.make", {"name": "", "days": "5", "publish": "*"}, "1 to 100 printable"),
        ("tokens.renew", {"prefix": "none"}, "There is no token"),
        ("tokens.end", {"prefix": ""}, "There is no token"),
    ],
)
def test_what_is_wrong_is_said(boss: Client, kind: str, fields: dict[str, Any], said: str) -> None:
    answer = draft(boss, kind, **fields)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not Operation.objects.exists()


def test_who_may_not_is_refused(db: None) -> None:
    operator = browser_of(person("operator", role="operator"))
    for address in ("/people/", "/people/1/", "/tokens/"):
        assert operator.get(address).status_code == 403
    for kind in ("people.add", "people.change", "people.reset_password", "people.reset_second_factor",
                 "people.limit_role", "tokens.make", "tokens.renew", "tokens.end"):  # fmt: skip
        assert draft(operator, kind).status_code == 403
        assert AuditEntry.objects.filter(what="denied", kind=kind).exists()


def test_nobody_is_shown_a_token_that_may_more(boss: Client) -> None:
    """Who may make tokens makes, and rotates, none that opens what is closed to the maker."""
    run(boss, "tokens.make", name="strong", access="*", unmask="*", configure="*", days="5")
    strong = ApiToken.objects.get(name="strong")
    clerk = person("clerk", "add_apitoken", "change_apitoken", "view_apitoken")
    browser = browser_of(clerk)
    for right in ("access", "unmask", "configure"):
        assert "that you do not have" in refused(
            run(browser, "tokens.make", name=right, days="5", **{right: "*"}), browser
        )
    bound = run(browser, "tokens.make", name="bound", days="5", access_user="root")
    assert "that you do not have" in refused(bound, browser)
    assert "that you do not have" in refused(
        run(browser, "tokens.renew", prefix=strong.prefix, overlap_hours="1"), browser
    )
    assert ApiToken.objects.count() == 1
    assert shown(run(browser, "tokens.make", name="weak", publish="*", days="5"))
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=("change_access", "unmask", "change_settings")))
    assert shown(run(browser, "tokens.renew", prefix=strong.prefix, overlap_hours="1"))


def test_a_person_who_is_named_as_a_shell_is_a_person(boss: Client) -> None:
    """A provider's names may have blanks; who acts from a shell may do everything."""
    clerk = person("shell root")
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=("add_user", "change_user")))
    browser = browser_of(clerk)
    answer = run(browser, "people.add", name="mallory", roles=["administrator"])
    assert "permissions that you do not have" in refused(answer, browser)
    assert "that you do not have" in refused(run(browser, "people.reset_password", name="boss"), browser)
    assert not get_user_model().objects.filter(username="mallory").exists()


def test_a_token_is_made_rotated_and_revoked(boss: Client) -> None:
    fields = {"name": "billing", "publish": "orders pay-*", "read": "*", "days": "30", "access_user": "alice"}
    token = shown(run(boss, "tokens.make", **fields))
    grant = tokens.grant_of(token)
    assert grant is not None
    assert grant.scopes_allow("publish", "pay-1")
    assert not grant.scopes_allow("publish", "other")
    assert grant.access_user == "alice"
    row = ApiToken.objects.get(name="billing")
    assert row.created_by is not None and row.created_by.username == "boss"
    new = shown(run(boss, "tokens.renew", prefix=row.prefix, overlap_hours="1"))
    assert tokens.grant_of(token) is not None
    assert tokens.grant_of(new) is not None
    page = boss.get("/tokens/").content.decode()
    assert "replaced, valid until it expires" in page
    for prefix in ApiToken.objects.values_list("prefix", flat=True):
        run(boss, "tokens.end", prefix=prefix)
    assert (tokens.grant_of(token), tokens.grant_of(new)) == (None, None)
    rows: tuple[Any, ...] = (Operation, OperationItem, AuditEntry)
    kept = str([list(model.objects.values()) for model in rows])
    assert token not in kept
    assert new not in kept


def test_a_refused_form_of_a_new_user_comes_back_as_it_was_with_all_that_is_wrong(db: None) -> None:
    """The answer had no form: name, roles and topics were to be written again, for one fault after the other."""
    boss = browser_of(person("boss", role="administrator"))
    answer = draft(boss, "people.add", name="an na", roles=["viewer", "operator"], topics="bill*s\norders")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "A name has 1 to 150 letters" in page and "A star stands at the end only" in page
    assert 'value="an na"' in page and "bill*s\norders" in page
    assert re.findall(r'name="roles"\s+value="(\w+)"\s+checked', page) == ["operator", "viewer"]
    taken = draft(boss, "people.add", name="boss", roles=["viewer"])
    assert taken.status_code == 422 and "There is an account boss already." in taken.content.decode()
    assert 'value="boss"' in taken.content.decode()
