"""Roles made in the console, and single users limited to topics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from console.features.people.role_operations import PERMISSIONS, rows_of
from console.operations.actor import PERMISSIONS as ASKED_FOR
from console.operations.models import Operation
from console.operations.registry import KINDS
from console.security.models import TopicPermission
from console.security.topic_scope import visible_topics
from tests.console.accounts.test_people import draft, refused, run
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words


@pytest.fixture
def boss(db: None) -> Client:
    return browser_of(get_user_model().objects.create_superuser("boss", password="a long secret"))


def sees(name: str) -> Any:
    """The topics that a user sees; None: all."""
    visible = visible_topics(get_user_model().objects.get(username=name))
    if visible.prefixes is None:
        return None
    return tuple(sorted([*visible.names, *(f"{prefix}*" for prefix in visible.prefixes)]))


def permissions_of(group: Group) -> set[str]:
    return {f"{row.content_type.app_label}.{row.codename}" for row in group.permissions.all()}


def test_a_role_is_made_with_its_permissions_and_topics(boss: Client) -> None:
    page = words(boss.get("/people/"))
    for sentence in ("Create role…", "Cancel and reschedule timers, and deliver them now. console.steer_timers"):
        assert sentence in page
    wanted = ["console.view_console", "console.steer_timers"]
    address = draft(boss, "people.add_role", role="shop", permissions=wanted, topics="order-*\npay").headers["Location"]
    shown = words(boss.get(address))
    assert "console.view_console, console.steer_timers" in shown
    assert "order-*, pay" in shown
    run(boss, "people.add_role", role="shop", permissions=wanted, topics="order-*\npay")
    group = Group.objects.get(name="shop")
    assert permissions_of(group) == set(wanted)
    assert sorted(group.topic_permissions.values_list("pattern", flat=True)) == ["order-*", "pay"]
    run(boss, "people.add", name="anna", roles=["shop"])
    anna = get_user_model().objects.get(username="anna")
    assert anna.has_perm("console.steer_timers")
    assert not anna.has_perm("console.pause_timers")
    assert sees("anna") == ("order-*", "pay")


def test_nobody_makes_a_role_that_may_more(db: None) -> None:
    clerk = person("clerk", role="viewer")
    clerk.user_permissions.set(rows_of(["auth.change_user", "auth.add_group"]))
    browser = browser_of(clerk)
    answer = run(browser, "people.add_role", role="mine", permissions=["auth.change_group"])
    assert "permissions that you do not have" in refused(answer, browser)
    assert not Group.objects.filter(name="mine").exists()
    run(browser, "people.add_role", role="mine", permissions=["console.view_console"])
    assert Group.objects.filter(name="mine").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"role": "", "permissions": "console.view_console"}, "A role&#x27;s name has 1 to 150"),
        ({"role": "@anna", "permissions": "console.view_console"}, "does not begin with @"),
        ({"role": "x", "permissions": "console.fly"}, "permissions is a list of"),
        ({"role": "x"}, "choose at least one"),
        ({"role": "x", "permissions": "console.view_console", "topics": "y" * 257}, "1 to 256 characters"),
        ({"role": "Viewer", "permissions": "console.view_console"}, "There is a role Viewer already."),
    ],
)
def test_what_is_wrong_with_a_role_is_said_and_what_was_ticked_stays(
    boss: Client, fields: dict[str, str], said: str
) -> None:
    answer = draft(boss, "people.add_role", **fields)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert said in page
    ticked = re.findall(r'value="([\w.]+)"\s+checked', page)
    assert ticked == [each for each in [fields.get("permissions", "")] if each in PERMISSIONS]
    assert f'value="{fields["role"]}"' in page
    assert not Operation.objects.exists()


def test_every_permission_that_is_asked_for_can_be_given(db: None) -> None:
    asked = {*ASKED_FOR, *(kind.permission for kind in KINDS.values())}
    assert asked - PERMISSIONS.keys() == set()
    assert len(rows_of(PERMISSIONS)) == len(PERMISSIONS)


def test_one_user_is_limited_by_a_role_of_her_own(boss: Client) -> None:
    anna = person("anna", role="operator")
    assert sees("anna") is None
    page = words(boss.get(f"/people/{anna.pk}/"))
    assert "Topics of this user" in page
    assert "Kept as a role that only this user has." in page
    address = draft(boss, "people.limit", name="anna", topics="a-*\nb").headers["Location"]
    assert "Sees all topics a-*, b" in words(boss.get(address))
    run(boss, "people.limit", name="anna", topics="a-*\nb")
    assert sees("anna") == ("a-*", "b")
    assert anna.has_perm("console.steer_timers")
    # it is no role to give, to limit, or to take away by another choice of roles
    assert "@anna" not in boss.get("/people/").content.decode()
    assert "a-*\nb" in boss.get(f"/people/{anna.pk}/").content.decode()
    assert draft(boss, "people.limit_role", role="@anna", topics="").status_code == 422
    run(boss, "people.change", name="anna", roles=["viewer"], is_active="yes")
    assert sees("anna") == ("a-*", "b")
    run(boss, "people.limit", name="anna", topics="")
    assert sees("anna") is None
    assert not Group.objects.filter(name__startswith="@").exists()


def test_a_user_is_limited_from_the_beginning(boss: Client) -> None:
    """Between creation and limit a user would see all topics."""
    page = words(boss.get("/people/"))
    assert "Topics belong to roles: a user sees those of all their roles together" in page
    # once: what is said of one field does not stand at another
    assert page.count("For this user alone, one per line: orders is that topic alone") == 1
    tenants = Group.objects.create(name="tenants")
    TopicPermission.objects.create(group=tenants, pattern="t-*")
    assert "tenants t-*" in words(boss.get("/people/"))
    drafted = draft(boss, "people.add", name="anna", roles=["viewer", "tenants"], topics="a\nb*")
    shown = words(boss.get(drafted.headers["Location"]))
    for sentence in ("a, b*", "Topics that begin with t-: none yet.", "The topic a, which does not exist yet."):
        assert sentence in shown
    run(boss, "people.add", name="anna", roles=["viewer", "tenants"], topics="a\nb*")
    assert sees("anna") == ("a", "b*", "t-*")
    assert "own topics" in words(boss.get("/people/"))
    run(boss, "people.add", name="ben", roles=["viewer"], topics="")
    assert sees("ben") is None
    nobody = draft(boss, "people.add", name="dora")
    assert "What this opens" not in words(boss.get(nobody.headers["Location"]))
    assert draft(boss, "people.add", name="carl", topics="a*b").status_code == 422


def test_who_may_not_limit_makes_no_limited_user(db: None) -> None:
    clerk = person("clerk", role="viewer")
    clerk.user_permissions.set(rows_of(["auth.change_user", "auth.add_user"]))
    browser = browser_of(clerk)
    assert "For this user alone" not in words(browser.get("/people/"))
    answer = run(browser, "people.add", name="anna", roles=["viewer"], topics="a")
    assert "needs the permission auth.change_group" in refused(answer, browser)
    assert not get_user_model().objects.filter(username="anna").exists()


def test_topics_of_other_roles_count_beside_her_own(boss: Client) -> None:
    tenants = Group.objects.create(name="tenants")
    TopicPermission.objects.create(group=tenants, pattern="t-*")
    person("anna", role="viewer").groups.add(tenants)
    address = draft(boss, "people.limit", name="anna", topics="a-*").headers["Location"]
    assert "Sees t-* a-*, t-*" in words(boss.get(address))
    run(boss, "people.limit", name="anna", topics="a-*")
    assert sees("anna") == ("a-*", "t-*")


def test_a_role_of_that_name_that_allows_something_is_left_alone(boss: Client) -> None:
    person("anna", role="viewer")
    Group.objects.create(name="@anna").permissions.add(*rows_of(["auth.change_user"]))
    assert "no role of this user alone" in refused(run(boss, "people.limit", name="anna", topics="a-*"), boss)
    assert sees("anna") is None
    ben = person("ben", role="viewer")
    ben.groups.add(Group.objects.get(name="@anna"))
    run(boss, "people.limit", name="ben", topics="b-*")
    assert {group.name for group in ben.groups.all()} == {"viewer", "@anna", "@ben"}
    run(boss, "people.change", name="ben", roles=["viewer"], is_active="yes")
    assert {group.name for group in ben.groups.all()} == {"viewer", "@ben"}


def test_a_superuser_and_oneself_are_not_limited(boss: Client) -> None:
    get_user_model().objects.create_superuser("chief", password="a long secret")
    assert "is a superuser" in draft(boss, "people.limit", name="chief", topics="a-*").content.decode()
    clerk = person("clerk", role="administrator")
    browser = browser_of(clerk)
    assert "your own account" in refused(run(browser, "people.limit", name="clerk", topics="a-*"), browser)


def test_each_right_of_a_token_says_what_it_permits(boss: Client) -> None:
    page = words(boss.get("/tokens/"))
    for sentence in (
        "publish Send to these topics; cancel, move and deliver their timers",
        "unmask What read shows of these topics is shown unmasked", "people Administer users, roles and tokens",
    ):  # fmt: skip
        assert sentence in page
