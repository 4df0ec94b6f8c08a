"""Above a limit an operation waits for another user: approved, declined, withdrawn, forgotten; never by the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from console.features.overview.finding_kinds import FindingCode
from console.features.overview.pages import read_overview
from console.operations import registry, workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import NotAllowed, NotPossible, SamePerson
from console.operations.kind import Preview
from console.operations.models import AuditEntry, Operation
from console.operations.registry import KINDS
from console.operations.workflow import needs_second_person
from console.rest.database import token_actor
from console.security import tokens as security_tokens
from tests.console.operations.marking import Marking
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

State = Operation.State


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch, settings: Any, db: None) -> Marking:
    """A kind of which more than three wait for a second person."""
    kind = Marking()
    monkeypatch.setitem(registry.KINDS, kind.name, kind)
    settings.SECOND_PERSON_KINDS = {kind.name: 3}
    return kind


@pytest.fixture
def anna(db: None) -> Actor:
    return Actor.of(person("anna", "steer_timers"))


@pytest.fixture
def ben(db: None) -> Client:
    return browser_of(person("ben", "steer_timers"))


def asked(kind: Marking, actor: Actor, many: int = 4) -> Operation:
    return workflow.start(kind.name, {"many": many}, actor, reason="the flight was cancelled")


def again(row: Operation) -> Operation:
    return Operation.objects.get(pk=row.pk)


def entries(row: Operation) -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.filter(operation=row.pk).order_by("id").values_list("what", "actor", "reason"))


def test_it_waits_with_preview_and_reason_until_another_approves(marking: Marking, anna: Actor, ben: Client) -> None:
    row = asked(marking, anna)
    assert (row.state, row.preview["count"], marking.touched) == (State.WAITING, 4, [])
    address = f"/operations/{row.pk}/"
    page = words(ben.get(address))
    for said in ("waiting for approval", "anna", "the flight was cancelled", "Approve and run"):
        assert said in page, said
    assert ben.post(address + "approve/", {"reason": " "}).status_code == 422
    for _ in range(2):
        assert ben.post(address + "approve/", {"reason": "I looked at it"}).status_code == 303
    assert (again(row).state, marking.touched) == (State.DONE, [0, 1, 2, 3])
    assert entries(row) == [
        ("confirmed", "anna", "the flight was cancelled"), ("approved", "ben", "I looked at it"),
        ("finished", "anna", "the flight was cancelled"),
    ]  # fmt: skip
    page = words(ben.get(address))
    assert "Approved by" in page
    assert "Approve and run" not in page


def test_up_to_the_limit_nobody_is_asked(marking: Marking, anna: Actor) -> None:
    assert asked(marking, anna, 3).state == State.DONE


def test_who_asked_cannot_approve_nor_by_a_token(marking: Marking, anna: Actor) -> None:
    user = get_user_model().objects.get(username="anna")
    _, token = security_tokens.create("shop", security_tokens.scope_rows(["*"], []), created_by=user)
    grant = security_tokens.grant_of(token)
    assert grant is not None
    by_token = token_actor(grant, frozenset(PERMISSIONS))
    assert by_token.user_id == user.pk
    for first, second in ((anna, anna), (by_token, anna), (anna, by_token), (by_token, by_token)):
        row = asked(marking, first)
        for step in (workflow.approve, workflow.decline):
            with pytest.raises(SamePerson):
                step(row.pk, second, reason="mine")
        assert again(row).state == State.WAITING
    nobody = Actor("token of nobody", frozenset(PERMISSIONS))
    with pytest.raises(SamePerson):
        workflow.approve(row.pk, nobody, reason="whose")
    browser = browser_of(user)
    assert browser.post(f"/operations/{row.pk}/approve/", {"reason": "mine"}).status_code == 403
    assert "Approve and run" not in words(browser.get(f"/operations/{row.pk}/"))
    assert marking.touched == []
    assert AuditEntry.objects.filter(what="denied").count() == 10


def test_declined_it_does_nothing_and_stays_so(marking: Marking, anna: Actor, ben: Client) -> None:
    row = asked(marking, anna)
    address = f"/operations/{row.pk}/"
    assert ben.post(address + "decline/", {"reason": "not at noon"}).status_code == 303
    assert "Declined by" in words(ben.get(address))
    assert ben.post(address + "approve/", {"reason": "well"}).status_code == 409
    assert ben.post(address + "continue/").status_code == 409
    assert (again(row).state, marking.touched) == (State.DECLINED, [])
    assert entries(row)[-1] == ("declined", "ben", "not at noon")


def test_withdrawn_by_who_asked_only_and_never_gone_on_with(marking: Marking, anna: Actor, ben: Client) -> None:
    row = asked(marking, anna)
    assert ben.post(f"/operations/{row.pk}/abort/").status_code == 409
    assert workflow.abort(row.pk, anna).state == State.ABORTED
    for actor in (anna, Actor.of(get_user_model().objects.get(username="ben"))):
        with pytest.raises(NotPossible):
            workflow.go_on(row.pk, actor)
    assert marking.touched == []


def test_after_its_time_it_is_forgotten(marking: Marking, anna: Actor, ben: Client) -> None:
    row = asked(marking, anna)
    Operation.objects.filter(pk=row.pk).update(waits_until=timezone.now() - timedelta(seconds=1))
    assert ben.post(f"/operations/{row.pk}/approve/", {"reason": "late"}).status_code == 409
    assert (again(row).state, marking.touched) == (State.EXPIRED, [])
    assert [what for what, _, _ in entries(row)] == ["confirmed", "expired"]
    assert "not approved in time" in words(ben.get("/operations/"))


@pytest.mark.parametrize(("now", "status"), [(20, 303), (22, 303), (18, 303), (23, 409), (17, 409), (0, 409)])
def test_counted_again_it_is_what_was_asked_for_or_refused(
    marking: Marking, anna: Actor, ben: Client, now: int, status: int
) -> None:
    row = asked(marking, anna, 20)
    marking.left = now
    assert ben.post(f"/operations/{row.pk}/approve/", {"reason": "I looked"}).status_code == status
    assert again(row).state == (State.DONE if status == 303 else State.WAITING)


def test_figures_of_a_reset_count_as_well(settings: Any) -> None:
    settings.SECOND_PERSON_ABOVE = 100
    assert needs_second_person("groups.reset_offsets", {"count": 4, "replayed": 101})
    assert not needs_second_person("groups.reset_offsets", {"count": 4, "replayed": 100})
    settings.SECOND_PERSON_ABOVE, settings.SECOND_PERSON_KINDS = 0, {"topics.delete": 0}
    assert needs_second_person("topics.delete", {"count": 1})
    assert not needs_second_person("timers.cancel", {"count": 10_000})


def test_it_stands_on_the_first_page_until_it_is_answered(marking: Marking, anna: Actor, ben: Client) -> None:
    row = asked(marking, anna)
    page = ben.get("/").content.decode()
    assert f'href="/operations/{row.pk}/"' in page
    assert "anna: the flight was cancelled" in page
    ben.post(f"/operations/{row.pk}/decline/", {"reason": "no"})
    assert FindingCode.OPERATION_WAITS not in [each.code for each in read_overview().findings]


def test_each_kind_is_approved_by_another_with_its_permission_only(db: None) -> None:
    anna, others, right = person("anna"), person("ben"), person("carl")
    known = {f"{row.content_type.app_label}.{row.codename}": row for row in Permission.objects.all()}
    acting = {each: known[each] for each in PERMISSIONS}
    anna.user_permissions.set(acting.values())
    for kind in KINDS.values():
        others.user_permissions.set(row for name, row in acting.items() if name != kind.permission)
        right.user_permissions.set([acting[kind.permission]])
        row = Operation.objects.create(
            kind=kind.name, state=State.WAITING, preview=Preview(at_ms=1, count=1).as_row(), actor="anna",
            created_by=anna, waits_until=timezone.now() + timedelta(hours=1),
            parameters={"queue": "q", "group": "g", "topic": "t", "name": "n", "filter": {}, "operation": str(uuid4())},
        )  # fmt: skip
        for actor in (Actor.of(anna), fresh(others)):
            for step in (workflow.approve, workflow.decline):
                with pytest.raises(NotAllowed):
                    step(row.pk, actor, reason="x")
        assert again(row).state == State.WAITING
        assert workflow.decline(row.pk, fresh(right), reason="no").state == State.DECLINED, kind.name


def fresh(user: Any) -> Actor:
    """The actor with what the user may do now: permissions are kept on an object that is asked once."""
    return Actor.of(get_user_model().objects.get(pk=user.pk))
