"""Rules that most installations want, with thresholds to begin with: each is a form that is filled in already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.alerts import units
from console.features.alerts.models import AlertRule
from console.operations.kind import Words

What = AlertRule.What


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A rule to begin with. `name` is a stable code; the limit is in the unit of what is watched."""

    name: str
    what: AlertRule.What
    limit: float
    for_s: int
    title: Words
    why: Words

    @property
    def settings(self) -> Mapping[str, str | float | int]:
        """The settings that a form is filled in with."""
        return {"name": str(self.title), "what": str(self.what), "limit": self.limit, "for_s": self.for_s}

    @property
    def condition(self) -> str:
        """When it would fire, in words."""
        limit = units.in_words(self.what, self.limit)
        if not self.for_s:
            return gettext("above %(limit)s") % {"limit": limit}
        return gettext("above %(limit)s for %(span)s") % {"limit": limit, "span": units.span_text(self.for_s * 1_000)}


SUGGESTIONS: Mapping[str, Suggestion] = {
    each.name: each
    for each in (
        Suggestion(
            "broker-away", What.BROKER_DOWN, 30, 0, _("Broker away"),
            _("Half a minute outlasts a restart and a lost connection; nothing is sent or released meanwhile."),
        ),
        Suggestion(
            "late-releases", What.LANE_LATE, 5_000, 60, _("Late releases"),
            _("A delay level releases within milliseconds; 5 s behind for a minute is no single burst any more."),
        ),
        Suggestion(
            "late-timers", What.LATENESS, 1_000, 60, _("Late timers"),
            _("Timers fire within milliseconds; a second late at p99 for a minute means the broker is behind."),
        ),
        Suggestion(
            "group-lag", What.BACKLOG, 10_000, 300, _("Lag of a group"),
            _("A healthy group is done with a burst in minutes; one that is not needs more or quicker consumers."),
        ),
        Suggestion(
            "dead-letters", What.DEAD_LETTERS, 10, 0, _("Dead letters grow"),
            _("Each used up all of its retries: more than 10 within 5 min is a fault, not one bad message."),
        ),
        Suggestion(
            "halves-in-doubt", What.HALF_AGE, 600, 60, _("Half messages in doubt"),
            _("Checks settle a half message within minutes; after 10 min its producer does not respond."),
        ),
        Suggestion(
            "disk-fills", What.DISK_USED, 80, 300, _("Disk fills"),
            _("At 90 % the broker refuses sends; 80 % leaves time to make room."),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offer:
    """A suggestion, and whether a rule on the same metric is there already."""

    suggestion: Suggestion
    is_there: bool


def offered(watched: Collection[str]) -> Sequence[Offer]:
    """Return all suggestions; `watched` is what the rules that there are watch."""
    return [Offer(each, each.what in watched) for each in SUGGESTIONS.values()]
