"""The timers that an operation is about, named or matching a filter; and which of those it did are taken back.

Each item of an operation knows its own moment before. An operation that takes back has in the label of each item the
number of the item that it takes back. What an operation would put into one second stands against what the broker was
measured to release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from broker.client import Admin, ClientError, NotSupported
from console.features.timers.apache_records import matches, parked_record, read_newest, row_of_record
from console.features.timers.read import all_timers, one_timer
from console.features.timers.shapes import TimerFilter, TimerRow
from console.operations.errors import InvalidParameter
from console.operations.kind import Undo
from console.operations.models import Operation, OperationItem
from console.operations.selection import MOST_TARGETS, checked_filter, is_whole
from console.site.clock import now_ms

_TEXT_LENGTH = 1_024
#: a target is named by one of these sets of fields
_FORMS = ({"position"}, {"topic", "scheduleKey"}, {"topic", "uniqueKey"}, {"handle"}, {"messageId"})
#: the kind of operation that takes back cancels and moves
TAKE_BACK = "timers.take_back"
#: in a label: the number of the item that is taken back
OF = "of_item"
#: outcomes of what was taken back
BACK = ("taken_back", "parked_again", "moved_back")
SECOND_MS = 1_000
#: of the seconds that most are moved to, so many are looked at
_LOOKED_AT = 3
#: what falls due while a crowd is released is looked at for so long
_AHEAD_S = 60


@dataclass(frozen=True, slots=True)
class Found:
    """The timers found; `named` has a place for each name that was asked for, None where nothing waits."""

    now_ms: int
    rows: list[TimerRow]
    #: False: there are more
    is_whole: bool = True
    #: True: an Apache RocketMQ broker, and only its newest records were read
    is_polled: bool = False
    named: tuple[TimerRow | None, ...] = ()


def find_timers(admin: Admin, wanted: TimerFilter, *, most: int, patience_s: float | None) -> Found:
    """Return all that match, at most `most`; raises ClientError."""
    begun_ms = now_ms()
    try:
        rows, is_whole = all_timers(admin, wanted, most=most, patience_s=patience_s)
    except NotSupported:
        newest = read_newest(admin)
        rows = [row for row in newest.rows if matches(row, wanted)]
        return Found(begun_ms, rows[:most], newest.is_whole, is_polled=True)
    return Found(begun_ms, rows, is_whole)


def find_named(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> Found:
    """Return each of them that still waits; raises ClientError."""
    begun_ms = now_ms()
    named: list[TimerRow | None] = []
    is_polled = False
    for target in targets:
        if not is_polled:
            try:
                state, row, _ = one_timer(admin, target)
                named.append(row if state == "pending" else None)
                continue
            except NotSupported:
                is_polled = True
        named.append(_parked(admin, target))
    rows = [row for row in named if row is not None]
    return Found(begun_ms, rows, is_polled=is_polled, named=tuple(named))


def _parked(admin: Admin, target: Mapping[str, Any]) -> TimerRow | None:
    """Return the record that the target names, on a broker that cannot be asked for a timer."""
    try:
        record = parked_record(admin, target)
    except ClientError:
        return None
    row = row_of_record(record) if record is not None else None
    return row if row is not None and row.due_ms > now_ms() else None


def checked_selection(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the selection in its one form; raises InvalidParameter."""
    if "targets" in parameters:
        found = parameters["targets"]
        if not isinstance(found, list) or not found:
            raise InvalidParameter("targets", "Name at least one timer.")
        if len(found) > MOST_TARGETS:
            raise InvalidParameter(
                "targets", f"At most {MOST_TARGETS:,} timers can be named in one request; use a filter."
            )
        unique = {repr(sorted(target.items())): target for target in map(_target, found)}
        return {"targets": list(unique.values())}
    given = parameters.get("filter")
    if not isinstance(given, Mapping):
        raise InvalidParameter("filter", "Name timers (targets), or give a filter.")
    wanted = filter_of(given)
    if wanted.is_empty and not parameters.get("is_all"):
        raise InvalidParameter("filter", "An empty filter matches all timers: use all.")
    fields = {"topic": wanted.topic, "key": wanted.key, "from_ms": wanted.from_ms, "to_ms": wanted.to_ms}
    return {"filter": fields, "is_all": bool(parameters.get("is_all"))}


def filter_of(given: Mapping[str, Any]) -> TimerFilter:
    """Return the filter of the parameters; raises InvalidParameter."""
    return TimerFilter(**checked_filter(given, ("topic", "key"), ("from_ms", "to_ms"), _TEXT_LENGTH))


def _target(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidParameter("targets", "A target is an object that names a timer.")
    names = {name for name in given if name not in ("dueMs", "broker")}
    if names not in _FORMS:
        raise InvalidParameter(
            "targets", "A target is named by position, topic and scheduleKey, topic and uniqueKey, handle or messageId."
        )
    for name in ("position", "dueMs"):
        if not is_whole(given.get(name, 0)):
            raise InvalidParameter("targets", f"{name} is a whole number.")
    for name in (names | ({"broker"} & set(given))) - {"position"}:
        if not isinstance(given[name], str) or not 0 < len(given[name]) <= _TEXT_LENGTH:
            raise InvalidParameter("targets", f"{name} is a text of 1 to {_TEXT_LENGTH:,} characters.")
    return dict(given)


def previous_due_ms(item: OperationItem, previous: str) -> int:
    """Return the moment at which an item was due before it was touched, by the field `previous` of its result or by its
    label; 0: not known."""
    return int(item.result.get(previous) or item.label.get("due_ms") or 0)


def undo_of(row: Operation, outcomes: Sequence[str], previous: str) -> Undo | None:
    """Return how far an operation can be taken back, whose items with these outcomes were due at `previous`; None where
    it is not over, or did nothing."""
    if not row.is_over or not any(row.results.get(each) for each in outcomes):
        return None
    items = row.items.filter(outcome__in=outcomes).annotate(
        previous=Cast(Coalesce(KT(f"result__{previous}"), KT("label__due_ms")), BigIntegerField())
    )
    is_back = Q(number__in=_taken_back(row).values("of"))
    found = items.aggregate(
        count=Count("pk"),
        back=Count("pk", filter=is_back),
        ahead=Count("pk", filter=Q(previous__gt=now_ms()) & ~is_back),
        last=Max("previous"),
    )
    shown = tuple(_undoing(row).exclude(state=Operation.State.DRAFT)[:5])
    return Undo(found["ahead"] > 0, found["count"], found["back"], found["ahead"], found["last"], shown)


def taken_back(row: Operation, items: Sequence[OperationItem]) -> dict[int, OperationItem]:
    """Return by the number of an item the item of the other operation that took it back."""
    found = _taken_back(row).filter(of__in=[item.number for item in items]).order_by("pk")
    return {item.of: item for item in found}


def _undoing(row: Operation) -> QuerySet[Operation]:
    return Operation.objects.filter(kind=TAKE_BACK, parameters__operation=str(row.pk))


def _taken_back(row: Operation) -> QuerySet[Any]:
    """Return items of those operations that did it; `of` is the number of the item that each took back."""
    found = OperationItem.objects.filter(operation__in=_undoing(row), outcome__in=BACK)
    return found.annotate(of=Cast(KT(f"label__{OF}"), BigIntegerField())).filter(of__isnull=False)


@dataclass(frozen=True, slots=True)
class Load:
    """The busiest second: `met_count` are due in it already, `count` would be; the last of them `late_ms` late.

    Of what fires at once `also_due` are due besides until all of it is out; None: the broker does not tell.
    """

    ms: int
    count: int
    met_count: int
    late_ms: int | None
    also_due: int | None = None


def busiest(
    admin: Admin, rows: Sequence[TimerRow], moved_to: Sequence[int], capacity_per_s: float | None
) -> Load | None:
    """Return the busiest of the seconds that rows would be moved to; None: nothing moves, or the wheel is not told."""
    leaving = Counter(second_ms(row.due_ms) for row in rows)
    best: Load | None = None
    for ms, count in Counter(map(second_ms, moved_to)).most_common(_LOOKED_AT):
        try:
            there = sum(bucket.count for bucket in admin.timer_wheel(ms, ms + SECOND_MS, SECOND_MS).buckets)
        except ClientError:
            return None
        met = max(0, there - leaving[ms])
        if best is None or met + count > best.count:
            best = Load(ms, met + count, met, late_of(met + count, capacity_per_s))
    return best


def at_once(admin: Admin, rows: Sequence[TimerRow], capacity_per_s: float | None) -> Load | None:
    """Return the load of releasing all of these now, behind the overdue; `late_ms` counts what falls due meanwhile.

    None: the broker does not tell what is overdue.
    """
    try:
        status = admin.timer_status()
    except ClientError:
        return None
    overdue, now_ms, count = status.backlog, status.now_ms, len(rows)
    if not capacity_per_s:
        return Load(second_ms(now_ms), overdue + count, overdue, None)
    leaving = Counter(second_ms(row.due_ms) for row in rows)
    also = _due_meanwhile(admin, now_ms, overdue + count, capacity_per_s, leaving)
    whole = overdue + count + (also or 0)
    return Load(second_ms(now_ms), whole, overdue, round(1000 * whole / capacity_per_s), also)


def _due_meanwhile(
    admin: Admin, now_ms: int, count: int, capacity_per_s: float, leaving: Mapping[int, int]
) -> int | None:
    """Return how many fall due before so many are out, and before those are, and so on; None: not known."""
    start_ms = second_ms(now_ms)
    try:
        buckets = admin.timer_wheel(start_ms, start_ms + _AHEAD_S * SECOND_MS, SECOND_MS).buckets
    except ClientError:
        return None
    also = 0
    for bucket in sorted(buckets, key=lambda each: each.start_ms):
        if bucket.start_ms - now_ms >= 1000 * (count + also) / capacity_per_s:
            break
        also += max(0, bucket.count - leaving.get(bucket.start_ms, 0))
    return also


def capacity_of(admin: Admin) -> float | None:
    """Return how many timers a second the broker was measured to release; None: not measured, or not told."""
    try:
        return admin.timer_status().capacity_per_s
    except ClientError:
        return None


def late_of(count: int, capacity_per_s: float | None) -> int | None:
    """Return how late, in ms, the last of so many due in one second is; None: in time, or not known."""
    return round(1000 * count / capacity_per_s) if capacity_per_s and count > capacity_per_s else None


def second_ms(due_ms: int) -> int:
    """Return the end of the second in which a timer stands; one due at the end of a second stands in that one."""
    return -(-due_ms // SECOND_MS) * SECOND_MS
