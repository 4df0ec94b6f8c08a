"""The way of a half message into the store, and that of its copy when it is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..rocketmq.layout import CRC_SIZE, FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK
from ..rocketmq.message import Message, pack_host
from ..rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC, SOURCE, format_properties
from ..rocketmq.topics import HALF_TOPIC
from .admission import STORED_LIMIT_BYTES
from .errors import InvalidMessage, PropertiesTooLarge
from .log.append import Copy
from .log.ticket import Ticket
from .message_header import Facts, facts_of
from .store import Store
from .timer.parking import Parking
from .timer.state import Sent
from .transaction.records import Beginning
from .transaction.service import Transactions
from .transaction.state import Fresh

#: What a commit and a release add to the properties (ESC_SOURCE and its position), and the record's checksum.
_RESERVE_BYTES = CRC_SIZE + 32
#: The same where the commit is of a timer, which says its moment, too.
_TIMER_RESERVE_BYTES = CRC_SIZE + 210
#: What a record has beside body and properties: header, topic, ESC_SOURCE, checksum.
_LARGEST_REST_BYTES = 512


class HalfIntake:
    """Takes halves, and puts copies where messages belong: ``park`` those with a delay level, ``release`` plain ones,
    at the ``place`` that their topic has now."""

    def __init__(
        self,
        store: Store,
        transactions: Transactions,
        parking: Parking,
        park: Callable[[str, int, bytes, Facts, tuple[int, int, int, bytes, int], int, object, int | None], Ticket],
        release: Callable[[Message, str, int, Facts, int], Ticket],
        place: Callable[[str, int], tuple[str, int]],
    ) -> None:
        self._store = store
        self._transactions = transactions
        self._beginning = Beginning()
        self._parking = parking
        self._park = park
        self._release = release
        self._place = place

    def begin(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        sent: tuple[int, int, int, bytes, int],
        now_ms: int,
        owner: object,
    ) -> Ticket:
        """Take a half message that was admitted: out of sight until its producer decides.

        Raises InvalidMessage, StoreRefused.
        """
        begun = self._beginning.begin_known(topic, queue_id, properties)
        reserve = _RESERVE_BYTES
        if begun is None:
            facts = facts_of(properties)
            if facts.timer:
                reserve = _TIMER_RESERVE_BYTES
                self._parking.check(facts.timer, now_ms)
            begun = self._beginning.begin(topic, queue_id, facts, properties)
            if not begun.group:
                raise InvalidMessage(
                    "A half message names its producer group (property PGROUP), or nobody could be asked about it."
                )
        half = begun.half
        if len(half.stored) + reserve > STORED_LIMIT_BYTES:
            ours = len(half.stored) - len(properties)
            raise PropertiesTooLarge(len(properties), STORED_LIMIT_BYTES - reserve - ours)
        flag, sys_flag, born_ms, born_host, times = sent
        sys_flag &= ~FLAG_TRANSACTION_MASK
        ticket = self._store.append(
            HALF_TOPIC,
            0,
            body,
            half,
            self._store.tags_code(half.tags),
            flag,
            sys_flag,
            born_ms,
            born_host,
            now_ms,
            times,
            owner=owner,
            asked_topic=topic,
            asked_queue_id=queue_id,
        )
        fresh = None
        if not begun.asks_for_delay:
            position, group, copy = ticket.position, begun.group, begun.copy
            fresh = Fresh(position, group, topic, queue_id, body, copy, flag, sys_flag, born_ms, born_host, times)
        self._transactions.began(ticket, begun, fresh)
        return ticket

    def plan_copy(self, half: Fresh) -> Copy:
        """Return the copy of a half that asks for no delay and was kept as it was sent: no record yet, but there is
        room and a place for it. Raises StoreRefused, OSError."""
        topic, queue_id = self._place(half.topic, half.queue_id)
        unique_key, stored = half.facts.unique_key, half.facts.stored
        facts = Facts(stored + b"ESC_SOURCE\x01%d\x02" % half.position, unique_key, half.facts.tags, half.facts.keys)
        self._store.make_room(len(half.body) + len(stored) + _LARGEST_REST_BYTES)
        sys_flag, times = half.sys_flag | FLAG_TRANSACTION_COMMIT, half.reconsume_times
        born_ms, born_host = half.born_ms, half.born_host
        return Copy(topic, queue_id, half.body, facts, half.flag, sys_flag, born_ms, born_host, times, half.position)

    def commit(self, half: Message, now_ms: int) -> Ticket:
        """Put a copy of a half message where it belongs: on its real topic, or where it waits for its moment.

        The copy names the half (ESC_SOURCE). Raises StoreRefused, OSError.
        """
        properties = {k: v for k, v in half.properties.items() if k not in (REAL_TOPIC, REAL_QUEUE_ID, SOURCE)}
        topic, queue = half.properties.get(REAL_TOPIC, ""), half.properties.get(REAL_QUEUE_ID, "")
        queue_id = int(queue) if queue.isascii() and queue.isdigit() and len(queue) < 10 else 0
        sys_flag = half.sys_flag & ~FLAG_TRANSACTION_MASK | FLAG_TRANSACTION_COMMIT
        facts = facts_of(format_properties(properties))
        if facts.delay_level:
            sent = (half.flag, sys_flag, half.born_ms, pack_host(*half.born_host), half.reconsume_times)
            return self._park(topic, queue_id, half.body, facts, sent, now_ms, None, half.position)
        if facts.timer:
            asked = Sent(half.flag, sys_flag, half.born_ms, pack_host(*half.born_host), half.reconsume_times)
            ticket = self._parking.park_committed(topic, queue_id, half.body, facts, asked, half.position, now_ms)
            if ticket is not None:
                return ticket
        facts = facts._replace(stored=facts.stored + b"ESC_SOURCE\x01%d\x02" % half.position)
        return self._release(
            replace(half, sys_flag=sys_flag, prepared_position=half.position), topic, queue_id, facts, now_ms
        )
