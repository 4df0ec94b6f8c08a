"""Every page, form and file, asked for by every role about the own team and the other: as `table.py` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from console.operations.actor import Actor
from console.operations.models import Operation
from tests.console.stage import Stage
from tests.security.doors import pages
from tests.security.scene import FOREIGN, OTHER, OWN, People, Team, addresses, body_of, form_of, said, two_teams
from tests.security.scene import undone as undone_within
from tests.security.table import LIMITED, LIMITED_DIFFER, ROLES, rows

#: they lead back to where somebody was, whatever the method
LEAD_BACK = {"set_language", "login", "admin_sign_in"}
#: files of a list, the same page of one broker, and how it was
VARIANTS = ("as=json", "as=csv", "as_of=%2B1h")


@pytest.fixture
def both(filled: Stage, actor: Actor) -> Iterator[dict[str, Team]]:
    with two_teams(filled, actor) as made:
        yield made


def asked(people: People, role: str, method: str, address: str, form: dict[str, str]) -> tuple[str, str]:
    """What somebody was answered, in a word and in full; what was done for it is undone."""
    with undone_within():
        browser = people.browser(role)
        answer: Any = browser.get(address) if method == "GET" else browser.post(address, form)
        return said(answer), body_of(answer)


def test_every_address_is_in_the_table() -> None:
    assert {name for name, _ in rows()} == set(pages())
    assert {(name, method) for name, method, _ in LIMITED_DIFFER} <= set(rows())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_role_is_answered_as_the_table_says(both: dict[str, Team], method: str) -> None:
    people, table, wrong = People(), rows(), []
    for name, own in addresses(both[OWN]):
        row, form = table[name, method], form_of(name, OWN) if method == "POST" else {}
        for role in ROLES:
            word, _ = asked(people, role, method, own, form)
            if word != row.roles[role]:
                wrong.append(f"{role}: {method} {own} {form}: {word} instead of {row.roles[role]}")
        for role in LIMITED:
            word, shown = asked(people, f"limited {role}", method, own, form)
            due = LIMITED_DIFFER.get((name, method, role), row.roles[role])
            if word != due:
                wrong.append(f"limited {role}: {method} {own} {form}: {word} instead of {due}")
            if any(each in shown for each in FOREIGN):
                wrong.append(f"limited {role}: {method} {own} names what is the other team's")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_is_limited_gets_nothing_of_the_other_team(both: dict[str, Team], method: str) -> None:
    people, table, wrong = People(), rows(), []
    for name, own in addresses(both[OWN]):
        other, form = both[OTHER].address(name, pages()[name]), form_of(name, OTHER) if method == "POST" else {}
        is_named = (own, form_of(name, OWN) if form else {}) != (other, form)
        row = table[name, method]
        if not is_named or set(row.roles.values()) <= {"sign-in", "no", "never"}:
            assert row.others is None, f"{method} {name} names nothing that is somebody's"
            continue
        assert row.others is not None, f"{method} {name}: say what others are answered"
        for role in LIMITED:
            word, _ = asked(people, f"limited {role}", method, other, form)
            if word != row.others[role]:
                wrong.append(f"limited {role}: {method} {other} {form}: {word} instead of {row.others[role]}")
    assert not wrong, "\n".join(wrong)


def test_no_file_no_single_broker_and_no_past_names_the_other_team(both: dict[str, Team]) -> None:
    people, told = People(), 0
    for name, own in addresses(both[OWN]):
        if rows()[name, "GET"].roles["operator"] != "yes":
            continue
        for variant in VARIANTS:
            address = f"{own}{'&' if '?' in own else '?'}{variant}"
            word, shown = asked(people, "limited operator", "GET", address, {})
            assert word in ("yes", "gone"), address
            assert not any(each in shown for each in FOREIGN), address
            told += word == "yes"
        word, shown = asked(people, "limited operator", "GET", f"/at/broker-a{own}", {})
        assert word in ("yes", "gone"), own
        assert not any(each in shown for each in FOREIGN), own
    assert told > 90


def test_no_other_method_is_taken(both: dict[str, Team]) -> None:
    people, before = People(), Operation.objects.count()
    for name, own in addresses(both[OWN]):
        for method in ("put", "patch", "delete", "trace"):
            browser = people.browser("superuser")
            due = ("led",) if name in LEAD_BACK else ("never", "gone")
            assert said(getattr(browser, method)(own)) in due, (name, method)
    assert Operation.objects.count() == before


def test_all_of_it_is_told_to_who_sees_all(both: dict[str, Team]) -> None:
    """What is looked for above is there to be found."""
    people, told = People(), set()
    for name, own in addresses(both[OWN]):
        word, shown = asked(people, "viewer", "GET", own, {})
        if word == "yes" and any(each in shown for each in FOREIGN):
            told.add(name)
    assert told >= {
        "topics", "groups", "clients", "timers", "timer_list", "transactions", "transaction_list", "delayed_queues",
        "dead_letters", "operations", "audit", "audit_data", "alerts", "saved_views", "messages", "lane", "dashboard",
        "dashboard_data", "dashboard_series", "overview",
    }  # fmt: skip
