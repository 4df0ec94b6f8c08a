"""Django's own admin: which table whom it lets look, add, change and delete; every address of it, by every role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from console.operations.models import AuditEntry
from console.security.gate import ADMINISTRATOR, OPERATOR, VIEWER
from console.security.models import ApiToken, MaskRule
from tests.security.doors import administration, tables
from tests.security.scene import People, said

#: what an administrator of the staff may in a table: look (l), add (a), change (c), delete (d); a superuser the same
#: but for what stands behind a "/"
TABLE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "broker/broker", "broker/replica", "broker/mirrorstate", "broker/topic", "broker/queue",
            "broker/consumeroffset", "broker/opmessage", "broker/schedulelevel", "broker/ratehistory",
            "broker/halfmessage", "broker/consumergroup", "console/alert", "console/auditentry",
        ),
        "l",
    ),
    "console/alertrule": "lacd",
    "console/silence": "lacd",
    "console/checkaddress": "lacd",
    "console/apitoken": "lcd",
    "console/topicpermission": "lacd",
    "console/maskrule": "lacd",
    "auth/group": "lacd",
    "auth/user": "lacd",
    "escapement_outbox/outboxmessage": "/l",
    "escapement_tasks/taskrow": "/l",
    "axes/accessattempt": "/l",
    "axes/accesslog": "/l",
    "axes/accessfailurelog": "/l",
}  # fmt: skip
#: addresses beside those of tables: by name, for strangers, for others who are not of the staff, and for who is;
#: its own door leads to the one there is
BESIDE: Mapping[str, tuple[str, str, str]] = {
    "index": ("sign-in", "no", "yes"),
    "login": ("led", "led", "led"),
    "logout": ("led", "led", "never"),
    "password_change": ("sign-in", "no", "yes"),
    "password_change_done": ("sign-in", "no", "yes"),
    "jsi18n": ("sign-in", "no", "yes"),
    "autocomplete": ("sign-in", "no", "no"),
}


@pytest.fixture
def people(transactional_db: None) -> People:
    made = People()
    MaskRule.objects.create(prefix="orders", why="because")
    return made


def test_every_table_is_named() -> None:
    assert set(TABLE) == set(tables())


def addresses_of(table: str) -> dict[str, tuple[str, str]]:
    """Method and address of each act; nothing has the number, so that who may is told that there is nothing."""
    base = f"/admin/{table}/"
    return {
        "l": ("get", base),
        "a": ("get", f"{base}add/"),
        "c": ("get", f"{base}987654321/change/"),
        "d": ("get", f"{base}987654321/delete/"),
    }


def is_let(answer: Any) -> bool:
    """Whether somebody is shown the page; of tokens, which are not made here, one is led back to the list."""
    word = said(answer)
    assert word in ("yes", "led", "no"), answer
    return word == "yes"


@pytest.mark.parametrize("role", [ADMINISTRATOR, "superuser"])
def test_who_is_of_the_staff_may_what_the_table_says(people: People, role: str) -> None:
    browser, wrong = people.browser(role), []
    for table, acts in TABLE.items():
        both, _, only = acts.partition("/")
        may = both + (only if role == "superuser" else "")
        for act in "la":
            method, address = addresses_of(table)[act]
            if is_let(getattr(browser, method)(address)) != (act in may):
                wrong.append(f"{role}: {address}")
        for act in "cd":
            # Django looks for the row before it asks whether somebody may; with a row it is asked for below
            assert said(browser.get(addresses_of(table)[act][1])) in ("led", "no"), (table, act)
    assert not wrong, "\n".join(wrong)


def test_nobody_else_is_let_in(people: People) -> None:
    """Neither strangers nor other roles, by any address; who is limited to topics has the own password there."""
    stranger, operator = people.browser("stranger"), people.browser(OPERATOR)
    for name, pattern in administration().items():
        closed, refused, _ = BESIDE.get(name.removeprefix("admin:"), ("sign-in", "no", ""))
        for method, due in ((stranger.get, closed), (stranger.post, closed), (operator.get, refused)):
            assert said(method(concrete(pattern))) == due, (method, pattern)
    for role in ("none", VIEWER, f"limited {VIEWER}", f"limited {OPERATOR}"):
        browser = people.browser(role)
        for address in ("/admin/", "/admin/auth/user/", "/admin/console/apitoken/add/", "/admin/broker/topic/"):
            assert said(browser.get(address)) == "no", (role, address)
            assert said(browser.post(address)) == "no", (role, address)
    limited = people.browser(f"limited {ADMINISTRATOR}")
    for name, pattern in administration().items():
        plain = name.removeprefix("admin:")
        if plain not in BESIDE or plain == "autocomplete":
            assert said(limited.post(concrete(pattern))) == "no", (name, pattern)


def concrete(pattern: str) -> str:
    """An address for a pattern."""
    for part, text in (
        ("<path:content_type_id>", "1"), ("<path:object_id>", "987654321"), ("<id>", "987654321"),
        ("(?P<url>.*)$", "nothing/"),
    ):  # fmt: skip
        pattern = pattern.replace(part, text)
    if "^(?P<app_label>" in pattern:
        pattern = "/admin/broker/"
    assert "<" not in pattern, pattern
    return pattern


def test_what_is_beside_the_tables(people: People) -> None:
    named = {name.removeprefix("admin:") for name in administration()}
    of_tables = {f"{table.replace('/', '_')}_{act}" for table in TABLE for act in
                 ("changelist", "add", "history", "delete", "change")}  # fmt: skip
    others = {name for name in named - of_tables if not name.startswith("admin/")}
    assert others == {*BESIDE, "view_on_site", "auth_user_password_change", "app_list"}
    for name, (closed, refused, open_) in BESIDE.items():
        address = concrete(administration()[f"admin:{name}"])
        for role, due in (("stranger", closed), (OPERATOR, refused), (ADMINISTRATOR, open_)):
            assert said(people.browser(role).get(address)) == due, (role, name)


def test_a_row_is_changed_and_deleted_by_who_may(people: People) -> None:
    """With rows: masks and tokens, which an administrator changes; the audit, which nobody does."""
    mask = MaskRule.objects.get()
    token = ApiToken.objects.create(name="t", prefix="p", digest="d", scopes=[])
    for role, word in ((ADMINISTRATOR, "yes"), ("superuser", "yes"), (f"limited {ADMINISTRATOR}", "no")):
        for table, number in (("console/maskrule", mask.pk), ("console/apitoken", token.pk)):
            for act in ("change", "delete", "history"):
                assert said(people.browser(role).get(f"/admin/{table}/{number}/{act}/")) == word, (role, table, act)
    for role in (ADMINISTRATOR, "superuser"):
        entry = AuditEntry.objects.first() or AuditEntry.objects.create(actor="x", what="denied", kind="k", result={})
        base = f"/admin/console/auditentry/{entry.pk}"
        assert said(people.browser(role).get(f"{base}/delete/")) == "no"
        assert said(people.browser(role).post(f"{base}/change/", {"actor": "y"})) == "no"
