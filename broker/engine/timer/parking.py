"""The way of a timer into the store, and of the records that end one.

A message becomes a record of rmq_sys_wheel_timer that says when and where it is to be delivered. What its sender asks
for is read from the properties of the message: the moment, a schedule key and what to do if that is taken, or the timer
to delete. Records that end a timer have the form Apache RocketMQ writes and honours: TIMER_DEL_UNIQKEY in the timer's
second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ...rocketmq.compiled import FAST
from ...rocketmq.layout import CRC_SIZE, FLAG_TRANSACTION_COMMIT
from ...rocketmq.message import Message, pack_host
from ...rocketmq.properties import (
    CANCELS,
    DUE_MS,
    ECHO,
    KEYS,
    MOVED,
    ON_CONFLICT,
    OWN_PREFIX,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    REASON,
    RECALLED,
    REJECT_PAST,
    REPLACES,
    SCHEDULE_KEY,
    SOURCE,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
    format_properties,
    parse_properties,
)
from ...rocketmq.topics import TIMER_TOPIC
from ..config import EngineConfig
from ..errors import PropertiesTooLarge, ScheduleKeyTaken, TimerFlowControl, TimerIllegal, TimerInThePast, TimerTooFar
from ..log.append import Parts, Sends, Together, append_sends
from ..log.ticket import Ticket
from ..message_header import Facts, schedule_entry, value_in
from ..store import Store
from .index import TimerIndex
from .keys import HalfOrder, Keys
from .state import Deleted, Note, Replaced, Replacement, Sent, Timer, TimerStates
from .wheel import out_ms_of, second_of

#: What a release, a move or a cancel adds to the properties: one that is taken can be moved.
_RESERVE_BYTES = CRC_SIZE + 80
_STORED_LIMIT_BYTES = 32_767
_OUT_MS = TIMER_OUT_MS.encode() + b"\x01"
#: Endings of properties remembered, one for each queue of a real topic.
_TAIL_LIMIT = 10_000


# What a sender asks for.

Conflict = Literal["replace", "keep", "error"]
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}").fullmatch
_LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF
#: Longest schedule key, in characters.
KEY_LIMIT = 200


class Ask(NamedTuple):
    """A moment in the future; the unique key to delete or None; the schedule key or None and what to do if taken."""

    due_ms: int
    delete: str | None
    key: str | None
    on_conflict: Conflict


def moment_ms(moment: tuple[str, str], now_ms: int) -> int:
    """Return the moment that one property asks for, given by name and digits; it may be over, or too far."""
    name, digits = moment
    value = int(digits)
    if name == TIMER_DELIVER_MS:
        return value
    return now_ms + (value * 1000 if name == TIMER_DELAY_SEC else value)


def ask_of(text: str, now_ms: int, max_delay_ms: int) -> Ask | None:
    """Return what the properties ask for, None if the moment is over: the message is to be delivered at once.

    One with a schedule key has to see who has that key first: its moment is now. Raises TimerIllegal.
    """
    due_ms = due_ms_asked(text, now_ms)
    delete = value_in(text, TIMER_DELETE) if "DEL_UNIQKEY" in text else None
    if due_ms <= now_ms:
        if delete is not None or (OWN_PREFIX in text and value_in(text, REJECT_PAST) == "true"):
            raise TimerInThePast(due_ms)
        # who passes on what was a timer once, with all its properties, asks for nothing
        key, on_conflict = key_asked(text) if value_in(text, TIMER_OUT_MS) is None else (None, "error")
        return Ask(now_ms, None, key, on_conflict) if key is not None else None
    if due_ms - now_ms > max_delay_ms:
        raise TimerTooFar(due_ms, max_delay_ms)
    return Ask(due_ms, delete, *key_asked(text))


def key_asked(text: str) -> tuple[str | None, Conflict]:
    """Return the schedule key, None without, and what to do if it is taken. Raises TimerIllegal."""
    if OWN_PREFIX not in text or (key := value_in(text, SCHEDULE_KEY)) is None:
        return None, "error"
    return checked_key(key), _conflict_of(text)


def due_ms_asked(text: str, now_ms: int) -> int:
    """Return the moment asked for: seconds from now before ms from now before a moment; the last of all where it would
    be beyond every calendar. Raises TimerIllegal."""
    if "DELAY_SEC" in text and (value := value_in(text, TIMER_DELAY_SEC)) is not None:
        return min(now_ms + _number(TIMER_DELAY_SEC, value) * 1000, _LONG_MAX)
    if "DELAY_MS" in text and (value := value_in(text, TIMER_DELAY_MS)) is not None:
        return min(now_ms + _number(TIMER_DELAY_MS, value), _LONG_MAX)
    value = value_in(text, TIMER_DELIVER_MS)
    if value is None:
        raise TimerIllegal("A message that deletes a timer names the same due time as that timer (TIMER_DELIVER_MS).")
    return _number(TIMER_DELIVER_MS, value)


def checked_key(key: str) -> str:
    """Return a schedule key; raises TimerIllegal."""
    if not 1 <= len(key) <= KEY_LIMIT or not key.isprintable():
        raise TimerIllegal(f"The schedule key {key[:40]!r} is not valid: 1 to {KEY_LIMIT} printable characters.")
    return key


def _conflict_of(text: str) -> Conflict:
    value = value_in(text, ON_CONFLICT) or "error"
    for known in ("replace", "keep", "error"):
        if value == known:
            return known
    raise TimerIllegal(f"{ON_CONFLICT} is replace, keep or error, not {value[:40]!r}.")


def _number(name: str, value: str) -> int:
    if _NUMBER(value) is None or not -_LONG_MAX - 1 <= int(value) <= _LONG_MAX:
        raise TimerIllegal(f"timer message illegal: {name} is a whole number of 64 bits, not {value[:40]!r}.")
    return int(value)


# Parking.


class Parked(NamedTuple):
    """A timer's message as it was appended: queue of its real topic, body, properties, the rest."""

    queue_id: int
    body: bytes
    facts: Facts
    sent: Sent


class Parking:
    """Parks messages, and the deletes that clients send."""

    def __init__(
        self,
        store: Store,
        states: TimerStates,
        index: TimerIndex,
        keys: Keys,
        order: HalfOrder,
        deletes: Deletes,
        note: Callable[[Note], None],
        note_all: Callable[[Sequence[Timer]], None],
    ) -> None:
        self._store = store
        self._config = store.config
        self._order = order
        #: timers with a schedule key that are appended and cannot be read yet, by offset
        self._fresh: dict[int, Parked] = {}
        self._states = states
        self._index = index
        self._keys = keys
        self._deletes = deletes
        self._note, self._note_all = note, note_all
        self._tails: dict[tuple[str, int], bytes] = {}

    def reconfigure(self, config: EngineConfig) -> None:
        """Take over changed limits of how many timers may wait."""
        self._config = config

    def park(
        self, topic: str, queue_id: int, body: bytes, facts: Facts, sent: Sent, now_ms: int, owner: object
    ) -> Ticket | None:
        """Park a message that asks for a moment; None if that is over: deliver it at once. Raises InvalidMessage,
        StoreRefused."""
        config = self._config
        due_ms = moment_ms(facts.moment, now_ms) if facts.moment is not None else None
        if due_ms is not None and now_ms < due_ms <= now_ms + config.timer_max_delay_ms:
            states = self._states
            if states.pending + len(states.unseen) >= config.timer_max_pending or config.timer_max_per_slot:
                self.check_room(due_ms)
            return self.append(topic, queue_id, body, facts, sent, due_ms, now_ms, owner)
        ask = ask_of(facts.timer, now_ms, config.timer_max_delay_ms)
        if ask is None:
            return None
        if ask.delete is not None:
            return self._deletes.take(topic, queue_id, body, facts, sent, ask, now_ms, owner)
        if ask.key is None:
            self.check_room(ask.due_ms)
            return self.append(topic, queue_id, body, facts, sent, ask.due_ms, now_ms, owner)
        return self._park_keyed(topic, queue_id, body, facts, sent, ask, now_ms, owner)

    def park_together(
        self, topic: str, sends: Sends, facts: Sequence[Facts], born_host: bytes, now_ms: int
    ) -> list[Ticket] | None:
        """Park messages that ask for nothing but a moment, column by column, or none of them: None if that cannot be.
        Raises StoreRefused."""
        dues_ms = [moment_ms(each.moment, now_ms) for each in facts if each.moment is not None]
        if len(dues_ms) < len(facts):
            return None
        tails = self._tails_of(topic, sends.queue_ids)
        stored = list(map(_parked, [each.stored for each in facts], dues_ms, tails))
        unique_keys = [each.unique_key for each in facts]
        parts = Parts(sends.bodies, stored, sends.flags, (), facts)
        return self._append_together(topic, sends, parts, dues_ms, unique_keys, born_host, now_ms)

    def park_usual(self, topic: str, sends: Sends, born_host: bytes, now_ms: int) -> list[Ticket] | None:
        """Do what ``park_together`` does, by a compiled twin that reads the properties; None also without one."""
        if FAST is None:
            return None
        tails = self._tails_of(topic, sends.queue_ids)
        latest_ms = now_ms + self._config.timer_max_delay_ms
        made = FAST.parked_timers(sends.properties, tails, now_ms, latest_ms)
        if made is None:
            return None
        stored, dues_ms, unique_keys, others = made
        if others is None:
            parts = Parts(sends.bodies, stored, sends.flags, unique_keys, ())
        else:
            rows = zip(stored, unique_keys, others, strict=True)
            facts = [Facts(each, unique_key, *other) for each, unique_key, other in rows]
            parts = Parts(sends.bodies, stored, sends.flags, (), facts)
        return self._append_together(topic, sends, parts, dues_ms, unique_keys, born_host, now_ms)

    def _append_together(
        self,
        topic: str,
        sends: Sends,
        parts: Parts,
        dues_ms: Sequence[int],
        unique_keys: Sequence[str | None],
        born_host: bytes,
        now_ms: int,
    ) -> list[Ticket] | None:
        """Append timers column by column; None, and nothing was appended, if they are to go one by one."""
        if not self._may_wait(topic, unique_keys, dues_ms, now_ms):
            return None
        if max(map(len, parts.properties)) + _RESERVE_BYTES > _STORED_LIMIT_BYTES:
            return None
        together = Together(0, 0, born_host, now_ms)
        tickets = append_sends(self._store, topic, sends, parts, together, kept_in=TIMER_TOPIC, dues_ms=dues_ms)
        if tickets is None:
            return None
        timers: list[Timer] = []
        new = tuple.__new__
        for ticket, due_ms in zip(tickets, dues_ms, strict=True):
            ticket.is_timer = True
            place = (ticket.queue_offset, ticket.position, ticket.size)
            timers.append(new(Timer, (*place, due_ms, topic, ticket.unique_key, None, -1)))
        self._states.appended(*timers)
        self._note_all(timers)
        return tickets

    def _may_wait(self, topic: str, unique_keys: Sequence[str | None], dues_ms: Sequence[int], now_ms: int) -> bool:
        """Tell whether timers may wait without a closer look at any of them: their moments, their number, and that none
        of them was recalled."""
        config, states = self._config, self._states
        if min(dues_ms) <= now_ms or max(dues_ms) > now_ms + config.timer_max_delay_ms or config.timer_max_per_slot:
            return False
        if states.pending + len(states.unseen) + len(dues_ms) > config.timer_max_pending:
            return False
        holds = states.recalled.holds
        return not (states.recalled and any(holds(topic, each, now_ms) for each in unique_keys))

    def check(self, text: str, now_ms: int) -> None:
        """Raise TimerIllegal unless a half message may ask for this when it is committed."""
        ask = ask_of(text, now_ms, self._config.timer_max_delay_ms)
        if ask is not None and ask.delete is not None:
            raise TimerIllegal("A message of a transaction cannot delete a timer; send the delete on its own.")
        if ask is not None and ask.key is not None and ask.on_conflict != "replace":
            raise TimerIllegal(
                "In a transaction a schedule key could be found in use only after the commit, when the sender cannot "
                "be told: send it with ESC_ON_CONFLICT=replace, or without a key."
            )

    def check_reach(self, due_ms: int, now_ms: int) -> None:
        """Raise TimerTooFar for a moment beyond the limit."""
        if due_ms - now_ms > (limit_ms := self._config.timer_max_delay_ms):
            raise TimerTooFar(due_ms, limit_ms)

    def park_committed(
        self, topic: str, queue_id: int, body: bytes, facts: Facts, sent: Sent, half_position: int, now_ms: int
    ) -> Ticket | None:
        """Park a half message that is committed: nobody can be told of an error any more, so a key that is
        taken is left out, and a moment that is over means now. What later halves on its key say counts (acts.py)."""
        due_ms = due_ms_asked(facts.timer, now_ms)
        key, on_conflict = key_asked(facts.timer)
        if key is not None:
            latest = self._order.of(topic, key, half_position)
            if latest.written > half_position:
                from_half = FromHalf(half_position, key, facts.unique_key)
                return self._deletes.nothing(topic, from_half, LATER_HALF, sent, now_ms)
            if latest.moved > half_position:
                due_ms = latest.moved_to_ms
        holder = self.holder(topic, key)
        replaced = Replacement(holder, "cancelled") if holder is not None and on_conflict == "replace" else None
        if due_ms <= now_ms and key is None:
            return None
        if holder is not None and replaced is None:
            key = None
            left = {k: v for k, v in parse_properties(facts.stored).items() if k != SCHEDULE_KEY}
            facts = facts._replace(stored=format_properties(left))
        due_ms = max(due_ms, now_ms)
        ticket = self.append(topic, queue_id, body, facts, sent, due_ms, now_ms, None, key, replaced, half_position)
        if replaced is not None:
            self._deletes.echo(replaced.timer, due_ms, sent, now_ms)
        return ticket

    def check_room(self, due_ms: int) -> None:
        """Raise TimerFlowControl if no more timers may wait, in all or in this second."""
        states, config = self._states, self._config
        if states.pending + len(states.unseen) >= config.timer_max_pending:
            raise TimerFlowControl(f"{states.pending:,} timers are pending, the limit is {config.timer_max_pending:,}.")
        self.check_second(due_ms)

    def check_second(self, due_ms: int, before_ms: int | None = None) -> None:
        """Raise TimerFlowControl if no more may be due in this second; one due at ``before_ms`` may stand in it."""
        most = self._config.timer_max_per_slot
        if before_ms is not None and second_of(before_ms) == second_of(due_ms):
            return
        if most and self._number_in(second_of(due_ms), most) >= most:
            raise TimerFlowControl(
                f"timer message is under flow control, max num limit is {most} for the second of {due_ms}; "
                "choose another second, or raise the limit."
            )

    def _number_in(self, second: int, most: int) -> int:
        """Return how many timers stand in a second of the wheel, or are about to."""
        number, unseen = self._index.wheel.number_of(second), self._states.unseen
        if number < most <= number + len(unseen):
            number += sum(second_of(timer.due_ms) == second for timer in unseen)
        return number

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        facts: Facts,
        sent: Sent,
        due_ms: int,
        now_ms: int,
        owner: object,
        key: str | None = None,
        replaced: Replacement | None = None,
        half_position: int | None = None,
        moved_to_ms: int | None = None,
    ) -> Ticket:
        """Append a timer; one that it replaces is over with it. Raises PropertiesTooLarge, StoreRefused.

        ``half_position``: the commit of that half brings it; with ``moved_to_ms`` of one that only moves it.
        """
        stored = _parked(facts.stored, due_ms, self._tail_of(topic, queue_id))
        if replaced is not None or half_position is not None:
            stored += _origin(replaced, half_position, moved_to_ms)
        # what was taken before has had its reserve
        reserve = _RESERVE_BYTES if facts.timer and half_position is None else CRC_SIZE
        if len(stored) + reserve > _STORED_LIMIT_BYTES:
            ours = len(stored) - len(facts.stored)
            raise PropertiesTooLarge(len(facts.stored), _STORED_LIMIT_BYTES - reserve - ours)
        store = self._store
        new = tuple.__new__  # one call less for each of the two named tuples
        unique_key, tags = facts.unique_key, facts.tags
        flag, sys_flag, born_ms, born_host, reconsume_times = sent
        ticket = store.append(
            TIMER_TOPIC, 0, body, new(Facts, (stored, unique_key, tags, facts.keys, 0, "", None)),
            store.tags_code(tags) if tags else 0, flag, sys_flag, born_ms, born_host, now_ms, reconsume_times,
            half_position or 0, owner=owner, asked_topic=topic, asked_queue_id=queue_id, due_ms=due_ms,
            also_key=schedule_entry(topic, key) if key is not None else None,
        )  # fmt: skip
        ticket.is_timer = True
        position, old = ticket.position, -1 if replaced is None else replaced.timer.position
        timer = new(Timer, (ticket.queue_offset, position, ticket.size, due_ms, topic, unique_key, key, old))
        states = self._states
        states.appended(timer)
        if replaced is not None:
            states.claim(replaced.timer.offset, replaced.end)
        self._note(timer if replaced is None else Replaced(timer, replaced.timer))
        if key is not None:
            self._keep(timer.offset, Parked(queue_id, body, facts, sent))
            if half_position is not None:
                self._order.carried_out(topic, key, half_position, moved_to_ms)
        if states.recalled and states.recalled.holds(topic, unique_key, now_ms):
            self._deletes.cancel(timer, sent, now_ms, "cancelled before it was stored")
        return ticket

    def _tails_of(self, topic: str, queue_ids: Sequence[int]) -> list[bytes]:
        tails = {queue_id: self._tail_of(topic, queue_id) for queue_id in set(queue_ids)}
        return list(map(tails.__getitem__, queue_ids))

    def _tail_of(self, topic: str, queue_id: int) -> bytes:
        """Return how the properties of a parked record end that belongs to this queue, but for the moment."""
        if (known := self._tails.get((topic, queue_id))) is not None:
            return known
        if len(self._tails) >= _TAIL_LIMIT:
            self._tails.clear()
        text = f"\x02{REAL_TOPIC}\x01{topic}\x02{REAL_QUEUE_ID}\x01{queue_id}\x02{DUE_MS}\x01"
        tail = self._tails[topic, queue_id] = text.encode()
        return tail

    def _keep(self, offset: int, parked: Parked) -> None:
        """Keep a timer until it can be read; those that can be are forgotten."""
        fresh, end = self._fresh, self._states.end_offset
        while fresh and (oldest := next(iter(fresh))) < end:
            del fresh[oldest]
        fresh[offset] = parked

    def fresh(self, timer: Timer) -> Parked | None:
        """Return the message of a timer that is appended and cannot be read yet."""
        return self._fresh.get(timer.offset) if timer.offset >= self._states.end_offset else None

    def holder(self, topic: str, key: str | None) -> Timer | None:
        """Return the timer that waits under a schedule key."""
        holder = self._keys.by_schedule_key(topic, key) if key is not None else None
        if holder is None or not self._states.waits(holder.offset):
            return None
        return None if self._store.topics.is_cancelled(topic, holder.position) else holder

    def _is_again(self, holder: Timer, facts: Facts) -> bool:
        """Tell whether this is the message that waits, sent once more because its sender heard no answer."""
        if not facts.unique_key or facts.unique_key != holder.unique_key:
            return False
        message = self._keys.message_at(holder.position)
        return message is not None and all(
            message.properties.get(name) == value_in(facts.timer, name)
            for name in (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
        )

    def _park_keyed(
        self, topic: str, queue_id: int, body: bytes, facts: Facts, sent: Sent, ask: Ask, now_ms: int, owner: object
    ) -> Ticket | None:
        """Append a timer with a schedule key, or deal with the one that has it; None if it is to be delivered at once.

        One whose moment is over takes the place of another as a timer that is due now: both or neither.
        """
        key = ask.key or ""
        holder = self.holder(topic, key)
        if holder is None:
            if ask.due_ms <= now_ms:
                return None
            self.check_room(ask.due_ms)
            return self.append(topic, queue_id, body, facts, sent, ask.due_ms, now_ms, owner, key)
        if ask.on_conflict == "error" and not self._is_again(holder, facts):
            raise ScheduleKeyTaken(topic, key, holder.due_ms, holder.position)
        if ask.on_conflict == "replace":
            self.check_second(ask.due_ms, holder.due_ms)
            old = Replacement(holder, "cancelled")
            ticket = self.append(topic, queue_id, body, facts, sent, ask.due_ms, now_ms, owner, key, old)
            ticket.conflict = "replaced"
            self._deletes.echo(holder, ask.due_ms, sent, now_ms)
            return ticket
        ticket = ticket_of(self._store, holder, queue_id, now_ms, owner)
        ticket.conflict, ticket.is_timer = "kept", True
        ticket.waits = self._store.join(ticket)
        return ticket


def _parked(said: bytes, due_ms: int, tail: bytes) -> bytes:
    """Return the properties of a parked record: the sender's, RocketMQ's second, where it goes, and when."""
    return b"%s%s%d%s%d\x02" % (said, _OUT_MS, (due_ms - 1) // 1000 * 1000, tail, due_ms)


def ticket_of(store: Store, timer: Timer, queue_id: int, now_ms: int, owner: object) -> Ticket:
    """Return a ticket of a timer that was appended before, for an answer that is to wait for what is being written."""
    offset, position, size, due_ms, topic, unique_key, *_ = timer
    return Ticket(owner, topic, queue_id, offset, position, size, now_ms, store.store_host, due_ms, unique_key)


def sent_of(message: Message) -> Sent:
    """Return what a record says of how it was sent."""
    return Sent(message.flag, message.sys_flag, message.born_ms, pack_host(*message.born_host), message.reconsume_times)


def _origin(replaced: Replacement | None, half_position: int | None, moved_to_ms: int | None) -> bytes:
    """Return the properties that say which timer a new one replaces, and which half it comes from."""
    named = [(REPLACES, replaced.timer.position if replaced is not None else None), (SOURCE, half_position)]
    named.append((MOVED, moved_to_ms))
    return "".join([f"{name}\x01{value}\x02" for name, value in named if value is not None]).encode()


# Records that end a timer.

#: What RocketMQ's recall command writes.
_RECALL_TAG = "_RECALL_TAG_"
#: Longest reason kept, in characters.
_REASON_LIMIT = 1_000
#: Why the commit of a half changes nothing.
LATER_HALF = "a later half on this key was committed"


class FromHalf(NamedTuple):
    """The half whose commit a record is: its position, the schedule key that it speaks of, its unique key, and of a
    move the moment."""

    position: int
    key: str
    unique_key: str | None
    moved_to_ms: int | None = None


class Deletes:
    """Appends the records that end timers."""

    def __init__(
        self, store: Store, states: TimerStates, keys: Keys, order: HalfOrder, note: Callable[[Note], None]
    ) -> None:
        self._store = store
        self._states = states
        self._keys = keys
        self._order = order
        self._note = note

    def take(
        self, topic: str, queue_id: int, body: bytes, facts: Facts, sent: Sent, ask: Ask, now_ms: int, owner: object
    ) -> Ticket:
        """Append a client's delete; it takes effect at once on a pending timer of its topic and second, else never."""
        victims = self._victims_of(topic, ask.delete or "", ask.due_ms)
        properties = {
            **parse_properties(facts.stored),
            TIMER_OUT_MS: str(out_ms_of(ask.due_ms)),
            REAL_TOPIC: topic,
            REAL_QUEUE_ID: str(queue_id),
            DUE_MS: str(ask.due_ms),
        }
        first = victims[0] if victims else None
        if first is not None:
            properties[CANCELS] = str(first.position)
        ticket = self._append(properties, body, sent, ask.due_ms, now_ms, owner, first, cancels=first is not None)
        for other in victims[1:]:
            self.cancel(other, sent, now_ms, "")
        return ticket

    def _victims_of(self, topic: str, delete: str, due_ms: int) -> list[Timer]:
        """Return the pending timers that RocketMQ's delete means: by unique key, or ``topic+unique key``.

        Only those of the topic that it is sent to: who may send to one topic takes nothing back in another.
        """
        found = self._keys.by_unique_key(topic, delete)
        if delete.startswith(f"{topic}+"):
            found += self._keys.by_unique_key(topic, delete[len(topic) + 1 :])
        second = second_of(due_ms)
        return [timer for timer in found if second_of(timer.due_ms) == second and self._states.waits(timer.offset)]

    def cancel(
        self,
        victim: Timer,
        sent: Sent,
        now_ms: int,
        reason: str,
        owner: object = None,
        *,
        recalled_until_ms: int | None = None,
        from_half: FromHalf | None = None,
    ) -> Ticket:
        """Append the record that ends a timer; the timer is over from now on. Raises StoreRefused.

        ``recalled_until_ms``: a recall ends it, and what comes of it once more until then. ``from_half``: the commit of
        that half ends it.
        """
        properties = {**_properties(victim), CANCELS: str(victim.position)}
        if recalled_until_ms is not None:
            properties[RECALLED] = str(recalled_until_ms)
        if reason:
            properties[REASON] = "".join(filter(str.isprintable, reason))[:_REASON_LIMIT]
        return self._append(properties, b"0", sent, victim.due_ms, now_ms, owner, victim, cancels=True, half=from_half)

    def nothing(self, topic: str, from_half: FromHalf, why: str, sent: Sent, now_ms: int) -> Ticket:
        """Append the record of a half whose commit changes no timer, and why. Raises StoreRefused."""
        none = Timer(-1, -1, 0, now_ms, topic, from_half.unique_key)
        properties = {**_properties(none), REASON: why[:_REASON_LIMIT]}
        return self._append(properties, b"0", sent, now_ms, now_ms, None, None, cancels=False, half=from_half)

    def recall(self, topic: str, unique_key: str, moment_ms: int, sent: Sent, now_ms: int, owner: object) -> Ticket:
        """Append the record that ends whatever comes of a message that does not wait now. Raises StoreRefused."""
        none = Timer(-1, -1, 0, moment_ms, topic, unique_key)
        properties = {**_properties(none), RECALLED: str(moment_ms)}
        return self._append(properties, b"0", sent, moment_ms, now_ms, owner, None, cancels=False)

    def echo(self, victim: Timer, new_due_ms: int | None, sent: Sent, now_ms: int) -> None:
        """Append a delete that only Apache RocketMQ needs: by our own books the timer is over already.

        Where the new timer stands in the same second there can be none: RocketMQ would delete both.
        """
        if victim.unique_key is None or (new_due_ms is not None and second_of(new_due_ms) == second_of(victim.due_ms)):
            return
        properties = {**_properties(victim), ECHO: str(victim.position)}
        self._append(properties, b"0", sent, victim.due_ms, now_ms, None, victim, cancels=False)

    def _append(
        self,
        properties: dict[str, str],
        body: bytes,
        sent: Sent,
        due_ms: int,
        now_ms: int,
        owner: object,
        victim: Timer | None,
        *,
        cancels: bool,
        half: FromHalf | None = None,
    ) -> Ticket:
        properties.pop(SCHEDULE_KEY, None)
        if half is not None:
            properties |= {SCHEDULE_KEY: half.key, SOURCE: str(half.position)}
            if half.moved_to_ms is not None:
                properties[MOVED] = str(half.moved_to_ms)
        stored = format_properties(properties)
        if len(stored) + CRC_SIZE > _STORED_LIMIT_BYTES:
            raise PropertiesTooLarge(len(stored), _STORED_LIMIT_BYTES - CRC_SIZE)
        store, tags = self._store, properties.get(TAGS)
        facts = Facts(stored, properties.get(UNIQUE_KEY), tags, properties.get(KEYS))
        ticket = store.append(
            TIMER_TOPIC,
            0,
            body,
            facts,
            store.tags_code(tags),
            0,
            0 if half is None else FLAG_TRANSACTION_COMMIT,
            sent.born_ms,
            sent.born_host,
            now_ms,
            0,
            0 if half is None else half.position,
            owner=owner,
            asked_topic=properties[REAL_TOPIC],
            asked_queue_id=int(properties[REAL_QUEUE_ID]),
            due_ms=due_ms,
            also_key=None if half is None else schedule_entry(properties[REAL_TOPIC], half.key),
        )
        ticket.is_timer = True
        if half is not None:
            self._order.carried_out(properties[REAL_TOPIC], half.key, half.position, half.moved_to_ms)
        if victim is not None and cancels:
            self._states.claim(victim.offset, "cancelled")
        self._note(Deleted(ticket.queue_offset, ticket.position, ticket.size, victim, cancels))
        return ticket


def _properties(victim: Timer) -> dict[str, str]:
    properties = {
        TIMER_DELETE: victim.unique_key or "",
        TAGS: _RECALL_TAG,
        TIMER_OUT_MS: str(out_ms_of(victim.due_ms)),
        REAL_TOPIC: victim.topic,
        REAL_QUEUE_ID: "0",
        DUE_MS: str(victim.due_ms),
    }
    if victim.unique_key:
        properties[UNIQUE_KEY] = victim.unique_key
    return properties
