"""Operations as marks on an axis of time: when they ran, what they were, and where their page is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from console.operations.models import Operation
from console.operations.registry import KINDS, preview_of, scope_of
from console.security.topic_scope import current_scope
from console.site.clock import epoch_ms, real_ms, shown_ms

#: operations that are looked through, the newest first, and marks of one chart
LOOKED_THROUGH, MOST = 200, 24
#: operations that are nearer than this share of the stretch to the first of a mark are part of it: a row of them that
#: goes on and on becomes many marks, not one
_NEAR = 1 / 60


@dataclass(frozen=True, slots=True)
class Mark:
    """One operation, or several that are close together: `count` of them, the last of which is named."""

    at_ms: int
    operation: str
    #: what its kind is called, and who did it; untrusted text
    label: str
    actor: str
    count: int = 1


def marks_between(
    start_ms: int, end_ms: int, brokers: Sequence[str], *, kinds: Sequence[str] = (),
    about: tuple[str, str] | None = None,
) -> tuple[Mark, ...]:  # fmt: skip
    """Return the marks of what the reader sees, by one query; `kinds`: how those begin that are marked, () are all."""
    rows = Operation.objects.filter(
        started_at__range=(moment_at(start_ms), moment_at(end_ms)),
        created_at__gte=moment_at(start_ms) - timedelta(days=2),
        broker__in=["", *brokers],
    )  # fmt: skip
    if kinds:
        begins = Q()
        for kind in kinds:
            begins |= Q(kind__startswith=kind)
        rows = rows.filter(begins)
    found = [row for row in rows.order_by("-created_at")[:LOOKED_THROUGH] if _is_shown(row, about)]
    return tuple(_together(sorted(found, key=lambda row: row.started_at or row.created_at), end_ms - start_ms))


def _is_shown(row: Operation, about: tuple[str, str] | None) -> bool:
    scope = scope_of(row)
    if about is not None:
        kind, name = about
        if name not in (scope.topics if kind == "topic" else scope.groups | scope.readers):
            return False
    return scope.is_seen(current_scope())


def _together(rows: Sequence[Operation], span_ms: int) -> Iterator[Mark]:
    marks: list[Mark] = []
    first_ms = 0
    for row in rows:
        at_ms = shown_ms(epoch_ms(row.started_at) or 0)
        is_near = bool(marks) and at_ms - first_ms < span_ms * _NEAR
        count = marks.pop().count + 1 if is_near else 1
        first_ms = first_ms if is_near else at_ms
        marks.append(Mark(at_ms, str(row.pk), _label_of(row), row.actor, count))
    yield from marks[-MOST:]


def _label_of(row: Operation) -> str:
    """Return what its kind is called, and what it did."""
    kind = KINDS.get(row.kind)
    if kind is None:
        return row.kind
    said = kind.marked(preview_of(row))
    return f"{kind.title} ({said})" if said else str(kind.title)


def moment_at(ms: int) -> datetime:
    """Return the moment at which operations were made that is shown as this one."""
    return datetime.fromtimestamp(real_ms(ms) / 1000, UTC)
