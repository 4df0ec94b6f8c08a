"""Operations that were over long ago go with their items, previews sooner; what may still happen and the audit stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.operations import runner
from console.operations.models import AuditEntry, Operation, OperationItem

DAY = timedelta(days=1)
OVER = {"done", "aborted", "failed", "declined", "expired"}


def operation(state: str, age: timedelta, items: int = 2) -> Operation:
    then = timezone.now() - age
    made = Operation.objects.create(kind="timers.cancel", state=state, actor="somebody")
    Operation.objects.filter(pk=made.pk).update(created_at=then, finished_at=then if state in OVER else None)
    OperationItem.objects.bulk_create(
        OperationItem(operation=made, number=number, target={}, outcome="cancelled") for number in range(items)
    )
    AuditEntry.objects.create(actor="somebody", reason="because", what="confirmed", kind=made.kind, operation=made.pk)
    return made


@pytest.mark.parametrize("state", [str(state) for state in Operation.State])
def test_what_is_old_goes_and_what_may_happen_stays(db: None, settings: Any, state: str) -> None:
    settings.OPERATIONS_KEEP_DAYS = 30
    old, new = operation(state, 31 * DAY), operation(state, 29 * DAY)
    runner.forget()
    goes = {old.pk} if state in OVER else {old.pk, new.pk} if state == "draft" else set()
    left = {old.pk, new.pk} - goes
    assert set(Operation.objects.values_list("pk", flat=True)) == left
    assert set(OperationItem.objects.values_list("operation_id", flat=True)) == left
    assert AuditEntry.objects.count() == 2


def test_a_preview_of_today_stays(db: None, settings: Any) -> None:
    settings.OPERATIONS_KEEP_DAYS = 30
    operation("draft", timedelta(hours=23))
    assert runner.forget() == 0


def test_many_go_in_several_steps(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.OPERATIONS_KEEP_DAYS = 30
    monkeypatch.setattr(runner, "ROWS", 4)
    for _ in range(3):
        operation("done", 40 * DAY, items=5)
    monkeypatch.setattr(runner, "ROUNDS", 2)
    assert 0 < runner.forget() < 18
    # one that lost some of its items is there as long as any is left
    assert {each.operation_id for each in OperationItem.objects.all()} <= set(
        Operation.objects.values_list("pk", flat=True)
    )
    monkeypatch.setattr(runner, "ROUNDS", 100)
    runner.forget()
    assert not Operation.objects.exists()


def test_all_are_kept_if_told_so(db: None, settings: Any) -> None:
    settings.OPERATIONS_KEEP_DAYS = 0
    operation("done", 4_000 * DAY)
    assert runner.forget() == 0
