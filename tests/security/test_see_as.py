"""To see the console as a role or as somebody else: read only, told on every page, and never more than one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from console.operations.actor import CHANGE_USER, Actor
from console.operations.models import AuditEntry, Operation
from console.security import see_as
from console.security.models import TopicPermission
from console.security.sessions import signed_in
from console.ui.saved_views import SavedView
from console.ui.sockets import _seen, marks_of
from tests.console.people import browser_of, person
from tests.console.stage import Stage
from tests.security.doors import administration
from tests.security.scene import FOREIGN, OWN, People, Team, addresses, body_of, form_of, said, two_teams
from tests.security.table import rows
from tests.security.test_administration import concrete

#: the own account, which is nobody else's to see
OWN_PAGES = see_as._OWN


@pytest.fixture
def both(filled: Stage, actor: Actor) -> Iterator[dict[str, Team]]:
    with two_teams(filled, actor) as made:
        yield made


def begin(browser: Client, **wanted: object) -> Any:
    answer = browser.post("/see-as/", {name: str(number) for name, number in wanted.items()})
    assert said(answer) == "led", answer.status_code
    return answer


def number_of(role: str) -> int:
    return int(Group.objects.get(name=role).pk)


@pytest.mark.parametrize("role", ["viewer", "limited operator"])
def test_every_page_is_as_the_other_sees_it_and_says_so(both: dict[str, Team], role: str) -> None:
    people = People()
    browser = people.browser("superuser")
    user = people.users[role]
    begin(browser, user=user.pk)
    column, wrong, told = role.removeprefix("limited "), [], 0
    for name, own in addresses(both[OWN]):
        answer = browser.get(own)
        word, shown = said(answer), body_of(answer)
        due = "no" if name in OWN_PAGES else rows()[name, "GET"].roles[column]
        if word != due:
            wrong.append(f"{own}: {word} instead of {due}")
        if role.startswith("limited") and any(each in shown for each in FOREIGN):
            wrong.append(f"{own} names what is the other team's")
        if word in ("yes", "no") and "<html" in shown:
            told += 1
            if 'class="seeing"' not in shown:
                wrong.append(f"{own} does not say so")
    assert not wrong, "\n".join(wrong)
    assert told > 20


def test_nothing_is_changed_meanwhile(both: dict[str, Team]) -> None:
    people = People()
    browser = people.browser("superuser")
    begin(browser, role=number_of("administrator"))
    before = [model.objects.count() for model in (Operation, AuditEntry, SavedView)]
    for name, own in addresses(both[OWN]):
        if name in ("see_as_stop", "logout"):
            continue
        for method in ("post", "put", "patch", "delete"):
            answer = getattr(browser, method)(own, form_of(name, OWN) if method == "post" else {})
            assert answer.status_code == 403, f"{method} {own}: {answer.status_code}"
    for name, pattern in administration().items():
        if name != "admin:logout":
            for method in ("get", "post"):
                assert getattr(browser, method)(concrete(pattern)).status_code in (403, 404), (method, pattern)
    assert [model.objects.count() for model in (Operation, AuditEntry, SavedView)] == before
    assert see_as.KEY in browser.session


def test_to_stop_is_to_be_oneself_again_and_the_audit_has_both(transactional_db: None) -> None:
    people = People()
    browser = people.browser("superuser")
    begin(browser, role=number_of("viewer"))
    assert b"You see the console as the role viewer" in browser.get("/views/").content
    assert said(browser.get("/people/")) == "no"
    assert said(browser.post("/see-as/stop/")) == "led"
    answer = browser.get("/people/")
    assert said(answer) == "yes"
    assert b'class="seeing"' not in answer.content
    entries = AuditEntry.objects.filter(kind__startswith="people.see_as").order_by("pk")
    assert [(each.kind, each.actor, each.result["name"]) for each in entries] == [
        ("people.see_as", people.users["superuser"].username, "role viewer"),
        ("people.see_as_end", people.users["superuser"].username, "role viewer"),
    ]


def test_who_may_not_administer_people_sees_as_nobody(transactional_db: None) -> None:
    people = People()
    for role in ("none", "viewer", "operator", "limited administrator"):
        browser = people.browser(role)
        answer = browser.post("/see-as/", {"role": str(number_of("administrator"))})
        assert answer.status_code == 403, role
        # a session that says so all the same is its owner's
        session = browser.session
        session[see_as.KEY] = [see_as.ROLE, number_of("administrator")]
        session.save()
        assert b'class="seeing"' not in browser.get("/views/").content
    assert said(people.browser("superuser").post("/see-as/", {"role": "0"})) == "gone"
    assert see_as.ADMINISTER == CHANGE_USER


def test_nobody_has_more_rights_than_before(transactional_db: None) -> None:
    people = People()
    helper = person("helper", "view_console")
    helper.user_permissions.add(Permission.objects.get(codename="change_user"))
    browser = browser_of(get_user_model().objects.get(pk=helper.pk))
    assert said(browser.get("/access/")) == "no"
    begin(browser, user=people.users["superuser"].pk)
    for address in ("/access/", "/tokens/", "/design/", "/alerts/rules/new/"):
        assert said(browser.get(address)) == "no", address
    assert said(browser.get("/people/")) == "yes"
    # and when the right is gone, it is over
    helper.user_permissions.clear()
    answer = browser.get("/views/")
    assert b'class="seeing"' not in answer.content
    assert see_as.KEY not in browser.session


def test_it_ends_with_whom_it_is_about(transactional_db: None) -> None:
    people = People()
    browser = people.browser("superuser")
    begin(browser, user=people.users["viewer"].pk)
    assert said(browser.get("/people/")) == "no"
    people.users["viewer"].delete()
    assert said(browser.get("/people/")) == "yes"


def test_sockets_see_as_well_and_open_ones_notice(transactional_db: None) -> None:
    people = People()
    browser = people.browser("superuser")
    key = str(browser.session.session_key)
    before, own = marks_of([key])[key], _seen(key)
    assert own is not None
    assert own.is_all
    for role in ("limited viewer", "viewer"):
        begin(browser, user=people.users[role].pk)
        during, visible = marks_of([key])[key], _seen(key)
        assert during not in (None, before)
        assert visible is not None
        assert visible.is_all is (role == "viewer")
        browser.post("/see-as/stop/")
    begin(browser, role=number_of("viewer"))
    during = marks_of([key])[key]
    TopicPermission.objects.create(group=Group.objects.get(name="viewer"), pattern="bills*")
    assert marks_of([key])[key] != during, "what the role sees has changed"
    assert _seen(key) is not None
    assert _seen(key).prefixes == ("bills",)  # type: ignore[union-attr]  # it is there, see above
    Group.objects.get(name="viewer").permissions.clear()
    assert _seen(key) is None
    browser.post("/see-as/stop/")
    assert marks_of([key])[key] == before
    begin(browser, user=people.users["none"].pk)
    assert signed_in(key).has_perm("console.view_console") is False
