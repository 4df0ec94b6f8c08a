"""Every address, method and role: closed unless it says otherwise, and nobody acts who may only look."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import URLPattern

from console.operations.models import AuditEntry, Operation
from console.operations.registry import KINDS
from console.security.gate import ADMINISTRATOR, OPERATOR, ROLES, VIEWER, Access, access_of
from console.site.broker import hang_up
from console.urls import urlpatterns
from tests.console.people import browser_of, person
from tests.console.stage import Stage

#: addresses that only act, or are for staff: who may not is told so before the method is looked at
ACTS = {
    "access",
    "access_user",
    "people",
    "person",
    "tokens",
    "see_as",
    "dashboards_run",
    "dashboards_cancel",
    "alert_silence",
    "alert_rule",
    "alert_rule_new",
    "send",
    "design",
}
#: ends of permissions that operators do not have
FOR_ADMINISTRATORS = ("_alertrule", "_access", "_user", "_group", "_apitoken")
SEE_OTHER, DENIED, NOT_FOUND, NOT_ALLOWED = 303, 403, 404, 405


def addresses() -> Iterator[tuple[str, str]]:
    """Each page's name and an address of it."""
    for each in urlpatterns:
        assert isinstance(each, URLPattern), each
        path = "/" + str(each.pattern)
        for part, text in (
            ("<int:level>", "3"), ("<int:position>", "1"), ("<int:queue_id>", "0"), ("<int:rule_id>", "1"),
            ("<int:view_id>", "1"), ("<int:person_id>", "1"),
            ("<str:operation_id>", "3f8b5b1e-5b1e-4b1e-8b1e-5b1e5b1e5b1e"), ("<name:message_id>", "0" * 32),
            ("<str:form>", "csv"), ("<str:series>", "rate"), ("/topics/<name:name>", "/topics/orders"),
            ("/dashboards/<str:name>", "/dashboards/flow"), ("<name:name>", "billing"),
            ("<str:operation>", "messages_send_one"),
        ):  # fmt: skip
            path = path.replace(part, text)
        assert "<" not in path, path
        yield str(each.name), path


#: who gets each page
ACCESS: dict[str, Access] = {str(each.name): access_of(each.callback) for each in urlpatterns}
OPEN = {
    "login",
    "logout",
    "sign_on",
    "sign_on_back",
    "prove",
    "send_again",
    "healthz",
    "readyz",
    "metrics",
    "set_theme",
    "set_zone",
    "set_density",
    "favicon",
    "second_step",
    "admin_sign_in",
    "own_password",
    "own_settings",
    "own_second_factor",
    "see_as_stop",
}
CLOSED = [(name, path) for name, path in addresses() if not ACCESS[name].is_open]


def test_nothing_but_the_named_is_open(db: None) -> None:
    stranger, nobody = Client(), browser_of(person("nobody", role=""))
    for name, path in CLOSED:
        for method in (stranger.get, stranger.post, stranger.put, stranger.delete):
            answer = method(path)
            assert (answer.status_code, answer.headers["Location"][:13]) == (302, "/login/?next="), (name, method)
        for method in (nobody.get, nobody.post, nobody.put, nobody.delete):
            assert method(path).status_code == DENIED, (name, method)
    assert {name for name, access in ACCESS.items() if access.is_open} == OPEN
    assert AuditEntry.objects.count() == 0


def test_a_page_is_refused_to_who_lacks_one_permission_that_its_address_names(db: None) -> None:
    paths, named = dict(addresses()), set()
    for name, access in ACCESS.items():
        for permission in (*access.permissions, *access.to_send):
            user = person(f"{name} {permission}", role=ADMINISTRATOR)
            user.groups.clear()
            app, _, codename = permission.partition(".")
            others = Permission.objects.exclude(content_type__app_label=app, codename=codename)
            user.user_permissions.set(others)
            assert browser_of(user).post(paths[name]).status_code == DENIED, (name, permission)
            assert browser_of(user).get(paths[name]).status_code != 200, (name, permission)
            named.add(name)
    assert named == {
        "dashboards",
        "dashboard",
        "dashboard_series",
        "dashboard_data",
        "dashboards_run",
        "dashboards_cancel",
        "alerts",
        "alert_silence",
        "audit",
        "audit_data",
        "message_unmask",
        "transaction_unmask",
        "send",
        "access",
        "access_user",
        "people",
        "person",
        "see_as",
        "tokens",
    }


def test_a_page_for_staff_is_refused_to_others(db: None) -> None:
    paths, user = dict(addresses()), person("anna", role=ADMINISTRATOR)
    for name, access in ACCESS.items():
        if access.is_for_staff:
            assert browser_of(user).get(paths[name]).status_code == DENIED
    assert [name for name, access in ACCESS.items() if access.is_for_staff] == ["design"]


def test_a_viewer_sees_every_page_and_changes_nothing(stage: Stage) -> None:
    stage.fill()
    viewer = browser_of(person("viewer"))
    for name, path in CLOSED:
        answer = viewer.get(path)
        expected = (200, 302, NOT_FOUND, NOT_ALLOWED) if name not in ACTS else (DENIED, NOT_ALLOWED)
        assert answer.status_code in expected, (name, answer.status_code)
        for method in (viewer.post, viewer.put, viewer.patch, viewer.delete):
            answer = method(path, {"kind": "none"}) if method == viewer.post else method(path)
            assert answer.status_code in (DENIED, NOT_FOUND, NOT_ALLOWED), (name, method, answer.status_code)
    assert Operation.objects.count() == 0
    assert set(AuditEntry.objects.values_list("what", flat=True)) <= {"denied"}


def test_every_page_opens_while_nobody_answers(transactional_db: None, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    viewer = browser_of(person("viewer"))
    for name, path in CLOSED:
        expected = (200, 302, NOT_FOUND, NOT_ALLOWED) if name not in ACTS else (DENIED, NOT_ALLOWED)
        assert viewer.get(path).status_code in expected, name
    hang_up()


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_operation_is_refused_to_a_viewer_and_the_refusal_is_kept(db: None, kind: str) -> None:
    answer = browser_of(person("viewer")).post("/operations/draft/", {"kind": kind})
    assert answer.status_code == DENIED
    assert AuditEntry.objects.get().kind == kind
    is_for_operators = KINDS[kind].permission.removeprefix("console.") in ROLES[OPERATOR]["console"]
    assert is_for_operators != KINDS[kind].permission.endswith(FOR_ADMINISTRATORS), "administrators make rules"


def test_an_operator_acts_but_does_not_administer(stage: Stage) -> None:
    stage.fill()
    stage.consume()
    operator = browser_of(person("operator", role=OPERATOR))
    answer = operator.post(
        "/operations/draft/", {"kind": "groups.reset_offsets", "group": "billing", "topic": "orders", "to": "first"}
    )
    assert answer.status_code == SEE_OTHER
    answer = operator.post(str(answer.headers["Location"]) + "confirm/", {"reason": "to read them again"})
    assert answer.status_code == SEE_OTHER
    assert Operation.objects.get().state == "done"
    assert operator.get("/admin/").status_code == DENIED


def test_an_administrator_of_the_staff_manages_people_and_tokens(db: None) -> None:
    user = person("boss", role=ADMINISTRATOR)
    user.is_staff = True
    user.save()
    browser = browser_of(user)
    for page in ("auth/user/add/", "auth/group/", "console/apitoken/", "console/alertrule/add/", "console/auditentry/"):
        assert browser.get(f"/admin/{page}").status_code == 200, page


def test_roles_are_made_once_and_then_belong_to_their_owner(transactional_db: None) -> None:
    Group.objects.get(name=VIEWER).permissions.clear()
    Group.objects.get(name=OPERATOR).delete()
    call_command("migrate", verbosity=0)
    assert Group.objects.get(name=VIEWER).permissions.count() == 0
    again = set(Group.objects.get(name=OPERATOR).permissions.values_list("codename", flat=True))
    assert again == set(ROLES[OPERATOR]["console"])
    everything = Permission.objects.filter(content_type__app_label="console").count()
    held = Group.objects.get(name=ADMINISTRATOR).permissions.filter(content_type__app_label="console").count()
    assert held == everything


def test_after_ten_wrong_passwords_a_name_waits_from_that_address_only(transactional_db: None) -> None:
    person("anna")
    form = {"username": "anna", "password": "guess"}
    here, elsewhere = Client(REMOTE_ADDR="10.0.0.1"), Client(REMOTE_ADDR="10.0.0.2")
    assert [here.post("/login/", form).status_code for _ in range(10)] == [200] * 9 + [429]
    right = {"username": "anna", "password": "a long secret"}
    locked = here.post("/login/", right)
    assert locked.status_code == 429
    assert "Too many wrong passwords" in locked.content.decode()
    assert locked["Retry-After"] == str(15 * 60)
    assert elsewhere.post("/login/", right).status_code == 302
    assert Client(REMOTE_ADDR="10.0.0.1").post("/login/", {**form, "username": "ben"}).status_code == 200


def test_administrators_of_older_installations_are_given_what_new_ones_have(db: None) -> None:
    """The role was made before there were pages for broker users; one that its owner has changed stays so."""
    migration: Any = importlib.import_module("console.migrations.0030_administrators_access")
    role = Group.objects.get(name=ADMINISTRATOR)
    Permission.objects.filter(codename="change_access").delete()
    with connection.schema_editor() as editor:
        migration.give(apps, editor)
        migration.give(apps, editor)
    assert role.permissions.filter(content_type__app_label="console", codename="change_access").count() == 1
    role.permissions.clear()
    with connection.schema_editor() as editor:
        migration.give(apps, editor)
    assert not role.permissions.exists()
