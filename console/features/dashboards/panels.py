"""What each dashboard shows: its panels, which series they draw and how."""

from __future__ import annotations

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
    """One sheet of a dashboard. ``by``: the column whose values are the bars. A quantile panel's series is a prefix."""

    title: str | Promise
    series: str
    kind: Kind
    unit: Unit = "count"
    by: Literal["topic", "label", "part"] = "topic"


TITLES: dict[str, str | Promise] = {
    "flow": _("Flow"),
    "lateness": _("Lateness"),
    "pending": _("Pending and forecast"),
    "cancellations": _("Cancellations"),
    "transactions": _("Transactions"),
    "retries": _("Retries"),
    "keys": _("Keys"),
    "storage": _("Storage"),
    "ledger": _("Ledger"),
}

ABOUT: dict[str, str | Promise] = {
    "flow": _("What is sent, released, committed and consumed, minute by minute, and who sends it."),
    "lateness": _("When messages were released against when they were due."),
    "pending": _("What fires when, from now to ten years."),
    "cancellations": _("How long before their moment messages are called back or moved, and how many are."),
    "transactions": _("How long producers take to decide, what they decide, how often they had to be asked."),
    "retries": _("How often groups need another try, how long that takes, and what never succeeds."),
    "keys": _("The busiest business keys, and the life of an order from its first message to its last."),
    "storage": _("What fills each segment, what holds it, and when it may go."),
    "ledger": _("Everything that was accepted is somewhere. What does not add up is an alarm."),
}

PANELS: dict[str, tuple[PanelSpec, ...]] = {
    "flow": (
        PanelSpec(_("Sent"), "sent", "time"),
        PanelSpec(_("Released"), "released", "time"),
        PanelSpec(_("Committed"), "committed", "time"),
        PanelSpec(_("Consumed, by group"), "consumed", "bars", by="label"),
        PanelSpec(_("Bytes of the log"), "bytes", "time", "bytes"),
        PanelSpec(_("Producers"), "producers", "bars", by="label"),
    ),
    "lateness": (
        PanelSpec(_("By level"), "late_", "quantiles", "ms"),
        PanelSpec(_("How late"), "histogram", "bars", by="part"),
        PanelSpec(_("p99 by hour and day"), "hour_p99", "heat", "ms"),
    ),
    "pending": (
        PanelSpec(_("How soon"), "pending", "bars", by="label"),
        PanelSpec(_("The next hour"), "minute", "time"),
        PanelSpec(_("The next two days"), "hour", "time"),
        PanelSpec(_("The next sixty days"), "day", "time"),
    ),
    "cancellations": (
        PanelSpec(_("What became of parked messages"), "fate", "bars", by="label"),
        PanelSpec(_("How long before their moment"), "before", "bars", by="part"),
        PanelSpec(_("Share of each topic"), "share", "rows", "share"),
    ),
    "transactions": (
        PanelSpec(_("Outcomes"), "outcome", "bars", by="part"),
        PanelSpec(_("Time to decide"), "decide_", "quantiles", "ms"),
        PanelSpec(_("Checks, by group"), "checks", "bars", by="label"),
        PanelSpec(_("Transactions by number of checks"), "checked", "bars", by="label"),
    ),
    "retries": (
        PanelSpec(_("Tries"), "attempts", "bars", by="part"),
        PanelSpec(_("Given up, by group"), "dead", "bars", by="label"),
        PanelSpec(_("From the first send to the latest try"), "again_", "quantiles", "ms"),
        PanelSpec(_("Poison keys"), "poison", "rows"),
    ),
    "keys": (
        PanelSpec(_("Keys that reach each topic"), "reach", "bars"),
        PanelSpec(_("Busiest keys"), "hot", "rows"),
        PanelSpec(_("Life of a key"), "life_", "quantiles", "ms"),
    ),
    "storage": (
        PanelSpec(_("What holds segments"), "held", "rows"),
        PanelSpec(_("Growth"), "growth", "time", "bytes"),
        PanelSpec(_("Bytes by topic"), "content", "bars", "bytes"),
        PanelSpec(_("When segments may go"), "expiry", "rows", "moment"),
    ),
    "ledger": (
        PanelSpec(_("Alarms"), "alarm", "rows"),
        PanelSpec(_("Accepted"), "accepted", "rows"),
        PanelSpec(_("Released"), "released", "rows"),
        PanelSpec(_("Pending"), "pending", "rows"),
        PanelSpec(_("Difference"), "difference", "rows"),
    ),
}
