"""Cancel, reschedule, deliver now: each with a definite answer.

Whoever appends first wins, in one thread: a cancel appended before the release means that there will be none, one asked
for after it is answered with when the release was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

from ...rocketmq.message import Message, offset_message_id
from ...rocketmq.properties import (
    DUE_MS,
    KEYS,
    MOVED,
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
from ..store import Store
from .due import Entry
from .index import TimerIndex
from .keys import Keys
from .parking import Deletes, Parking, sent_of, ticket_of
from .release import Releaser
from .state import End, Replacement, Sent, Timer, TimerStates, number_of
from .wheel import second_of

Action = Literal["cancel", "reschedule", "deliver_now"]
_NOBODY = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
#: What parking adds; the rest is the message as its sender gave it.
_OURS = frozenset({TIMER_OUT_MS, REAL_TOPIC, REAL_QUEUE_ID, DUE_MS, REPLACES, SOURCE, MOVED})
_RELATIVE = frozenset({TIMER_DELAY_MS, TIMER_DELAY_SEC})


class Target(NamedTuple):
    """A timer, by ``position``, by ``topic`` and ``schedule_key``, or by ``unique_key`` and ``topic`` (None: any).

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
    """The outcome for one target. It may be told when all ``tickets`` are durable; without any it is already."""

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
    #: why it was refused; None where it may be asked for again at once
    cause: BrokerError | None = None
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

    def __init__(
        self,
        store: Store,
        states: TimerStates,
        keys: Keys,
        parking: Parking,
        deletes: Deletes,
        releaser: Releaser,
    ) -> None:
        self._store = store
        self._states = states
        self._keys = keys
        self._parking = parking
        self._deletes = deletes
        self._releaser = releaser

    def steer(
        self, action: Action, target: Target, due_ms: int | None, reason: str, now_ms: int, owner: object
    ) -> Outcome:
        """Cancel, reschedule or deliver one timer. Raises StoreRefused; what cannot be done otherwise is an outcome."""
        found = self.find(target)
        if not found:
            return Outcome(
                "unknown", topic=target.topic, unique_key=target.unique_key, schedule_key=target.schedule_key
            )
        pending = [timer for timer in found if self._states.waits(timer.offset)]
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
                return self._refused(pending[0], "it is being written; retry shortly")
            if action == "deliver_now" or (due_ms is not None and due_ms <= now_ms):
                return self._deliver_now(pending[0], message, now_ms, owner)
            return self._reschedule(pending[0], message, due_ms, now_ms, owner)
        except StoreRefused:
            raise
        except BrokerError as error:
            return self._refused(pending[0], str(error), error)

    def recall(self, topic: str, unique_key: str, moment_ms: int, now_ms: int, owner: object) -> Outcome:
        """End what waits with a unique key in a topic, and what comes with it until its moment is over.

        ``moment_ms``: what the handle says. Where nothing waits the outcome says what is known, and nothing is written
        if the moment is over or beyond the limit. Raises StoreRefused.
        """
        states, sent = self._states, _sent_now(now_ms)
        found = self._keys.by_unique_key(topic, unique_key)
        pending = [timer for timer in found if states.waits(timer.offset)]
        ahead = 0 < moment_ms - now_ms < self._store.config.timer_max_delay_ms
        # as long as anything may still come into the second that Apache RocketMQ would look at
        until_ms = max([second_of(moment_ms) * 1000 + 1000 if ahead else 0, *(timer.due_ms for timer in pending)])
        if pending:
            outcome = self._outcome("cancelled", pending[0])
            for victim in pending:
                outcome.tickets.append(
                    self._deletes.cancel(victim, sent, now_ms, "", owner, recalled_until_ms=until_ms)
                )
        else:
            outcome = self._over(found[0], now_ms, owner) if found else Outcome("unknown", unique_key=unique_key)
            if states.recalled.holds(topic, unique_key, now_ms):
                self._wait_for_all(outcome, Timer(-1, -1, 0, until_ms, topic, unique_key), now_ms, owner)
            elif ahead:
                outcome.tickets.append(self._deletes.recall(topic, unique_key, until_ms, sent, now_ms, owner))
        if pending or ahead:
            states.recalled.add(topic, unique_key, until_ms)
        return outcome

    def find(self, target: Target) -> list[Timer]:
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
            moved = [timer for timer in found if timer.replaced >= 0 and self._states.waits(timer.offset)]
            found = same if any(self._states.waits(timer.offset) for timer in same) else moved or same
        return found

    def _followed(self, timer: Timer) -> Timer:
        following = None if self._states.waits(timer.offset) else self._keys.successors_of(timer)
        return timer if following is None else following[1]

    # the three things

    def _cancel(self, victims: list[Timer], reason: str, now_ms: int, owner: object) -> Outcome:
        """End timers: several only where a sender's retry parked the same message twice."""
        outcome = self._outcome("cancelled", victims[0])
        for victim in victims:
            outcome.tickets.append(self._deletes.cancel(victim, _sent_now(now_ms), now_ms, reason, owner))
        return outcome

    def _reschedule(self, timer: Timer, message: Message, due_ms: int | None, now_ms: int, owner: object) -> Outcome:
        if due_ms is None:
            return self._refused(timer, "a new due time (dueMs) is needed", InvalidMessage("a new due time is needed"))
        self._parking.check_reach(due_ms, now_ms)
        self._parking.check_second(due_ms, timer.due_ms)
        kept = {name: value for name, value in message.properties.items() if name not in _OURS | _RELATIVE}
        kept[TIMER_DELIVER_MS] = str(due_ms)
        ticket = self._append(timer, message, kept, due_ms, now_ms, owner, "rescheduled")
        sent = sent_of(message)
        self._deletes.echo(timer, due_ms, sent, now_ms)
        outcome = self._outcome("rescheduled", timer)
        outcome.new_position, outcome.due_ms, outcome.previous_due_ms = ticket.position, due_ms, timer.due_ms
        outcome.message_id = ticket.offset_message_id
        outcome.tickets.append(ticket)
        return outcome

    def append_again(self, timer: Timer, message: Message, now_ms: int) -> Ticket:
        """Append a timer once more as it is, because its segment is to go. Raises StoreRefused."""
        kept = {name: value for name, value in message.properties.items() if name not in _OURS}
        return self._append(timer, message, kept, timer.due_ms, now_ms, None, "cancelled")

    def _append(
        self, timer: Timer, message: Message, kept: dict[str, str], due_ms: int, now_ms: int, owner: object, end: End
    ) -> Ticket:
        facts = Facts(format_properties(kept), message.unique_key, message.tags, kept.get(KEYS))
        queue = message.properties.get(REAL_QUEUE_ID, "0")
        queue_id = int(queue) if queue.isdigit() else 0
        half_position = number_of(message.properties.get(SOURCE))
        moved_to_ms = number_of(message.properties.get(MOVED))
        sent, old = sent_of(message), Replacement(timer, end)
        return self._parking.append(
            timer.topic, queue_id, message.body, facts, sent, due_ms, now_ms, owner, timer.key, old, half_position,
            moved_to_ms,
        )  # fmt: skip

    def _deliver_now(self, timer: Timer, message: Message, now_ms: int, owner: object) -> Outcome:
        entry = Entry(timer.due_ms, timer.offset, timer.position, timer.size)
        if not self._releaser.release_one(entry, now_ms):
            raise InvalidMessage("its record is damaged, or its topic and queue are missing")
        self._deletes.echo(timer, None, sent_of(message), now_ms)
        outcome = self._outcome("delivered_now", timer)
        outcome.delivered_ms = now_ms
        self._wait_for_all(outcome, timer, now_ms, owner)
        return outcome

    # what else can be said

    def _over(self, timer: Timer, now_ms: int, owner: object) -> Outcome:
        """Say what became of a timer that is over; if that is not durable yet, only when it is."""
        outcome = self._outcome("already_delivered", timer)
        claimed_as = self._states.claimed_as(timer.offset)
        if claimed_as == "rescheduled":
            return self._refused(timer, "it is being rescheduled; retry shortly")
        if claimed_as is not None:
            outcome.outcome = f"already_{claimed_as}"
            outcome.delivered_ms = now_ms if claimed_as == "delivered" else None
            self._wait_for_all(outcome, timer, now_ms, owner)
            return outcome
        released = self._keys.released(timer)
        if released is not None:
            outcome.delivered_ms = released.store_ms
        elif self._keys.cancel_of(timer) is not None or self._keys.successors_of(timer) is not None:
            outcome.outcome = "already_cancelled"
        return outcome

    def _wait_for_all(self, outcome: Outcome, timer: Timer, now_ms: int, owner: object) -> None:
        """Have the answer wait for what is being written."""
        ticket = ticket_of(self._store, timer, 0, now_ms, owner)
        if self._store.join(ticket):
            outcome.tickets.append(ticket)

    def _refused(self, timer: Timer, error: str, cause: BrokerError | None = None) -> Outcome:
        outcome = self._outcome("refused", timer)
        outcome.error, outcome.cause = error, cause
        return outcome

    def _outcome(self, name: str, timer: Timer) -> Outcome:
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


# Timers that alone keep an old segment.

#: Timers looked at and moved in one pass, and the part of a segment, one in so many, that is worth moving at most.
_LOOKED_AT = 100_000
_MOVES_PER_PASS = 500
_SMALL_PART = 4


class Compaction:
    """Appends the few timers again that alone keep the oldest segment of the log, so that it can go.

    The copy names the old record (ESC_REPLACES) and is due at the same moment; nothing else changes. This is done only
    where what waits is a small part of the segment, and only so many at a time.
    """

    def __init__(self, store: Store, states: TimerStates, index: TimerIndex, keys: Keys, steering: Steering) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._keys = keys
        self._steering = steering

    def move(self, end_position: int, now_ms: int) -> int:
        """Append again what waits below a position, the end of a segment that is old; return how many. Raises OSError.

        A store that takes nothing now is asked again with the next pass.
        """
        store, states = self._store, self._states
        lowest = states.lowest()
        if lowest is None or end_position > store.visible_position:
            return 0
        queue = self._index.queue
        end_offset = queue.search(lowest, queue.max_offset, end_position)
        offsets = [o for o in islice(states.not_over(lowest, end_offset), _LOOKED_AT) if states.waits(o)]
        entries = [entry for offset in offsets[:_MOVES_PER_PASS] for entry in queue.entries(offset, 1)]
        size = sum(entry.size for entry in entries) * max(1, len(offsets) // max(1, len(entries)))
        if size * _SMALL_PART > store.log.chain.segment_size:
            return 0
        moved = 0
        for entry in entries:
            message = self._keys.message_at(entry.position)
            timer = self._keys.at(entry.position)
            if message is None or timer is None or not states.waits(timer.offset):
                continue
            if store.topics.is_cancelled(timer.topic, timer.position):
                states.end(timer.offset, timer.topic)
                continue
            try:
                self._steering.append_again(timer, message, now_ms)
            except BrokerError:
                break
            moved += 1
        return moved
