"""The evidence for a number: its source, its age and whether it is exact. Every shape the pages read carries one."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class StaleReason(TextChoices):
    """The reasons why a page is not current; the value is a stable code, the label a sentence part for people."""

    MIRROR_EMPTY = "mirror-empty", _("the mirror has not read the broker yet")
    MIRROR_BEHIND = "mirror-behind", _("the mirror is behind")
    BROKER_UNREACHABLE = "broker-unreachable", _("the broker cannot be reached")
    BROKER_SLOW = "broker-slow", _("the broker did not answer in time")
    BROKER_REFUSED = "broker-refused", _("the broker refused to answer")
    NOT_SUPPORTED = "not-supported", _("the broker does not know this request")
    NOT_THERE = "not-there", _("the broker has no such thing")
    REDIS_UNREACHABLE = "redis-unreachable", _("the Redis server cannot be reached")
    REDIS_REFUSED = "redis-refused", _("the Redis server refused to answer")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The provenance of one sheet. `as_of_ms` None: nothing was ever read. `stale_reason` None: current."""

    #: who said it: a broker's name, or "mirror of broker-a"
    source: str
    #: epoch ms of the broker's answer (not of the reading here)
    as_of_ms: int | None
    #: False: interpolated or estimated
    exact: bool
    stale_reason: StaleReason | None = None
    #: request codes that were asked, for the line at the upper right
    requests: tuple[int, ...] = ()
    #: the error's own words, when there was one (escape it)
    detail: str = ""

    @property
    def stale(self) -> bool:
        """True when the page must say that it does not show the present."""
        return self.stale_reason is not None
