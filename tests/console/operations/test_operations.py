"""Operations: looked at, confirmed once, run in batches, stopped, taken up again, and all of it in the audit."""

from __future__ import annotations

import json
import shlex
import threading
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection, connections
from django.template import Context
from django.test import Client
from django.utils import timezone

from broker.client import BrokerUnreachable
from console.operations import registry, runner, workflow
from console.operations.actor import Actor
from console.operations.errors import (
    InvalidParameter,
    NotAllowed,
    NotPossible,
    NotTyped,
    PreviewStale,
    ReasonMissing,
)
from console.operations.kind import BATCH, LIMIT
from console.operations.models import AuditEntry, AuditEntryKeptError, Operation
from console.templatetags.operations import same_call
from tests.console.operations.marking import Marking
from tests.console.people import person

State = Operation.State


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch) -> Marking:
    kind = Marking()
    monkeypatch.setitem(registry.KINDS, kind.name, kind)
    return kind


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    return Actor.of(get_user_model().objects.create_superuser("operator", password="a long secret"))


def confirmed(kind: Marking, actor: Actor, many: int, state: str = State.QUEUED) -> Operation:
    """Confirmed, and not begun: as the jobs worker finds it."""
    row = workflow.draft(kind.name, {"many": many}, actor)
    Operation.objects.filter(pk=row.pk).update(state=state, reason="because")
    return row


def again(row: Operation) -> Operation:
    return Operation.objects.get(pk=row.pk)


@pytest.mark.parametrize("reason", ["\0", "a\0b"])
def test_a_reason_that_cannot_be_kept_is_refused(marking: Marking, actor: Actor, reason: str) -> None:
    """Calls made from the description of REST found it: the database refused what nobody else had."""
    row = workflow.draft(marking.name, {"many": 2}, actor)
    with pytest.raises(InvalidParameter) as refused:
        workflow.confirm(row.pk, actor, reason=reason)
    assert refused.value.field == "reason"
    assert again(row).state == State.DRAFT


class Keeping(Marking):
    """Takes any parameters."""

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return dict(parameters)


@pytest.mark.parametrize("text", ["\0", ["a", {"b": "\0"}], {"\0": 1}])
def test_parameters_that_cannot_be_kept_are_refused(
    actor: Actor, text: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Keeping()
    monkeypatch.setitem(registry.KINDS, kind.name, kind)
    with pytest.raises(InvalidParameter) as refused:
        workflow.draft(kind.name, {"many": 2, "text": text}, actor)
    assert refused.value.field == "text"
    assert not Operation.objects.exists()


def entries(row: Operation) -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.filter(operation=row.pk).order_by("id").values_list("what", "actor", "reason"))


def test_it_is_looked_at_confirmed_run_and_kept(marking: Marking, actor: Actor) -> None:
    row = workflow.draft(marking.name, {"many": 3}, actor)
    assert (row.state, row.preview["count"], marking.touched) == (State.DRAFT, 3, [])
    workflow.confirm(row.pk, actor, reason="  the flight was cancelled ")
    row = again(row)
    assert (row.state, row.total, row.done, row.results) == (State.DONE, 3, 3, {"cancelled": 3})
    assert marking.touched == [0, 1, 2]
    assert entries(row) == [
        ("confirmed", "operator", "the flight was cancelled"),
        ("finished", "operator", "the flight was cancelled"),
    ]
    assert [item.outcome for item in row.items.all()] == ["cancelled"] * 3


def test_confirmed_twice_it_runs_once(marking: Marking, actor: Actor) -> None:
    row = workflow.draft(marking.name, {"many": 2}, actor)
    for _ in range(3):
        assert workflow.confirm(row.pk, actor, reason="twice").state == State.DONE
    assert marking.touched == [0, 1]
    assert len(entries(row)) == 2


def test_confirmed_by_many_at_the_same_moment_it_runs_once(marking: Marking, actor: Actor) -> None:
    row = workflow.draft(marking.name, {"many": 40}, actor)
    ready = threading.Barrier(6)

    def click() -> None:
        ready.wait(10)
        workflow.confirm(row.pk, actor, reason="clicked")
        connections.close_all()

    clicks = [threading.Thread(target=click) for _ in range(6)]
    for each in clicks:
        each.start()
    for each in clicks:
        each.join(20)
    assert sorted(marking.touched) == list(range(40))
    assert [what for what, _, _ in entries(row)] == ["confirmed", "finished"]


def test_the_same_form_sent_twice_is_one_draft(marking: Marking, actor: Actor) -> None:
    number = uuid.uuid4()
    first = workflow.draft(marking.name, {"many": 2}, actor, number=number)
    assert workflow.draft(marking.name, {"many": 9}, actor, number=number).pk == first.pk
    assert Operation.objects.count() == 1
    other = Actor.of(get_user_model().objects.create_superuser("other", password="a long secret"))
    with pytest.raises(NotPossible):
        workflow.draft(marking.name, {"many": 2}, other, number=number)


def test_who_may_not_is_refused_and_kept_in_the_audit(marking: Marking, actor: Actor) -> None:
    row = workflow.draft(marking.name, {"many": 2}, actor)
    visitor = Actor.of(get_user_model().objects.create_user("visitor", password="a long secret"))
    for step in (
        lambda: workflow.draft(marking.name, {"many": 1}, visitor),
        lambda: workflow.look_again(row, visitor),
        lambda: workflow.confirm(row.pk, visitor, reason="mine"),
        lambda: workflow.abort(row.pk, visitor),
        lambda: workflow.go_on(row.pk, visitor),
    ):
        with pytest.raises(NotAllowed):
            step()
    assert marking.touched == []
    assert again(row).state == State.DRAFT
    assert AuditEntry.objects.filter(what="denied", actor="visitor").count() == 5


@pytest.mark.parametrize(
    ("many", "reason", "typed", "refused"),
    [
        (2, "", "", ReasonMissing),
        (2, " \n", "", ReasonMissing),
        (2, "x" * 501, "", InvalidParameter),
        (101, "why", "", NotTyped),
        (101, "why", "100", NotTyped),
        (1_200, "why", "12", NotTyped),
        (0, "why", "", NotPossible),
    ],
)
def test_what_is_missing_is_said(
    marking: Marking, actor: Actor, many: int, reason: str, typed: str, refused: type[Exception]
) -> None:
    row = workflow.draft(marking.name, {"many": many}, actor)
    with pytest.raises(refused):
        workflow.confirm(row.pk, actor, reason=reason, typed=typed)
    assert (again(row).state, marking.touched) == (State.DRAFT, [])


@pytest.mark.parametrize("typed", ["101", " 1 01", "1,01"])
def test_many_are_confirmed_by_their_number(marking: Marking, actor: Actor, typed: str) -> None:
    row = workflow.draft(marking.name, {"many": 101}, actor)
    assert workflow.confirm(row.pk, actor, reason="why", typed=typed).state == State.DONE


def test_an_old_look_is_not_confirmed(marking: Marking, actor: Actor) -> None:
    row = workflow.draft(marking.name, {"many": 2}, actor)
    Operation.objects.filter(pk=row.pk).update(previewed_at=timezone.now() - timedelta(minutes=11))
    with pytest.raises(PreviewStale):
        workflow.confirm(row.pk, actor, reason="why")
    workflow.look_again(again(row), actor)
    assert marking.counted == 2
    assert workflow.confirm(row.pk, actor, reason="why").state == State.DONE


def test_big_ones_run_in_batches(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, 1_200)
    runner.run(row.pk)
    assert marking.batches == [BATCH, BATCH, 200]
    assert (again(row).state, again(row).results) == (State.DONE, {"cancelled": 1_200})


def test_stopped_it_ends_after_the_batch_and_can_go_on(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, 1_200)
    marking.before = lambda count: workflow.abort(row.pk, actor) and None if count == 0 else None
    runner.run(row.pk)
    assert (again(row).state, again(row).done, again(row).left) == (State.ABORTED, 500, 700)
    marking.before = lambda count: None
    Operation.objects.filter(pk=row.pk).update(preview={**row.preview, "count": 300})
    assert workflow.go_on(row.pk, actor).state == State.DONE
    assert sorted(marking.touched) == list(range(1_200))
    assert [what for what, _, _ in entries(row)] == ["aborted", "finished", "continued", "finished"]


def test_stopped_before_it_ran_it_touches_nothing(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, 1_200)
    assert workflow.abort(row.pk, actor).state == State.ABORTED
    runner.run(row.pk)
    assert marking.touched == []


def test_a_broker_that_goes_away_loses_nothing(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, 900)

    def away(count: int) -> None:
        if count == 1:
            raise BrokerUnreachable("127.0.0.1:1", "refused")

    marking.before = away
    runner.run(row.pk)
    assert (again(row).state, again(row).done) == (State.FAILED, 500)
    assert "127.0.0.1:1" in again(row).error
    marking.before = lambda count: None
    Operation.objects.filter(pk=row.pk).update(preview={**row.preview, "count": 300})
    workflow.go_on(row.pk, actor)
    assert sorted(marking.touched) == list(range(900))


def test_a_lost_worker_is_replaced_by_one_only(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, 10, State.RUNNING)
    now = timezone.now()
    Operation.objects.filter(pk=row.pk).update(started_at=now, beat_at=now)
    runner.run(row.pk)
    assert marking.touched == []
    Operation.objects.filter(pk=row.pk).update(beat_at=now - runner.LOST_AFTER)
    assert runner.is_lost(again(row))
    workflow.go_on(row.pk, actor)
    runner.run(row.pk)
    assert marking.touched == list(range(10))


def test_too_many_are_refused_when_counted_again(marking: Marking, actor: Actor) -> None:
    row = confirmed(marking, actor, LIMIT + 1)
    runner.run(row.pk)
    assert (again(row).state, marking.touched) == (State.FAILED, [])
    assert "10,000" in again(row).error


def test_the_audit_is_written_once(marking: Marking, actor: Actor) -> None:
    workflow.confirm(workflow.draft(marking.name, {"many": 1}, actor).pk, actor, reason="why")
    entry = AuditEntry.objects.first()
    assert entry is not None
    entry.reason = "another"
    for change in (
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.all().update(reason="x"),
    ):
        with pytest.raises(AuditEntryKeptError):
            change()


def test_the_audit_outlives_who_acted(marking: Marking, actor: Actor) -> None:
    row = workflow.confirm(workflow.draft(marking.name, {"many": 1}, actor).pk, actor, reason="why")
    get_user_model().objects.all().delete()
    assert [who for _, who, _ in entries(row)] == ["operator", "operator"]


@pytest.fixture
def visitor(transactional_db: None) -> Iterator[Client]:
    user = person("visitor")
    browser = Client()
    browser.force_login(user)
    yield browser
    connection.close()


def test_a_page_checks_who_may_in_the_handler(marking: Marking, actor: Actor, visitor: Client) -> None:
    row = workflow.draft(marking.name, {"many": 2}, actor)
    address = f"/operations/{row.pk}/"
    assert visitor.get(address).status_code == 200
    for step in ("preview/", "confirm/", "abort/", "continue/"):
        assert visitor.post(address + step, {"reason": "mine"}).status_code == 403, step
    assert visitor.post("/operations/draft/", {"kind": "timers.cancel", "position": "1"}).status_code == 403
    looked = visitor.get(address + "confirm/")
    assert (looked.status_code, looked["Location"]) == (302, address)
    assert visitor.put(address + "confirm/").status_code == 405
    assert marking.touched == []
    get_user_model().objects.get(username="visitor").user_permissions.add(
        Permission.objects.get(codename="steer_timers", content_type__app_label="console")
    )
    assert visitor.post(address + "confirm/", {"reason": "allowed now"}).status_code == 303
    assert marking.touched == [0, 1]
    assert "allowed now" in visitor.get("/operations/").content.decode()


@pytest.mark.parametrize("address", ["/operations/nonsense/", f"/operations/{uuid.UUID(int=7)}/"])
def test_an_operation_that_is_not_there_is_not_found(actor: Actor, visitor: Client, address: str) -> None:
    assert visitor.get(address).status_code == 404
    assert visitor.post(address + "confirm/", {"reason": "x"}).status_code == 404


def test_the_same_call_is_safe_in_a_shell(db: None) -> None:
    hostile = "'; rm -rf / #$(id)`id`"
    row = Operation(kind="timers.deliver_now", parameters={"filter": {"topic": "a", "key": hostile, "to_ms": 7}})
    call = same_call(Context(), row)
    words = shlex.split(call.replace("\\\n", ""))
    assert words[3] == "/api/v1/timers:deliver-now"
    assert json.loads(words[-1]) == {"filter": {"topic": "a", "key": hostile, "due_before": 7}, "reason": "..."}
    chosen = same_call(Context(), Operation(kind="timers.cancel", parameters={"targets": [{"position": 1}]}))
    assert json.loads(shlex.split(chosen.replace("\\\n", ""))[-1]) == {"timers": [{"position": 1}], "reason": "..."}
