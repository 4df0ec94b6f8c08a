"""Moving timers that wait at one broker to another one, which delivers them at the same moments (moving.py).

    {"filter": {"topic": "orders"}, "to": "broker-b"}       or "targets", as for every operation on timers

Of more than LIMIT those that are due first are moved; done again, the following ones. What is due too soon to be moved
safely is left to its broker. Every timer that was chosen has one outcome, and the counts add up at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import Http404, QueryDict
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, ClientError
from console.features.timers.moving import Move, check_source, leaves_ms
from console.features.timers.operations import OVER, SteerTimers, TimersPreview, label_of
from console.features.timers.selection import Found, busiest, capacity_of
from console.features.timers.shapes import TimerRow
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import LIMIT, Call, ItemNow, ItemResult, Outcome, Target
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.operations.selection import EXAMPLES, PREVIEW_PATIENCE_S, admin_of_one, topics_of
from console.operations.spanning import shares_of
from console.site import broker as site_broker
from console.site.broker import address_at, at
from console.site.chosen import Choice, chosen
from console.site.clock import now_ms

#: outcomes of timers that wait at the other broker, and of those that their own broker has or had
MOVED = ("moved", "recall_noted")


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePreview(TimersPreview):
    """The timers that would be moved; the figures of the busiest second are those of the other broker."""

    to: str = ""
    #: due so soon that they are left to their broker, and how soon that is
    left_count: int = 0
    left_ms: int = 0
    #: topics that the other broker does not have: their timers are refused there
    topics_missing: list[str] = field(default_factory=list)


@register
class MoveTimers(SteerTimers):
    """The operation that moves timers to another broker, with their content, ids and moments."""

    name = "timers.move_to_broker"
    title, verb = _("Move timers to another broker"), ngettext_lazy("Move timer", "Move timers", "count")
    effect = _("They wait at the other broker and fire there at the same times. They can be moved back the same way.")
    outcomes = {
        **OVER,
        "moved": Outcome(_("moved")),
        "recall_noted": Outcome(_("recall accepted")),
        "left": Outcome(_("due too soon: left here"), "idle"),
        "key_taken": Outcome(_("another message has its schedule key"), "look"),
        "changed_since": Outcome(_("changed since"), "look"),
        "twice": Outcome(_("fired at both brokers"), "look", is_unsure=True),
    }
    preview_type = MovePreview
    preview_template = "timers/move_preview.html"
    is_repeatable = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selection, the broker that they are moved to, and the one where they wait."""
        checked, to = super().checked(parameters), parameters.get("to")
        if not isinstance(to, str) or not to:
            raise InvalidParameter("to", gettext("Choose the broker to move them to."))
        if "" not in shares_of(checked):
            raise NotPossible(gettext("There are several brokers: choose one for this operation."))
        source = Choice(chosen().entry, admin_of_one().asked().name).name
        if to == source:
            raise InvalidParameter("to", gettext("They are at this broker already: choose another one."))
        try:
            with at(to):
                site_broker.admin().asked()
        except (ClientError, Http404) as error:
            text = gettext("The broker %(broker)s does not respond: %(error)s")
            raise InvalidParameter("to", text % {"broker": to[:255], "error": error}) from None
        return {**checked, "to": to, "from": source}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the rows that were selected, or the filter, and the broker that was chosen."""
        return {**super().from_form(given), "to": given.get("to", "")}

    def preview(self, parameters: Mapping[str, Any]) -> MovePreview:
        """Count them, and how busy the other broker would be."""
        admin = admin_of_one()
        check_source(admin)
        found, rows = self._chosen(admin, parameters, PREVIEW_PATIENCE_S)
        soon_ms = now_ms() + leaves_ms()
        ahead = [row for row in rows if row.due_ms > soon_ms]
        dues = [row.due_ms for row in ahead]
        with at(parameters["to"]):
            there = site_broker.admin()
            capacity = capacity_of(there)
            load = busiest(there, (), dues, capacity)
            missing = sorted(topic for topic in {row.topic for row in ahead} if there.topic_settings(topic) is None)
        gaps = {"capacity": capacity is None, "count": not found.is_whole, "polled": found.is_polled}
        return MovePreview(
            at_ms=found.now_ms,
            count=len(ahead),
            examples=[label_of(row) for row in ahead[:EXAMPLES]],
            topics=topics_of([row.topic for row in ahead]),
            first_due_ms=min(dues, default=None),
            last_due_ms=max(dues, default=None),
            capacity_per_s=capacity,
            met_count=load.met_count if load else None,
            last_late_ms=load.late_ms if load else None,
            busiest_ms=load.ms if load else None,
            busiest_count=load.count if load else None,
            to=parameters["to"],
            left_count=len(rows) - len(ahead),
            left_ms=leaves_ms(),
            topics_missing=missing,
            missing=[code for code, is_missing in gaps.items() if is_missing],
        )

    def targets(self, parameters: Mapping[str, Any], preview: TimersPreview) -> Sequence[Target]:
        """Return what matches now and was there when it was previewed; what became due soon has that outcome."""
        _found, rows = self._chosen(admin_of_one(), parameters, None)
        there = [row for row in rows if row.store_ms is None or row.store_ms <= preview.at_ms]
        soon_ms = preview.at_ms + leaves_ms()
        return [
            Target({"position": row.position, "topic": row.topic, "dueMs": row.due_ms}, label_of(row))
            for row in there
            if row.due_ms > soon_ms
        ]

    def _chosen(
        self, admin: Admin, parameters: Mapping[str, Any], patience_s: float | None
    ) -> tuple[Found, list[TimerRow]]:
        """Return the first of them, by their moments."""
        found = self._find(admin, parameters, patience_s)
        return found, found.rows[:LIMIT]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Have a copy of each wait at the other broker, then cancel it here."""
        return Move(parameters["from"], parameters["to"], reason).all_of(targets)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return which timers were chosen, and where they go."""
        text = gettext("%(timers)s, to %(broker)s")
        return text % {"timers": super().selection(parameters), "broker": parameters["to"]}

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the page of a timer at the other broker."""
        told = item.result
        if item.outcome not in MOVED or "broker" not in told:
            return super().item_now(item)
        return ItemNow(told["due_ms"], address=address_at(told["broker"], "timer", told["position"]))

    @property
    def rest_path(self) -> str:
        """The address of the call that moves them."""
        return "timers:move-to-broker"

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that moves them."""
        method, path, body = super().rest_call(parameters)
        return method, path, {**(body or {}), "to": parameters["to"]}

    def told(self, row: Operation) -> dict[str, Any] | None:
        """Return the ledger: of all that were chosen, what became of each, and how many are not begun with."""
        return ledger(row.total or 0, row.results)


#: by the parts of the ledger: outcomes of its timers
_LEDGER: Mapping[str, tuple[str, ...]] = {
    "moved": MOVED,
    "released_here": ("already_delivered", "gone"),
    "cancelled_here": ("already_cancelled",),
    "still_here": ("left", "key_taken", "changed_since", "refused"),
    "fired_twice": ("twice",),
    "unknown": ("unknown",),
}


def ledger(total: int, results: Mapping[str, int]) -> dict[str, Any]:
    """Return how many were chosen, what became of them, and how many are `open`: not begun with. They add up."""
    parts = {name: sum(results.get(code, 0) for code in codes) for name, codes in _LEDGER.items()}
    return {"chosen": total, **parts, "open": total - sum(results.values())}
