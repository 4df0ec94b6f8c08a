"""The asynchronous simple consumer: the one implementation of receiving by hand. It belongs to one event loop."""

from __future__ import annotations

import json
import logging
import secrets
import time
from base64 import b64encode
from collections.abc import Iterable
from typing import Literal, Unpack

from ..rocketmq.codes import Answer, Request
from . import names
from .closing import AsyncClosing
from .credentials import Access
from .errors import BadAnswer, BrokerRefused, BrokerUnreachable, InvalidArgument, NotHeld, Timeout
from .heartbeat import introduce_once
from .records import read_delivery, split_records
from .session import Session
from .simple_receipts import Receipt, Received, receipts_of
from .start_offsets import Beginnings
from .subscription import ALL, Subscription, subscription
from .tracing import tracing
from .types import Route

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
"""Where brokers have a group begin that has no offset: who begins at the end has one by then (see beginnings)."""
_NOTHING = (Answer.SUCCESS, Answer.POLLING_TIMEOUT, Answer.POLLING_FULL, Answer.PULL_NOT_FOUND)


class AsyncSimpleConsumer(AsyncClosing):
    """Receives messages of a group one by one, each to be acknowledged by hand; see SimpleConsumer."""

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "first",
        in_order: bool = False, session: Session | None = None, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`session`: one that somebody else opens and closes."""
        names.check_group(group)
        if from_where not in ("first", "last"):
            raise InvalidArgument(f"from_where {from_where!r} is not valid: 'first' or 'last'.", field="from_where")
        self.group = group
        self._in_order = in_order
        self._session = session or Session(namesrv, **access)
        self._is_guest = session is not None
        self._beginnings = Beginnings(self._session, group, from_first=from_where == "first")
        self._turn = 0

    async def receive(
        self, topic: str, *, max_messages: int = 16, invisible_ms: int = 30_000, wait_ms: int = 15_000,
        expression: str = ALL,
    ) -> list[Received]:  # fmt: skip
        """Up to `max_messages`; waits up to `wait_ms` for the first. Raises RouteNotFound, BrokerRefused, ..."""
        _check("max_messages", max_messages, 1, MOST_MESSAGES)
        _check("invisible_ms", invisible_ms, 1, LONGEST_INVISIBLE_MS)
        _check("wait_ms", wait_ms, 0, LONGEST_WAIT_MS)
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
        """Where the group is new and wants only what comes from now on, it begins now."""
        try:
            await self._beginnings.settle(topic)
        except BrokerRefused as error:
            if error.code != Answer.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            route = await self._session.route(topic)
            await introduce_once(self._session, self.group, route.addresses.values())
            await self._beginnings.settle(topic)

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
        """One pop at one broker; in order one more try if the answer was lost."""
        for is_last in (not self._in_order, True):
            full = ext | {"pollTime": str(poll_ms), "bornTime": str(time.time_ns() // 1_000_000), "bname": broker}
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
        """Those with a wanted tag; the broker compares only hash codes, which two tags may share."""
        strangers = [each for each in received if not wanted.wants(each.message.tags)]
        if strangers:
            try:
                await self.ack(*strangers)
            except NotHeld:
                logger.info("messages of %s with tags that are not wanted come again", wanted.topic)
        return [each for each in received if wanted.wants(each.message.tags)]

    async def ack(self, *received: Received | Receipt) -> None:
        """The messages are done: they are never handed out again. Raises NotHeld for those not held any more."""
        receipts = [_receipt(each) for each in received]
        gone: list[Receipt] = []
        for (topic, broker), mine in _by_place(receipts).items():
            address = await self._address(topic, broker)
            for begin in range(0, len(mine), MOST_TOGETHER):
                gone += await self._ack(address, mine[begin : begin + MOST_TOGETHER])
        if gone:
            raise NotHeld(gone)

    async def _ack(self, address: str, mine: list[Receipt]) -> list[Receipt]:
        """One request about messages of one topic at one broker; returns those that are not held any more."""
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
        """Keep a message that long from now; the receipt to use from now on. Raises NotHeld."""
        _check("invisible_ms", invisible_ms, 1, LONGEST_INVISIBLE_MS)
        return await self._change(_receipt(received), invisible_ms)

    async def nack(self, received: Received | Receipt, delay_ms: int = 0) -> None:
        """Give a message back: it is handed out again after `delay_ms`. Raises NotHeld."""
        _check("delay_ms", delay_ms, 0, LONGEST_INVISIBLE_MS)
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


def _check(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidArgument(f"{field} is {value}; allowed are {low} to {high}.", field=field)


def _readable_brokers(route: Route) -> list[str]:
    """Names of the brokers on which the topic can be read."""
    return sorted({queue.broker for queue in route.readable()})


def _by_place(receipts: Iterable[Receipt]) -> dict[tuple[str, str], list[Receipt]]:
    found: dict[tuple[str, str], list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault((receipt.topic, receipt.broker), []).append(receipt)
    return found


def _place(receipt: Receipt, group: str) -> str:
    """A message as `escRefused` of a batch's answer names it."""
    about = receipt.about(group)
    return f"{about['topic']} {about['queueId']} {about['offset']}"


def _batch(receipts: list[Receipt], group: str) -> list[dict[str, object]]:
    """BatchAck of each pop: a bit for each offset from where it began."""
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
