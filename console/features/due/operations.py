"""Have brokers measure how fast they release: a process of each tries for a moment, beside what it serves.

    {}                                        the broker that is chosen, or the only one
    {"brokers": ["broker-a", "broker-b"]}     each of several

A broker measures by itself where nothing was measured yet; this is for another machine, another disk, another setting.
An Apache RocketMQ broker has no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import BrokerRefused, ClientError, NotSupported
from console.features.due.shapes import Measured
from console.operations.actor import CHANGE_SETTINGS
from console.operations.kind import REASON, Call, ItemNow, ItemResult, Kind, Outcome, Preview, Target
from console.operations.models import OperationItem
from console.operations.registry import register
from console.site.broker import admin, asked_of, at, tell_each
from console.site.clock import now_ms
from console.site.mirrored import cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePreview(Preview):
    """The figures that there are before it is measured."""

    #: [broker, a second (None: never measured), how, when, why it does not tell]
    figures: list[list[Any]] = field(default_factory=list)


@register
class MeasureReleases(Kind[MeasurePreview]):
    """Measure now how fast timers are released."""

    name, permission = "due.measure", CHANGE_SETTINGS
    page = "due"
    leave_words = _("Open due times")
    title, verb = _("Measure what can be released"), _("Measure now")
    effect = _(
        "A separate process of the broker releases some thousand timers of its own, for about two seconds. No message "
        "is touched; the new figure takes the place of the one before."
    )
    outcomes = {"measured": Outcome(_("measured"))}
    is_repeatable = True
    preview_type = MeasurePreview
    preview_template = "due/measure_preview.html"
    has_figures = False

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the brokers that measure, where there are several and none is chosen; else nothing."""
        names = asked_of(cluster())
        return {} if names == [""] else {"brokers": names}

    def preview(self, parameters: Mapping[str, Any]) -> MeasurePreview:
        """Return the figures that there are; raises ClientError if no broker tells."""
        told, only = tell_each(lambda one: one.timer_status(), _brokers_of(parameters)), "".join(cluster().names[:1])
        figures: list[list[Any]] = []
        for each in told:
            status = each.answer
            if status is None:
                figures.append([each.broker or only, None, None, None, _why(each.error)])
                continue
            how = status.capacity_how if status.capacity_how in Measured.values else None
            figures.append([each.broker or only, status.capacity_per_s, how, status.capacity_at_ms, ""])
        return MeasurePreview(at_ms=now_ms(), count=len(told), figures=figures)

    def targets(self, parameters: Mapping[str, Any], preview: MeasurePreview) -> Sequence[Target]:
        """Return the broker itself as the one target, or each of them."""
        return [
            Target({"broker": name}, {"name": name}) if name else Target({}, {}) for name in _brokers_of(parameters)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Have one after another measure: brokers of one machine would share it."""
        return [_measured(target.get("broker", "")) for target in targets]

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return whose releases are measured."""
        if "brokers" in parameters:
            return gettext("releases of %(brokers)s") % {"brokers": ", ".join(parameters["brokers"])}
        return gettext("releases of the broker")

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return what was measured, or why nothing was."""
        per_s = item.result.get("capacity_per_s")
        return ItemNow(text=f"{per_s:,.0f}/s") if per_s else super().item_now(item)

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that measures."""
        return "POST", "due:measure", dict(REASON)


def _brokers_of(parameters: Mapping[str, Any]) -> list[str]:
    names: list[str] = parameters.get("brokers", [""])
    return names


def _measured(broker: str) -> ItemResult:
    try:
        with at(broker):
            found = admin().measure_releases()
    except ClientError as error:
        return ItemResult("refused" if isinstance(error, BrokerRefused) else "unknown", {"error": _why(error)})
    return ItemResult("measured", {"capacity_per_s": found.capacity_per_s})


def _why(error: ClientError | None) -> str:
    return "not-supported" if isinstance(error, NotSupported) else str(error or "")
