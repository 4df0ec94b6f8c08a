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
    """A sheet of a dashboard. ``by``: the column whose values are the bars. A quantile panel's series is a prefix."""

    title: str | Promise
    series: str
    kind: Kind
    unit: Unit = "count"
    by: Literal["topic", "label", "part"] = "topic"


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
        _("What is sent, released, committed and consumed, minute by minute, and who sends it."),
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
        _("When messages were released against when they were due."),
        (
            PanelSpec(_("By level"), "late_", "quantiles", "ms"),
            PanelSpec(_("How late"), "histogram", "bars", by="part"),
            PanelSpec(_("p99 by hour and day"), "hour_p99", "heat", "ms"),
        ),
    ),
    "pending": Dashboard(
        _("Pending and forecast"),
        _("What fires when, from now to ten years."),
        (
            PanelSpec(_("How soon"), "pending", "bars", by="label"),
            PanelSpec(_("The next hour"), "minute", "time"),
            PanelSpec(_("The next two days"), "hour", "time"),
            PanelSpec(_("The next sixty days"), "day", "time"),
        ),
    ),
    "cancellations": Dashboard(
        _("Cancellations"),
        _("How long before their moment messages are called back or moved, and how many are."),
        (
            PanelSpec(_("What became of parked messages"), "fate", "bars", by="label"),
            PanelSpec(_("How long before their moment"), "before", "bars", by="part"),
            PanelSpec(_("Share of each topic"), "share", "rows", "share"),
        ),
    ),
    "transactions": Dashboard(
        _("Transactions"),
        _("How long producers take to decide, what they decide, how often they had to be asked."),
        (
            PanelSpec(_("Outcomes"), "outcome", "bars", by="part"),
            PanelSpec(_("Time to decide"), "decide_", "quantiles", "ms"),
            PanelSpec(_("Checks, by group"), "checks", "bars", by="label"),
            PanelSpec(_("Transactions by number of checks"), "checked", "bars", by="label"),
        ),
    ),
    "retries": Dashboard(
        _("Retries"),
        _("How often groups need another try, how long that takes, and what never succeeds."),
        (
            PanelSpec(_("Tries"), "attempts", "bars", by="part"),
            PanelSpec(_("Given up, by group"), "dead", "bars", by="label"),
            PanelSpec(_("From the first send to the latest try"), "again_", "quantiles", "ms"),
            PanelSpec(_("Poison keys"), "poison", "rows"),
        ),
    ),
    "keys": Dashboard(
        _("Keys"),
        _("The busiest business keys, and the life of an order from its first message to its last."),
        (
            PanelSpec(_("Keys that reach each topic"), "reach", "bars"),
            PanelSpec(_("Busiest keys"), "hot", "rows"),
            PanelSpec(_("Life of a key"), "life_", "quantiles", "ms"),
        ),
    ),
    "storage": Dashboard(
        _("Storage"),
        _("What fills each segment, what holds it, and when it may go."),
        (
            PanelSpec(_("What holds segments"), "held", "rows"),
            PanelSpec(_("Growth"), "growth", "time", "bytes"),
            PanelSpec(_("Bytes by topic"), "content", "bars", "bytes"),
            PanelSpec(_("When segments may go"), "expiry", "rows", "moment"),
        ),
    ),
    "ledger": Dashboard(
        _("Ledger"),
        _("Everything that was accepted is somewhere. What does not add up is an alarm."),
        (
            PanelSpec(_("Alarms"), "alarm", "rows"),
            PanelSpec(_("Accepted"), "accepted", "rows"),
            PanelSpec(_("Released"), "released", "rows"),
            PanelSpec(_("Pending"), "pending", "rows"),
            PanelSpec(_("Difference"), "difference", "rows"),
        ),
    ),
}
