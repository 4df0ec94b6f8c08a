"""The way of a message into the store: checks, then the queue it belongs to.

A message with a delay level goes to SCHEDULE_TOPIC_XXXX and comes back through ``release`` when its moment has come;
one that a consumer gave back goes the same way to its group's retry topic, or to the dead letters. A half message is
kept out of sight until its producer decides; its copy is put where messages belong when it is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

from ..rocketmq.compiled import FAST
from ..rocketmq.layout import (
    CRC_SIZE,
    FLAG_TRANSACTION_COMMIT,
    FLAG_TRANSACTION_MASK,
    FLAG_TRANSACTION_PREPARED,
    MOST_IN_BATCH,
)
from ..rocketmq.message import Message, decode, pack_host
from ..rocketmq.properties import (
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    DUE_MS,
    KEYS,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RESERVED,
    RETRY_TOPIC,
    SCHEDULE_KEY,
    SOURCE,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
    format_properties,
)
from ..rocketmq.topics import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, check_group_name, origin_topic
from .admission import MOST_KEYS, STORED_LIMIT_BYTES, Admission
from .config import EngineConfig
from .errors import InvalidMessage, PropertiesTooLarge, TimerFlowControl
from .log.append import (
    Copy,
    Encoded,
    Extremes,
    Parts,
    Sends,
    Together,
    append_batch,
    append_encoded,
    append_sends,
    is_short,
)
from .log.ticket import BatchTicket, Ticket
from .message_header import Facts, facts_of, plain_facts, plain_keys, value_in
from .schedule import Schedule
from .store import Store
from .tables.groups import is_dead_letter, retry_delay_ms
from .tables.topics import Topic
from .timer.acts import Acts, act_of
from .timer.parking import Parking
from .timer.state import Sent
from .transaction.records import HalfBuilder
from .transaction.service import Transactions
from .transaction.state import RecentHalf

#: What a release adds to the properties (ESC_SOURCE and its position), and the record's checksum.
_RESERVE_BYTES = CRC_SIZE + 32
#: The same where it is the commit of a half that is a timer, which says its moment, too.
_TIMER_RESERVE_BYTES = CRC_SIZE + 210
#: What a record has beside body and properties: header, topic, ESC_SOURCE, checksum.
_LARGEST_REST_BYTES = 512
#: What a timer says of its own moment; the next try has another.
_MOMENTS = (DELAY, DUE_MS, SCHEDULE_KEY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_OUT_MS)
#: In the properties of what asks for a moment, as those of most timers do.
_MOMENT = b"TIMER_D"
_NO_HALVES = "Messages of a batch cannot be half messages; send them one by one."


class Intake:
    """Takes messages in, and puts each into the queue where it belongs."""

    def __init__(
        self, store: Store, schedule: Schedule, transactions: Transactions, parking: Parking, acts: Acts
    ) -> None:
        self._store = store
        self._acts = acts
        self._schedule = schedule
        self._parking = parking
        self._transactions = transactions
        self._half_builder = HalfBuilder()
        self._admission = Admission(store)

    def reconfigure(self, config: EngineConfig) -> None:
        """Take over changed limits of messages and timers."""
        self._admission.reconfigure(config)
        self._parking.reconfigure(config)

    def take(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
        now_ms: int,
        owner: object,
    ) -> Ticket:
        """Take one message of a client. Raises InvalidMessage, TopicNotFound, TopicNotWritable, StoreRefused."""
        queue_id = self._admission.check(
            topic, queue_id, len(body), len(properties), flag, sys_flag, born_ms, born_host, reconsume_times
        )
        if sys_flag & FLAG_TRANSACTION_MASK:
            half = (flag, sys_flag, born_ms, born_host, reconsume_times)
            return self._begin_half(topic, queue_id, body, properties, half, now_ms, owner)
        facts = facts_of(properties)
        store = self._store
        if b"TRAN_MSG\x01" in properties and _is_half(topic, facts, reconsume_times):
            half = (flag, sys_flag, born_ms, born_host, reconsume_times)
            return self._begin_half(topic, queue_id, body, properties, half, now_ms, owner)
        if facts.timer:
            sent = tuple.__new__(Sent, (flag, sys_flag, born_ms, born_host, reconsume_times))
            ticket = self._parking.park(topic, queue_id, body, facts, sent, now_ms, owner)
            if ticket is not None:
                return ticket
        if not facts.delay_level:
            tags_code = store.tags_code(facts.tags) if facts.tags else 0
            return store.append(
                topic,
                queue_id,
                body,
                facts,
                tags_code,
                flag,
                sys_flag,
                born_ms,
                born_host,
                now_ms,
                reconsume_times,
                owner=owner,
            )
        sent = Sent(flag, sys_flag, born_ms, born_host, reconsume_times)
        return self._park(topic, queue_id, body, facts, sent, now_ms, owner)

    def take_batch(
        self,
        topic: str,
        queue_id: int,
        parts: list[tuple[bytes, bytes, int]],
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        now_ms: int,
        owner: object,
    ) -> BatchTicket:
        """Take all messages or none. Raises as ``take``; a batch cannot be delayed."""
        if not parts:
            raise InvalidMessage("The batch holds no message.")
        bodies, properties, flags = zip(*parts, strict=True)
        queue_id = self._admission.check_batch(topic, queue_id, bodies, properties, flags, sys_flag, born_ms, born_host)
        if sys_flag & FLAG_TRANSACTION_MASK:
            raise InvalidMessage(_NO_HALVES)
        batch = Parts(bodies, properties, flags, plain_keys(properties) or (), ())
        if not batch.keys:
            facts = [self._facts_in_batch(topic, each) for each in properties]
            self._admission.check_keys(each.keys for each in facts)
            batch = Parts(bodies, [each.stored for each in facts], flags, (), facts)
        size = sum(map(len, bodies)) + sum(map(len, batch.properties)) + len(parts) * (len(topic) + 128)
        self._store.make_room(size)
        return append_batch(self._store, topic, queue_id, batch, Together(sys_flag, born_ms, born_host, now_ms), owner)

    def take_encoded(
        self, topic: str, batches: Sequence[Encoded], sys_flag: int, born_host: bytes, now_ms: int
    ) -> list[BatchTicket] | None:
        """Take all messages of batches as they were sent, or none: None if they go as ``take_batch`` takes them, as all
        do without compiled twins. Raises as that does if one of them would be refused."""
        found: list[Extremes] = []
        for batch in batches:
            read = None if FAST is None else FAST.batch_extremes(batch.body, MOST_IN_BATCH, MOST_KEYS)
            # a queue whose turn it is would be chosen twice where the messages go the other way in the end
            if read is None or batch.queue_id < 0 or sys_flag & FLAG_TRANSACTION_MASK:
                return None
            found.append(tuple.__new__(Extremes, read))
        messages, stored, _, bodies, properties, lowest, highest, _ = zip(*found, strict=True)
        queue_ids, _, born_ms, _ = zip(*batches, strict=True)
        extremes = max(bodies), max(properties), min(lowest), max(highest)
        for each_ms in {min(born_ms), max(born_ms)}:
            self._admission.check_extremes(topic, max(queue_ids), *extremes, sys_flag, each_ms, born_host)
        self._store.make_room(sum(stored) + sum(messages) * (len(topic) + 128))
        return append_encoded(self._store, topic, batches, found, Together(sys_flag, 0, born_host, now_ms))

    def take_together(self, topic: str, sends: Sends, born_host: bytes, now_ms: int) -> list[Ticket] | None:
        """Take messages as ``take`` does, column by column, or none of them: None if that cannot be.

        Raises InvalidMessage, TopicNotFound, TopicNotWritable, StoreRefused if one of them would be refused.
        """
        store, bodies, properties, flags = self._store, sends.bodies, sends.properties, sends.flags
        if not self._may_go_together(topic, topic, sends, 0, born_host):
            return None
        if _MOMENT in properties[0] and (tickets := self._parking.park_usual(topic, sends, born_host, now_ms)):
            return tickets
        parts = Parts(bodies, properties, flags, plain_keys(properties) or (), ())
        if not parts.keys:
            facts = [facts_of(each) for each in properties]
            if any(each.delay_level or b"TRAN_MSG\x01" in each.stored for each in facts):
                return None
            if any(each.timer for each in facts):
                return self._parking.park_together(topic, sends, facts, born_host, now_ms)
            parts = Parts(bodies, [each.stored for each in facts], flags, (), facts)
        return append_sends(store, topic, sends, parts, Together(0, 0, born_host, now_ms))

    def _may_go_together(self, topic: str, kept_in: str, sends: Sends, sys_flag: int, born_host: bytes) -> bool:
        """Tell whether records can be made column by column; raise as ``take`` if one may not be stored: the extremes
        are looked at."""
        queue_ids, bodies, properties, flags, born_ms, _ = sends
        store = self._store
        if min(queue_ids) < 0 or not is_short(store.name_of(kept_in), born_host, store.store_host):
            return False
        longest, check = (max(map(len, bodies)), max(map(len, properties))), self._admission.check
        check(topic, max(queue_ids), *longest, max(flags), sys_flag, max(born_ms), born_host, 0)
        if (lowest := min(flags)) < 0 or min(born_ms) < 0:
            check(topic, 0, *longest, lowest, sys_flag, min(born_ms), born_host, 0)
        return True

    def _facts_in_batch(self, topic: str, properties: bytes) -> Facts:
        facts = plain_facts(properties) or facts_of(properties)
        if facts.delay_level or facts.timer:
            raise InvalidMessage("Messages of a batch cannot be delayed; send them one by one.")
        if b"TRAN_MSG\x01" in properties and _is_half(topic, facts, 0):
            raise InvalidMessage(_NO_HALVES)
        return facts

    def _park(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        facts: Facts,
        sent: tuple[int, int, int, bytes, int],
        now_ms: int,
        owner: object,
        half_position: int | None = None,
    ) -> Ticket:
        flag, sys_flag, born_ms, born_host, reconsume_times = sent
        level, parked = self._schedule.park(topic, queue_id, facts)
        if half_position is not None:
            parked = parked._replace(stored=parked.stored + b"ESC_SOURCE\x01%d\x02" % half_position)
        if len(parked.stored) + _RESERVE_BYTES > STORED_LIMIT_BYTES:
            raise PropertiesTooLarge(len(facts.stored), STORED_LIMIT_BYTES - _RESERVE_BYTES - 300)
        due_ms = self._schedule.due_ms(level, now_ms)
        return self._store.append(
            SCHEDULE_TOPIC,
            level - 1,
            body,
            parked,
            tags_code=due_ms,
            flag=flag,
            sys_flag=sys_flag,
            born_ms=born_ms,
            born_host=born_host,
            store_ms=now_ms,
            reconsume_times=reconsume_times,
            prepared_position=half_position or 0,
            owner=owner,
            asked_topic=topic,
            asked_queue_id=queue_id,
            due_ms=due_ms,
        )

    def release(self, message: Message, topic: str, queue_id: int, facts: Facts, now_ms: int) -> Ticket:
        """Put a parked message on its real topic. Raises StoreRefused, OSError."""
        return self._put_again(message, *self.place(topic, queue_id), facts, now_ms)

    def place(self, topic: str, queue_id: int) -> tuple[str, int]:
        """Return topic and queue where a parked message belongs now; the topic is made if it is gone. Raises OSError,
        InvalidTopicName."""
        config = self._store.topics.get(topic)
        if config is None:
            config = self._store.topics.ensure(topic, max(queue_id + 1, self._queues_of_new(topic)), is_due=True)
        queues = max(config.read_queues, config.write_queues, 1)
        return topic, queue_id if queue_id < queues else queue_id % queues

    def _queues_of_new(self, topic: str) -> int:
        return 1 if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else self._store.config.default_topic_queues

    def _put_again(
        self,
        message: Message,
        topic: str,
        queue_id: int,
        facts: Facts,
        now_ms: int,
        reconsume_times: int | None = None,
        owner: object = None,
    ) -> Ticket:
        store = self._store
        return store.append(
            topic,
            queue_id,
            message.body,
            facts,
            tags_code=store.tags_code(facts.tags),
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_ms=message.born_ms,
            born_host=pack_host(*message.born_host),
            store_ms=now_ms,
            reconsume_times=message.reconsume_times if reconsume_times is None else reconsume_times,
            prepared_position=message.prepared_position,
            owner=owner,
        )

    def send_back(
        self, position: int, group: str, delay_level: int, max_reconsume_times: int, now_ms: int, owner: object
    ) -> Ticket:
        """Park a message for another try of its group, or put it to the dead letters. See Engine.send_back."""
        check_group_name(group)
        message = decode(self._store.look_at(position), verify=False)
        origin = message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
        # what was popped again stands in a retry topic, and does not say of which it is
        real_topic = origin_topic(group, message.properties.get(RETRY_TOPIC) or message.topic)
        kept = {**message.properties, RETRY_TOPIC: real_topic, ORIGIN_MESSAGE_ID: origin, WAIT: "false"}
        for name in (REAL_TOPIC, REAL_QUEUE_ID, *RESERVED):
            kept.pop(name, None)
        known = self._store.groups.get(group)
        tries, gives_up = message.reconsume_times, delay_level < 0
        if is_dead_letter(known, tries, most_tries=max_reconsume_times, gives_up=gives_up):
            topic = DLQ_PREFIX + group
            kept |= {DELAY: "0", DLQ_ORIGIN_TOPIC: real_topic, DLQ_ORIGIN_MESSAGE_ID: origin}
        else:
            topic = RETRY_PREFIX + group
            kept[DELAY] = str(delay_level or 3 + tries)
        if self._store.topics.get(topic) is None:
            self._store.topics.put(Topic(topic, 1, 1))
        sent = Sent(message.flag, message.sys_flag, message.born_ms, pack_host(*message.born_host), tries + 1)
        if not delay_level and topic.startswith(RETRY_PREFIX):
            delay_ms = retry_delay_ms(known, tries)
            if delay_ms is not None:
                return self._rest(message, topic, kept, sent, delay_ms, now_ms, owner)
        level = int(kept[DELAY])
        facts = _facts(kept, level)
        if not level:
            return self._put_again(message, topic, 0, facts, now_ms, tries + 1, owner)
        return self._park(topic, 0, message.body, facts, sent, now_ms, owner)

    def _rest(
        self, message: Message, topic: str, kept: dict[str, str], sent: Sent, delay_ms: int, now_ms: int, owner: object
    ) -> Ticket:
        """Park a message for the time that its group's policy says: at the level of that delay, else as a timer.

        Where no more timers may wait it gets the next longer level.
        """
        delay_ms = min(delay_ms, self._store.config.timer_max_delay_ms)
        levels = sorted((level.delay_ms, level.number) for level in self._schedule.levels)
        longer = next(((each_ms, number) for each_ms, number in levels if each_ms >= delay_ms), levels[-1])
        if longer[0] != delay_ms:
            try:
                self._parking.check_room(now_ms + delay_ms)
            except TimerFlowControl:
                pass
            else:
                timer = {name: text for name, text in kept.items() if name not in _MOMENTS}
                return self._parking.append(
                    topic, 0, message.body, _facts(timer, 0), sent, now_ms + delay_ms, now_ms, owner
                )
        level = longer[1]
        return self._park(topic, 0, message.body, _facts({**kept, DELAY: str(level)}, level), sent, now_ms, owner)

    # halves, and their copies when they are committed

    def _begin_half(
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
        begun = self._half_builder.begin_known(topic, queue_id, properties)
        reserve = _RESERVE_BYTES
        if begun is None:
            facts = facts_of(properties)
            if b"ESC_TIMER_ACT\x01" in properties:
                self._acts.check(facts, now_ms)
            elif facts.timer:
                reserve = _TIMER_RESERVE_BYTES
                self._parking.check(facts.timer, now_ms)
            begun = self._half_builder.begin(topic, queue_id, facts, properties)
            if not begun.group:
                raise InvalidMessage(
                    "A half message names its producer group (property PGROUP), or the broker could not check it."
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
        recent = None
        if not begun.asks_for_delay:
            position, group, copy = ticket.position, begun.group, begun.copy
            recent = RecentHalf(position, group, topic, queue_id, body, copy, flag, sys_flag, born_ms, born_host, times)
        self._transactions.began(ticket, begun, recent)
        return ticket

    def take_halves(self, topic: str, sends: Sends, born_host: bytes, now_ms: int) -> list[Ticket] | None:
        """Take half messages as ``take`` does, column by column, or none of them: None if that cannot be. Raises as
        ``take_together``."""
        if not self._may_go_together(topic, HALF_TOPIC, sends, FLAG_TRANSACTION_PREPARED, born_host):
            return None
        queue_ids, bodies, properties, flags, born_ms, _ = sends
        begun = self._half_builder.begin_alike(topic, queue_ids, properties)
        if begun is None:
            begun = self._half_builder.begin_each(topic, queue_ids, properties)
        if begun is None or max(map(len, begun.stored)) + _RESERVE_BYTES > STORED_LIMIT_BYTES:
            return None
        keys = begun.plain_keys
        parts = Parts(bodies, begun.stored, flags, keys, () if keys else begun.copies)
        tickets = append_sends(self._store, topic, sends, parts, Together(0, 0, born_host, now_ms), kept_in=HALF_TOPIC)
        if tickets is None:
            return None
        positions = [ticket.position for ticket in tickets]
        about = (queue_ids, bodies, begun.copies, flags, repeat(0), born_ms, repeat(born_host), repeat(0))
        rows = zip(positions, begun.groups, repeat(topic), *about, strict=False)
        self._transactions.began_all(tickets, begun, map(tuple.__new__, repeat(RecentHalf), rows))
        return tickets

    def plan_copies(self, halves: Sequence[RecentHalf]) -> list[Copy]:
        """Return the copies of halves that ask for no delay, were kept as they were sent, and whose topics are there:
        no records yet, but there is room and a place for them. Raises StoreRefused."""
        copies: list[Copy] = []
        places: dict[tuple[str, int], tuple[str, int]] = {}
        size = 0
        for position, _, asked_topic, asked_id, body, facts, flag, sys_flag, born_ms, born_host, times in halves:
            stored, unique_key, tags, keys, _, _, _ = facts
            place = places.get((asked_topic, asked_id))
            if place is None:
                place = places[asked_topic, asked_id] = self.place(asked_topic, asked_id)
            stored += b"ESC_SOURCE\x01%d\x02" % position
            size += len(body) + len(stored) + _LARGEST_REST_BYTES
            sys_flag |= FLAG_TRANSACTION_COMMIT
            more = (unique_key, tags, keys, flag, sys_flag, born_ms, born_host, times, position)
            copies.append(tuple.__new__(Copy, (*place, body, stored, *more)))
        if copies:
            self._store.make_room(size)
        return copies

    def commit_half(self, half: Message, now_ms: int) -> Ticket:
        """Put a copy of a half message where it belongs: on its real topic, or where it waits for its moment.

        The copy names the half (ESC_SOURCE). One that acts on a timer leaves a record there instead. Raises
        StoreRefused, OSError.
        """
        if (act := act_of(half.properties)) is not None:
            return self._acts.carry_out(act, half, now_ms)
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
        return self.release(
            replace(half, sys_flag=sys_flag, prepared_position=half.position), topic, queue_id, facts, now_ms
        )


def _facts(properties: dict[str, str], level: int) -> Facts:
    said = properties.get
    return Facts(format_properties(properties), said(UNIQUE_KEY), said(TAGS), said(KEYS), level)


def _is_half(topic: str, facts: Facts, reconsume_times: int) -> bool:
    """Tell whether a property says so, the only sign of clients before 4.6.1.

    A committed message has it still: one that a consumer sends back is no half message.
    """
    said = value_in(facts.stored.decode(), TRANSACTION_PREPARED) or ""
    sent_back = topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or (reconsume_times > 0 and facts.delay_level > 0)
    return said.lower() == "true" and not sent_back
