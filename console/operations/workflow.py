"""The steps of an operation: draft, look again, confirm, approve, stop, go on. Every step checks who may do it.

Above a limit an operation waits for a second person: this module says which ones do, who that can be, until when, and
whether what was asked for is still what would be done. The settings have the limits: `SECOND_PERSON_ABOVE` items of any
kind (0: none), `SECOND_PERSON_KINDS` of single kinds.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.operations import runner
from console.operations.actor import UNBOUNDED, Actor
from console.operations.errors import (
    InvalidParameter,
    NameNotTyped,
    NotPossible,
    NotTyped,
    PreviewChanged,
    PreviewStale,
    ReasonMissing,
    SamePerson,
)
from console.operations.kind import BATCH, TYPED_ABOVE, ChangesPreview, Kind, Preview
from console.operations.models import AuditEntry, Operation
from console.operations.registry import KINDS, kind_of, preview_of, scope_of
from console.site.chosen import choice_of, choosing, chosen

logger = logging.getLogger(__name__)

#: a preview older than this is counted again before it can be confirmed
PREVIEW_LASTS = timedelta(minutes=10)
REASON_LENGTH = 500
#: PostgreSQL keeps none in a text
_NO_NUL = "A NUL character cannot be kept; leave it out."
#: the outcome of an item of which no answer came
UNKNOWN = "unknown"
#: part of a figure by which it may differ when it runs from what was asked for; one is always allowed
TOLERANCE = 0.1


def draft(kind_name: str, parameters: Mapping[str, Any], actor: Actor, *, number: uuid.UUID | None = None) -> Operation:
    """Return a new operation with its preview, nothing done yet; with a `number` that is known, that operation.

    Raises NotAllowed, InvalidParameter, TooMany, ClientError.
    """
    kind = kind_of(kind_name)
    _require(kind, actor)
    if number is not None:
        known = Operation.objects.filter(pk=number).first()
        if known is not None:
            if known.created_by_id != actor.user_id or known.kind != kind_name:
                raise NotPossible("This number belongs to another operation; reload the page.")
            return known
    Operation.objects.filter(state=Operation.State.DRAFT, created_at__lt=timezone.now() - runner.DRAFT_KEPT).delete()
    checked = _checked(kind, parameters)
    shown = _previewed(kind, checked, actor)
    row, _ = Operation.objects.get_or_create(
        id=number or uuid.uuid4(),
        defaults={
            "kind": kind.name,
            "broker": chosen().text,
            "parameters": checked,
            "preview": shown.as_row(),
            "previewed_at": timezone.now(),
            "created_by_id": actor.user_id,
            "actor": actor.name,
        },
    )
    return row


def look_again(row: Operation, actor: Actor, changes: Mapping[str, Any] | None = None) -> Operation:
    """Count again, with other parameters if there are any; raises as `draft` does."""
    kind = kind_of(row.kind)
    _require(kind, actor)
    if row.state != Operation.State.DRAFT:
        raise NotPossible("It was confirmed already; create a new one.")
    with choosing(choice_of(row.broker)):
        checked = _checked(kind, {**row.parameters, **(changes or {})})
        shown = _previewed(kind, checked, actor)
    row.parameters, row.preview, row.previewed_at = checked, shown.as_row(), timezone.now()
    row.save(update_fields=["parameters", "preview", "previewed_at"])
    return row


def _checked(kind: Kind[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in their one form; raises InvalidParameter, also for a text that cannot be kept."""
    checked = kind.checked(parameters)
    for name, value in checked.items():
        if _holds_nul(value):
            raise InvalidParameter(name, _NO_NUL)
    return checked


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_holds_nul(name) or _holds_nul(each) for name, each in value.items())
    return isinstance(value, list | tuple) and any(map(_holds_nul, value))


def _require(kind: Kind[Any], actor: Actor) -> None:
    """Raise NotAllowed, or OutOfReach for what is of all topics, before it is told whether there is such a thing."""
    actor.require(kind.permission, kind.name)
    if kind.is_of_all:
        actor.require_scope(UNBOUNDED, kind.name, "all")


def _previewed(kind: Kind[Any], checked: Mapping[str, Any], actor: Actor) -> Preview:
    """Count what is seen; a name that is not is refused before it is asked whether there is such a thing."""
    named = kind.scope(checked, None)
    if named != UNBOUNDED:
        actor.require_scope(named, kind.name, "other")
    shown: Preview = kind.preview(checked)
    actor.require_scope(kind.scope(checked, shown.as_row()), kind.name)
    return shown


def choose(number: uuid.UUID, actor: Actor, given: Mapping[str, Any]) -> None:
    """Add what was chosen of that which the preview asks to choose; what was shown stays shown.

    Raises NotAllowed, InvalidParameter, NotPossible.
    """
    kind = _allowed(number, actor)
    added = {name: given[name] for name in kind.choices if given.get(name)}
    if not added:
        return
    with transaction.atomic():
        row = _locked(number)
        if row.state == Operation.State.DRAFT:
            row.parameters = _checked(kind, {**row.parameters, **added})
            row.save(update_fields=["parameters"])


def confirm(
    number: uuid.UUID, actor: Actor, *, reason: str, typed: str = "", is_typing_needed: bool = True
) -> Operation:
    """Run it: at once if it is small, else by the jobs worker; above a limit it waits for a second person first.

    Confirmed twice, it still runs once.

    Raises NotAllowed, ReasonMissing, NotTyped, PreviewStale, NotPossible.
    """
    kind = _allowed(number, actor)
    with transaction.atomic():
        row = _locked(number)
        if row.state != Operation.State.DRAFT:
            return row
        _check(row, kind, reason, typed, is_typing_needed)
        row.state, row.reason, row.actor, row.created_by_id = (
            Operation.State.QUEUED,
            reason.strip(),
            actor.name,
            actor.user_id,
        )
        is_waiting = needs_second_person(row.kind, row.preview)
        if is_waiting:
            row.state, row.waits_until = Operation.State.WAITING, _approved_until()
        row.save(update_fields=["state", "reason", "actor", "created_by", "waits_until"])
        told = {"parameters": kind.shown_parameters(row.parameters), "count": row.preview["count"]}
        audit(row, actor, AuditEntry.What.CONFIRMED, told)
    if not is_waiting:
        _begin(row)
    row.refresh_from_db()
    return row


def approve(number: uuid.UUID, actor: Actor, *, reason: str) -> Operation:
    """Approve it as the second person: it is counted again and runs. Approved twice, it runs once.

    Raises NotAllowed, SamePerson, ReasonMissing, PreviewChanged, NotPossible, ClientError.
    """
    kind = _allowed(number, actor)
    forget_unapproved()
    row = Operation.objects.get(pk=number)
    if row.second_by_id == actor.user_id is not None and row.state != Operation.State.DECLINED:
        return row
    _check_other(row, actor)
    _check_reason(reason)
    _check_waiting(row)
    with choosing(choice_of(row.broker)):
        _check_same(row, kind)
    row = _answer(number, actor, reason, Operation.State.QUEUED, AuditEntry.What.APPROVED)
    if row.state == Operation.State.QUEUED:
        _begin(row)
        row.refresh_from_db()
    return row


def decline(number: uuid.UUID, actor: Actor, *, reason: str) -> Operation:
    """Decline it as the second person: nothing is done. Raises NotAllowed, SamePerson, ReasonMissing, NotPossible."""
    _allowed(number, actor)
    forget_unapproved()
    row = Operation.objects.get(pk=number)
    _check_other(row, actor)
    _check_reason(reason)
    if row.state == Operation.State.DECLINED:
        return row
    _check_waiting(row)
    return _answer(number, actor, reason, Operation.State.DECLINED, AuditEntry.What.DECLINED)


def start(kind_name: str, parameters: Mapping[str, Any], actor: Actor, *, reason: str) -> Operation:
    """Draft and confirm in one step, for those who have seen what is touched; raises as both do."""
    row = draft(kind_name, parameters, actor)
    return confirm(row.pk, actor, reason=reason, is_typing_needed=False)


def abort(number: uuid.UUID, actor: Actor) -> Operation:
    """Stop after the batch that is under way; what is done stays done. Raises NotAllowed."""
    _allowed(number, actor)
    with transaction.atomic():
        row = _locked(number)
        if row.state == Operation.State.WAITING and row.actor != actor.name:
            raise NotPossible("Decline it, with a reason; the requester can withdraw it.")
        if not (row.is_under_way or row.state == Operation.State.WAITING) or row.is_abort_wanted:
            return row
        row.is_abort_wanted = True
        if row.state in (Operation.State.QUEUED, Operation.State.WAITING):
            row.state, row.finished_at = Operation.State.ABORTED, timezone.now()
        row.save(update_fields=["is_abort_wanted", "state", "finished_at"])
        audit(row, actor, AuditEntry.What.ABORTED, {"done": row.done, "total": row.total})
    return row


def go_on(number: uuid.UUID, actor: Actor) -> Operation:
    """Go on with what was left when it stopped or failed; raises NotAllowed, NotPossible."""
    _allowed(number, actor)
    with transaction.atomic():
        row = _locked(number)
        if row.is_under_way and not runner.is_lost(row):
            return row
        if row.state == Operation.State.DRAFT or (row.state == Operation.State.DONE and not may_repeat(row)):
            raise NotPossible("Nothing remains to be done.")
        if row.is_unapproved:
            raise NotPossible("It has not been approved.")
        _forget_unknown(row)
        row.state, row.is_abort_wanted, row.error, row.finished_at = Operation.State.QUEUED, False, "", None
        row.save(update_fields=["state", "is_abort_wanted", "error", "finished_at"])
        audit(row, actor, AuditEntry.What.CONTINUED, {"done": row.done, "total": row.total})
    _begin(row)
    row.refresh_from_db()
    return row


def may_repeat(row: Operation) -> bool:
    """Tell whether it is over, and has items of which nothing is known that can be done once more."""
    kind = KINDS.get(row.kind)
    return row.is_over and kind is not None and kind.is_repeatable and bool(row.results.get(UNKNOWN))


def _forget_unknown(row: Operation) -> None:
    """Have the items of which nothing is known done once more."""
    if may_repeat(row):
        row.done -= row.items.filter(outcome=UNKNOWN).update(outcome="", result={})
        row.results = {outcome: count for outcome, count in row.results.items() if outcome != UNKNOWN}
        row.save(update_fields=["done", "results"])


def audit(row: Operation, actor: Actor, what: AuditEntry.What, result: Mapping[str, Any]) -> None:
    """Write one more entry of the audit."""
    AuditEntry.objects.create(
        user_id=actor.user_id,
        actor=actor.name,
        what=what,
        kind=row.kind,
        operation=row.pk,
        reason=row.reason,
        result={**result, **actor.told},
    )


def _allowed(number: uuid.UUID, actor: Actor) -> Kind[Any]:
    """Return the kind if the actor may do this; outside of any transaction, so that a refusal stays in the audit."""
    found = Operation.objects.filter(pk=number).first()
    if found is None:
        raise NotPossible("There is no such operation; it may have expired: create a new one.")
    kind = kind_of(found.kind)
    actor.require(kind.permission, kind.name)
    actor.require_scope(scope_of(found), kind.name)
    return kind


def _answer(number: uuid.UUID, actor: Actor, reason: str, state: Operation.State, what: AuditEntry.What) -> Operation:
    """Write down, once, what the second person decided."""
    with transaction.atomic():
        row = _locked(number)
        if row.second_by_id == actor.user_id is not None:
            return row
        _check_waiting(row)
        row.state, row.second_by_id, row.second_actor, row.second_reason = (
            state,
            actor.user_id,
            actor.name,
            reason.strip(),
        )
        if row.is_over:
            row.finished_at = timezone.now()
        row.save(update_fields=["state", "second_by", "second_actor", "second_reason", "finished_at"])
        AuditEntry.objects.create(
            user_id=actor.user_id,
            actor=actor.name,
            what=what,
            kind=row.kind,
            operation=row.pk,
            reason=row.second_reason,
            result={"count": row.preview["count"], **actor.told},
        )
    return row


def _check_waiting(row: Operation) -> None:
    if row.state != Operation.State.WAITING:
        raise NotPossible("It is not waiting for approval.")


def _locked(number: uuid.UUID) -> Operation:
    return Operation.objects.select_for_update().get(pk=number)


def _check(row: Operation, kind: Kind[Any], reason: str, typed: str, is_typing_needed: bool) -> None:
    count = row.preview["count"]
    if count is None:
        raise InvalidParameter("moment", "Enter when they are due.")
    _check_reason(reason)
    if count == 0:
        raise NotPossible("Nothing matches any more.")
    if row.previewed_at is None or timezone.now() - row.previewed_at > PREVIEW_LASTS:
        raise PreviewStale
    undecided = kind.undecided(row.parameters, preview_of(row))
    if undecided is not None:
        raise undecided
    word = kind.typed_word(row.parameters)
    if is_typing_needed and word and typed.strip() != word:
        raise NameNotTyped
    if is_typing_needed and count > TYPED_ABOVE and "".join(c for c in typed if c.isdigit()) != str(count):
        raise NotTyped


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonMissing
    if "\0" in reason:
        raise InvalidParameter("reason", _NO_NUL)
    if len(reason) > REASON_LENGTH:
        raise InvalidParameter("reason", f"At most {REASON_LENGTH} characters are kept.")


def _begin(row: Operation) -> None:
    """Run it here if it is small, else hand it to the jobs worker."""
    if row.preview["count"] <= BATCH:
        runner.run(row.pk)
        return
    try:
        runner.run_operation.delay(str(row.pk))
    except Exception as error:  # whatever the task broker's client raises: the row must say so
        logger.warning("operation %s could not be handed to the jobs worker: %s", row.pk, error)
        runner.fail(row.pk, f"The jobs worker could not be reached: {error}")


def needs_second_person(kind: str, preview: Mapping[str, Any]) -> bool:
    """Return whether somebody else has to approve an operation of this kind with this preview (its row)."""
    limit = settings.SECOND_PERSON_KINDS.get(kind, settings.SECOND_PERSON_ABOVE or None)
    if limit is None:
        return False
    known = KINDS.get(kind)
    return bool((known.preview_type if known else Preview).of_row(preview).touched > limit)


def _approved_until() -> Any:
    """Return the moment after which one that is asked for now is forgotten."""
    return timezone.now() + timedelta(hours=settings.SECOND_PERSON_HOURS)


def _check_other(row: Operation, actor: Actor) -> None:
    """Raise SamePerson unless it is another user: who asked by a token is the user for whom that was made."""
    if actor.user_id is None or actor.user_id == row.created_by_id or actor.name == row.actor:
        AuditEntry.objects.create(
            user_id=actor.user_id,
            actor=actor.name,
            what=AuditEntry.What.DENIED,
            kind=row.kind,
            operation=row.pk,
            result={"permission": "second person", **actor.told},
        )
        raise SamePerson


def _check_same(row: Operation, kind: Kind[Any]) -> None:
    """Count again; raise PreviewChanged when it is not what was asked for any more. Raises ClientError, TooMany."""
    asked, now = preview_of(row), kind.preview(row.parameters)
    if isinstance(asked, ChangesPreview) and asked.changes != now.changes:
        raise PreviewChanged("settings", "other ones", "those that were shown")
    for name in asked.weights:
        before, after = getattr(asked, name), getattr(now, name)
        if before is not None and not _is_near(before, after):
            raise PreviewChanged(name, after, before)
    if asked.count is not None and not _is_near(asked.count, now.count):
        # what came after it was asked for is not touched: those that are, one by one
        count = len(kind.targets(row.parameters, asked))
        if not _is_near(asked.count, count):
            raise PreviewChanged("items", count, asked.count)


def forget_unapproved() -> None:
    """End those whose time to be approved is over."""
    waiting = Operation.objects.filter(state=Operation.State.WAITING, waits_until__lte=timezone.now())
    for number in waiting.values_list("pk", flat=True):
        with transaction.atomic():
            row = Operation.objects.select_for_update().filter(pk=number, state=Operation.State.WAITING).first()
            if row is None:
                continue
            row.state, row.finished_at = Operation.State.EXPIRED, timezone.now()
            row.save(update_fields=["state", "finished_at"])
            AuditEntry.objects.create(
                actor=row.actor,
                user_id=row.created_by_id,
                what=AuditEntry.What.EXPIRED,
                kind=row.kind,
                operation=row.pk,
                reason=row.reason,
            )


def _is_near(before: int, after: int | None) -> bool:
    return after is not None and abs(after - before) <= max(1, TOLERANCE * before)
