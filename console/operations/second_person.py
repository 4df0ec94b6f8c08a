"""Above a limit an operation waits for a second person: which ones, who that can be, until when, and whether what was
asked for is still what would be done.

The settings have the limits: `SECOND_PERSON_ABOVE` items of any kind (0: none), `SECOND_PERSON_KINDS` of single kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.operations.actor import Actor
from console.operations.errors import PreviewChanged, SamePerson
from console.operations.kind import ChangesPreview, Kind, Preview
from console.operations.models import AuditEntry, Operation
from console.operations.registry import KINDS, preview_of

#: part of a figure by which it may differ when it runs from what was asked for; one is always allowed
TOLERANCE = 0.1


def is_needed(kind: str, preview: Mapping[str, Any]) -> bool:
    """Return whether somebody else has to approve an operation of this kind with this preview (its row)."""
    limit = settings.SECOND_PERSON_KINDS.get(kind, settings.SECOND_PERSON_ABOVE or None)
    if limit is None:
        return False
    known = KINDS.get(kind)
    return bool((known.preview_type if known else Preview).of_row(preview).touched > limit)


def until() -> Any:
    """Return the moment after which one that is asked for now is forgotten."""
    return timezone.now() + timedelta(hours=settings.SECOND_PERSON_HOURS)


def check_other(row: Operation, actor: Actor) -> None:
    """Raise SamePerson unless it is another user: who asked by a token is the user for whom that was made."""
    if actor.user_id is None or actor.user_id == row.created_by_id or actor.name == row.actor:
        AuditEntry.objects.create(
            user_id=actor.user_id,
            actor=actor.name,
            what=AuditEntry.What.DENIED,
            kind=row.kind,
            operation=row.pk,
            result={"permission": "second person"},
        )
        raise SamePerson


def check_same(row: Operation, kind: Kind[Any]) -> None:
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


def forget_old() -> None:
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
