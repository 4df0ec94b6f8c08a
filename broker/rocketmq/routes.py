"""The answers of name servers: where a topic's queues are (105), which brokers there are (106), which topics (206).

Apache RocketMQ writes the ids of brokers as bare integers, ``{0:"127.0.0.1:10911"}``, which is not JSON; 105 says them
as text to who asks with ``acceptStandardJsonOnly``, and since 4.9.4 only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from .errors import BadFrame

T = TypeVar("T")
#: Field of 105: answer with JSON that is.
STANDARD_JSON = "acceptStandardJsonOnly"
MASTER_ID = 0
#: Permission bit of a topic: its messages may be read.
READABLE = 4
#: a text, which is left alone, or a bare number in the place of a key; a text without its end is one as well, as it
#: would take its length squared to look at each of its quotes anew
_BARE_KEY = re.compile(rb'(?s)"(?:[^"\\]|\\.)*+"?|([{,]\s*)(\d+)(?=\s*:)')


class BrokerRoute(msgspec.Struct, rename="camel"):
    """One broker of a route: its addresses by broker id."""

    broker_name: str
    broker_addrs: dict[int, str] = {}
    cluster: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return its addresses, the master's first, if there is one."""
        return tuple(address for _, address in sorted(self.broker_addrs.items()))


class QueueRoute(msgspec.Struct, rename="camel"):
    """The queues that a topic has on one broker."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0


class TopicRoute(msgspec.Struct, rename="camel"):
    """Answer 105: where a topic lies."""

    broker_datas: list[BrokerRoute] = []
    queue_datas: list[QueueRoute] = []


class _ClusterInfo(msgspec.Struct, rename="camel"):
    broker_addr_table: dict[str, BrokerRoute] = {}


class _TopicList(msgspec.Struct, rename="camel"):
    topic_list: list[str] = []


def topic_route(body: bytes) -> TopicRoute:
    """Read the body of answer 105. Raises BadFrame."""
    return _read(body, TopicRoute)


def all_brokers(body: bytes) -> Mapping[str, BrokerRoute]:
    """Read the body of answer 106: the brokers by name. Raises BadFrame."""
    return _read(body, _ClusterInfo).broker_addr_table


def topic_names(body: bytes) -> list[str]:
    """Read the body of answers 206 and 304: names of topics. Raises BadFrame."""
    return _read(body, _TopicList).topic_list


def _read(body: bytes, kind: type[T]) -> T:
    strict = _BARE_KEY.sub(lambda found: found[0] if found[2] is None else found[1] + b'"' + found[2] + b'"', body)
    try:
        return msgspec.json.decode(strict, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"the answer of the name server cannot be read: {error}") from None
