"""Halves that act on a timer: their commit takes back or moves what waits under a schedule key, and shows no message.

    ESC_TIMER_ACT=cancel, ESC_SCHEDULE_KEY                    what waits is taken back
    ESC_TIMER_ACT=move, ESC_SCHEDULE_KEY, TIMER_DELIVER_MS    what waits has another moment (delays: from the commit)

A commit leaves one record in the timers' topic that names the half (ESC_SOURCE) and the key: the delete of what waits,
or its successor, or a delete of nothing. So it is whole or not there, as any commit, and recovery knows it by the same
two records, this one and the op record. Without the delete of nothing recovery would take a commit that found nothing
for one whose record was lost, and carry it out again on what came later.

**The order of halves.** Commits come in any order: a process dies after COMMIT, and the broker asks about an earlier
half later. Halves about one key count in the order in which they were sent, whichever is committed first:

    half that is committed    a later put or cancel was carried out    a later move was
    put                       leaves nothing                           waits until the moment of that move
    cancel                    leaves nothing                           cancels
    move                      leaves nothing                           leaves nothing

So a transaction that puts and then cancels leaves nothing, and where transactions take turns (each locks a row before
it speaks of the key) the last one decides. To what is sent outside of transactions, the moment of the commit counts.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from ...rocketmq.layout import FLAG_TRANSACTION_COMMIT
from ...rocketmq.message import Message, pack_host
from ...rocketmq.properties import (
    DUE_MS,
    KEYS,
    MOVED,
    ON_CONFLICT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    REASON,
    REPLACES,
    SCHEDULE_KEY,
    SOURCE,
    TIMER_ACT,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    format_properties,
    parse_properties,
)
from ..errors import PropertiesTooLarge, TimerIllegal
from ..log.ticket import Ticket
from ..message_header import Facts, facts_of, value_in
from .keys import HalfOrder, Keys
from .parking import LATER_HALF, Deletes, FromHalf, Parked, Parking, due_ms_asked, key_asked, sent_of
from .state import Replacement, Sent, Timer

#: What parking adds, and what says when: the rest is the message as its sender gave it.
PARKED_ONLY = frozenset(
    {TIMER_OUT_MS, REAL_TOPIC, REAL_QUEUE_ID, DUE_MS, REPLACES, SOURCE, MOVED, TIMER_DELAY_MS, TIMER_DELAY_SEC}
)


class Act(NamedTuple):
    """The wish of a half: what is to be done to the timer of a schedule key."""

    kind: Literal["cancel", "move"]
    key: str


def act_of(properties: dict[str, str]) -> Act | None:
    """Return what a half does when it is committed; None for one that carries a message."""
    kind = properties.get(TIMER_ACT)
    if kind not in ("cancel", "move"):
        return None
    return Act(cast(Literal["cancel", "move"], kind), properties.get(SCHEDULE_KEY, ""))


class Acts:
    """Carries out what committed halves ask for."""

    def __init__(self, keys: Keys, order: HalfOrder, parking: Parking, deletes: Deletes) -> None:
        self._keys = keys
        self._order = order
        self._parking = parking
        self._deletes = deletes

    def check(self, facts: Facts, now_ms: int) -> None:
        """Raise TimerIllegal, TimerTooFar unless a half may ask for what its properties say."""
        text = facts.stored.decode()
        kind = value_in(text, TIMER_ACT)
        if kind not in ("cancel", "move"):
            raise TimerIllegal(f"{TIMER_ACT} is cancel or move, not {str(kind)[:40]!r}.")
        if key_asked(text)[0] is None:
            raise TimerIllegal(f"A half with {TIMER_ACT} names the timer by its schedule key ({SCHEDULE_KEY}).")
        if facts.delay_level or any(value_in(text, name) is not None for name in (TIMER_DELETE, ON_CONFLICT)):
            raise TimerIllegal(f"A half with {TIMER_ACT} has no {TIMER_DELETE}, {ON_CONFLICT} or delay level.")
        if kind == "cancel" and facts.timer:
            raise TimerIllegal(f"A half with {TIMER_ACT}=cancel takes no due time.")
        if kind == "move":
            if not facts.timer:
                raise TimerIllegal(f"A half with {TIMER_ACT}=move says when ({TIMER_DELIVER_MS}, {TIMER_DELAY_MS}).")
            self._parking.check_reach(due_ms_asked(facts.timer, now_ms), now_ms)

    def carry_out(self, act: Act, half: Message, now_ms: int) -> Ticket:
        """Append the record of a half that is committed. Raises StoreRefused."""
        topic = half.properties.get(REAL_TOPIC, "")
        sent = Sent(0, FLAG_TRANSACTION_COMMIT, half.born_ms, pack_host(*half.born_host), 0)
        due_ms = self._moment_of(half, now_ms) if act.kind == "move" else None
        from_half = FromHalf(half.position, act.key, half.unique_key, due_ms)
        latest = self._order.of(topic, act.key, half.position)
        if max(latest.written, -1 if due_ms is None else latest.moved) > half.position:
            return self._deletes.nothing(topic, from_half, LATER_HALF, sent, now_ms)
        holder = self._parking.holder(topic, act.key)
        if holder is None:
            return self._deletes.nothing(topic, from_half, "no timer was pending", sent, now_ms)
        if due_ms is None:
            reason = half.properties.get(REASON, "")
            return self._deletes.cancel(holder, sent, now_ms, reason, from_half=from_half)
        return self._move(holder, due_ms, from_half, sent, now_ms)

    def _moment_of(self, half: Message, now_ms: int) -> int:
        """Return the moment that a move asks for; one that is over means now."""
        asked = {name: text for name, text in half.properties.items() if name not in (REAL_TOPIC, REAL_QUEUE_ID)}
        return max(due_ms_asked(facts_of(format_properties(asked)).timer, now_ms), now_ms)

    def _move(self, holder: Timer, due_ms: int, from_half: FromHalf, sent: Sent, now_ms: int) -> Ticket:
        """Append what waits with its new moment."""
        parked = self._parking.fresh(holder) or self._parked(holder)
        if parked is None:
            return self._deletes.nothing(holder.topic, from_half, "its record cannot be read", sent, now_ms)
        kept = {k: v for k, v in parse_properties(parked.facts.stored).items() if k not in PARKED_ONLY}
        kept[TIMER_DELIVER_MS] = str(due_ms)
        facts = Facts(format_properties(kept), parked.facts.unique_key, parked.facts.tags, kept.get(KEYS))
        as_sent = parked.sent._replace(sys_flag=parked.sent.sys_flag | FLAG_TRANSACTION_COMMIT)
        old = Replacement(holder, "rescheduled")
        try:
            ticket = self._parking.append(
                holder.topic, parked.queue_id, parked.body, facts, as_sent, due_ms, now_ms, None, holder.key, old,
                from_half.position, moved_to_ms=due_ms,
            )  # fmt: skip
        except PropertiesTooLarge as error:
            return self._deletes.nothing(holder.topic, from_half, str(error), sent, now_ms)
        self._deletes.echo(holder, due_ms, sent, now_ms)
        return ticket

    def _parked(self, timer: Timer) -> Parked | None:
        """Return what the visible record of a timer says; None if it cannot be read."""
        message = self._keys.message_at(timer.position)
        if message is None:
            return None
        queue = message.properties.get(REAL_QUEUE_ID, "")
        queue_id = int(queue) if queue.isascii() and queue.isdigit() and len(queue) < 10 else 0
        facts = Facts(format_properties(message.properties), message.unique_key, message.tags, None)
        return Parked(queue_id, message.body, facts, sent_of(message))
