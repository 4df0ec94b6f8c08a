"""The evidence for a number: its source, its age and whether it is exact. Every shape the pages read carries one."""

from __future__ import annotations

from collections.abc import Sequence
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
    NOT_SUPPORTED = "not-supported", _("the broker does not support this request")
    NOT_THERE = "not-there", _("not found on the broker")
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
    #: of several brokers those that are not current; empty where there is one
    stale_of: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """True when the page must say that it does not show the present."""
        return self.stale_reason is not None

    @property
    def is_wrong(self) -> bool:
        """Tell whether something is amiss: what a broker cannot tell, or does not have, is neither."""
        return self.stale_reason not in (None, StaleReason.NOT_SUPPORTED, StaleReason.NOT_THERE)


def joined(source: str, several: Sequence[Evidence]) -> Evidence:
    """Return the evidence of figures that are made of several brokers': as old as the oldest of those that answer.

    Those that are not current are named in `stale_of`: their part of the figures is what was known last.
    """
    if len(several) == 1:
        return several[0]
    stale = [each for each in several if each.stale]
    times = [each.as_of_ms for each in several if each.as_of_ms is not None and not each.stale]
    times = times or [each.as_of_ms for each in several if each.as_of_ms is not None]
    return Evidence(
        source,
        min(times, default=None),
        all(each.exact for each in several),
        stale[0].stale_reason if stale else None,
        tuple(dict.fromkeys(code for each in several for code in each.requests)),
        "; ".join(f"{each.source}: {each.detail}" for each in stale if each.detail),
        tuple(each.source for each in stale),
    )
