"""One timer after the other from one broker to another: first its copy waits there, then it is cancelled here.

    copies()   at the other broker: a message with the same body, properties, id and moment, and where it is from
    settle()   at this broker: exactly that record is cancelled; where it was over before, the copy is cancelled instead

So there is always one of the two. Both are there between the two steps, for milliseconds, or until somebody goes on
after a runner was killed: then the copy is found by its id and the place that it names (MOVED_FROM), and nothing
is sent again. A moment that comes while both are there would be kept by both; so what is due soon (MOVE_LEAVES_S) is
not begun with, and `twice` says of an item that it happened all the same.

An Apache RocketMQ broker notes a cancel and does not say what became of it: from there the outcome is `recall_noted`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext

from broker.client import (
    Admin,
    BrokerRefused,
    ClientError,
    InvalidArgument,
    Message,
    NotSupported,
    Outgoing,
    RouteNotFound,
    ScheduleKeyTaken,
    SendResult,
    TimerPast,
)
from broker.client.timers import Steered
from broker.rocketmq.message import parse_offset_message_id
from broker.rocketmq.properties import REJECT_PAST, SCHEDULE_KEY, TIMER_DELIVER_MS, UNIQUE_KEY, WAIT
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.apache_records import recall, row_of_record
from console.features.timers.parked import given_properties, sent_to_queue
from console.features.timers.read import one_timer, target_of
from console.features.timers.shapes import LifeKind
from console.operations.copies import NotReadable, message_id_again, plain_body
from console.operations.errors import NotPossible
from console.operations.kind import ItemResult
from console.operations.selection import admin_of_one
from console.site import broker as site_broker
from console.site.broker import at
from console.site.chosen import choice_of
from console.site.clock import now_ms

#: a property of the copy: broker and position of the record that it takes the place of
MOVED_FROM = "MOVED_FROM"
#: timers that may have a copy at the same time: with the largest bodies they fit into memory
AT_ONCE = 50
#: what is kept of a reason beside the broker's name: the broker's own limit is above both
_REASON_LENGTH = 500
#: errors after which the message is certainly not there
_NOT_SENT = (BrokerRefused, InvalidArgument, RouteNotFound, NotReadable)


@dataclass(frozen=True, slots=True)
class Copy:
    """What waits at the other broker for a timer, or has left it: `is_new` if it was sent just now."""

    position: int
    is_new: bool
    is_delivered: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A move from the broker that is chosen, called `source`, to the broker `to`; names as their rows have them."""

    source: str
    to: str
    reason: str

    def all_of(self, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Move them, a few at a time; raises ClientError where it is not known what became of some, NotPossible."""
        results: list[ItemResult] = []
        for first in range(0, len(targets), AT_ONCE):
            part = targets[first : first + AT_ONCE]
            results += self.settle(part, self.copies(part))
        return results

    def copies(self, targets: Sequence[Mapping[str, Any]]) -> list[Copy | ItemResult]:
        """Return the copy of each at the other broker, sent now where there was none; else why there is none."""
        here = admin_of_one()
        check_source(here)
        records = [_record(here, target) for target in targets]
        soon_ms = now_ms() + leaves_ms()
        with at(self.to):
            there = site_broker.admin()
            found = [
                ItemResult("gone") if record is None else self._known(there, record) or _left(target, soon_ms)
                for target, record in zip(targets, records, strict=True)
            ]
            wanted = [
                (record, target["dueMs"])
                for target, record, known in zip(targets, records, found, strict=True)
                if known is None and record is not None
            ]
            sent = iter(self._sent(wanted))
        return [next(sent) if each is None else each for each in found]

    def settle(self, targets: Sequence[Mapping[str, Any]], copies: Sequence[Copy | ItemResult]) -> list[ItemResult]:
        """Cancel here what has a copy there, and take the copy back where this one was over; raises ClientError."""
        having = [(target, copy) for target, copy in zip(targets, copies, strict=True) if isinstance(copy, Copy)]
        answers = iter(self._cancelled([target for target, _copy in having]) if having else ())
        return [
            copy if isinstance(copy, ItemResult) else self._settled(target, copy, next(answers))
            for target, copy in zip(targets, copies, strict=True)
        ]

    # there

    @property
    def _own_name(self) -> str:
        return choice_of(self.to).broker

    def _origin(self, record: Message) -> str:
        return f"{self.source} {record.position}"

    def _known(self, there: Admin, record: Message) -> Copy | None:
        """Return what an earlier try sent; None where there is nothing, or what it sent was cancelled since."""
        message_id = _message_id(record)
        for each in there.records_by_id(TIMER_TOPIC, message_id):
            if each.properties.get(MOVED_FROM) != self._origin(record):
                continue
            try:
                state = one_timer(there, {"position": each.position})[0]
            except NotSupported:
                row = row_of_record(each)
                state = "pending" if row is not None and row.due_ms > now_ms() else "released"
            return None if state == "cancelled" else Copy(each.position, False, state == "released")
        return None

    def _sent(self, wanted: Sequence[tuple[Message, int]]) -> list[Copy | ItemResult]:
        """Send them, those of one queue at once, and return what came of each, in order."""
        made: dict[int, Copy | ItemResult] = {}
        ready: dict[tuple[str, int | None], list[tuple[int, Outgoing]]] = defaultdict(list)
        for nth, (record, due_ms) in enumerate(wanted):
            row = row_of_record(record)
            try:
                if row is None:
                    raise NotReadable("No timer is parked at this position.")
                ready[row.topic, row.queue_id].append((nth, self._message(record, due_ms)))
            except NotReadable as error:
                made[nth] = ItemResult("refused", {"error": str(error)})
        for (topic, queue_id), mine in ready.items():
            answers = sent_to_queue(topic, queue_id, [message for _nth, message in mine])
            made |= {nth: _copy_of(answer) for (nth, _message), answer in zip(mine, answers, strict=True)}
        return [made[nth] for nth in range(len(wanted))]

    def _message(self, record: Message, due_ms: int) -> Outgoing:
        """Return the same message for the other broker; raises NotReadable."""
        kept = given_properties(record)
        if SCHEDULE_KEY in record.properties:
            # a message that waits there with the key stays, and this one stays here
            kept[SCHEDULE_KEY] = record.properties[SCHEDULE_KEY]
        message_id = _message_id(record)
        kept |= {
            UNIQUE_KEY: message_id,
            WAIT: "true",
            TIMER_DELIVER_MS: str(due_ms),
            REJECT_PAST: "true",
            MOVED_FROM: self._origin(record),
        }
        stored = "".join(f"{name}\x01{text}\x02" for name, text in kept.items())
        return Outgoing(plain_body(record), stored, message_id, broker=self._own_name)

    def _taken_back(self, position: int) -> bool:
        """Cancel the copy; return False where it was delivered before. Raises ClientError."""
        with at(self.to):
            there = site_broker.admin()
            target = {"position": position}
            try:
                outcome = there.steer_timers("cancel", [target_of(target)], reason=self._mark).results[0].outcome
            except NotSupported:
                outcome_there = recall(there, [target])[0].outcome
                return outcome_there != "already_delivered"
        return outcome != "already_delivered"

    # here

    @property
    def _mark(self) -> str:
        """The reason that the log keeps with the cancel, by which it is recognised as this move's."""
        return f"{self._mark_begin} ({self.reason})"[:_REASON_LENGTH]

    @property
    def _mark_begin(self) -> str:
        return f"moved from {self.source} to {self.to}"

    def _cancelled(self, targets: Sequence[Mapping[str, Any]]) -> list[Steered | ItemResult]:
        here = admin_of_one()
        wanted = [target_of({"position": each["position"], "expectedDueMs": each["dueMs"]}) for each in targets]
        try:
            return list(here.steer_timers("cancel", wanted, reason=self._mark).results)
        except NotSupported:
            return list(recall(here, [{"position": each["position"]} for each in targets]))

    def _settled(self, target: Mapping[str, Any], copy: Copy, answer: Steered | ItemResult) -> ItemResult:
        told = {"broker": self.to, "position": copy.position, "due_ms": target["dueMs"]}
        outcome = answer.outcome
        if outcome in ("cancelled", "recall_noted"):
            return ItemResult("moved" if outcome == "cancelled" else "recall_noted", told)
        if isinstance(answer, ItemResult) and outcome in ("refused", "unknown"):
            # an Apache RocketMQ broker did not answer: it may have noted it, so the copy must stay
            return ItemResult("unknown", {**told, **answer.result})
        if outcome == "already_cancelled" and not copy.is_new and self._did_cancel(target):
            return ItemResult("moved", told)
        if copy.is_delivered or not self._taken_back(copy.position):
            return ItemResult("moved" if outcome == "already_cancelled" else "twice", told)
        error = answer.error if isinstance(answer, Steered) else None
        return ItemResult(_STAYED.get(outcome, outcome), {"error": error} if error else {})

    def _did_cancel(self, target: Mapping[str, Any]) -> bool:
        """Tell whether the cancel in the log is one of an earlier try."""
        _state, _row, events = one_timer(admin_of_one(), {"position": target["position"]})
        reasons = [event.reason for event in events if event.kind is LifeKind.CANCELLED]
        return bool(reasons) and reasons[-1].startswith(self._mark_begin)


#: by what this broker answers to the cancel: what became of a timer whose copy was taken back
_STAYED = {"changed": "changed_since", "unknown": "gone"}


def leaves_ms() -> int:
    """Return how soon a timer must be due to be left to its broker."""
    return round(settings.MOVE_LEAVES_S * 1000)


def check_source(here: Admin) -> None:
    """Raise NotPossible for a broker that cannot cancel what it has; raises ClientError."""
    try:
        here.timer_status()
    except NotSupported:
        if here.broker_config().get("recallMessageEnable") != "true":
            raise NotPossible(
                gettext(
                    "This broker does not recall messages: enable recallMessageEnable, or let its timers fire there."
                )
            ) from None


def _record(here: Admin, target: Mapping[str, Any]) -> Message | None:
    """Return the parked record; None where there is none (any more)."""
    if target.get("position") is None:
        return None
    try:
        record = here.message_at(target["position"], topic=TIMER_TOPIC)
    except (BrokerRefused, InvalidArgument):
        return None
    row = row_of_record(record)
    return record if row is not None and row.topic == target["topic"] else None


def _left(target: Mapping[str, Any], soon_ms: int) -> ItemResult | None:
    return None if target["dueMs"] > soon_ms else ItemResult("left")


def _message_id(record: Message) -> str:
    """Return the message id; one that follows from its place where its sender gave none."""
    return record.unique_key or message_id_again(record.position, "")


def _copy_of(answer: SendResult | ClientError) -> Copy | ItemResult:
    if isinstance(answer, SendResult):
        if answer.status == "FLUSH_DISK_TIMEOUT":
            return ItemResult("unknown", {"error": answer.status})
        return Copy(parse_offset_message_id(answer.offset_message_id)[2], is_new=True)
    if isinstance(answer, ScheduleKeyTaken):
        return ItemResult("key_taken", {"error": answer.remark})
    if isinstance(answer, TimerPast):
        return ItemResult("left")
    # of others it is not known whether the broker has it; gone on with, it is asked first
    return ItemResult("refused" if isinstance(answer, _NOT_SENT) else "unknown", {"error": str(answer)})
