"""Where a producer's next message of a topic goes: its queues in turn, and the ready parts of the request headers."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

from ..remoting.codes import ONEWAY_FLAG, Request
from .errors import BrokerRefused, InvalidArgument, RouteNotFound
from .session import ROUTE_AGE_S, Session
from .types import MessageQueue, Route, RouteQueues

#: The topic whose route stands for topics that the broker may create by itself (AUTO_CREATE_TOPIC_KEY_TOPIC).
TEMPLATE_TOPIC = "TBW102"
#: How long such a borrowed route is used before the topic's own is asked for.
BORROWED_AGE_S = 2.0
#: ResponseCode.NO_PERMISSION
NO_PERMISSION = 16
DEFAULT_QUEUES = 4


@dataclass(frozen=True, slots=True)
class Destination:
    """One queue to send to; `head` and `oneway_head` are the header up to the time of birth."""

    queue: MessageQueue
    address: str
    head: bytes
    oneway_head: bytes


class Destinations:
    """The queues of one topic in turn; remade when its route is older than `expires_s` (monotonic)."""

    def __init__(self, group: str, route: Route, *, borrowed: bool) -> None:
        queues = route.writable()
        if not queues:
            raise BrokerRefused(NO_PERMISSION, f"Topic {route.topic} has no queue that can be written.")
        self.expires_s = time.monotonic() + (BORROWED_AGE_S if borrowed else ROUTE_AGE_S)
        self.all = tuple(_destination(group, queue, route.addresses[queue.broker]) for queue in queues)
        first = secrets.randbelow(len(self.all))
        self._turn: Iterator[Destination] = cycle(self.all[first:] + self.all[:first])

    @property
    def has_several_brokers(self) -> bool:
        """Whether a broker's refusal may be different on another one."""
        return len({each.queue.broker for each in self.all}) > 1

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
        """The queue with this number, on the first broker that has it; raises InvalidArgument."""
        for each in self.all:
            if each.queue.queue_id == queue_id:
                return each
        raise InvalidArgument(
            f"Topic {self.all[0].queue.topic} has no queue {queue_id} that can be written.", field="queue_id"
        )


def _destination(group: str, queue: MessageQueue, address: str) -> Destination:
    return Destination(queue, address, _head(group, queue, 0), _head(group, queue, ONEWAY_FLAG))


def _head(group: str, queue: MessageQueue, flag: int) -> bytes:
    """A SEND_MESSAGE_V2 header up to the value of ``g``; names were checked, so none needs escaping in JSON."""
    return (
        f'{{"code":{Request.SEND_MESSAGE_V2:d},"language":"PYTHON","flag":{flag},"extFields":{{"a":"{group}",'
        f'"b":"{queue.topic}","c":"{TEMPLATE_TOPIC}","d":"{DEFAULT_QUEUES}","e":"{queue.queue_id}","f":"0","h":"0",'
        f'"j":"0","k":"false","m":"false","n":{json.dumps(queue.broker)},"g":"'
    ).encode()


async def find_destinations(session: Session, group: str, topic: str) -> Destinations:
    """The queues of `topic` now, or of the template topic if it does not exist yet; raises RouteNotFound."""
    try:
        return Destinations(group, await session.route(topic, max_age_s=0.5), borrowed=False)
    except RouteNotFound:
        pass
    try:
        template = await session.route(TEMPLATE_TOPIC)
    except RouteNotFound:
        raise RouteNotFound(topic) from None
    parts = tuple(
        RouteQueues(part.broker, *(2 * (min(DEFAULT_QUEUES, part.write_queues),)), part.permission)
        for part in template.queues
    )
    return Destinations(group, Route(topic, template.addresses, parts), borrowed=True)
