"""Records that end a timer, in the form Apache RocketMQ writes and honours: TIMER_DEL_UNIQKEY in the timer's second."""

from __future__ import annotations

from collections.abc import Callable

from ...rocketmq.layout import CRC_SIZE
from ...rocketmq.message import format_properties
from ...rocketmq.properties import (
    CANCELS,
    DUE_MS,
    ECHO,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    REASON,
    RECALLED,
    SCHEDULE_KEY,
    TAGS,
    TIMER_DELETE,
    TIMER_OUT_MS,
    UNIQUE_KEY,
    parse_properties,
)
from ..errors import PropertiesTooLarge
from ..log.ticket import Ticket
from ..message_header import Facts
from ..tables.topics import TIMER_TOPIC
from .core import Core
from .due_moments import out_ms_of, second_of
from .keys import Keys
from .parked import Deleted, Note, Parked, Sent
from .request import Ask

_STORED_LIMIT_BYTES = 32_767
#: What RocketMQ's recall command writes.
_RECALL_TAG = "_RECALL_TAG_"
#: Longest reason kept, in characters.
_REASON_LIMIT = 1_000


class Deletes:
    """Appends them."""

    def __init__(self, core: Core, keys: Keys, note: Callable[[Note], None]) -> None:
        self._core = core
        self._keys = keys
        self._note = note
        self._store = core.store

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

    def _victims_of(self, topic: str, delete: str, due_ms: int) -> list[Parked]:
        """Return the pending timers that RocketMQ's delete means: by unique key, or ``topic+unique key``.

        Only those of the topic that it is sent to: who may send to one topic takes nothing back in another.
        """
        found = self._keys.by_unique_key(topic, delete)
        if delete.startswith(f"{topic}+"):
            found += self._keys.by_unique_key(topic, delete[len(topic) + 1 :])
        second = second_of(due_ms)
        return [timer for timer in found if second_of(timer.due_ms) == second and self._core.waits(timer.offset)]

    def cancel(
        self,
        victim: Parked,
        sent: Sent,
        now_ms: int,
        reason: str,
        owner: object = None,
        *,
        recalled_until_ms: int | None = None,
    ) -> Ticket:
        """Append the record that ends a timer; the timer is over from now on. Raises StoreRefused.

        ``recalled_until_ms``: a recall ends it, and what comes of it once more until then.
        """
        properties = {**_properties(victim), CANCELS: str(victim.position)}
        if recalled_until_ms is not None:
            properties[RECALLED] = str(recalled_until_ms)
        if reason:
            properties[REASON] = "".join(filter(str.isprintable, reason))[:_REASON_LIMIT]
        return self._append(properties, b"0", sent, victim.due_ms, now_ms, owner, victim, cancels=True)

    def recall(self, topic: str, unique_key: str, moment_ms: int, sent: Sent, now_ms: int, owner: object) -> Ticket:
        """Append the record that ends whatever comes of a message that does not wait now. Raises StoreRefused."""
        none = Parked(-1, -1, 0, moment_ms, topic, unique_key)
        properties = {**_properties(none), RECALLED: str(moment_ms)}
        return self._append(properties, b"0", sent, moment_ms, now_ms, owner, None, cancels=False)

    def echo(self, victim: Parked, new_due_ms: int | None, sent: Sent, now_ms: int) -> None:
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
        victim: Parked | None,
        *,
        cancels: bool,
    ) -> Ticket:
        properties.pop(SCHEDULE_KEY, None)
        stored = format_properties(properties)
        if len(stored) + CRC_SIZE > _STORED_LIMIT_BYTES:
            raise PropertiesTooLarge(len(stored), _STORED_LIMIT_BYTES - CRC_SIZE)
        store, tags = self._store, properties.get(TAGS)
        facts = Facts(stored, properties.get(UNIQUE_KEY), tags, properties.get(KEYS))
        ticket = store.append(
            TIMER_TOPIC, 0, body, facts, store.tags_code(tags), 0, 0, sent.born_ms, sent.born_host, now_ms, 0,
            owner=owner, asked_topic=properties[REAL_TOPIC], asked_queue_id=int(properties[REAL_QUEUE_ID]),
            due_ms=due_ms,
        )  # fmt: skip
        ticket.is_timer = True
        if victim is not None and cancels:
            self._core.claimed.add(victim.offset)
        self._note(Deleted(ticket.queue_offset, ticket.position, ticket.size, victim, cancels))
        return ticket


def _properties(victim: Parked) -> dict[str, str]:
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
