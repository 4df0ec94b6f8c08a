"""Looking back: what the pages showed at earlier moments, and the moment in `as_of`.

A snapshot is a row, one a moment. Each part is packed by itself, as MessagePack, compressed, so that a page reads only
its own part; the features say which shape each has. A field that is added to a shape later needs a default, which it
has when an older snapshot is read; one that is gone is left out.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from django.conf import settings
from django.db import models
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.operations.typed_moments import bound_ms
from console.security.topic_scope import TopicScope, authorised
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import mirrored

Shape = TypeVar("Shape")

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
    #: console.features.timers.pages.TimersKept
    timers = models.BinaryField(null=True)
    #: console.features.transactions.shapes.TransactionFigures
    transactions = models.BinaryField(null=True)
    #: console.features.groups.pages.GroupsKept
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
    """Find the last snapshot of the broker that was taken at the moment or before."""
    name = mirrored().name
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


def part_at(asked_ms: int, part: str, kind: type[Shape]) -> tuple[Moment, Shape | None]:
    """Return one part of the snapshot for a moment, None if it is not known."""
    moment = moment_of(asked_ms)
    if moment.at_ms is None:
        return moment, None
    packed, why = columns_at(moment.at_ms, part, "why")
    if packed is None:
        return replace(moment, why=reason_of(why, part)), None
    return replace(moment, is_known=True), opened(kind, bytes(packed))


@authorised
def sums(scope: TopicScope, most: int = 240) -> tuple[Sums, ...]:
    """Return sums over all that is kept, at most so many moments evenly apart; the lag of all groups is for those who
    see all."""
    rows = Snapshot.objects.filter(broker=mirrored().name).order_by("at_ms")
    found = [Sums(*row) for row in rows.values_list("at_ms", "lanes_pending", "timers_pending", "lag")]
    step = max(1, -(-len(found) // most))
    chosen = found[::-step][::-1]
    return tuple(chosen if scope.see_all else (replace(row, lag=None) for row in chosen))


def evidence_of(moment: Moment) -> Evidence:
    """Return the evidence of a snapshot's figures; how old they were is not told beside a moment that is past."""
    return Evidence(_("snapshot of %(broker)s") % {"broker": moment.broker}, None, True, moment.why)


@lru_cache(maxsize=16)
def _opened_before(kind: type[Any], packed: bytes) -> Any:
    """Unpack bytes, or return the frozen shapes of the same bytes; who may see what of them is decided by the
    caller."""
    return unpack(kind, packed)


def opened(kind: type[Shape], packed: bytes) -> Shape:
    """Return the shape that was packed, frozen: it may be shared with others who look at the same moment."""
    key: Any = kind
    found: Shape = _opened_before(key, packed)
    return found


def columns_at(at_ms: int, *names: str) -> tuple[Any, ...]:
    """Return these columns of a snapshot, the last of which is `why`."""
    rows = Snapshot.objects.filter(broker=mirrored().name, at_ms=at_ms).order_by("slot_ms")
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
    at_ms = bound_ms(text, field, errors) if moment is None else round(moment.timestamp() * 1000)
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
