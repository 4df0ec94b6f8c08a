"""The values that every part of the client speaks of: queues, routes, results of sends, subscriptions. All are frozen.

The one that is made for every send is a msgspec Struct, which is five times cheaper to make than a dataclass. What a
consumer wants of a topic is a tag expression, as RocketMQ's FilterAPI reads it, or a filter in SQL92.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

import msgspec

from ..rocketmq.message import Message as StoredMessage
from ..rocketmq.message import string_hash
from ..rocketmq.sql92 import parse
from ..rocketmq.sql92_nodes import BadExpression
from . import names
from ._events import read_event
from .errors import InvalidArgument, InvalidFilter


class Message(StoredMessage):
    """A message as clients get it. Times are ms since 1970, hosts (address, port)."""

    __slots__ = ()

    @property
    def message_id(self) -> str:
        """The id that its send was answered with: the sender's unique one, else its place."""
        return self.unique_key or self.offset_message_id

    @property
    def tag(self) -> str | None:
        """The tag that the sender gave, or None."""
        return self.tags

    def json(self) -> Any:
        """Return the body read as JSON; raises ValueError (msgspec.DecodeError) where it is none."""
        return msgspec.json.decode(self.body)

    @overload
    def event(self) -> Any: ...
    @overload
    def event(self, kind: type[Event]) -> Event: ...
    def event(self, kind: type[Event] | None = None) -> Any:
        """Return the event that the message is, if `kind` is given one of that type; raises NotThisEvent."""
        return read_event(self.body, self.properties, () if kind is None else (kind,))


Event = TypeVar("Event", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class MessageQueue:
    """A queue of a topic on one broker. The order of fields is RocketMQ's order of queues."""

    topic: str
    broker: str
    queue_id: int


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The place where a message went. `queue_offset` is in the level's queue while a delayed message waits.

    `status`: SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE (stored, less safely).
    `due_ms`: when a delayed message is due, as the broker said; None if it is not delayed or the broker told nothing.
    `recall_handle`: names a timer to `Producer.recall`. `conflict`: `replaced` if this message took the place of one
    with its schedule key, `kept` if that one stays: then all ids and places here are those of the one that stays.
    """

    message_id: str
    offset_message_id: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    status: str = "SEND_OK"
    due_ms: int | None = None
    recall_handle: str | None = None
    conflict: Literal["replaced", "kept"] | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the name server knows it; `broker_id` 0 is the master."""

    name: str
    cluster: str
    address: str
    broker_id: int = 0


@dataclass(frozen=True, slots=True)
class RouteQueues:
    """The queues of one topic on one broker; permission: 4 read, 2 write."""

    broker: str
    read_queues: int
    write_queues: int
    permission: int


@dataclass(frozen=True, slots=True)
class Route:
    """The brokers that hold a topic: the addresses of their masters by name, its queues, and their slaves' addresses by
    name and broker id."""

    topic: str
    addresses: Mapping[str, str]
    queues: tuple[RouteQueues, ...]
    slaves: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def writable(self) -> tuple[MessageQueue, ...]:
        """Return queues that can be sent to, those of brokers with a master, sorted."""
        return self._with(2, write=True)

    def readable(self) -> tuple[MessageQueue, ...]:
        """Return queues that can be pulled from, at a master or a slave, sorted."""
        return self._with(4, write=False)

    def _with(self, permission: int, *, write: bool) -> tuple[MessageQueue, ...]:
        return tuple(
            MessageQueue(self.topic, part.broker, queue_id)
            for part in sorted(self.queues, key=lambda part: part.broker)
            if part.permission & permission
            if part.broker in self.addresses or (not write and part.broker in self.slaves)
            for queue_id in range(part.write_queues if write else part.read_queues)
        )

    def processes(self, broker: str) -> tuple[tuple[int, str], ...]:
        """Return broker ids and addresses of one broker, the master (0) first."""
        master = ((0, self.addresses[broker]),) if broker in self.addresses else ()
        return (*master, *sorted(self.slaves.get(broker, {}).items()))

    def everywhere(self) -> tuple[str, ...]:
        """Return the addresses of all masters, then those of all slaves."""
        slaves = (address for each in self.slaves.values() for address in each.values())
        return (*sorted(self.addresses.values()), *sorted(slaves))


# What is wanted of a topic.

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"
LONGEST_FILTER = 8_192
"""Characters; brokers read less."""


class Sql(str):
    """A filter over a message's properties, in place of tags: ``Sql("amount > 100 AND country IN ('DE', 'FR')")``.

    One that cannot be read is refused where it is subscribed. A property is text; beside a
    number it is read as one, and a message that lacks it, or holds no number there, is not wanted.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and what is wanted of it: tags (none: all) or a filter. `version` is the ms at which it was made."""

    topic: str
    expression: str
    tags: frozenset[str]
    version: int
    kind: str = TAG

    def wants(self, tag: str | None) -> bool:
        """Tell whether a message with `tag` is wanted: the broker compares hash codes, which two tags may share."""
        return not self.tags or tag in self.tags

    def about(self) -> dict[str, object]:
        """Return the form in which heartbeats carry it (SubscriptionData)."""
        ordered = sorted(self.tags)
        return {
            "topic": self.topic,
            "subString": self.expression,
            "tagsSet": ordered,
            "codeSet": [string_hash(tag) for tag in ordered],
            "subVersion": self.version,
            "expressionType": self.kind,
            "classFilterMode": False,
        }


def subscription(topic: str, expression: str = ALL) -> Subscription:
    """Read ``a || b`` (or ``*`` for all tags), or take a Sql as it is; raises InvalidArgument."""
    names.check_topic(topic)
    version = time.time_ns() // 1_000_000
    if isinstance(expression, Sql):
        if not 0 < len(expression) <= LONGEST_FILTER:
            raise InvalidArgument(f"a filter has 1 to {LONGEST_FILTER:,} characters.", field="expression")
        try:
            parse(str(expression))
        except BadExpression as error:
            text = f"The filter {str(expression)!r:.300} cannot be read: {error}"
            raise InvalidFilter(text, field="expression") from None
        return Subscription(topic, str(expression), frozenset(), version, SQL92)
    text = expression.strip()
    if text in ("", ALL):
        return Subscription(topic, ALL, frozenset(), version)
    tags = [part.strip() for part in text.split("||")]
    for tag in tags:
        if not tag:
            raise InvalidArgument(f"expression {expression!r} has an empty tag.", field="expression")
        names.check_tag(tag)
    return Subscription(topic, " || ".join(tags), frozenset(tags), version)
