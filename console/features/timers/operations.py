"""Cancel, move and deliver timers: the named ones, or all that match a filter, on either kind of broker.

`Operation.parameters` says which:

    {"targets": [{"position": 4711}, {"topic": "orders", "scheduleKey": "order-4711"}, ...]}
    {"filter": {"topic": "orders", "key": "", "from_ms": 1795247527000, "to_ms": None}, "is_all": False}

With a `broker` in each target, or `brokers` beside the filter, they are those of several (operations/spanning.py).
An empty filter means every timer and must be asked for by `is_all`. An Apache RocketMQ broker takes request 370 with a
handle made from the parked message; it notes the wish and does not say what became of it, so the outcome there is
`recall_noted`, never `cancelled`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any, ClassVar, TypeVar

from django.http import QueryDict
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, ClientError, NotSupported
from broker.client.timers import Action, Steered, TimerStatus
from console.features.timers import selection
from console.features.timers.apache_records import recall
from console.features.timers.read import brokers_of_key, target_of
from console.features.timers.selection import (
    Found,
    Load,
    at_once,
    busiest,
    capacity_of,
    checked_selection,
    filter_of,
    find_named,
    find_timers,
)
from console.features.timers.shapes import TimerRow
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, Scope
from console.operations.catch_up import Behind, behind_after, in_words, lag_of_topics
from console.operations.kind import (
    LIMIT,
    REASON,
    Call,
    Command,
    ItemNow,
    ItemResult,
    Kind,
    Outcome,
    Target,
    Undo,
    Words,
    renamed,
)
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.operations.selection import (
    EXAMPLES,
    PREVIEW_PATIENCE_S,
    TOPICS,
    chosen_body,
    chosen_scope,
    count_of,
    there_before,
    topics_of,
)
from console.operations.spanning import (
    OF,
    BrokersPreview,
    act_at_each,
    among,
    checked_brokers,
    counted,
    find_at_each,
    look_at_each,
    previewed,
    shares_of,
    totals,
)
from console.operations.typed_moments import checked_move
from console.site import broker as site_broker
from console.site.broker import address_at, asked_of, at, tell_each
from console.site.mirrored import cluster
from console.site.parsing import whole_number

#: names of a filter's fields here and in REST
_FILTER = {"topic": "topic", "key": "key", "from_ms": "due_from", "to_ms": "due_before"}
_MOVED = {"due_ms": "deliver_at", "shift_ms": "shift_ms"}
#: outcomes of timers that wait no more
OVER: Mapping[str, Outcome] = {
    "already_cancelled": Outcome(_("already cancelled"), "idle"),
    "already_delivered": Outcome(_("already delivered"), "idle"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersPreview(BrokersPreview):
    """The timers that would be touched, and how busy the broker would be with releasing them."""

    first_due_ms: int | None = None
    last_due_ms: int | None = None
    #: measured release rate; None: not known
    capacity_per_s: float | None = None
    #: of what is moved: due already in the busiest second; of what fires at once: overdue besides
    met_count: int | None = None
    #: of what fires at once: due besides, until all of it is out
    also_due: int | None = None
    #: the end of the busiest second that there would be, and how many would be due in it
    busiest_ms: int | None = None
    busiest_count: int | None = None
    #: how late the last one would be
    last_late_ms: int | None = None


OfTimers = TypeVar("OfTimers", bound=TimersPreview)


class TimerKind(Kind[OfTimers]):
    """An operation on timers: where it stands, and which template shows its preview."""

    page, list_page = "timers", "timer_list"
    names_messages = True
    preview_type = TimersPreview
    preview_template = "timers/operation_preview.html"
    #: it fires at once, so groups get it at once
    is_at_once: ClassVar[bool] = False

    def preview_of_one(self, at_ms: int, label: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a preview of one timer, with its moment."""
        due_ms = label.get("due_ms")
        return super().preview_of_one(at_ms, label) | {"first_due_ms": due_ms, "last_due_ms": due_ms}


class SteerTimers(TimerKind[TimersPreview]):
    """Cancelling, moving and delivering timers: one action of the broker on each that is chosen."""

    permission = STEER_TIMERS
    action: ClassVar[Action]
    #: a command of the palette for the timers with a key, in words
    key_label: ClassVar[Words] = ""
    #: field of an item's result with its moment before
    previous: ClassVar[str] = "due_ms"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selection alone."""
        return checked_brokers(parameters, checked_selection(parameters))

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the rows that were selected, or the filter that they were found by."""
        if given.get("scope") == "matching":
            bounds = {name: whole_number(given.get(name)) for name in ("from_ms", "to_ms")}
            wanted = {"topic": given.get("topic", ""), "key": given.get("key", ""), **bounds}
            return {"filter": wanted, "is_all": given.get("is_all") == "1", **among()}
        places = [_place(text) for text in given.getlist("position")]
        return {"targets": [place for place in places if place is not None]}

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for the timers with a key; what follows the key is the reason."""
        key, _blank, reason = rest.partition(" ")
        label = str(self.key_label) % {"key": key}
        wanted = {"filter": {"topic": "", "key": key}}
        text = f"{verb} {rest}"
        yield Command(
            text, label, self.name, self.permission, lambda: wanted, reason.strip(), brokers=lambda: brokers_of_key(key)
        )

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topics of the chosen timers, or the topic of the filter."""
        return chosen_scope(parameters, preview)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return how many were chosen, or by which filter."""
        if "targets" in parameters:
            count = len(parameters["targets"])
            return ngettext("%(count)s selected timer", "%(count)s selected timers", count) % {"count": f"{count:,}"}
        wanted: dict[str, Any] = parameters["filter"]
        if not any(wanted.values()):
            return gettext("all pending timers")
        return gettext("all matching: %(filter)s") % {"filter": filter_of(wanted).words}

    @property
    def rest_path(self) -> str:
        """The address of the call for many timers, behind /api/v1/."""
        return f"timers:{self.action.replace('_', '-')}"

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call of the action on many timers."""
        body = chosen_body("timers", parameters, _FILTER)
        return "POST", self.rest_path, {**body, **renamed(parameters, _MOVED), **REASON}

    def undo_of(self, row: Operation) -> Undo | None:
        """Return how many can be taken back while their moments are ahead."""
        return selection.undo_of(row, self.undone_outcomes, self.previous) if self.undone_by else None

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return all of it, or the one item that the form names."""
        item = whole_number(given.get("item"))
        return {"operation": str(row.pk), **({} if item is None else {"items": [item]})}

    def taken_back(self, row: Operation, items: Sequence[OperationItem]) -> Mapping[int, OperationItem]:
        """Return what took back each item."""
        return selection.taken_back(row, items) if self.undone_by else {}

    def preview(self, parameters: Mapping[str, Any]) -> TimersPreview:
        """Count them, with examples, topics, and what each broker will have to release at once."""
        shares = shares_of(parameters)
        told = look_at_each(shares, lambda admin, share: self._find(admin, share, PREVIEW_PATIENCE_S))
        parts: dict[str, TimersPreview] = {}
        for each in told:
            if each.answer is not None:
                with at(each.broker):
                    parts[each.broker] = self._preview(site_broker.admin(), shares[each.broker], each.answer)
        if "" in shares:
            return parts[""]
        return replace(together(parts), brokers=counted(shares, parts, told))

    def _preview(self, admin: Admin, parameters: Mapping[str, Any], found: Found) -> TimersPreview:
        """Return the preview of what was found at one broker."""
        rows, count = found.rows, count_of(parameters, found.rows)
        capacity = capacity_of(admin)
        load = self.load(admin, parameters, rows, capacity)
        behind = self.behind(admin, rows)
        gaps = {"capacity": capacity is None, "count": not found.is_whole, "polled": found.is_polled}
        return TimersPreview(
            at_ms=found.now_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of([row.topic for row in rows]),
            first_due_ms=min((row.due_ms for row in rows), default=None),
            last_due_ms=max((row.due_ms for row in rows), default=None),
            capacity_per_s=capacity,
            met_count=load.met_count if load else None,
            last_late_ms=load.late_ms if load else None,
            busiest_ms=load.ms if load else None,
            busiest_count=load.count if load else None,
            also_due=load.also_due if load else None,
            missing=[code for code, is_missing in gaps.items() if is_missing],
            **(behind.as_fields() if behind else {}),
        )

    def targets(self, parameters: Mapping[str, Any], preview: TimersPreview) -> Sequence[Target]:
        """Return what matches now and was there when it was previewed; a named one stays, whatever became of it."""

        def targets_of(found: Found, share: Mapping[str, Any]) -> list[Target]:
            if "filter" in share:
                rows = there_before(found.rows, preview)
                return [self._target({"position": row.position}, row, share) for row in rows]
            named = zip(share["targets"], found.named, strict=True)
            return [self._target(target, row, share) for target, row in named]

        shares = previewed(shares_of(parameters), preview)
        return find_at_each(shares, lambda admin, share: self._find(admin, share, None), targets_of)

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request to each broker; to an Apache RocketMQ broker a recall for each."""

        def steer(admin: Admin, own: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
            try:
                answer = admin.steer_timers(self.action, [target_of(target) for target in own], reason=reason)
            except NotSupported:
                if self.action != "cancel":
                    return [ItemResult("refused", {"error": "not-supported"}) for _ in own]
                return recall(admin, own)
            return [result_of(steered) for steered in answer.results]

        return act_at_each(targets, steer)

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """Return the busiest second that there would be; None: it makes none busier, or that is not known."""
        return None

    def behind(self, admin: Admin, rows: Sequence[TimerRow]) -> Behind | None:
        """Return how far consumer groups are behind now and at once afterwards; None: it changes nothing now."""
        return None

    def moved_to(self, row: TimerRow | None, parameters: Mapping[str, Any]) -> int | None:
        """Return the new moment of a timer; None: it keeps its own."""
        return None

    def _target(self, target: Mapping[str, Any], row: TimerRow | None, parameters: Mapping[str, Any]) -> Target:
        due_ms = self.moved_to(row, parameters)
        named = {**target, "dueMs": due_ms} if due_ms is not None else dict(target)
        return Target(named, label_of(row) if row is not None else {"name": _name_of(target)})

    def _find(self, admin: Admin, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        if "filter" in parameters:
            return find_timers(admin, filter_of(parameters["filter"]), most=LIMIT + 1, patience_s=patience_s)
        return find_named(admin, parameters["targets"])


@register
class CancelTimers(SteerTimers):
    """The operation that cancels timers; while their moments are ahead they can be parked again."""

    name = "timers.cancel"
    destroys = True
    title, verb = _("Cancel timers"), ngettext_lazy("Cancel timer", "Cancel timers", "count")
    begun_on = "timer_list"
    effect = _("They are not delivered. This can be undone until they are due.")
    outcomes = {**OVER, "cancelled": Outcome(_("cancelled")), "recall_noted": Outcome(_("recall accepted"))}
    verbs = ("cancel", "取消")
    key_label = _("Cancel the timers with the key “%(key)s”")
    action = "cancel"
    is_final = True
    undone_by, undone_outcomes = selection.TAKE_BACK, ("cancelled", "recall_noted")

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the timer, which says what became of it since."""
        position = item.result.get("position")
        if position is None:
            return None
        return gettext("Open timer"), address_at(item.target.get(OF, ""), "timer", position)


@register
class DeliverTimersNow(SteerTimers):
    """The operation that releases timers at once, ahead of their moments."""

    name = "timers.deliver_now"
    title, verb = _("Deliver timers now"), ngettext_lazy("Deliver timer now", "Deliver timers now", "count")
    begun_on = "timer_list"
    effect = _("They fire immediately. This cannot be undone.")
    outcomes = {**OVER, "delivered_now": Outcome(_("delivered now"))}
    verbs = ("deliver", "投递")
    key_label = _("Deliver the timers with the key “%(key)s” now")
    action = "deliver_now"
    is_final = is_at_once = True

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the moment at which it was delivered, with the page of the message."""
        found, told = super().item_now(item), item.result
        if found is None or item.outcome != "delivered_now" or not (told.get("topic") and told.get("unique_key")):
            return found
        broker = item.target.get(OF, "")
        address = address_at(broker, "message", told["unique_key"], topic=told["topic"])
        return replace(found, text=gettext("Open message"), address=address)

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """Return the load of all of them at once."""
        return at_once(admin, rows, capacity)

    def behind(self, admin: Admin, rows: Sequence[TimerRow]) -> Behind | None:
        """Return how far every group of their topics would be behind."""
        return behind_after(admin, Counter(row.topic for row in rows))

    def lag_now(self, parameters: Mapping[str, Any], preview: TimersPreview) -> int | None:
        """Return how far every group of their topics is behind."""
        return lag_of_topics(topic for topic, _count in preview.topics)

    def lag_of(self, parameters: Mapping[str, Any], preview: TimersPreview) -> str:
        """Return that it is of every group of their topics."""
        return in_words(topic for topic, _count in preview.topics)


@register
class RescheduleTimers(SteerTimers):
    """The operation that gives timers a new moment: `due_ms` for all, or each `shift_ms` later (negative: earlier)."""

    name = "timers.reschedule"
    title, verb = _("Reschedule timers"), ngettext_lazy("Reschedule timer", "Reschedule timers", "count")
    begun_on = "timer_list"
    effect = _("The same messages fire at another time. This can be undone.")
    outcomes = {**OVER, "rescheduled": Outcome(_("rescheduled"))}
    action = "reschedule"
    needs_moment = True
    previous = "previous_due_ms"
    undone_by, undone_outcomes = selection.TAKE_BACK, ("rescheduled",)

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the moment that a timer was moved to, with its page."""
        position = item.result.get("new_position")
        if item.outcome != "rescheduled":
            return super().item_now(item)
        if position is None:
            return ItemNow(item.result.get("due_ms"))
        address = address_at(item.target.get(OF, ""), "timer", position)
        return ItemNow(item.result.get("due_ms"), gettext("Open timer"), address)

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selection, and a moment or a span."""
        checked = super().checked(parameters)
        given = checked_move(parameters)
        own = all("dueMs" in target for target in checked.get("targets", [{}]))
        return {**checked, **given, **({"is_own": True} if own and not given else {})}

    def preview(self, parameters: Mapping[str, Any]) -> TimersPreview:
        """Count them; as long as the moment is not known, there is no number to confirm."""
        shown = super().preview(parameters)
        if any(name in parameters for name in ("due_ms", "shift_ms", "is_own")):
            return shown
        return replace(shown, count=None, met_count=shown.count)

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """Return the load of the seconds that they are moved to."""
        moved = [self.moved_to(row, parameters) for row in rows]
        return busiest(admin, rows, [due_ms for due_ms in moved if due_ms is not None], capacity)

    def moved_to(self, row: TimerRow | None, parameters: Mapping[str, Any]) -> int | None:
        """Return the moment of all, or its own moved by the span."""
        if "due_ms" in parameters:
            moment: int = parameters["due_ms"]
            return moment
        if row is None or "shift_ms" not in parameters:
            return None
        return max(1, row.due_ms + parameters["shift_ms"])


#: what may stand behind "pause", in all languages
_TIMERS = ("timers", "all", "定时器")


class SwitchTimers(TimerKind[TimersPreview]):
    """Pausing and resuming: one switch for all timers of the broker. What is sent while they are paused is taken."""

    permission = PAUSE_TIMERS
    preview_template = "timers/switch_preview.html"
    is_repeatable = True
    is_paused_after: ClassVar[bool]

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield it for `timers REASON`, or without the word."""
        reason = " ".join(dropwhile(lambda word: word.lower() in _TIMERS, rest.split()))
        text = " ".join((verb, _TIMERS[0], *reason.split()))
        yield Command(text, str(self.title), self.name, self.permission, dict, reason)

    def offered(self) -> Iterator[Command]:
        """Yield it as it is: there is nothing to choose."""
        yield from self.commands(self.verbs[0], "")

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the brokers whose switches are turned, where there are several and none is chosen; else nothing."""
        names = asked_of(cluster())
        return {} if names == [""] else {"brokers": names}

    def preview(self, parameters: Mapping[str, Any]) -> TimersPreview:
        """Count what waits; for resuming, what is overdue and fires at once. Raises ClientError if no broker tells."""
        names = _brokers_of(parameters)
        told = tell_each(self._look, names)
        looks = [each.answer for each in told if each.answer is not None]
        several = [status for status, _load in looks]
        loads = [load for _status, load in looks if load is not None]
        by_topic: Counter[str] = Counter()
        for status in several:
            by_topic.update({row.topic: row.pending for row in status.by_topic})
        capacities = [status.capacity_per_s for status in several if status.capacity_per_s is not None]
        return TimersPreview(
            at_ms=min(status.now_ms for status in several),
            count=len(names),
            topics=[[topic, count] for topic, count in by_topic.most_common(TOPICS)],
            first_due_ms=min((each.next_due_ms for each in several if each.next_due_ms is not None), default=None),
            capacity_per_s=sum(capacities) if capacities else None,
            met_count=sum(self._met(status) for status in several),
            also_due=_sum([load.also_due for load in loads]),
            last_late_ms=max((load.late_ms for load in loads if load.late_ms is not None), default=None),
            brokers=[
                [each.broker, self._met(each.answer[0]) if each.answer else None, str(each.error or "")]
                for each in told
                if each.broker
            ],
        )

    def _look(self, admin: Admin) -> tuple[TimerStatus, Load | None]:
        status = admin.timer_status()
        return status, None if self.is_paused_after else at_once(admin, (), status.capacity_per_s)

    def _met(self, status: TimerStatus) -> int:
        """Return how many wait, or are overdue."""
        return status.pending if self.is_paused_after else status.backlog

    def targets(self, parameters: Mapping[str, Any], preview: TimersPreview) -> Sequence[Target]:
        """Return the broker itself as the one target, or each of them."""
        return [
            Target({"broker": name}, {"name": name}) if name else Target({}, {}) for name in _brokers_of(parameters)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Turn the switch of each broker with one request; what becomes of one is no matter of the others."""
        return [self._turned(target.get("broker", "")) for target in targets]

    def _turned(self, broker: str) -> ItemResult:
        try:
            with at(broker):
                answer = site_broker.admin().pause_timers(self.is_paused_after)
        except ClientError as error:
            if not broker:
                raise
            return ItemResult("refused" if isinstance(error, NotSupported) else "unknown", {"error": str(error)})
        outcome = "paused" if answer.paused else "resumed"
        return ItemResult(outcome, {"pending": answer.pending, "backlog": answer.backlog})

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return in words that all timers are meant."""
        if "brokers" in parameters:
            return gettext("all timers of %(brokers)s") % {"brokers": ", ".join(parameters["brokers"])}
        return gettext("all timers of the broker")

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that turns the switch."""
        return "POST", f"timers:{'pause' if self.is_paused_after else 'resume'}", dict(REASON)


@register
class PauseTimers(SwitchTimers):
    """The operation that pauses all timers: none fires until they are resumed."""

    name = "timers.pause"
    title, verb = _("Pause all timers"), _("Pause timers")
    effect = _("New timers are accepted; none fires until timers are resumed.")
    outcomes = {"paused": Outcome(_("paused"))}
    verbs = ("pause", "暂停")
    is_paused_after = True


@register
class ResumeTimers(SwitchTimers):
    """The operation that resumes timers: what is overdue fires, oldest first; then all goes on."""

    name = "timers.resume"
    title, verb = _("Resume all timers"), _("Resume timers")
    effect = _("Overdue timers fire immediately, oldest first; then all continue as usual.")
    outcomes = {"resumed": Outcome(_("resumed"))}
    verbs = ("resume", "恢复")
    is_paused_after = False


def together(parts: Mapping[str, TimersPreview]) -> TimersPreview:
    """Return the preview of several brokers; each releases its own, so the load is that of the one it burdens most."""
    previews = list(parts.values())
    worst = max(previews, key=lambda each: (each.last_late_ms or 0, each.busiest_count or 0))
    return replace(
        worst,
        **totals(parts),
        first_due_ms=min((each.first_due_ms for each in previews if each.first_due_ms is not None), default=None),
        last_due_ms=max((each.last_due_ms for each in previews if each.last_due_ms is not None), default=None),
    )


def _place(text: str) -> dict[str, Any] | None:
    """Return the target that a row of the list names as `position` or `position-broker`; None: it names none."""
    number, _mark, broker = text.partition("-")
    position = whole_number(number)
    if position is None:
        return None
    return {"position": position, "broker": broker} if broker else {"position": position}


def _brokers_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the brokers by name; "" is the one that is chosen, or the only one."""
    return list(parameters.get("brokers") or [""])


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def label_of(row: TimerRow) -> dict[str, Any]:
    """Return what people see of a timer."""
    return {"topic": row.topic, "name": row.name[:200], "due_ms": row.due_ms, "position": row.position}


def result_of(steered: Steered) -> ItemResult:
    """Return the broker's answer to one target, without what it does not say."""
    fields = {
        "position": steered.position,
        "new_position": steered.new_position,
        "topic": steered.topic,
        "unique_key": steered.message_id,
        "schedule_key": steered.schedule_key,
        "due_ms": steered.due_ms,
        "previous_due_ms": steered.previous_due_ms,
        "delivered_ms": steered.delivered_ms,
        "message_id": steered.offset_message_id,
        "error": steered.error,
    }
    return ItemResult(steered.outcome, {name: value for name, value in fields.items() if value is not None})


def _name_of(target: Mapping[str, Any]) -> str:
    return next(
        str(target[name]) for name in ("scheduleKey", "uniqueKey", "messageId", "handle", "position") if name in target
    )
