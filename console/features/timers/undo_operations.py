"""Taking back cancels and moves of timers: what was cancelled waits again, what was moved has its former moment again.

    {"operation": "3f8b5b1e-...", "items": [1, 4]}      without `items`: all that the operation cancelled or moved

One item is one timer. What is over stays over: a moment that is past, a message that retention took, a schedule key
that another message has now, a timer that was delivered, cancelled or moved since. The broker is asked whether that is
so, and what it answers becomes the item's outcome; an Apache RocketMQ broker cannot be asked where a timer is, so there
only its records are looked for.

A cancelled timer is parked again as a new message for the same moment, made from its old record, which stays in the log
until retention takes it; nothing is kept beside it. The new message has what its sender gave, under a new message id:
Apache RocketMQ deletes by message id within a second, and would delete the new one with the old one. The new id follows
from the old record, so the broker itself can be asked whether the timer was parked again already.

What was done at several brokers is taken back at each; where one does not answer, its timers are left as they are.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import (
    Admin,
    BrokerRefused,
    ClientError,
    InvalidArgument,
    Message,
    NotSupported,
    Outgoing,
    ScheduleKeyTaken,
    SendResult,
    TimerPast,
)
from broker.rocketmq.message import parse_offset_message_id
from broker.rocketmq.properties import REJECT_PAST, SCHEDULE_KEY, TIMER_DELIVER_MS, UNIQUE_KEY
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.apache_records import row_of_record
from console.features.timers.operations import (
    OVER,
    CancelTimers,
    RescheduleTimers,
    SteerTimers,
    TimerKind,
    TimersPreview,
    label_of,
    result_of,
)
from console.features.timers.parked import given_properties, sent_to_queue
from console.features.timers.read import one_timer, target_of
from console.features.timers.selection import OF, TAKE_BACK, Load, busiest, capacity_of, previous_due_ms
from console.features.timers.shapes import TimerRow
from console.operations.actor import STEER_TIMERS, UNBOUNDED, Scope
from console.operations.copies import COPY_OF, NotReadable, message_id_again, plain_body
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import LIMIT, REASON, Call, ItemNow, ItemResult, Outcome, Target
from console.operations.models import Operation, OperationItem
from console.operations.registry import register, scope_of
from console.operations.selection import EXAMPLES, PREVIEW_PATIENCE_S, admin_of_one, topics_of
from console.operations.spanning import OF as BROKER
from console.operations.spanning import act_at_each
from console.site import broker as site_broker
from console.site.broker import address_at, at
from console.site.chosen import chosen
from console.site.clock import now_ms

_MOVED_BACK = {"rescheduled": "moved_back", "changed": "changed_since"}

_ENDED = {"released": "already_delivered", "cancelled": "already_cancelled", "unknown": "gone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBackPreview(TimersPreview):
    """The items that can be taken back, and those that no longer can."""

    #: [why it cannot be (an outcome), how many]
    kept_out: list[list[Any]] = field(default_factory=list)

    @property
    def kept_out_count(self) -> int:
        """The number of items that cannot be taken back."""
        return sum(count for _, count in self.kept_out)


@register
class TakeBack(TimerKind[TakeBackPreview]):
    """The operation that makes each timer wait again as it did before another one cancelled or moved it."""

    name = TAKE_BACK
    permission = STEER_TIMERS
    title, verb = _("Undo changes to timers"), ngettext_lazy("Undo change", "Undo changes", "count")
    effect = _(
        "Cancelled timers wait again with the same content, as new messages with a new message id; rescheduled timers "
        "get their former due time and keep their id."
    )
    outcomes = {
        **OVER,
        "taken_back": Outcome(_("pending again")),
        "parked_again": Outcome(_("pending again; the earlier recall was only accepted")),
        "moved_back": Outcome(_("due time restored")),
        "too_late": Outcome(_("already due"), "look"),
        "key_taken": Outcome(_("another message has its schedule key"), "look"),
        "changed_since": Outcome(_("changed since"), "look"),
        "already_taken_back": Outcome(_("already undone"), "idle"),
    }
    preview_type = TakeBackPreview

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return an operation that is over, its kind, and which of its items; raises NotPossible while it runs."""
        try:
            number = uuid.UUID(str(parameters.get("operation")))
        except ValueError:
            raise InvalidParameter("operation", "operation is the id of an operation.") from None
        row = Operation.objects.filter(pk=number, kind__in=_WAYS).first()
        if row is None:
            raise InvalidParameter("operation", "There is no cancel or reschedule of timers with this id.")
        if not row.is_over:
            raise NotPossible("It is still under way; stop it first.")
        items = parameters.get("items")
        if items is None:
            return {"operation": str(row.pk), "of": row.kind}
        if not isinstance(items, list) or not 0 < len(items) <= LIMIT or not all(type(each) is int for each in items):
            raise InvalidParameter("items", f"items are 1 to {LIMIT:,} numbers of items.")
        return {"operation": str(row.pk), "of": row.kind, "items": sorted(set(items))}

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return what the operation touched whose effect is taken back."""
        row = Operation.objects.filter(pk=str(parameters.get("operation"))).first()
        return UNBOUNDED if row is None else scope_of(row)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the title of the operation whose effect is taken back."""
        return gettext("what an operation did: %(title)s") % {"title": _WAYS[parameters["of"]].kind.title}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call on the operation whose effect is taken back."""
        items = {"items": parameters["items"]} if "items" in parameters else {}
        return "POST", f"operations/{parameters['operation']}:take-back", {**items, **REASON}

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the moment at which it waits again, with its page if it was parked anew."""
        due_ms, position = item.result.get("due_ms"), item.result.get("new_position")
        if position is not None and item.outcome in ("taken_back", "parked_again", "moved_back"):
            address = address_at(item.target.get(BROKER, ""), "timer", position)
            words = gettext("Open timer") if item.outcome == "moved_back" else gettext("Open new timer")
            return ItemNow(due_ms, words, address)
        if item.outcome == "moved_back":
            return ItemNow(due_ms)
        return super().item_now(item)

    def preview(self, parameters: Mapping[str, Any]) -> TakeBackPreview:
        """Count how many still can be, and why the others cannot; the broker is asked as long as patience lasts."""
        way, end_s = _WAYS[parameters["of"]], time.monotonic() + PREVIEW_PATIENCE_S
        at_ms, kept_out, missing = now_ms(), Counter[str](), list[str]()
        left: list[OperationItem] = []
        for item in way.items(parameters):
            if way.previous_due_ms(item) <= at_ms:
                kept_out["too_late"] += 1
            elif time.monotonic() > end_s:
                missing = ["unchecked"]
                left.append(item)
            elif code := _obstacle(way, way.target(item)):
                kept_out[code] += 1
            else:
                left.append(item)
        dues = [way.previous_due_ms(item) for item in left]
        load, capacity = _load([(item.target.get(BROKER, ""), due) for item, due in zip(left, dues, strict=True)])
        return TakeBackPreview(
            at_ms=at_ms,
            count=len(left),
            examples=[{**item.label, "due_ms": due} for item, due in zip(left[:EXAMPLES], dues, strict=False)],
            topics=topics_of([item.topic for item in left]),
            first_due_ms=min(dues, default=None),
            last_due_ms=max(dues, default=None),
            capacity_per_s=capacity,
            met_count=load.met_count if load else None,
            busiest_ms=load.ms if load else None,
            busiest_count=load.count if load else None,
            last_late_ms=load.late_ms if load else None,
            kept_out=[[code, count] for code, count in kept_out.most_common()],
            missing=missing,
        )

    def targets(self, parameters: Mapping[str, Any], preview: TakeBackPreview) -> Sequence[Target]:
        """Return all of them: each says for itself whether it still can be taken back."""
        way = _WAYS[parameters["of"]]
        return [
            Target(way.target(item), {**item.label, "due_ms": way.previous_due_ms(item), OF: item.number})
            for item in way.items(parameters)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Take them back; nobody else takes back the same operation meanwhile, as its row is locked."""
        way = _WAYS[parameters["of"]]

        def take_back(admin: Admin, own: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
            at_ms = now_ms()
            found = ["too_late" if each["formerMs"] <= at_ms else way.obstacle(admin, each) for each in own]
            free = [target for target, code in zip(own, found, strict=True) if not code]
            done = iter(way.take_back(admin, free, reason) if free else ())
            return [ItemResult(code) if code else next(done) for code in found]

        with transaction.atomic():
            Operation.objects.select_for_update().filter(pk=parameters["operation"]).first()
            return act_at_each(targets, take_back)


def _obstacle(way: _Way, target: Mapping[str, Any]) -> str:
    """Return why it cannot be taken back, as an outcome; "": it can.

    Raises ClientError without an answer, unless it is one of several brokers that gives none.
    """
    broker = target.get(BROKER, "")
    try:
        with at(broker):
            return way.obstacle(site_broker.admin() if broker else admin_of_one(), target)
    except ClientError:
        if not broker:
            raise
        return "unknown"


def _load(dues: Sequence[tuple[str, int]]) -> tuple[Load | None, float | None]:
    """Return the busiest second of the broker that would be burdened most, and what it can release; `dues`: moments
    with their broker."""
    found: list[tuple[Load | None, float | None]] = []
    for broker in dict.fromkeys(name for name, _due in dues):
        with at(broker):
            admin = site_broker.admin() if broker else admin_of_one()
            capacity = capacity_of(admin)
            found.append((busiest(admin, (), [due for name, due in dues if name == broker], capacity), capacity))
    return max(found, key=lambda pair: pair[0].count if pair[0] else 0, default=(None, None))


class _Way(ABC):
    """The way in which one kind of operation on timers is taken back."""

    def __init__(self, kind: type[SteerTimers]) -> None:
        self.kind = kind

    def items(self, parameters: Mapping[str, Any]) -> list[OperationItem]:
        """Return what the operation did, in its order."""
        rows = OperationItem.objects.filter(operation=parameters["operation"], outcome__in=self.kind.undone_outcomes)
        return list(rows.filter(number__in=parameters["items"]) if "items" in parameters else rows)

    def previous_due_ms(self, item: OperationItem) -> int:
        """Return the moment at which it was due before; 0: not known."""
        return previous_due_ms(item, self.kind.previous)

    def target(self, item: OperationItem) -> dict[str, Any]:
        """Return what is needed to find it: its record, or where it was moved to, as it was then."""
        told = item.result
        return {
            "position": told.get("position", item.label.get("position")),
            "formerMs": self.previous_due_ms(item),
            "movedMs": None,
            "topic": item.topic,
            "uniqueKey": told.get("unique_key") or "",
            "scheduleKey": told.get("schedule_key") or "",
            "isNoted": item.outcome == "recall_noted",
            **({BROKER: item.target[BROKER]} if BROKER in item.target else {}),
        }

    def obstacle(self, admin: Admin, target: Mapping[str, Any]) -> str:
        """Return why it cannot be taken back, as an outcome; "": it can. Raises ClientError without an answer."""
        if target["position"] is None:
            return "gone"
        try:
            return self.asked(admin, target)
        except NotSupported:
            return _of_noted(admin, target)
        except (BrokerRefused, InvalidArgument):
            return "gone"

    @abstractmethod
    def asked(self, admin: Admin, target: Mapping[str, Any]) -> str:
        """Return the same as `obstacle`, of a target with a position; raises ClientError."""

    @abstractmethod
    def take_back(self, admin: Admin, targets: Sequence[Mapping[str, Any]], reason: str) -> list[ItemResult]:
        """Take back those that nothing keeps from it, in their order."""


class _Moved(_Way):
    """The way back for timers that were moved: each gets its former moment again."""

    def target(self, item: OperationItem) -> dict[str, Any]:
        """Return the record that the move wrote, and the moment it was moved to."""
        told = item.result
        return super().target(item) | {"position": told.get("new_position"), "movedMs": told.get("due_ms")}

    def asked(self, admin: Admin, target: Mapping[str, Any]) -> str:
        """Ask the broker whether it still waits where it was moved to."""
        state, row, _ = one_timer(admin, {"position": target["position"]})
        if state == "pending" and row is not None and row.unique_key == target["uniqueKey"]:
            if row.due_ms == target["formerMs"]:
                return "already_taken_back"
            return "" if row.due_ms == target["movedMs"] else "changed_since"
        return _ENDED.get(state, "changed_since")

    def take_back(self, admin: Admin, targets: Sequence[Mapping[str, Any]], reason: str) -> list[ItemResult]:
        """Send one request to the broker, which leaves alone what somebody moved since the look at it."""
        wanted = [
            target_of({"position": each["position"], "dueMs": each["formerMs"], "expectedDueMs": each["movedMs"]})
            for each in targets
        ]
        results = [result_of(steered) for steered in admin.steer_timers("reschedule", wanted, reason=reason).results]
        return [ItemResult(_MOVED_BACK.get(each.outcome, each.outcome), each.result) for each in results]


class _Cancelled(_Way):
    """The way back for cancelled timers: each is parked again as a new message, made from its old record."""

    def asked(self, admin: Admin, target: Mapping[str, Any]) -> str:
        """Ask the broker whether it was parked again already, or another message has its schedule key."""
        row = _record(admin, target)
        if row is None:
            return "gone"
        again = {"topic": row.topic, "uniqueKey": message_id_again(row.position, row.unique_key)}
        if one_timer(admin, again)[0] != "unknown":
            return "already_taken_back"
        if row.schedule_key:
            state, holder, _ = one_timer(admin, {"topic": row.topic, "scheduleKey": row.schedule_key})
            if state == "pending" and holder is not None:
                return "key_taken"
        return ""

    def take_back(self, admin: Admin, targets: Sequence[Mapping[str, Any]], reason: str) -> list[ItemResult]:
        """Read each record, then send all of one queue at once."""
        results: list[ItemResult | None] = [None] * len(targets)
        ready: dict[tuple[str, int | None], list[tuple[int, Outgoing]]] = defaultdict(list)
        records: dict[int, Message] = {}
        for nth, target in enumerate(targets):
            try:
                record = admin.message_at(target["position"], topic=TIMER_TOPIC)
                row = row_of_record(record)
                if row is None:
                    raise NotReadable("No timer is parked at this position.")
                ready[row.topic, row.queue_id].append((nth, message_again(record, row.due_ms)))
                records[nth] = record
            except NotReadable as error:
                results[nth] = ItemResult("refused", {"error": str(error)})
            except (BrokerRefused, InvalidArgument):
                results[nth] = ItemResult("gone")
        for (topic, queue_id), mine in ready.items():
            answers = sent_to_queue(topic, queue_id, [message for _nth, message in mine])
            for (nth, _message), answer in zip(mine, answers, strict=True):
                results[nth] = _result_of(answer, targets[nth], row_of_record(records[nth]))
        return [each if each is not None else ItemResult("unknown") for each in results]


def _result_of(answer: SendResult | ClientError, target: Mapping[str, Any], row: Any) -> ItemResult:
    if isinstance(answer, ScheduleKeyTaken):
        return ItemResult("key_taken", {"error": answer.remark})
    if isinstance(answer, TimerPast):
        return ItemResult("too_late")
    if isinstance(answer, BrokerRefused | InvalidArgument):
        return ItemResult("refused", {"error": str(answer)})
    if isinstance(answer, ClientError):
        # it is not known whether the broker has it; taken back once more, the broker is asked first
        return ItemResult("unknown", {"error": str(answer)})
    told = {**label_of(row), "due_ms": answer.due_ms or row.due_ms, "unique_key": answer.message_id}
    told |= {
        "message_id": answer.offset_message_id,
        "new_position": parse_offset_message_id(answer.offset_message_id)[2],
    }
    return ItemResult("parked_again" if target["isNoted"] else "taken_back", told)


def message_again(record: Message, due_ms: int) -> Outgoing:
    """Return the message to send; a moment that is past is refused by the broker. Raises NotReadable."""
    kept = given_properties(record)
    if SCHEDULE_KEY in record.properties:
        kept[SCHEDULE_KEY] = record.properties[SCHEDULE_KEY]
    message_id = message_id_again(record.position, record.unique_key or "")
    kept |= {
        UNIQUE_KEY: message_id,
        TIMER_DELIVER_MS: str(due_ms),
        REJECT_PAST: "true",
        COPY_OF: record.offset_message_id,
    }
    stored = "".join(f"{name}\x01{text}\x02" for name, text in kept.items())
    # beside the record that it takes the place of
    return Outgoing(plain_body(record), stored, message_id, broker=chosen().broker or None)


def _of_noted(admin: Admin, target: Mapping[str, Any]) -> str:
    """Return why not, by Apache RocketMQ's own index of parked records."""
    row = _record(admin, target)
    if row is None:
        return "gone"
    again = message_id_again(row.position, row.unique_key)
    return "already_taken_back" if admin.message_by_id(TIMER_TOPIC, again) is not None else ""


def _record(admin: Admin, target: Mapping[str, Any]) -> TimerRow | None:
    """Return the parked record; None: another one stands there."""
    row = row_of_record(admin.message_at(target["position"], topic=TIMER_TOPIC))
    if row is None or (target["topic"] and row.topic != target["topic"]):
        return None
    return row


#: by the kind of operation whose effect is taken back
_WAYS: Mapping[str, _Way] = {
    CancelTimers.name: _Cancelled(CancelTimers),
    RescheduleTimers.name: _Moved(RescheduleTimers),
}
