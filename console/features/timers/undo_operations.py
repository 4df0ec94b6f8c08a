"""Taking back cancels and moves of timers: what was cancelled waits again, what was moved has its former moment again.

    {"operation": "3f8b5b1e-...", "items": [1, 4]}      without `items`: all that the operation cancelled or moved

One item is one timer. What is over stays over: a moment that is past, a message that retention took, a schedule key
that another message has now, a timer that was delivered, cancelled or moved since. The broker is asked whether that is
so, and what it answers becomes the item's outcome; an Apache RocketMQ broker cannot be asked where a timer is, so there
only its records are looked for.

A cancelled timer is parked again as a new message for the same moment, made from its old record, which stays in the log
until retention takes it; nothing is kept beside it. The new message has what its sender gave, under a new unique id:
Apache RocketMQ deletes by unique id within a second, and would delete the new one with the old one. The new id follows
from the old record, so the broker itself can be asked whether the timer was parked again already.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

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
from broker.rocketmq.properties import (
    BUYER_ID,
    CORRELATION_ID,
    INSTANCE_ID,
    KEYS,
    MESSAGE_REPLY_TO_CLIENT,
    MESSAGE_TTL,
    OWN_PREFIX,
    REJECT_PAST,
    SCHEDULE_KEY,
    SHARDING_KEY,
    SYSTEM_PROPERTIES,
    TAGS,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
    WAIT,
)
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.apache_records import row_of_record
from console.features.timers.operations import label_of, result_of
from console.features.timers.release_load import busiest, capacity_of
from console.features.timers.rows import one_timer, target_of
from console.features.timers.shapes import TimerRow
from console.operations.actor import STEER_TIMERS
from console.operations.copies import COPY_OF, NotReadable, plain_body, producer
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.found_rows import EXAMPLES, PREVIEW_PATIENCE_S
from console.operations.kind import LIMIT, ItemResult, Kind, Target
from console.operations.models import Operation, OperationItem
from console.operations.preview import Preview
from console.site import broker as site_broker
from console.site.clock import now_ms

#: kinds whose items can be taken back, and the outcomes of those that can
TAKEN_BACK = {"timers.cancel": ("cancelled", "recall_noted"), "timers.reschedule": ("rescheduled",)}
#: in a label: the number of the item that is taken back
OF = "of_item"
#: outcomes of what was taken back
BACK = ("taken_back", "parked_again", "moved_back")
_MOVED_BACK = {"rescheduled": "moved_back", "changed": "changed_since"}

_OVER = {"released": "already_delivered", "cancelled": "already_cancelled", "unknown": "gone"}

#: what a sender may have set among the properties that mean something to clients; the rest is the broker's
_SENDERS = frozenset(
    {KEYS, TAGS, WAIT, BUYER_ID, INSTANCE_ID, CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL, SHARDING_KEY}
)
#: RocketMQ's unique ids: 4 bytes of address, 2 of process, 4 of loader, 4 of time in the month, 2 of counter
_UNIQUE_ID = re.compile(r"[0-9A-F]{32}\Z")
_OF_SENDER = 20


class TakeBack(Kind):
    """Each waits again as it did before the operation."""

    name = "timers.take_back"
    permission = STEER_TIMERS

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """An operation that is over, its kind, and which of its items; raises NotPossible while it runs."""
        try:
            number = uuid.UUID(str(parameters.get("operation")))
        except ValueError:
            raise InvalidParameter("operation", "operation is the id of an operation.") from None
        row = Operation.objects.filter(pk=number, kind__in=TAKEN_BACK).first()
        if row is None:
            raise InvalidParameter("operation", "There is no cancel or move of timers with this id.")
        if not row.is_over:
            raise NotPossible("It is still under way; stop it first.")
        items = parameters.get("items")
        if items is None:
            return {"operation": str(row.pk), "of": row.kind}
        if not isinstance(items, list) or not 0 < len(items) <= LIMIT or not all(type(each) is int for each in items):
            raise InvalidParameter("items", f"items are 1 to {LIMIT:,} numbers of items.")
        return {"operation": str(row.pk), "of": row.kind, "items": sorted(set(items))}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """How many still can be, why the others cannot; the broker is asked as long as patience lasts."""
        admin, end_s = site_broker.admin(), time.monotonic() + PREVIEW_PATIENCE_S
        at_ms, kept_out, missing = now_ms(), Counter[str](), list[str]()
        left: list[OperationItem] = []
        for item in _items(parameters):
            if former_ms(parameters["of"], item) <= at_ms:
                kept_out["too_late"] += 1
            elif time.monotonic() > end_s:
                missing = ["unchecked"]
                left.append(item)
            elif code := obstacle(admin, parameters["of"], _target(parameters, item)):
                kept_out[code] += 1
            else:
                left.append(item)
        dues = [former_ms(parameters["of"], item) for item in left]
        capacity = capacity_of(admin)
        load = busiest(admin, (), dues, capacity)
        return Preview(
            at_ms=at_ms,
            count=len(left),
            examples=[{**item.label, "due_ms": due} for item, due in zip(left[:EXAMPLES], dues, strict=False)],
            topics=[[topic, count] for topic, count in Counter(item.topic for item in left).most_common(10)],
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

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """All of them: each says for itself whether it still can be."""
        return [
            Target(
                _target(parameters, item), {**item.label, "due_ms": former_ms(parameters["of"], item), OF: item.number}
            )
            for item in _items(parameters)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Nobody else takes back the same operation meanwhile: its row is locked."""
        admin, of = site_broker.admin(), parameters["of"]
        with transaction.atomic():
            Operation.objects.select_for_update().filter(pk=parameters["operation"]).first()
            at_ms = now_ms()
            found = [
                "too_late" if target["formerMs"] <= at_ms else obstacle(admin, of, target) for target in targets
            ]  # fmt: skip
            free = [target for target, code in zip(targets, found, strict=True) if not code]
            done = iter((_parked if of == "timers.cancel" else _moved)(admin, free, reason) if free else ())
            return [ItemResult(code) if code else next(done) for code in found]


def _items(parameters: Mapping[str, Any]) -> list[OperationItem]:
    """What the operation did, in its order."""
    rows = OperationItem.objects.filter(operation=parameters["operation"], outcome__in=TAKEN_BACK[parameters["of"]])
    return list(rows.filter(number__in=parameters["items"]) if "items" in parameters else rows)


def _target(parameters: Mapping[str, Any], item: OperationItem) -> dict[str, Any]:
    """What is needed to find it: its record, or where it was moved to, as it was then."""
    told, was_moved = item.result, parameters["of"] == "timers.reschedule"
    position = told.get("new_position") if was_moved else told.get("position", item.label.get("position"))
    return {
        "position": position,
        "formerMs": former_ms(parameters["of"], item),
        "movedMs": told.get("due_ms") if was_moved else None,
        "topic": item.topic,
        "uniqueKey": told.get("unique_key") or "",
        "scheduleKey": told.get("schedule_key") or "",
        "isNoted": item.outcome == "recall_noted",
    }


def _moved(admin: Admin, targets: Sequence[Mapping[str, Any]], reason: str) -> list[ItemResult]:
    """One request to the broker, which leaves alone what somebody moved since the look at it."""
    wanted = [
        target_of({"position": each["position"], "dueMs": each["formerMs"], "expectedDueMs": each["movedMs"]})
        for each in targets
    ]
    results = [result_of(steered) for steered in admin.steer_timers("reschedule", wanted, reason=reason).results]
    return [ItemResult(_MOVED_BACK.get(each.outcome, each.outcome), each.result) for each in results]


def _parked(admin: Admin, targets: Sequence[Mapping[str, Any]], reason: str) -> list[ItemResult]:
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
    for (topic, queue_id), chosen in ready.items():
        answers = _sent(topic, queue_id, [message for _, message in chosen])
        for (nth, _), answer in zip(chosen, answers, strict=True):
            results[nth] = _result_of(answer, targets[nth], row_of_record(records[nth]))
    return [each if each is not None else ItemResult("unknown") for each in results]


def _sent(topic: str, queue_id: int | None, messages: Sequence[Outgoing]) -> Sequence[SendResult | ClientError]:
    """Into the queue that each was meant for, while the topic has it."""
    try:
        return producer().send_each(topic, messages, queue_id=queue_id)
    except InvalidArgument:
        pass
    except ClientError as error:
        return [error] * len(messages)
    try:
        return producer().send_each(topic, messages)
    except ClientError as error:
        return [error] * len(messages)


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
    return ItemResult("parked_again" if target["isNoted"] else "taken_back", told)


def unique_id_again(position: int, unique_key: str) -> str:
    """The unique id of what takes the place of a cancelled record: the time of its birth stays readable in it."""
    made = hashlib.sha256(f"{position} {unique_key}".encode()).hexdigest().upper()
    return made[:_OF_SENDER] + (unique_key if _UNIQUE_ID.match(unique_key) else "0" * 32)[_OF_SENDER:]


def message_again(record: Message, due_ms: int) -> Outgoing:
    """The message to send; a moment that is past is refused by the broker. Raises NotReadable."""
    kept = {
        name: text
        for name, text in record.properties.items()
        if name in _SENDERS or not (name in SYSTEM_PROPERTIES or name.startswith(OWN_PREFIX))
    }
    if SCHEDULE_KEY in record.properties:
        kept[SCHEDULE_KEY] = record.properties[SCHEDULE_KEY]
    unique_id = unique_id_again(record.position, record.unique_key or "")
    kept |= {
        UNIQUE_KEY: unique_id, TIMER_DELIVER_MS: str(due_ms), REJECT_PAST: "true",
        COPY_OF: record.offset_message_id,
    }  # fmt: skip
    stored = "".join(f"{name}\x01{text}\x02" for name, text in kept.items())
    return Outgoing(plain_body(record), stored, unique_id)


def former_ms(of: str, item: OperationItem) -> int:
    """The moment at which it was due before the operation of kind `of` touched it; 0: not known."""
    name = "previous_due_ms" if of == "timers.reschedule" else "due_ms"
    return int(item.result.get(name) or item.label.get("due_ms") or 0)


def obstacle(admin: Admin, of: str, target: Mapping[str, Any]) -> str:
    """Why not, as an outcome; "": it can be. Raises ClientError when the broker does not answer."""
    if target["position"] is None:
        return "gone"
    try:
        return _of_moved(admin, target) if of == "timers.reschedule" else _of_cancelled(admin, target)
    except NotSupported:
        return _of_noted(admin, target)
    except (BrokerRefused, InvalidArgument):
        return "gone"


def _of_moved(admin: Admin, target: Mapping[str, Any]) -> str:
    state, row, _ = one_timer(admin, {"position": target["position"]})
    if state == "pending" and row is not None and row.unique_key == target["uniqueKey"]:
        if row.due_ms == target["formerMs"]:
            return "already_taken_back"
        return "" if row.due_ms == target["movedMs"] else "changed_since"
    return _OVER.get(state, "changed_since")


def _of_cancelled(admin: Admin, target: Mapping[str, Any]) -> str:
    row = _record(admin, target)
    if row is None:
        return "gone"
    again = {"topic": row.topic, "uniqueKey": unique_id_again(row.position, row.unique_key)}
    if one_timer(admin, again)[0] != "unknown":
        return "already_taken_back"
    if row.schedule_key:
        state, holder, _ = one_timer(admin, {"topic": row.topic, "scheduleKey": row.schedule_key})
        if state == "pending" and holder is not None:
            return "key_taken"
    return ""


def _of_noted(admin: Admin, target: Mapping[str, Any]) -> str:
    """By Apache RocketMQ's own index of parked records."""
    row = _record(admin, target)
    if row is None:
        return "gone"
    again = unique_id_again(row.position, row.unique_key)
    return "already_taken_back" if admin.message_by_unique_id(TIMER_TOPIC, again) is not None else ""


def _record(admin: Admin, target: Mapping[str, Any]) -> TimerRow | None:
    """The parked record, None if another one stands there."""
    row = row_of_record(admin.message_at(target["position"], topic=TIMER_TOPIC))
    if row is None or (target["topic"] and row.topic != target["topic"]):
        return None
    return row
