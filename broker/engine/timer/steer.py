"""Cancel, reschedule, deliver now: each with a definite answer.

Whoever appends first wins, in one thread: a cancel appended before the release means that there will be none, one asked
for after it is answered with when the release was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ...rocketmq.message import Message, offset_message_id
from ...rocketmq.properties import (
    DUE_MS,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    REPLACES,
    SOURCE,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    format_properties,
)
from ..errors import BrokerError, InvalidMessage, StoreRefused
from ..log.ticket import Ticket
from ..message_header import Facts
from .bucket import Entry
from .core import Core
from .keys import Keys
from .parked import Parked, Sent, number_of, second_of
from .parking import Deletes, Parking, sent_of
from .release import Releaser

Action = Literal["cancel", "reschedule", "deliver_now"]
_NOBODY = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
#: What parking adds; the rest is the message as its sender gave it.
_OURS = frozenset({TIMER_OUT_MS, REAL_TOPIC, REAL_QUEUE_ID, DUE_MS, REPLACES, SOURCE})
_RELATIVE = frozenset({TIMER_DELAY_MS, TIMER_DELAY_SEC})


class Target(NamedTuple):
    """Which timer: by ``position``, by ``topic`` and ``schedule_key``, or by ``unique_key`` and ``topic`` (None: any).

    ``slot_ms``: only in the second of this moment, as Apache RocketMQ's recall means it. ``expected_ms``: only while it
    is due at this moment, so that who looked first does not undo what somebody did meanwhile.
    """

    position: int | None = None
    topic: str | None = None
    schedule_key: str | None = None
    unique_key: str | None = None
    slot_ms: int | None = None
    expected_ms: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of one target. ``tickets``: say it only when these are durable; none: it is already."""

    outcome: str
    position: int | None = None
    new_position: int | None = None
    topic: str | None = None
    unique_key: str | None = None
    schedule_key: str | None = None
    due_ms: int | None = None
    previous_due_ms: int | None = None
    delivered_ms: int | None = None
    message_id: str | None = None
    error: str | None = None
    tickets: list[Ticket] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return the result as request 14005 answers it."""
        return {
            "outcome": self.outcome,
            "position": self.position,
            "newPosition": self.new_position,
            "topic": self.topic,
            "uniqueKey": self.unique_key,
            "scheduleKey": self.schedule_key,
            "dueMs": self.due_ms,
            "previousDueMs": self.previous_due_ms,
            "deliveredMs": self.delivered_ms,
            "messageId": self.message_id,
            "error": self.error,
        }


class Steering:
    """Carries out what operators and senders ask of pending timers."""

    def __init__(self, core: Core, keys: Keys, parking: Parking, deletes: Deletes, releaser: Releaser) -> None:
        self._core = core
        self._keys = keys
        self._parking = parking
        self._deletes = deletes
        self._releaser = releaser
        self._store = core.store

    def steer(
        self, action: Action, target: Target, due_ms: int | None, reason: str, now_ms: int, owner: object
    ) -> Outcome:
        """Do one thing to one timer. Raises StoreRefused; what cannot be done otherwise is an outcome."""
        found = self.find(target)
        if not found:
            return Outcome(
                "unknown", topic=target.topic, unique_key=target.unique_key, schedule_key=target.schedule_key
            )
        pending = [timer for timer in found if self._core.waits(timer.offset)]
        if not pending:
            return self._over(found[0], now_ms, owner)
        if action != "cancel" and self._store.topics.is_cancelled(pending[0].topic, pending[0].position):
            return self._outcome("already_cancelled", pending[0])
        if target.expected_ms not in (None, pending[0].due_ms):
            return self._outcome("changed", pending[0])
        try:
            if action == "cancel":
                return self._cancel(pending, reason, now_ms, owner)
            message = self._keys.message_at(pending[0].position)
            if message is None:
                return self._refused(pending[0], "it is being written; ask again in a moment")
            if action == "deliver_now" or (due_ms is not None and due_ms <= now_ms):
                return self._deliver_now(pending[0], message, now_ms, owner)
            return self._reschedule(pending[0], message, due_ms, now_ms, owner)
        except StoreRefused:
            raise
        except BrokerError as error:
            return self._refused(pending[0], str(error))

    def recall(self, topic: str, unique_key: str, moment_ms: int, now_ms: int, owner: object) -> Outcome:
        """End what waits with a unique key in a topic, and what comes with it until its moment is over.

        ``moment_ms``: what the handle says. Where nothing waits the outcome says what is known, and nothing is written
        if the moment is over or beyond the limit. Raises StoreRefused.
        """
        core, sent = self._core, _sent_now(now_ms)
        found = self._keys.by_unique_key(topic, unique_key)
        pending = [timer for timer in found if core.waits(timer.offset)]
        ahead = 0 < moment_ms - now_ms < self._store.config.timer_max_delay_ms
        # as long as anything may still come into the second that Apache RocketMQ would look at
        until_ms = max([second_of(moment_ms) * 1000 + 1000 if ahead else 0, *(timer.due_ms for timer in pending)])
        if pending:
            outcome = self._outcome("cancelled", pending[0])
            for victim in pending:
                core.ending[victim.offset] = "already_cancelled"
                outcome.tickets.append(
                    self._deletes.cancel(victim, sent, now_ms, "", owner, recalled_until_ms=until_ms)
                )
        else:
            outcome = self._over(found[0], now_ms, owner) if found else Outcome("unknown", unique_key=unique_key)
            if core.recalled.holds(topic, unique_key, now_ms):
                self._wait_for_all(outcome, Parked(-1, -1, 0, until_ms, topic, unique_key), now_ms, owner)
            elif ahead:
                outcome.tickets.append(self._deletes.recall(topic, unique_key, until_ms, sent, now_ms, owner))
        if pending or ahead:
            core.recalled.add(topic, unique_key, until_ms)
        return outcome

    def find(self, target: Target) -> list[Parked]:
        """Return the timers that a target means, newest first; one that was moved stands for where it is now."""
        if target.position is not None:
            timer = self._keys.at(target.position)
            found = [self._followed(timer)] if timer is not None else []
        elif target.schedule_key is not None:
            timer = self._keys.by_schedule_key(target.topic or "", target.schedule_key)
            found = [timer] if timer is not None else []
        else:
            found = self._keys.by_unique_key(target.topic, target.unique_key or "")
        if target.slot_ms is not None:
            second = second_of(target.slot_ms)
            same = [timer for timer in found if second_of(timer.due_ms) == second]
            moved = [timer for timer in found if timer.replaced >= 0 and self._core.waits(timer.offset)]
            found = same if any(self._core.waits(timer.offset) for timer in same) else moved or same
        return found

    def _followed(self, timer: Parked) -> Parked:
        following = None if self._core.waits(timer.offset) else self._keys.successors_of(timer)
        return timer if following is None else following[1]

    # the three things

    def _cancel(self, victims: list[Parked], reason: str, now_ms: int, owner: object) -> Outcome:
        """End timers: several only where a sender's retry parked the same message twice."""
        outcome = self._outcome("cancelled", victims[0])
        for victim in victims:
            self._core.ending[victim.offset] = "already_cancelled"
            outcome.tickets.append(self._deletes.cancel(victim, _sent_now(now_ms), now_ms, reason, owner))
        return outcome

    def _reschedule(self, timer: Parked, message: Message, due_ms: int | None, now_ms: int, owner: object) -> Outcome:
        if due_ms is None:
            return self._refused(timer, "a new moment (dueMs) is needed")
        self._parking.check_reach(due_ms, now_ms)
        self._parking.check_second(due_ms, timer.due_ms)
        kept = {name: value for name, value in message.properties.items() if name not in _OURS | _RELATIVE}
        kept[TIMER_DELIVER_MS] = str(due_ms)
        ticket = self._append(timer, message, kept, due_ms, now_ms, owner)
        sent = sent_of(message)
        self._core.ending[timer.offset] = "rescheduled"
        self._deletes.echo(timer, due_ms, sent, now_ms)
        outcome = self._outcome("rescheduled", timer)
        outcome.new_position, outcome.due_ms, outcome.previous_due_ms = ticket.position, due_ms, timer.due_ms
        outcome.message_id = ticket.offset_message_id
        outcome.tickets.append(ticket)
        return outcome

    def append_again(self, timer: Parked, message: Message, now_ms: int) -> Ticket:
        """Append a timer once more as it is, because its segment is to go. Raises StoreRefused."""
        kept = {name: value for name, value in message.properties.items() if name not in _OURS}
        return self._append(timer, message, kept, timer.due_ms, now_ms, None)

    def _append(
        self, timer: Parked, message: Message, kept: dict[str, str], due_ms: int, now_ms: int, owner: object
    ) -> Ticket:
        facts = Facts(format_properties(kept), message.unique_key, message.tags, kept.get(KEYS))
        queue_id = message.properties.get(REAL_QUEUE_ID, "0")
        return self._parking.append(
            timer.topic, int(queue_id) if queue_id.isdigit() else 0, message.body, facts, sent_of(message), due_ms,
            now_ms, owner, timer.key, timer, number_of(message.properties.get(SOURCE)),
        )  # fmt: skip

    def _deliver_now(self, timer: Parked, message: Message, now_ms: int, owner: object) -> Outcome:
        entry = Entry(timer.due_ms, timer.offset, timer.position, timer.size)
        if not self._releaser.release_one(entry, now_ms):
            raise InvalidMessage("its record does not say where it belongs, or is damaged")
        self._deletes.echo(timer, None, sent_of(message), now_ms)
        outcome = self._outcome("delivered_now", timer)
        outcome.delivered_ms = now_ms
        self._wait_for_all(outcome, timer, now_ms, owner)
        return outcome

    # what else can be said

    def _over(self, timer: Parked, now_ms: int, owner: object) -> Outcome:
        """Say what became of a timer that is over; if that is not durable yet, only when it is."""
        outcome = self._outcome("already_delivered", timer)
        if timer.offset in self._core.claimed:
            outcome.outcome = self._core.ending.get(timer.offset, "already_delivered")
            if outcome.outcome == "rescheduled":
                return self._refused(timer, "it is being rescheduled; ask again in a moment")
            outcome.delivered_ms = now_ms if outcome.outcome == "already_delivered" else None
            self._wait_for_all(outcome, timer, now_ms, owner)
            return outcome
        released = self._keys.released(timer)
        if released is not None:
            outcome.delivered_ms = released.store_ms
        elif self._keys.cancel_of(timer) is not None or self._keys.successors_of(timer) is not None:
            outcome.outcome = "already_cancelled"
        return outcome

    def _wait_for_all(self, outcome: Outcome, timer: Parked, now_ms: int, owner: object) -> None:
        """Have the answer wait for what is being written."""
        ticket = Ticket(
            owner, timer.topic, 0, timer.offset, timer.position, timer.size, now_ms, self._store.store_host,
            timer.due_ms, timer.unique_key,
        )  # fmt: skip
        if self._store.join(ticket):
            outcome.tickets.append(ticket)

    def _refused(self, timer: Parked, error: str) -> Outcome:
        outcome = self._outcome("refused", timer)
        outcome.error = error
        return outcome

    def _outcome(self, name: str, timer: Parked) -> Outcome:
        return Outcome(
            name,
            position=timer.position,
            topic=timer.topic,
            unique_key=timer.unique_key,
            schedule_key=timer.key,
            due_ms=timer.due_ms,
            message_id=offset_message_id(self._store.store_host, timer.position),
        )


def _sent_now(now_ms: int) -> Sent:
    return Sent(0, 0, now_ms, _NOBODY, 0)
