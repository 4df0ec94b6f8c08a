"""Looking back: the moment that `as_of` in an address names, and what stands around a page of a snapshot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.timezone import get_current_timezone

from console.operations.typed_moments import bound_ms
from console.site.clock import now_ms
from console.ui.snapshots.page_shapes import Moment, Sums
from console.ui.snapshots.reader import sums

FIELD = "as_of"
TEXT_LENGTH = 64
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


@dataclass(frozen=True, slots=True)
class Asked:
    """A moment as it was typed; `at_ms` None: none was, or `error` says what is wrong with it."""

    text: str = ""
    at_ms: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What stands around a page: the field for the moment and, of a snapshot, the banner with its links."""

    asked: Asked
    #: parameters that the moment does not change
    kept: tuple[tuple[str, str], ...]
    moment: Moment | None = None
    #: what is kept, to choose a moment from
    sums: tuple[Sums, ...] = ()

    @property
    def is_on(self) -> bool:
        """The page shows a snapshot, or would if there was one."""
        return bool(self.asked.text)

    @property
    def query(self) -> str:
        """The moment as it was asked for, for links within the page."""
        return urlencode({FIELD: self.asked.text})

    @property
    def now(self) -> str:
        """Back to the present."""
        return f"?{urlencode(self.kept)}"

    @property
    def previous(self) -> str:
        """The snapshot before; empty: there is none."""
        return self.to(self.moment.previous_ms if self.moment else None)

    @property
    def next(self) -> str:
        """The snapshot behind."""
        return self.to(self.moment.next_ms if self.moment else None)

    @property
    def compare(self) -> str:
        """What the page that compares this moment with the present is asked for."""
        return urlencode({"from": self.moment.at_ms}) if self.moment and self.moment.at_ms is not None else ""

    @property
    def has_gap(self) -> bool:
        """Nothing was kept for longer than usual before the moment."""
        gap_ms = self.moment.gap_ms if self.moment else None
        return gap_ms is not None and gap_ms > 2_000 * max(settings.SNAPSHOT_EVERY_S, 60)

    def to(self, at_ms: int | None) -> str:
        """The same page at another moment."""
        return f"?{urlencode([*self.kept, (FIELD, at_ms)])}" if at_ms is not None else ""


def asked_of(request: HttpRequest, field: str = FIELD) -> Asked:
    """A moment of the address: absolute, a span such as -1h, or a time of day that was last."""
    text = request.GET.get(field, "").strip()[:TEXT_LENGTH]
    if not text:
        return Asked()
    errors: dict[str, str] = {}
    zone: Any = get_current_timezone()
    moment = last_time_of_day(text, datetime.fromtimestamp(now_ms() / 1000, UTC).astimezone(zone))
    at_ms = bound_ms(text, field, errors) if moment is None else round(moment.timestamp() * 1000)
    return Asked(text, at_ms, errors.get(field, ""))


def past_of(request: HttpRequest, asked: Asked, moment: Moment | None, *kept: str) -> Past:
    """What stands around a page; `kept` names parameters that go along."""
    kept_sums = sums() if asked.text else ()
    given = ((name, request.GET.get(name, "")[:255]) for name in kept)
    return Past(asked, tuple((name, text) for name, text in given if text), moment, kept_sums)


def status_of(*asked: Asked) -> int:
    """422 where a moment is none."""
    return 422 if any(each.error for each in asked) else 200


def last_time_of_day(text: str, now: datetime) -> datetime | None:
    """02:30 is the last time that it was half past two; None for what is no time of day."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    moment = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return moment if moment <= now else moment - timedelta(days=1)
