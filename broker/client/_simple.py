"""The asynchronous simple consumer: the one implementation of receiving by hand. It belongs to one event loop.

It gets messages (`Received`), each with the `Receipt` by which it is acknowledged. `SimpleConsumers` are consumers of
many groups over one set of connections, for a program that receives in the name of others.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.properties import POP_HANDLE, POPPED
from ..rocketmq.topics import RETRY_PREFIX
from . import names
from ._event_loop import AsyncClosing
from ._membership import introduce_once
from ._offsets import StartOffsets
from ._reader import read_delivery, split_records
from ._session import Session
from ._tracing import tracing
from ._types import ALL, Message, Route, Subscription, subscription
from .credentials import Access
from .errors import BadAnswer, BrokerRefused, BrokerUnreachable, InvalidArgument, NotHeld, Timeout

logger = logging.getLogger(__name__)

MOST_MESSAGES = 32
"""Messages of one pop; brokers refuse more."""
MOST_TOGETHER = 1024
"""Messages acknowledged with one request; brokers take no more than some thousands."""
LONGEST_WAIT_MS = 60_000
LONGEST_INVISIBLE_MS = 12 * 3_600_000
SEVERAL_WAIT_MS = 1_000
"""Where a topic lives on several brokers, each is waited at for so long in turn."""
_INIT_FIRST = "0"
"""Where brokers have a group begin that has no offset: who begins at the end has one by then (see _offsets.py)."""
_BORN_NOW = "0"
"""Have brokers take their own time for that of the request: with ours, Apache RocketMQ hands nothing to a client whose
clock is some 500 ms behind its own."""
_NOTHING = (Answer.SUCCESS, Answer.POLLING_TIMEOUT, Answer.POLLING_FULL, Answer.PULL_NOT_FOUND)


class AsyncSimpleConsumer(AsyncClosing):
    """Receives messages of a group by hand: each is nobody else's until its time is over, and done when acknowledged.

    >>> async with AsyncSimpleConsumer("billing") as consumer:
    ...     for received in await consumer.receive("order", invisible_ms=60_000):
    ...         print(received.attempt, received.body)
    ...         await consumer.ack(received)

    What is not acknowledged in time is handed out again, with `attempt` one higher; after the last attempt that the
    group allows (16 retries, if nothing else is set) it is a dead letter. Any number of consumers share a group, and a
    topic may have fewer queues than consumers. With `in_order` a queue hands out nothing more until all of a `receive`
    is acknowledged, and there are no dead letters.

    `from_where` counts for a topic that is new to the group: "first" begins with the first message that is there,
    "last" with the first one that comes after the group's first `receive`.
    """

    group: str
    """The consumer group in whose name messages are received."""

    def __init__(
        self,
        group: str,
        namesrv: str = "127.0.0.1:9876",
        *,
        from_where: Literal["first", "last"] = "first",
        in_order: bool = False,
        _session: Session | None = None,
        **access: Unpack[Access],
    ) -> None:
        names.check_group(group)
        names.check_from_where(from_where)
        self.group = group
        self._in_order = in_order
        self._session = _session or Session(namesrv, **access)
        self._is_guest = _session is not None  # somebody else opens and closes it
        self._start_offsets = StartOffsets(self._session, group, from_first=from_where == "first")
        self._turn = 0

    async def receive(
        self, topic: str, *, max_messages: int = 16, invisible_ms: int = 30_000, wait_ms: int = 15_000,
        expression: str = ALL,
    ) -> list[Received]:  # fmt: skip
        """Receive up to `max_messages` (at most 32), and wait up to `wait_ms` for the first.

        Each is nobody else's for `invisible_ms`. `expression`: tags (``a || b``, ``*`` for all) or a Sql. Raises
        InvalidArgument, RouteNotFound, BrokerRefused, BrokerUnreachable, Timeout.
        """
        names.check_number("max_messages", max_messages, 1, MOST_MESSAGES)
        names.check_number("invisible_ms", invisible_ms, 1, LONGEST_INVISIBLE_MS)
        names.check_number("wait_ms", wait_ms, 0, LONGEST_WAIT_MS)
        wanted = subscription(topic, expression)
        ext = {
            "consumerGroup": self.group,
            "topic": topic,
            "queueId": "-1",
            "maxMsgNums": str(max_messages),
            "invisibleTime": str(invisible_ms),
            "initMode": _INIT_FIRST,
            "expType": wanted.kind,
            "exp": wanted.expression,
            "order": str(self._in_order).lower(),
        }
        if self._in_order:
            # asked again because an answer was lost, the broker gives the same messages again
            ext["attemptId"] = secrets.token_hex(8)
        await self._begin(topic)
        began_ns = time.time_ns()
        received = await self._receive(topic, ext, wait_ms, wanted)
        if received and (spans := tracing.spans()) is not None:
            messages = [each.message for each in received]
            spans.received("receive", messages, self.group, None, began_ns)
        return received

    async def _begin(self, topic: str) -> None:
        """Have a new group begin now, if it wants only what comes from now on."""
        try:
            await self._start_offsets.settle(topic)
        except BrokerRefused as error:
            if error.code != Answer.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            route = await self._session.route(topic)
            await introduce_once(self._session, self.group, route.addresses.values())
            await self._start_offsets.settle(topic)

    async def _receive(self, topic: str, ext: dict[str, str], wait_ms: int, wanted: Subscription) -> list[Received]:
        deadline_s = time.monotonic() + wait_ms / 1000
        asked = 0
        while True:
            route = await self._session.route(topic)
            brokers = _readable_brokers(route)
            if not brokers:
                raise BrokerRefused(Answer.NO_PERMISSION, f"No broker lets topic {topic} be read now.")
            left_ms = max(int((deadline_s - time.monotonic()) * 1000), 0)
            # all are looked at once before any is waited at
            poll_ms = left_ms if len(brokers) == 1 else 0 if asked < len(brokers) else min(left_ms, SEVERAL_WAIT_MS)
            self._turn += 1
            broker = brokers[self._turn % len(brokers)]
            received = await self._pop(route.addresses[broker], broker, ext, poll_ms, wanted)
            asked += 1
            if received or (asked >= len(brokers) and time.monotonic() >= deadline_s):
                return received

    async def _pop(
        self, address: str, broker: str, ext: dict[str, str], poll_ms: int, wanted: Subscription
    ) -> list[Received]:
        """Pop once at one broker; in order once more if the answer was lost."""
        for is_last in (not self._in_order, True):
            full = ext | {"pollTime": str(poll_ms), "bornTime": _BORN_NOW, "bname": broker}
            try:
                answer = await self._session.ask(
                    address, Request.POP_MESSAGE, full, timeout_ms=poll_ms + 10_000, accept=_NOTHING
                )
            except (BrokerUnreachable, Timeout):
                if is_last:
                    raise
                continue
            messages = []
            for record in split_records(answer.body if answer.code == Answer.SUCCESS else b""):
                try:
                    messages.append(read_delivery(record))
                except BadAnswer as error:
                    # it stays out until its time is over, and comes again then
                    logger.error("a record of %s is damaged and skipped: %s", wanted.topic, error)
            received = receipts_of(wanted.topic, broker, answer.ext, messages)
            return await self._wanted_of(received, wanted)
        raise AssertionError("the last try returns or raises")

    async def _wanted_of(self, received: list[Received], wanted: Subscription) -> list[Received]:
        """Return those with a wanted tag; the broker compares only hash codes, which two tags may share."""
        strangers = [each for each in received if not wanted.wants(each.message.tags)]
        if strangers:
            try:
                await self.ack(*strangers)
            except NotHeld:
                logger.info("messages of %s whose tags do not match are redelivered", wanted.topic)
        return [each for each in received if wanted.wants(each.message.tags)]

    async def ack(self, *received: Received | Receipt) -> None:
        """Acknowledge messages: they are done. Raises NotHeld for those that others may have by now; all others are."""
        receipts = [_receipt(each) for each in received]
        gone: list[Receipt] = []
        for (topic, broker), mine in _by_place(receipts).items():
            address = await self._address(topic, broker)
            for begin in range(0, len(mine), MOST_TOGETHER):
                gone += await self._ack(address, mine[begin : begin + MOST_TOGETHER])
        if gone:
            raise NotHeld(gone)

    async def _ack(self, address: str, mine: list[Receipt]) -> list[Receipt]:
        """Acknowledge messages of one topic at one broker; return those that are not held any more."""
        if len(mine) == 1:
            about = mine[0].about(self.group)
            answer = await self._session.ask(address, Request.ACK_MESSAGE, about, accept=_HELD_OR_NOT)
            return mine if answer.code == Answer.NO_MESSAGE else []
        body = json.dumps({"brokerName": mine[0].broker, "acks": _batch(mine, self.group)}).encode()
        answer = await self._session.ask(address, Request.BATCH_ACK_MESSAGE, body=body, accept=_HELD_OR_NOT)
        refused = set(filter(None, answer.ext.get("escRefused", "").split(";")))
        is_none = answer.code == Answer.NO_MESSAGE
        return [each for each in mine if is_none or _place(each, self.group) in refused]

    async def extend(self, received: Received | Receipt, invisible_ms: int) -> Receipt:
        """Keep a message for `invisible_ms` from now; return the receipt to use from now on. Raises NotHeld."""
        names.check_number("invisible_ms", invisible_ms, 1, LONGEST_INVISIBLE_MS)
        return await self._change(_receipt(received), invisible_ms)

    async def nack(self, received: Received | Receipt, delay_ms: int = 0) -> None:
        """Give a message back, to be handed out again after `delay_ms`. Raises NotHeld."""
        names.check_number("delay_ms", delay_ms, 0, LONGEST_INVISIBLE_MS)
        await self._change(_receipt(received), delay_ms)

    async def _change(self, receipt: Receipt, invisible_ms: int) -> Receipt:
        ext = receipt.about(self.group) | {"invisibleTime": str(invisible_ms)}
        address = await self._address(receipt.topic, receipt.broker)
        answer = await self._session.ask(address, Request.CHANGE_MESSAGE_INVISIBLETIME, ext, accept=_HELD_OR_NOT)
        if answer.code == Answer.NO_MESSAGE:
            raise NotHeld([receipt])
        return receipt.changed(answer.ext["popTime"], answer.ext["invisibleTime"], answer.ext["reviveQid"])

    async def _address(self, topic: str, broker: str) -> str:
        address = (await self._session.route(topic)).addresses.get(broker)
        if address is None:
            raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"Broker {broker} does not hold topic {topic} now.")
        return address

    async def close(self) -> None:
        """End all connections; what is held comes to others when its time is over."""
        if not self._is_guest:
            await self._session.close()


_HELD_OR_NOT = (Answer.SUCCESS, Answer.NO_MESSAGE)


def _receipt(received: Received | Receipt) -> Receipt:
    return received.receipt if isinstance(received, Received) else received


def _readable_brokers(route: Route) -> list[str]:
    """Return the names of the brokers on which the topic can be popped: a slave pops nothing."""
    return sorted({queue.broker for queue in route.readable() if queue.broker in route.addresses})


def _by_place(receipts: Iterable[Receipt]) -> dict[tuple[str, str], list[Receipt]]:
    found: dict[tuple[str, str], list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault((receipt.topic, receipt.broker), []).append(receipt)
    return found


def _place(receipt: Receipt, group: str) -> str:
    """Return a message as `escRefused` of a batch's answer names it."""
    about = receipt.about(group)
    return f"{about['topic']} {about['queueId']} {about['offset']}"


def _batch(receipts: list[Receipt], group: str) -> list[dict[str, object]]:
    """Return the BatchAck of each pop: a bit for each offset from where it began."""
    rows: dict[tuple[str, ...], dict[str, object]] = {}
    bits: dict[tuple[str, ...], int] = {}
    for receipt in receipts:
        start, pop_ms, invisible_ms, revive, retry, _, queue, offset = receipt.handle.split(" ")[:8]
        key = (retry, queue, start, pop_ms)
        rows[key] = {
            "c": group, "t": receipt.topic, "r": retry, "so": int(start), "q": int(queue), "rq": int(revive),
            "pt": int(pop_ms), "it": int(invisible_ms),
        }  # fmt: skip
        bits[key] = bits.get(key, 0) | 1 << (int(offset) - int(start))
    return [
        row | {"b": b64encode(bits[key].to_bytes(bits[key].bit_length() // 8 + 1, "little")).decode()}
        for key, row in rows.items()
    ]


# What a simple consumer gets.

MOST_BITS = 1 << 16
"""How far a message may be from the first one of its pop."""
_VERSION = "1"
#: Fields of a handle, parted by blanks.
_START, _POP_MS, _INVISIBLE_MS, _REVIVE, _RETRY, _BROKER, _QUEUE, _OFFSET = range(8)
#: "retry" of a message that comes from %RETRY%group_topic, and from %RETRY%group+topic.
_RETRY_SEPARATORS = {"1": "_", "2": "+"}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Names one message for the consumer that received it, as long as its time lasts (RocketMQ's POP_CK)."""

    topic: str
    handle: str

    def part(self, index: int) -> str:
        """Return one field of the handle by its index."""
        return self.handle.split(" ")[index]

    @property
    def broker(self) -> str:
        """The name of the broker that holds the message."""
        return self.part(_BROKER)

    @property
    def invisible_until_ms(self) -> int:
        """When (epoch ms, by the broker's clock) the message is redelivered to any consumer."""
        return int(self.part(_POP_MS)) + int(self.part(_INVISIBLE_MS))

    def about(self, group: str) -> dict[str, str]:
        """Return the header fields that name the message (AckMessageRequestHeader)."""
        return {
            "consumerGroup": group,
            "topic": self.real_topic(group),
            "queueId": self.part(_QUEUE),
            "offset": self.part(_OFFSET),
            "extraInfo": self.handle,
            "bname": self.broker,
        }

    def real_topic(self, group: str) -> str:
        """Return the topic in which the message stands: its own, or that of its further tries."""
        separator = _RETRY_SEPARATORS.get(self.part(_RETRY))
        return self.topic if separator is None else f"{RETRY_PREFIX}{group}{separator}{self.topic}"

    def changed(self, pop_ms: str, invisible_ms: str, revive: str) -> Receipt:
        """Return the receipt after its time was changed (MQClientAPIImpl.changeInvisibleTimeAsync)."""
        parts = self.handle.split(" ")
        parts[_START], parts[_POP_MS], parts[_INVISIBLE_MS], parts[_REVIVE] = (
            parts[_OFFSET],
            pop_ms,
            invisible_ms,
            revive,
        )
        return Receipt(self.topic, " ".join(parts[: _OFFSET + 1]))

    def __str__(self) -> str:
        """Return it as one word, for those who must hand it on; `read_receipt` reads that."""
        return urlsafe_b64encode(f"{_VERSION} {self.topic} {self.handle}".encode()).decode().rstrip("=")


def read_receipt(word: str) -> Receipt:
    """Return the receipt that ``str`` of it has made; raise InvalidArgument."""
    try:
        text = urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode()
        version, topic, handle = text.split(" ", 2)
        parts = handle.split(" ")
        numbers = [parts[index] for index in (_START, _POP_MS, _INVISIBLE_MS, _REVIVE, _QUEUE, _OFFSET)]
        is_good = (
            version == _VERSION
            and len(parts) == 8
            and all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers)
            and 0 <= int(parts[_OFFSET]) - int(parts[_START]) < MOST_BITS
        )
    except (ValueError, IndexError):
        is_good = False
    if not is_good:
        raise InvalidArgument("This is not a receipt: pass it as it was received.", field="receipt")
    return Receipt(topic, handle)


@dataclass(frozen=True, slots=True)
class Received:
    """A message that is this consumer's until `invisible_until_ms` (by the broker's clock); `attempt` counts from 1."""

    message: Message
    receipt: Receipt

    @property
    def body(self) -> bytes:
        """The body of the message, as it was sent."""
        return self.message.body

    def json(self) -> Any:
        """Return the body read as JSON; raises ValueError where it is none."""
        return self.message.json()

    def event(self, kind: type[msgspec.Struct] | None = None) -> Any:
        """Return the event that the message is; raises NotThisEvent."""
        return self.message.event() if kind is None else self.message.event(kind)

    @property
    def attempt(self) -> int:
        """The number of times that the message was handed out, this time included."""
        return self.message.reconsume_times + 1

    @property
    def invisible_until_ms(self) -> int:
        """When (epoch ms) it is redelivered unless it is acknowledged before."""
        return self.receipt.invisible_until_ms


def pairs(text: str) -> dict[str, list[str]]:
    """Read `retry queue value,value` joined by `;`, as lists of values by "retry queue"."""
    rows = (part.rsplit(" ", 1) for part in text.split(";") if part)
    return {row[0]: row[1].split(",") for row in rows if len(row) == 2}


def receipts_of(topic: str, broker: str, ext: dict[str, str], messages: Iterable[Message]) -> list[Received]:
    """Return the messages of a pop's answer with their receipts; a further try carries its own."""
    starts = pairs(ext.get("startOffsetInfo", ""))
    counts = {
        place: int(value[0]) for place, value in pairs(ext.get("orderCountInfo", "")).items() if value[0].isdigit()
    }
    pop_ms, invisible_ms, revive = (ext.get(name, "0") for name in ("popTime", "invisibleTime", "reviveQid"))
    received = []
    for message in messages:
        handle = message.properties.get(POP_HANDLE)
        if handle is None:
            start = starts.get(f"0 {message.queue_id}", [str(message.queue_offset)])[0]
            place = f"{broker} {message.queue_id} {message.queue_offset}"
            handle = f"{start} {pop_ms} {invisible_ms} {revive} 0 {place}"
        count = counts.get(f"0 qo{message.queue_id}%{message.queue_offset}", counts.get(f"0 {message.queue_id}", 0))
        received.append(Received(as_asked(message, topic, count), Receipt(topic, handle)))
    return received


def as_asked(message: Message, topic: str, count: int) -> Message:
    """Return the message under the topic that was asked for; in order the broker counts the tries beside it."""
    properties = {name: value for name, value in message.properties.items() if name not in (POP_HANDLE, POPPED)}
    return Message(
        topic, message.queue_id, message.queue_offset, message.position, message.size, message.body, properties,
        message.flag, message.sys_flag, message.born_ms, message.born_host, message.store_ms, message.store_host,
        message.reconsume_times or count, message.prepared_position,
    )  # fmt: skip


class SimpleConsumers:
    """Gives out simple consumers that share their connections. It belongs to one event loop."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", **access: Unpack[Access]) -> None:
        self._namesrv = namesrv
        self._session = Session(namesrv, **access)

    def of(self, group: str, *, in_order: bool = False) -> AsyncSimpleConsumer:
        """Return a consumer of the group, which need not be closed; raise InvalidArgument."""
        return AsyncSimpleConsumer(group, self._namesrv, in_order=in_order, _session=self._session)

    async def close(self) -> None:
        """End all connections; what is held comes to others when its time is over."""
        await self._session.close()
