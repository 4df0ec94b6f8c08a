"""Sending: one message (10, 310), a batch (310 with `m`, 320), a message that its consumer gives back (36), a reply.

A reply is the answer to a message; it goes back to the client that asked (324, 325; 326 to that client). Whoever asks
sends a message like any other, with properties that name him and his question (REPLY_TO_CLIENT, CORRELATION_ID, TTL).
Who consumes it sends the answer to the cluster's reply topic; the broker hands it to the asker at once and keeps it in
that topic, as RocketMQ does. An answer that its asker did not take is refused, and not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from ...engine.errors import BodyTooLarge, BrokerError, TopicNotFound
from ...engine.log.append import Encoded, Sends
from ...engine.tables.groups import is_dead_letter
from ...rocketmq.codes import ONEWAY_FLAG, Answer, Request
from ...rocketmq.compiled import FAST, twin
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, text, whole
from ...rocketmq.frame import BINARY, Command
from ...rocketmq.frame import decode as decode_frame
from ...rocketmq.ids import UniqueIds
from ...rocketmq.layout import FLAG_TRANSACTION_PREPARED
from ...rocketmq.message import pack_host
from ...rocketmq.properties import (
    CLUSTER,
    DELAY,
    MESSAGE_REPLY_TO_CLIENT,
    MSG_REGION,
    PRODUCER_GROUP,
    PUSH_REPLY_TIME,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
    format_properties,
    parse_properties,
)
from ...rocketmq.sends import (
    QuickSend,
    SendHeader,
    SendShortcut,
    SignedSend,
    SignedSendShortcut,
    read_json_send,
    read_send_header,
    read_signed_json_send,
    split_batch,
)
from ...rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX, TEMPLATE_TOPIC, reply_topic
from ..connection import SHORT_FRAME_BYTES, Connection, Express, Handler
from ..pump import AnsweredOwner
from ..send_reply import TRACE_FIELDS, BatchOwner, SendReplies
from ..state import BrokerState

logger = logging.getLogger(__name__)


#: What is looked for in properties in their stored form.
_HAS_KEY, _HAS_GROUP = (f"{name}\x01".encode() for name in (UNIQUE_KEY, PRODUCER_GROUP))
_CLUSTER, _REGION = CLUSTER.encode(), MSG_REGION.encode()
_DOES_NOT_WAIT, _IS_HALF = f"{WAIT}\x01false".encode(), f"{TRANSACTION_PREPARED}\x01true\x02".encode()

#: Fewer are taken one by one: what they have in common costs more than it saves.
_LEAST_TOGETHER = 6
#: The same of timers, which cost more one by one.
_LEAST_TIMERS = 6 if FAST is None else 4
#: So many batches are taken together at most, and none of them in a longer frame: others wait meanwhile.
_MOST_BATCHES, _LONGEST_HELD_BYTES = 16, 65_536

_BINARY_MARK = bytes((BINARY,))
#: A longer frame is read in full each time.
_LONGEST_LEARNED_BYTES = 65_536

_SEND_V2, _SEND_BATCH = (code.to_bytes(2, "big") for code in (Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE))


_HeldSend = tuple[str, int, bytes, bytes, int, int, int, tuple[Connection, int, int] | None, bool, bytes]
"""A plain send that was read and is not taken yet: topic, queue id, body, properties, flag, sysFlag, born ms, owner of
its ticket (None where nobody waits), whether it is a timer, frame."""

_HeldBatch = tuple[QuickSend, int, bytes]
"""A batch that was read and is not taken yet: what it says, serialization, frame."""


class SendProcessor:
    """The requests that send messages; their answers leave when these are durable."""

    def __init__(
        self,
        state: BrokerState,
        also_express: Mapping[int, Express] = MappingProxyType({}),
        passes: Callable[[Connection, SignedSend], bool] | None = None,
    ) -> None:
        """`also_express`: who takes frames with other codes the short way: it may make no difference whether the sends
        that are held back are taken before or after.
        `passes`, where access is controlled: tells which plain sends are signed and allowed."""
        self._state = state
        self._passes = passes
        self._signed_shortcut = SignedSendShortcut()
        self._engine = state.engine
        self._also_express = {
            # a binary header has no room for others
            code.to_bytes(2, "big"): express
            for code, express in also_express.items()
            if code < 1 << 15
        }
        self._also_express_json = [(b'{"code":%d,' % code, express) for code, express in also_express.items()]
        self._shortcut = SendShortcut()
        self._read_send = self._shortcut.read if FAST is None else FAST.read_send
        self._replies = SendReplies(state.config.broker_name)
        self._took, self._took_all = state.sends.took, state.sends.took_all
        self._held: list[_HeldSend] = []
        #: of one topic with one sysFlag, where no sends are held
        self._held_batches: list[_HeldBatch] = []
        self._message_ids = UniqueIds(pack_host(state.config.host, state.config.port), state.clock)
        self._added = {**TRACE_FIELDS, CLUSTER: state.config.cluster_name}
        self._added_bytes = format_properties(self._added)

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.SEND_MESSAGE: self._send,
            Request.SEND_MESSAGE_V2: self._send,
            Request.SEND_BATCH_MESSAGE: self._send,
            Request.CONSUMER_SEND_MSG_BACK: self._send_back,
        }

    def express(self, connection: Connection, frame: bytes, now_ms: int) -> bool:
        """Take a plain send the short way; return False if it is to go the long one."""
        serialization = frame[0] if frame else 0
        send: QuickSend | None
        if self._passes is not None:
            send = self._read_signed(connection, frame, self._passes)
            if send is None:
                return False
        elif serialization == BINARY:
            code = frame[4:6]
            if code == _SEND_V2:
                send = self._read_send(frame)
                if send is None:
                    return self._first_of_its_kind(connection, frame)
            elif code == _SEND_BATCH:
                send = None if FAST is None else FAST.read_send(frame)
                if send is None:
                    return False
            else:
                express = self._also_express.get(code)
                return express is not None and express(connection, frame, now_ms)
        else:
            send = read_json_send(frame)
            if send is None:
                for beginning, express in self._also_express_json:
                    if frame.startswith(beginning, 4):
                        return express(connection, frame, now_ms)
                return False
        opaque, frame_flag, topic, queue_id, sys_flag, born_ms, flag, properties, body, is_batch = send
        if is_batch:
            return self._hold_batch(connection, (send, serialization, frame), now_ms)
        if self._held_batches:
            self.take_held(connection, now_ms)
        form = _stored_form(properties, self._added_bytes)
        if form is None:
            return False
        stored, goes_alone, is_timer = form
        owner = None if frame_flag & 2 else (connection, opaque, serialization)
        held = (topic, queue_id, body, stored, flag, sys_flag, born_ms, owner, is_timer, frame)
        # a half that asks for no delay may be taken with others, too
        is_usual = (
            not goes_alone if not sys_flag else sys_flag == FLAG_TRANSACTION_PREPARED and b"DEL" not in properties
        )
        if is_usual and len(frame) <= SHORT_FRAME_BYTES:
            # a timer whose moment is over goes to its topic: in its turn among the plain sends of its read
            if self._held and self._held[-1][8] != is_timer:
                self.take_held(connection, now_ms)
            self._held.append(held)
            return True
        self.take_held(connection, now_ms)
        return self._take_one(connection, held, now_ms)

    def take_held(self, connection: Connection, now_ms: int) -> None:
        """Take what was held back, together where that is possible, each message in its order in its topic."""
        if self._held_batches:
            batches, self._held_batches = self._held_batches, []
            self._take_batches(connection, batches, now_ms)
        if not self._held:
            return
        all_held, self._held = self._held, []
        least = _LEAST_TIMERS if all_held[0][8] else _LEAST_TOGETHER  # all are timers, or none is
        if len(all_held) < least:
            self._take_singly(connection, all_held, now_ms)
            return
        alike: dict[tuple[str, int], list[_HeldSend]] = {}
        for send in all_held:
            alike.setdefault((send[0], send[5]), []).append(send)
        for held in alike.values():
            if len(held) < least or not self._take_together(connection, held, now_ms):
                self._take_singly(connection, held, now_ms)

    def _hold_batch(self, connection: Connection, batch: _HeldBatch, now_ms: int) -> bool:
        """Hold a batch back, or take it; return False if it is to go the long way."""
        send, serialization, frame = batch
        last = self._held_batches[-1][0] if self._held_batches else send
        longest_bytes = min(_LONGEST_HELD_BYTES, self._state.config.max_body_bytes)
        goes_alone = FAST is None or len(frame) > longest_bytes or send[2].startswith(RETRY_PREFIX)
        if self._held or goes_alone or (last[2], last[4]) != (send[2], send[4]):
            self.take_held(connection, now_ms)
        if goes_alone:
            return self._take_batch(connection, send, serialization, now_ms)
        self._held_batches.append(batch)
        if len(self._held_batches) >= _MOST_BATCHES:
            self.take_held(connection, now_ms)
        return True

    def _take_batches(self, connection: Connection, batches: list[_HeldBatch], now_ms: int) -> None:
        """Take batches of one topic, together or one by one."""
        if len(batches) > 1 and self._take_batches_together(connection, batches, now_ms):
            return
        for send, serialization, frame in batches:
            if not self._take_batch(connection, send, serialization, now_ms):
                connection.take(frame, now_ms)

    def _take_batches_together(self, connection: Connection, batches: list[_HeldBatch], now_ms: int) -> bool:
        """Take batches of one topic; return False, and nothing was written, if they go one by one."""
        encoded: list[Encoded] = []
        try:
            for (opaque, frame_flag, _, queue_id, _, born_ms, _, properties, body, _), serialization, _ in batches:
                owner = _batch_owner(connection, opaque, frame_flag, serialization, now_ms, properties)
                encoded.append(Encoded(queue_id, body, born_ms, owner))
            _, _, topic, _, sys_flag, *_ = batches[0][0]
            tickets = self._engine.append_encoded(
                topic, encoded, sys_flag=sys_flag, born_host=connection.born_host, now_ms=now_ms
            )
        except (BrokerError, RequestRefused):
            return False  # one of them is refused, or all are
        for ticket in tickets or ():
            self._took_all(ticket.sizes)
        return tickets is not None

    def _take_together(self, connection: Connection, held: list[_HeldSend], now_ms: int) -> bool:
        """Take messages of one topic, or halves of one, at once; return False, and nothing was written, if they go one
        by one."""
        topics, queue_ids, bodies, properties, flags, sys_flags, born_ms, owners, _, _ = zip(*held, strict=True)
        sends = Sends(queue_ids, bodies, properties, flags, born_ms, owners)
        append = self._engine.append_halves if sys_flags[0] else self._engine.append_together
        try:
            tickets = append(topics[0], sends, born_host=connection.born_host, now_ms=now_ms)
        except BrokerError:
            return False  # one of them is refused, or all are
        if tickets is None:
            return False
        self._took_all([ticket.size for ticket in tickets])
        return True

    def _take_singly(self, connection: Connection, held: list[_HeldSend], now_ms: int) -> None:
        for send in held:
            if not self._take_one(connection, send, now_ms):
                connection.take(send[-1], now_ms)

    def _take_one(self, connection: Connection, send: _HeldSend, now_ms: int) -> bool:
        """Take one message; return False if it is to go the long way."""
        topic, queue_id, body, properties, flag, sys_flag, born_ms, owner, _, _ = send
        try:
            ticket = self._engine.append(
                topic, queue_id, body, properties, flag=flag, sys_flag=sys_flag, born_ms=born_ms,
                born_host=connection.born_host, now_ms=now_ms, owner=owner,
            )  # fmt: skip
        except BrokerError:
            return False  # nothing was written: the long way creates the topic, or refuses with the reason
        self._took(ticket.size)
        if not ticket.waits:
            self._replies.write([ticket])
        return True

    def _take_batch(self, connection: Connection, send: QuickSend, serialization: int, now_ms: int) -> bool:
        """Take a batch; return False if it is to go the long way."""
        opaque, frame_flag, topic, queue_id, sys_flag, born_ms, _, properties, body, _ = send
        try:
            owner = _batch_owner(connection, opaque, frame_flag, serialization, now_ms, properties)
            self._append_batch(connection, topic, queue_id, body, sys_flag, born_ms, now_ms, owner)
        except (BrokerError, RequestRefused):
            return False  # nothing was written: the long way creates the topic, or refuses with the reason
        return True

    def _read_signed(
        self, connection: Connection, frame: bytes, passes: Callable[[Connection, SignedSend], bool]
    ) -> QuickSend | None:
        """Return a plain send that is signed and allowed; None if it is anything else."""
        if connection.is_unauthenticated:
            return None  # who has shown no signature yet is not told by the time it takes which users there are
        if FAST is not None and (read := FAST.read_signed_send(frame)) is not None:
            signed: SignedSend | None = tuple.__new__(SignedSend, read)
        elif not frame.startswith(_BINARY_MARK):
            signed = read_signed_json_send(frame)
        elif frame[4:6] != _SEND_V2:
            return None
        elif (signed := self._signed_shortcut.read(frame)) is None:
            self._learn(self._signed_shortcut, frame)
        return signed.send if signed is not None and passes(connection, signed) else None

    def _first_of_its_kind(self, connection: Connection, frame: bytes) -> bool:
        """Read a send in full and remember its shape for the short way; the caller goes the long way."""
        if FAST is None:
            self._learn(self._shortcut, frame)
        return False

    def _learn(self, shortcut: SendShortcut | SignedSendShortcut, frame: bytes) -> None:
        if len(frame) <= _LONGEST_LEARNED_BYTES:
            command = decode_frame(frame)
            with suppress(RequestRefused):
                shortcut.learn(frame, command, read_send_header(command.ext))

    def _send(self, connection: Connection, request: Command) -> Command | None:
        header = read_send_header(request.ext, is_v1=request.code == Request.SEND_MESSAGE and "b" not in request.ext)
        self.take(connection, request, header)
        return None

    def take(self, connection: Connection, request: Command, header: SendHeader) -> None:
        """Take in what a request holds; its answer leaves when that is durable. Raises what refuses it."""
        self._ensure_topic(header)
        if header.is_batch or request.code == Request.SEND_BATCH_MESSAGE:
            unique_key = parse_properties(header.properties).get(UNIQUE_KEY, "")
            asked = (request.opaque, request.serialization, request.asked_ms)
            self._append_batch(
                connection, header.topic, header.queue_id, request.body, header.sys_flag, header.born_ms,
                self._state.clock(), None if request.is_oneway else BatchOwner(connection, *asked, unique_key),
            )  # fmt: skip
        else:
            self._append(connection, request, header)

    def _ensure_topic(self, header: SendHeader) -> None:
        """Create a topic at its first message, if that is allowed."""
        topics, config = self._engine.topics, self._state.config
        if topics.get(header.topic) is not None:
            return
        if header.topic.startswith(RETRY_PREFIX):
            self._state.group(header.topic[len(RETRY_PREFIX) :])
            topics.ensure(header.topic, 1)
        elif config.auto_create_topics:
            topics.ensure(
                header.topic, min(header.default_queues or config.default_topic_queues, config.default_topic_queues)
            )
        else:
            raise TopicNotFound(header.topic)

    def _append(self, connection: Connection, request: Command, header: SendHeader) -> None:
        properties = parse_properties(header.properties)
        topic, queue_id = header.topic, header.queue_id
        now_ms = self._state.clock()
        if topic.startswith(RETRY_PREFIX) and self._is_dead(header):
            topic, queue_id = DLQ_PREFIX + topic[len(RETRY_PREFIX) :], 0
            self._engine.topics.ensure(topic, 1)
            properties[DELAY] = "0"
        if not properties.get(UNIQUE_KEY):
            properties[UNIQUE_KEY] = self._message_ids.next_id()
        properties.update(self._added)
        if properties.get(TRANSACTION_PREPARED, "").lower() == "true":
            properties.setdefault(PRODUCER_GROUP, header.group)
        owner, waits = _owner(connection, request), properties.get(WAIT) != "false"
        ticket = self._engine.append(
            topic, queue_id, request.body, format_properties(properties), flag=header.flag, sys_flag=header.sys_flag,
            born_ms=header.born_ms, born_host=connection.born_host, reconsume_times=header.reconsume_times,
            now_ms=now_ms, owner=owner if waits else None,
        )  # fmt: skip
        self._took(ticket.size)
        if not waits or not ticket.waits:
            # the sender chose not to wait for the disk, or there is nothing new on it: it is answered now, the message
            # goes its way all the same
            self._replies.write([ticket.answered_to(owner)])

    def _is_dead(self, header: SendHeader) -> bool:
        """Tell whether a consumer gives back what it may not try any more; one that holds locks consumes in order, and
        has tried it as often as it may (SendMessageProcessor.handleRetryAndDLQ)."""
        name = header.topic[len(RETRY_PREFIX) :]
        # the consumer has counted the next try already
        group, tries = self._engine.groups.get(name), header.reconsume_times - 1
        gives_up = self._state.locks.has_live_locks(name, self._state.live_clock())
        return is_dead_letter(group, tries, most_tries=header.most_reconsume_times, gives_up=gives_up)

    def _append_batch(
        self,
        connection: Connection,
        topic: str,
        queue_id: int,
        body: bytes,
        sys_flag: int,
        born_ms: int,
        now_ms: int,
        owner: BatchOwner | None,
    ) -> None:
        if topic.startswith(RETRY_PREFIX):
            raise RequestRefused(
                Answer.MESSAGE_ILLEGAL, "A batch cannot go to a retry topic; send its messages one by one."
            )
        if len(body) > (most := self._state.config.max_body_bytes):
            raise BodyTooLarge(len(body), most)
        batch, host = Encoded(queue_id, body, born_ms, owner), connection.born_host
        tickets = self._engine.append_encoded(topic, [batch], sys_flag=sys_flag, born_host=host, now_ms=now_ms)
        if tickets is None:
            ticket = self._engine.append_batch(
                topic, queue_id, split_batch(body), sys_flag=sys_flag, born_ms=born_ms, born_host=host, now_ms=now_ms,
                owner=owner,
            )  # fmt: skip
        else:
            (ticket,) = tickets
        self._took_all(ticket.sizes)

    def _send_back(self, connection: Connection, request: Command) -> Command | None:
        ext = request.ext
        name = text(ext, "group")
        group = self._state.group(name)
        most = whole(ext, "maxReconsumeTimes", -1, low=-1, high=INT_MAX)
        self._engine.send_back(
            whole(ext, "offset", low=0),
            name,
            whole(ext, "delayLevel", 0, low=-1, high=INT_MAX),
            group.retry_max_times if most < 0 else most,
            self._state.clock(),
            None if request.is_oneway else AnsweredOwner(connection, request),
        )
        return None


def _batch_owner(
    connection: Connection, opaque: int, frame_flag: int, serialization: int, now_ms: int, properties: bytes
) -> BatchOwner | None:
    """Return who waits for a batch, None if nobody does. Raises InvalidProperties for those of the batch itself."""
    if frame_flag & ONEWAY_FLAG:
        return None
    unique_key = parse_properties(properties).get(UNIQUE_KEY, "")
    return BatchOwner(connection, opaque, serialization, now_ms, unique_key)


def _owner(connection: Connection, request: Command) -> object:
    return None if request.is_oneway else (connection, request.opaque, request.serialization)


@twin("stored_form")
def _stored_form(properties: bytes, added: bytes) -> tuple[bytes, bool, bool] | None:
    """Return the properties of a plain send as they are stored, with what the broker adds; whether it goes by itself (a
    half, one with a delay level, one that deletes a timer, a timer with a schedule key); and whether it is a timer.
    None if it is to go the long way."""
    if (
        (b"TRA" in properties and not _is_plain_half(properties))
        or _HAS_KEY not in properties
        or _CLUSTER in properties
        or _REGION in properties
        or _DOES_NOT_WAIT in properties
    ):
        return None
    stored = properties if properties[-1] == 2 else properties + b"\x02"
    is_timer = b"TIMER_DE" in properties
    goes_alone = (
        b"TRA" in properties
        or b"DELAY\x01" in properties
        or b"TIMER_DEL_" in properties
        or (is_timer and b"ESC_" in properties)
    )
    return stored + added, goes_alone, is_timer


def _is_plain_half(properties: bytes) -> bool:
    """Tell whether this is a half message that says all it must, and nothing that the broker says."""
    return b"TRACE" not in properties and _IS_HALF in properties and _HAS_GROUP in properties


# Replies.

CLIENT_TIMEOUT_MS = 3_000
"""As long as the asker has to take it."""


class ReplyProcessor:
    """The requests that hand replies to those who wait for them."""

    def __init__(self, state: BrokerState, send: SendProcessor) -> None:
        self._state = state
        self._send = send

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.SEND_REPLY_MESSAGE: self._reply, Request.SEND_REPLY_MESSAGE_V2: self._reply}

    def _reply(self, connection: Connection, request: Command) -> None:
        is_v1 = request.code == Request.SEND_REPLY_MESSAGE and "b" not in request.ext
        header = read_send_header(request.ext, is_v1=is_v1)
        properties = parse_properties(header.properties)
        client_id = properties.get(MESSAGE_REPLY_TO_CLIENT)
        if not client_id:
            raise RequestRefused(
                Answer.SYSTEM_ERROR, f"{MESSAGE_REPLY_TO_CLIENT} is missing: nobody is named who asked."
            )
        asker = self._state.clients.producer(client_id)
        if asker is None:
            remark = f"push reply message to {client_id} fail, channel of {client_id} not found."
            raise RequestRefused(Answer.SYSTEM_ERROR, remark)

        def answered(answer: Command | None) -> None:
            if answer is not None and answer.code == Answer.SUCCESS:
                self._keep(connection, request, header)
            elif not request.is_oneway:
                remark = f"push reply message to {client_id} fail."
                connection.send(request.answer(code=Answer.SYSTEM_ERROR, remark=remark))

        ext = self._pushed(connection, header, properties)
        push = Request.PUSH_REPLY_MESSAGE_TO_CLIENT
        self._state.calls.ask(asker.connection, push, ext, request.body, CLIENT_TIMEOUT_MS, answered)

    def _pushed(self, connection: Connection, header: SendHeader, properties: dict[str, str]) -> dict[str, str]:
        """Return the fields of the pushed reply (ReplyMessageRequestHeader)."""
        now_ms, config = self._state.clock(), self._state.config
        properties |= {PUSH_REPLY_TIME: str(now_ms), CLUSTER: config.cluster_name}
        return {
            "producerGroup": header.group,
            "topic": header.topic,
            "defaultTopic": TEMPLATE_TOPIC,
            "defaultTopicQueueNums": str(header.default_queues),
            "queueId": str(header.queue_id),
            "sysFlag": str(header.sys_flag),
            "bornTimestamp": str(header.born_ms),
            "flag": str(header.flag),
            "properties": format_properties(properties).decode(errors="surrogateescape"),
            "reconsumeTimes": str(header.reconsume_times),
            "unitMode": "false",
            "bornHost": connection.address,
            "storeHost": self._state.address,
            "storeTimestamp": str(now_ms),
        }

    def _keep(self, connection: Connection, request: Command, header: SendHeader) -> None:
        """Keep the reply in its topic. The asker has it already: that it could not be kept is no failure of the
        reply."""
        try:
            if header.topic == reply_topic(self._state.config.cluster_name):
                self._state.engine.topics.ensure(header.topic, 1)
            self._send.take(connection, request, header)
        except (RequestRefused, BrokerError) as error:
            logger.warning("a reply was handed over but not kept: %s", error)
            if not request.is_oneway:
                ext = {"msgId": "", "queueId": str(header.queue_id), "queueOffset": "0"}
                connection.send(request.answer(ext))
        else:
            self._state.kick()
