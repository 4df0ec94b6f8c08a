"""Where a producer's next message of a topic goes: its queues in turn, and the ready parts of the request headers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

from ..rocketmq.frame import encode_fields
from ..rocketmq.message import string_hash
from ..rocketmq.topics import TEMPLATE_TOPIC
from ._outgoing import Outgoing
from ._session import ROUTE_AGE_S, Session
from ._types import MessageQueue, Route, RouteQueues
from .errors import NoBroker, NoSuchQueue, NotWritable, RouteNotFound

#: How long such a borrowed route is used before the topic's own is asked for.
BORROWED_AGE_S = 2.0
DEFAULT_QUEUES = 4
#: MessageSysFlag.TRANSACTION_PREPARED_TYPE of 5.5.0: the send is a transaction's half.
PREPARED_FLAG = 4
#: Name of the time of birth, whose text has 13 digits until the year 2286; then the flag, and the properties' name.
_BORN_FIELD = b"\0\x01g\0\0\0\x0d"
_FLAG_FIELD = encode_fields({"h": "0"}) + b"\0\x01i"


@dataclass(frozen=True, slots=True)
class Destination:
    """One queue to send to; `before` and `after` are the encoded fields around what changes with each message.

    `before_half` is `before` with the sysFlag of a transaction's half.
    """

    queue: MessageQueue
    address: str
    before: bytes
    after: bytes
    before_half: bytes

    def fields(self, born_ms: int, properties: str, *, half: bool = False) -> bytes:
        """The encoded fields of a send of one message (SendMessageRequestHeaderV2)."""
        stored = properties.encode()
        before = self.before_half if half else self.before
        return b"%b%d%b%b%b%b" % (before, born_ms, _FLAG_FIELD, len(stored).to_bytes(4, "big"), stored, self.after)


class Destinations:
    """The queues of one topic in turn; remade when its route is older than `expires_s` (monotonic)."""

    def __init__(self, group: str, route: Route, *, borrowed: bool) -> None:
        queues = route.writable()
        if not queues:
            raise NotWritable(route.topic)
        self.expires_s = time.monotonic() + (BORROWED_AGE_S if borrowed else ROUTE_AGE_S)
        self.all = tuple(_destination(group, queue, route.addresses[queue.broker]) for queue in queues)
        first = secrets.randbelow(len(self.all))
        self._turn: Iterator[Destination] = cycle(self.all[first:] + self.all[:first])

    @property
    def has_several_brokers(self) -> bool:
        """Whether a broker's refusal may be different on another one."""
        return len({each.queue.broker for each in self.all}) > 1

    def of(self, message: Outgoing, queue_id: int | None, avoid: Destination | None) -> Destination:
        """Where a message goes: where it is told to, else to the next queue in turn. Raises NoSuchQueue."""
        if queue_id is None:
            queue_id = message.queue_id
        if queue_id is not None:
            return self.of_queue(queue_id)
        if message.sharding_key is not None:
            # SelectMessageQueueByHash: Java's remainder has the sign of the hash, which is dropped
            return self.all[abs(string_hash(message.sharding_key)) % len(self.all)]
        return self.next(avoid=avoid)

    def next(self, *, avoid: Destination | None = None) -> Destination:
        """The next queue in turn; a retry avoids the broker that failed, or at least the queue."""
        chosen = next(self._turn)
        if avoid is None:
            return chosen
        elsewhere = [each for each in self.all if each.queue.broker != avoid.queue.broker]
        if elsewhere:
            while chosen.queue.broker == avoid.queue.broker:
                chosen = next(self._turn)
        elif chosen is avoid:
            chosen = next(self._turn)
        return chosen

    def of_queue(self, queue_id: int) -> Destination:
        """The queue with this number, on the first broker that has it; raises NoSuchQueue."""
        for each in self.all:
            if each.queue.queue_id == queue_id:
                return each
        raise NoSuchQueue(self.all[0].queue.topic, queue_id)


def _destination(group: str, queue: MessageQueue, address: str) -> Destination:
    # the order of the fields is the official client's: brokers may know it by heart
    before = {"a": group, "b": queue.topic, "c": TEMPLATE_TOPIC, "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id)}
    after = {"j": "0", "k": "false", "m": "false", "n": queue.broker}
    plain, half = (encode_fields(before | {"f": str(flag)}) + _BORN_FIELD for flag in (0, PREPARED_FLAG))
    return Destination(queue, address, plain, encode_fields(after), half)


async def _unknown(session: Session, topic: str) -> RouteNotFound:
    """What is wrong with a topic that has no route: there is none, or there is no broker that could tell. Raises
    ClientError where the name server does not say which brokers are there."""
    return RouteNotFound(topic) if await session.masters() else NoBroker(topic)


async def find_destinations(session: Session, group: str, topic: str) -> Destinations:
    """The queues of `topic` now, or of the template topic if it does not exist yet; raises RouteNotFound,
    NotWritable."""
    try:
        return Destinations(group, await session.route(topic, max_age_s=0.5), borrowed=False)
    except RouteNotFound:
        pass
    try:
        template = await session.route(TEMPLATE_TOPIC)
    except RouteNotFound:
        raise await _unknown(session, topic) from None
    parts = tuple(
        RouteQueues(part.broker, *(2 * (min(DEFAULT_QUEUES, part.write_queues),)), part.permission)
        for part in template.queues
    )
    return Destinations(group, Route(topic, template.addresses, parts), borrowed=True)
