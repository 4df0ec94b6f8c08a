"""Dashboards: which there are and what their pages show, their rows, and how their runs are started.

Spark itself runs in a process of its own (``spark/``). A new dashboard is a job in ``spark/jobs/``, its place in the
``JOBS`` there, and its place in ``DASHBOARDS`` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

#: time: bars by moment; bars: one bar a name; heat: hours by days; quantiles: p50 to max in a table; rows: a table
Kind = Literal["time", "bars", "heat", "quantiles", "rows"]
#: what a figure is: a number of messages, bytes, ms, a share of one, a moment
Unit = Literal["count", "bytes", "ms", "share", "moment"]


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """A sheet of a dashboard. ``by``: the column whose values are the bars. A quantile panel's series is a prefix.

    ``is_ahead``: it is about the time to come.
    """

    title: str | Promise
    series: str
    kind: Kind
    unit: Unit = "count"
    by: Literal["topic", "label", "part"] = "topic"
    is_ahead: bool = False

    @property
    def is_past(self) -> bool:
        """Tell whether it is a course that ends with what is newest."""
        return self.kind == "time" and not self.is_ahead


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard as its page shows it: title, text and panels."""

    title: str | Promise
    about: str | Promise
    panels: tuple[PanelSpec, ...]


#: The dashboards by the names of their jobs, in the order of the page.
DASHBOARDS: Mapping[str, Dashboard] = {
    "flow": Dashboard(
        _("Flow"),
        _("Messages sent, released, committed and consumed per minute, and their senders."),
        (
            PanelSpec(_("Sent"), "sent", "time"),
            PanelSpec(_("Released"), "released", "time"),
            PanelSpec(_("Committed"), "committed", "time"),
            PanelSpec(_("Consumed, by group"), "consumed", "bars", by="label"),
            PanelSpec(_("Bytes of the log"), "bytes", "time", "bytes"),
            PanelSpec(_("Producers"), "producers", "bars", by="label"),
        ),
    ),
    "lateness": Dashboard(
        _("Lateness"),
        _("Release time compared with due time."),
        (
            PanelSpec(_("By level"), "late_", "quantiles", "ms"),
            PanelSpec(_("Lateness distribution"), "histogram", "bars", by="part"),
            PanelSpec(_("p99 by hour and day"), "hour_p99", "heat", "ms"),
        ),
    ),
    "pending": Dashboard(
        _("Pending and forecast"),
        _("Pending messages by due time, up to ten years ahead."),
        (
            PanelSpec(_("Time until due"), "pending", "bars", by="label"),
            PanelSpec(_("The next hour"), "minute", "time", is_ahead=True),
            PanelSpec(_("The next two days"), "hour", "time", is_ahead=True),
            PanelSpec(_("The next sixty days"), "day", "time", is_ahead=True),
        ),
    ),
    "cancellations": Dashboard(
        _("Cancellations"),
        _("How many messages are cancelled or rescheduled, and how long before they are due."),
        (
            PanelSpec(_("Outcome of parked messages"), "fate", "bars", by="label"),
            PanelSpec(_("Time before due"), "before", "bars", by="part"),
            PanelSpec(_("Share of each topic"), "share", "rows", "share"),
        ),
    ),
    "transactions": Dashboard(
        _("Transactions"),
        _("How long producers take to decide, what they decide, and how many checks they need."),
        (
            PanelSpec(_("Outcomes"), "outcome", "bars", by="part"),
            PanelSpec(_("Time to decide"), "decide_", "quantiles", "ms"),
            PanelSpec(_("Checks, by group"), "checks", "bars", by="label"),
            PanelSpec(_("Transactions by number of checks"), "checked", "bars", by="label"),
        ),
    ),
    "retries": Dashboard(
        _("Retries"),
        _("How often groups retry, how long it takes, and which messages never succeed."),
        (
            PanelSpec(_("Retries"), "attempts", "bars", by="part"),
            PanelSpec(_("Dead-lettered, by group"), "dead", "bars", by="label"),
            PanelSpec(_("From first send to latest retry"), "again_", "quantiles", "ms"),
            PanelSpec(_("Poison keys"), "poison", "rows"),
        ),
    ),
    "keys": Dashboard(
        _("Keys"),
        _("The busiest business keys, and the lifecycle of an order from its first message to its last."),
        (
            PanelSpec(_("Keys per topic"), "reach", "bars"),
            PanelSpec(_("Busiest keys"), "hot", "rows"),
            PanelSpec(_("Lifecycle of a key"), "life_", "quantiles", "ms"),
        ),
    ),
    "storage": Dashboard(
        _("Storage"),
        _("Contents of each segment, what retains it, and when it can be deleted."),
        (
            PanelSpec(_("What retains segments"), "held", "rows"),
            PanelSpec(_("Growth"), "growth", "time", "bytes"),
            PanelSpec(_("Bytes by topic"), "content", "bars", "bytes"),
            PanelSpec(_("When segments can be deleted"), "expiry", "rows", "moment"),
        ),
    ),
    "ledger": Dashboard(
        _("Ledger"),
        _("Every accepted message is accounted for. A difference raises an alarm."),
        (
            PanelSpec(_("Alarms"), "alarm", "rows"),
            PanelSpec(_("Accepted"), "accepted", "rows"),
            PanelSpec(_("Released"), "released", "rows"),
            PanelSpec(_("Pending"), "pending", "rows"),
            PanelSpec(_("Difference"), "difference", "rows"),
        ),
    ),
}
