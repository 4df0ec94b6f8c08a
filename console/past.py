"""Looking back: what the pages showed at earlier moments, and the moment in `as_of`.

A snapshot is a row, one a moment. Each part is packed by itself, as MessagePack, compressed, so that a page reads only
its own part; the features say which shape each has. A field that is added to a shape later needs a default, which it
has when an older snapshot is read; one that is gone is left out.

Of several brokers each has its own, those of one interval are one moment. What was not read of a broker at a moment is
what was known of it last, and said so: sums do not shrink because a broker does not answer.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from django.conf import settings
from django.db import models
from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from broker.mirror.models import MirrorState
from console.operations.typed_moments import bound_ms, shown_moment
from console.security.topic_scope import TopicScope, authorised
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, cluster

Shape = TypeVar("Shape")
Each = TypeVar("Each")

FIELD = "as_of"
TEXT_LENGTH = 64
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


class Snapshot(models.Model):
    """The knowledge of one broker at one moment. A part that could not be read is null, and `why` says the reason."""

    broker = models.CharField(max_length=255)
    #: the beginning of the interval that it stands for: one snapshot each, whoever takes it
    slot_ms = models.BigIntegerField()
    #: epoch ms at which it was taken
    at_ms = models.BigIntegerField()
    #: part -> code of console.site.evidence.StaleReason
    why = models.JSONField(default=dict)
    #: console.features.schedule.shapes.Lanes
    lanes = models.BinaryField(null=True)
    #: console.features.timers.kept.TimersKept
    timers = models.BinaryField(null=True)
    #: console.features.transactions.shapes.TransactionFigures
    transactions = models.BinaryField(null=True)
    #: console.features.groups.kept.GroupsKept
    groups = models.BinaryField(null=True)
    #: messages that waited on all lanes, pending timers, the lag of all groups; null: not known
    lanes_pending = models.BigIntegerField(null=True)
    timers_pending = models.BigIntegerField(null=True)
    lag = models.BigIntegerField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["broker", "slot_ms"], name="one_snapshot_a_slot")]
        indexes = [models.Index(fields=["broker", "at_ms"], name="snapshot_nearest")]

    def __str__(self) -> str:
        return f"{self.broker} at {self.at_ms}"


def pack(shape: Any) -> bytes:
    """Pack a shape of dataclasses, tuples, texts and numbers."""
    return zlib.compress(msgspec.msgpack.encode(shape))


def unpack(kind: type[Shape], data: bytes) -> Shape:
    """Make the shape again. Raises msgspec.ValidationError for bytes that hold another one."""
    return msgspec.msgpack.decode(zlib.decompress(data), type=kind)


@dataclass(frozen=True, slots=True)
class OldPart:
    """One of several brokers of which not its snapshot of the moment is shown, but what was known before."""

    broker: str
    #: the snapshot that it is taken from; None: nothing is kept of it
    at_ms: int | None
    #: why it was not read at the moment; None: there is no snapshot of that interval
    why: StaleReason | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The snapshot for a moment that was asked for: the last one that was taken then or before. `at_ms` None: none."""

    #: None: the present
    asked_ms: int | None
    at_ms: int | None
    broker: str = ""
    previous_ms: int | None = None
    next_ms: int | None = None
    #: the oldest one that is kept; None: there is none at all
    first_ms: int | None = None
    #: of a part that could not be read then
    why: StaleReason | None = None
    #: it was taken; False with a snapshot: `why`
    is_known: bool = False
    #: it is of several brokers, each with its own snapshot; of these it is not that of the moment
    has_several: bool = False
    older: tuple[OldPart, ...] = ()

    @property
    def gap_ms(self) -> int | None:
        """Milliseconds between the snapshot and the moment that was asked for."""
        return None if self.at_ms is None or self.asked_ms is None else max(0, self.asked_ms - self.at_ms)


@dataclass(frozen=True, slots=True)
class Sums:
    """The totals of what waited at the moment of one snapshot; None is unknown."""

    at_ms: int
    lanes_pending: int | None
    timers_pending: int | None
    lag: int | None

    @property
    def waiting(self) -> int | None:
        """Messages that wait on lanes and as timers; None if either is unknown."""
        if self.lanes_pending is None or self.timers_pending is None:
            return None
        return self.lanes_pending + self.timers_pending


def moment_of(asked_ms: int) -> Moment:
    """Find the last snapshot that was taken at the moment or before."""
    of = cluster()
    return _moment_of_several(of, asked_ms)[0] if of.has_several else _moment_of_one(_name(of), asked_ms)


def _name(of: Cluster) -> str:
    return of.brokers[0].name if of.brokers else ""


def _moment_of_one(name: str, asked_ms: int) -> Moment:
    rows = Snapshot.objects.filter(broker=name)
    moments = rows.values_list("at_ms", flat=True)
    at_ms = moments.filter(at_ms__lte=asked_ms).order_by("-at_ms").first()
    first_ms = moments.order_by("at_ms").first()
    if at_ms is None:
        return Moment(asked_ms, None, name, next_ms=first_ms, first_ms=first_ms)
    return Moment(
        asked_ms,
        at_ms,
        name,
        previous_ms=moments.filter(at_ms__lt=at_ms).order_by("-at_ms").first(),
        next_ms=moments.filter(at_ms__gt=at_ms).order_by("at_ms").first(),
        first_ms=first_ms,
    )


class Newest(NamedTuple):
    """The last snapshot of one broker at a moment or before: all, or of those that know a part."""

    broker: str
    at_ms: int
    slot_ms: int
    #: the part as it was packed, or `why`
    held: Any


def newest_of(names: Sequence[str], asked_ms: int, part: str = "") -> dict[str, Newest]:
    """Return by broker its last snapshot at the moment or before, of those that know the part where one is named."""
    known = {f"{part}__isnull": False} if part else {}
    rows = Snapshot.objects.filter(broker=OuterRef("broker_id"), at_ms__lte=asked_ms, **known).order_by("-at_ms")
    picked = MirrorState.objects.filter(broker__in=names).values_list(Subquery(rows.values("pk")[:1]), flat=True)
    found = Snapshot.objects.filter(pk__in=picked).order_by("broker")
    return {row[0]: Newest(*row) for row in found.values_list("broker", "at_ms", "slot_ms", part or "why")}


def _moment_of_several(of: Cluster, asked_ms: int) -> tuple[Moment, dict[str, Newest]]:
    """Find the last interval of which any broker has a snapshot that was taken at the moment or before."""
    newest, rows = newest_of(of.names, asked_ms), Snapshot.objects.filter(broker__in=of.names)
    slot_ms = max((each.slot_ms for each in newest.values()), default=-1)

    # the last snapshot of an interval stands for it: at its moment those of the others are there
    def first_of(of_interval: QuerySet[Snapshot], *order: str) -> int | None:
        return of_interval.order_by(*order, "-at_ms").values_list("at_ms", flat=True).first()

    moment = Moment(
        asked_ms,
        max((each.at_ms for each in newest.values()), default=None),
        of.source,
        previous_ms=first_of(rows.filter(slot_ms__lt=slot_ms), "-slot_ms"),
        next_ms=first_of(rows.filter(slot_ms__gt=slot_ms), "slot_ms"),
        first_ms=rows.order_by("at_ms").values_list("at_ms", flat=True).first(),
        has_several=True,
    )
    return moment, newest


def parts_at(asked_ms: int, part: str, kind: type[Shape]) -> tuple[Moment, list[tuple[str, Shape]]]:
    """Return one part of the snapshots for a moment, by broker, as far as it is known."""
    of = cluster()
    if of.has_several:
        moment, found = _parts_of_several(of, asked_ms, {part: kind})
        return moment, [(broker, held) for broker, held in found[part].items()]
    moment = _moment_of_one(_name(of), asked_ms)
    if moment.at_ms is None:
        return moment, []
    packed, why = _columns_at(moment.broker, moment.at_ms, part, "why")
    if packed is None:
        return replace(moment, why=reason_of(why, part)), []
    return replace(moment, is_known=True), [(moment.broker, opened(kind, bytes(packed)))]


@dataclass(frozen=True, slots=True)
class Whole:
    """The parts of the snapshots for a moment, each by broker as far as it is known; and why others are not."""

    parts: dict[str, dict[str, Any]]
    why: dict[str, str]


def whole_at(asked_ms: int, kinds: dict[str, type[Any]]) -> tuple[Moment, Whole | None]:
    """Return all these parts of the snapshots for a moment, None without a snapshot; `kinds`: the shape of each."""
    of = cluster()
    if of.has_several:
        moment, found = _parts_of_several(of, asked_ms, kinds)
        return moment, Whole(found, {}) if moment.at_ms is not None else None
    moment = _moment_of_one(_name(of), asked_ms)
    if moment.at_ms is None:
        return moment, None
    *packed, why = _columns_at(moment.broker, moment.at_ms, *kinds, "why")
    held = {
        part: {} if each is None else {moment.broker: opened(kind, bytes(each))}
        for (part, kind), each in zip(kinds.items(), packed, strict=True)
    }
    known = any(held.values())
    return replace(moment, is_known=known, why=None if known else reason_of(why, next(iter(kinds)))), Whole(held, why)


def _parts_of_several(
    of: Cluster, asked_ms: int, kinds: dict[str, type[Any]]
) -> tuple[Moment, dict[str, dict[str, Any]]]:
    """Return parts by their name and broker: what was not read at the moment as it was known before."""
    moment, newest = _moment_of_several(of, asked_ms)
    if moment.at_ms is None:
        return moment, {part: {} for part in kinds}
    slot_ms = max(each.slot_ms for each in newest.values())
    found: dict[str, dict[str, Any]] = {}
    older: dict[str, OldPart] = {}
    for part, kind in kinds.items():
        known = newest_of(of.names, asked_ms, part)
        found[part] = {name: opened(kind, bytes(known[name].held)) for name in of.names if name in known}
        for name in of.names:
            old = _old_part(name, part, known.get(name), newest.get(name), slot_ms)
            if old is not None and (name not in older or (old.at_ms or 0) < (older[name].at_ms or 0)):
                older[name] = old
    if any(found.values()):
        return replace(moment, is_known=True, older=tuple(older[name] for name in sorted(older))), found
    why = next(iter(newest.values())).held
    return replace(moment, why=reason_of(why, next(iter(kinds)))), found


def _old_part(name: str, part: str, known: Newest | None, newest: Newest | None, slot_ms: int) -> OldPart | None:
    """Return what is shown of a broker instead of its part of the moment; None: that is what is shown."""
    if known is not None and known.slot_ms == slot_ms:
        return None
    is_unread = newest is not None and newest.slot_ms == slot_ms
    why = reason_of(newest.held, part) if newest is not None and is_unread else None
    return OldPart(name, known.at_ms if known else None, why)


@authorised
def sums(scope: TopicScope, most: int = 240) -> tuple[Sums, ...]:
    """Return sums over all that is kept, at most so many moments evenly apart; the lag of all groups is for those who
    see all."""
    of = cluster()
    if of.has_several:
        chosen: Sequence[Sums] = _sums_of_several(of, most)
    else:
        rows = Snapshot.objects.filter(broker=_name(of)).order_by("at_ms")
        chosen = _apart([Sums(*row) for row in rows.values_list("at_ms", *_SUMMED)], most)
    return tuple(chosen if scope.see_all else (replace(row, lag=None) for row in chosen))


def _apart(found: Sequence[Each], most: int) -> Sequence[Each]:
    """Return at most so many, evenly apart, the last one among them."""
    step = max(1, -(-len(found) // most))
    return found[::-step][::-1]


#: the sums that a snapshot has as columns, and the part that each is from
_SUMMED = {"lanes_pending": "lanes", "timers_pending": "timers", "lag": "groups"}


def _sums_of_several(of: Cluster, most: int) -> list[Sums]:
    """Return the sums of at most so many intervals; what was not read of a broker counts as in the one before."""
    rows = Snapshot.objects.filter(broker__in=of.names)
    slots = _apart(list(rows.order_by("slot_ms").values_list("slot_ms", flat=True).distinct()), most)
    unread = {
        f"no_{part}": ExpressionWrapper(Q(**{f"{part}__isnull": True}), output_field=BooleanField())
        for part in _SUMMED.values()
    }
    told = rows.filter(slot_ms__in=slots).annotate(**unread).order_by("slot_ms", "at_ms")
    last: dict[tuple[str, int], int | None] = {}
    found = []
    every = told.values_list("slot_ms", "at_ms", "broker", *_SUMMED, *unread)
    for _slot_ms, interval in groupby(every, key=itemgetter(0)):
        taken = list(interval)
        for _slot, _at, broker, *columns in taken:
            values, gaps = columns[: len(_SUMMED)], columns[len(_SUMMED) :]
            last |= {(broker, n): value for n, (value, gap) in enumerate(zip(values, gaps, strict=True)) if not gap}
        found.append(Sums(taken[-1][1], *(_known_sum(last, number) for number in range(len(_SUMMED)))))
    return found


def _known_sum(last: dict[tuple[str, int], int | None], number: int) -> int | None:
    known = [value for (_broker, which), value in last.items() if which == number and value is not None]
    return sum(known) if known else None


def evidence_of(moment: Moment) -> Evidence:
    """Return the evidence of a snapshot's figures; how old they were is not told beside a moment that is past."""
    return Evidence(_("snapshot of %(broker)s") % {"broker": moment.broker}, None, True, moment.why)


@lru_cache(maxsize=64)
def _opened_before(kind: type[Any], packed: bytes) -> Any:
    """Unpack bytes, or return the frozen shapes of the same bytes; who may see what of them is decided by the
    caller."""
    return unpack(kind, packed)


def opened(kind: type[Shape], packed: bytes) -> Shape:
    """Return the shape that was packed, frozen: it may be shared with others who look at the same moment."""
    key: Any = kind
    found: Shape = _opened_before(key, packed)
    return found


def _columns_at(broker: str, at_ms: int, *names: str) -> tuple[Any, ...]:
    """Return these columns of the snapshot of one broker, the last of which is `why`."""
    rows = Snapshot.objects.filter(broker=broker, at_ms=at_ms).order_by("slot_ms")
    # thinned in this moment: as one that knows nothing
    return rows.values_list(*names).first() or (*(None for _ in names[:-1]), {})


def reason_of(why: Any, part: str) -> StaleReason:
    """Return why a part of a snapshot is not known."""
    code = why.get(part) if isinstance(why, dict) else None
    return StaleReason(code) if code in StaleReason.values else StaleReason.NOT_THERE


@dataclass(frozen=True, slots=True)
class Asked:
    """A moment as it was typed. `at_ms` None: none was typed, or `error` says what is wrong with it."""

    text: str = ""
    at_ms: int | None = None
    error: str = ""

    @property
    def shown(self) -> str:
        """The text for its field: links have milliseconds, which nobody reads."""
        return shown_moment(self.text)


@dataclass(frozen=True, slots=True)
class Past:
    """The parts around a page: the field for the moment and, of a snapshot, the banner with its links."""

    asked: Asked
    #: parameters that the moment does not change
    kept: tuple[tuple[str, str], ...]
    moment: Moment | None = None
    #: what is kept, to choose a moment from
    sums: tuple[Sums, ...] = ()

    @property
    def is_on(self) -> bool:
        """Tell whether the page shows a snapshot, or would if there was one."""
        return bool(self.asked.text)

    @property
    def query(self) -> str:
        """The query with the moment as it was typed, for links within the page."""
        return urlencode({FIELD: self.asked.text})

    @property
    def now(self) -> str:
        """The query of the page in the present."""
        return f"?{urlencode(self.kept)}"

    @property
    def previous(self) -> str:
        """The query of the snapshot before; empty if there is none."""
        return self.to(self.moment.previous_ms if self.moment else None)

    @property
    def next(self) -> str:
        """The query of the snapshot after; empty if there is none."""
        return self.to(self.moment.next_ms if self.moment else None)

    @property
    def compare(self) -> str:
        """The query of the page that compares this moment with the present."""
        return urlencode({"from": self.moment.at_ms}) if self.moment and self.moment.at_ms is not None else ""

    @property
    def has_gap(self) -> bool:
        """Tell whether the snapshot is older than usual at the moment that was asked for."""
        gap_ms = self.moment.gap_ms if self.moment else None
        return gap_ms is not None and gap_ms > 2_000 * max(settings.SNAPSHOT_EVERY_S, 60)

    def to(self, at_ms: int | None) -> str:
        """Return the query of this page at another moment; empty without one."""
        return f"?{urlencode([*self.kept, (FIELD, at_ms)])}" if at_ms is not None else ""


def asked_of(request: HttpRequest, field: str = FIELD) -> Asked:
    """Read a moment of the address: absolute, a span such as -1h, or the last such time of day."""
    text = request.GET.get(field, "").strip()[:TEXT_LENGTH]
    if not text:
        return Asked()
    errors: dict[str, str] = {}
    zone: Any = get_current_timezone()
    moment = last_time_of_day(text, datetime.fromtimestamp(now_ms() / 1000, UTC).astimezone(zone))
    at_ms = bound_ms(text, field, errors, "back") if moment is None else round(moment.timestamp() * 1000)
    return Asked(text, at_ms, errors.get(field, ""))


def past_of(request: HttpRequest, asked: Asked, moment: Moment | None, *kept: str) -> Past:
    """Return what stands around a page; `kept` names parameters that its links keep."""
    kept_sums = sums() if asked.text else ()
    given = ((name, request.GET.get(name, "")[:255]) for name in kept)
    return Past(asked, tuple((name, text) for name, text in given if text), moment, kept_sums)


def status_of(*asked: Asked) -> int:
    """Return 422 if a moment cannot be read, else 200."""
    return 422 if any(each.error for each in asked) else 200


def last_time_of_day(text: str, now: datetime) -> datetime | None:
    """Return the last moment at which it was that time of day, such as 02:30; None for other texts."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    moment = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return moment if moment <= now else moment - timedelta(days=1)
