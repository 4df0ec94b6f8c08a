"""What brokers say of themselves to a name service: requests 103 and 322, read and written.

The body of 103 is JSON (RegisterBrokerBody): the topics with the version of their table, and filter servers. With
``compressed`` it is deflated, and then not JSON as a whole:

    size 4 │ version, JSON │ count 4 │ count x (size 4 │ topic: words with blanks between)
    │ size 4 │ filter servers, JSON │ (5.0 and newer) static topics, which are not read

Strangers may say anything: all of it is read and bounded before anything of it is taken.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from ..rocketmq.codes import Answer
from ..rocketmq.errors import InvalidValue, RequestRefused
from ..rocketmq.fields import INT_MAX, LONG_MAX, body_as, json_body, text, truth, whole
from ..rocketmq.values import check_whole

MASTER_ID = 0
"""MixAll.MASTER_ID: all other ids are slaves'."""

WRITE = 2
"""PermName.PERM_WRITE: the bit of a topic's permission that lets producers send."""

MOST_PERMISSION = 15
MOST_QUEUES = 16_384
"""Queues of one topic: clients make an object of each."""

MOST_TOPICS = 65_536
"""Topics in one registration."""

MOST_BODY_BYTES = 16 << 20
"""Of a body, inflated: as much as a frame may have."""

MOST_FILTER_SERVERS = 64
LEAST_TIMEOUT_MS, MOST_TIMEOUT_MS = 1_000, 3_600_000
EXPIRY_MS = 120_000
"""After so long without a word a broker is gone (DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""

COMPLETE = "escComplete"
"""Our own field of 103: the topics are all that there are, those that this broker had besides are gone. RocketMQ's
brokers register single topics by the same request, so without it nothing is taken away."""

#: RocketMQ lets broker, cluster and (where others made them) topics be called nearly anything.
_NAME = re.compile(r"[!-~]{1,255}")
_ADDRESS = re.compile(r"[!-~]{1,255}:(\d{1,5})")


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a broker's topics. `state_version` is the epoch of its role: who has a higher one is master."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    def to_json(self) -> dict[str, int]:
        """Return it in RocketMQ's form (DataVersion)."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}


class QueueData(NamedTuple):
    """The queues that one broker name has of a topic."""

    broker_name: str
    read_queues: int
    write_queues: int
    permission: int
    system_flag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One broker's registration, checked."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    timeout_ms: int = EXPIRY_MS
    is_acting_enabled: bool | None = None
    """Whether a slave may stand in for a master that is gone; None: the broker is too old to know."""
    version: DataVersion = DataVersion()
    topics: Mapping[str, QueueData]
    filter_servers: tuple[str, ...] = ()
    is_complete: bool = False
    """Whether `topics` are all that the broker has."""

    @property
    def is_master(self) -> bool:
        """Tell whether the broker is the one that is written to."""
        return self.broker_id == MASTER_ID


def read_registration(ext: Mapping[str, str], body: bytes) -> Registration:
    """Return what a request 103 says; raises RequestRefused, InvalidValue."""
    crc = whole(ext, "bodyCrc32", 0, high=INT_MAX)
    if crc and crc != body_crc(body):
        raise RequestRefused(Answer.SYSTEM_ERROR, "crc32 not match")
    name = read_name(ext, "brokerName")
    said = _inflated(body) if body and truth(ext, "compressed") else _said(body)
    if len(said.topics) > MOST_TOPICS:
        raise InvalidValue("The registration", f"has {len(said.topics):,} topics; allowed are {MOST_TOPICS:,}")
    is_acting_enabled = truth(ext, "enableActingMaster") if "enableActingMaster" in ext else None
    return Registration(
        cluster=read_name(ext, "clusterName"),
        broker_name=name,
        broker_id=whole(ext, "brokerId", low=0),
        address=read_address(ext, "brokerAddr"),
        ha_address=read_address(ext, "haServerAddr") if ext.get("haServerAddr") else "",
        timeout_ms=whole(ext, "heartbeatTimeoutMillis", EXPIRY_MS, low=LEAST_TIMEOUT_MS, high=MOST_TIMEOUT_MS),
        is_acting_enabled=is_acting_enabled,
        version=read_version(said.version),
        topics={each.topic_name: queue_data(name, each) for each in said.topics},
        filter_servers=_filter_servers(said.filter_servers),
        is_complete=truth(ext, COMPLETE),
    )


def read_name(ext: Mapping[str, str], field: str) -> str:
    """Return the name in a field, which may be any word; raises RequestRefused, InvalidValue."""
    return checked_name(f"The field {field!r}", text(ext, field))


def checked_name(what: str, name: str) -> str:
    """Return a name that may be one; raises InvalidValue."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(what, f"is {name[:40]!r}; a name has 1 to 255 visible characters of ASCII")
    return name


def read_address(ext: Mapping[str, str], field: str) -> str:
    """Return the address in a field; raises RequestRefused, InvalidValue."""
    address = text(ext, field)
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[1]) < 65_536:
        raise InvalidValue(f"The field {field!r}", f"is {address[:40]!r} and no address of the form host:port")
    return address


def body_crc(body: bytes) -> int:
    """Return the checksum of a body as RocketMQ has it (UtilAll.crc32)."""
    return zlib.crc32(body) & INT_MAX


# Topics and their versions as JSON.


class VersionBody(msgspec.Struct, rename="camel"):
    """The body of request 322 and a part of that of 103 (DataVersion)."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0


class TopicBody(msgspec.Struct, rename="camel"):
    """A topic in a registration (TopicConfig), with RocketMQ's defaults."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_sys_flag: int = 0


class _TopicTable(msgspec.Struct, rename="camel"):
    data_version: VersionBody = msgspec.field(default_factory=VersionBody)
    topic_config_table: dict[str, TopicBody] | None = None


class _RegisterBody(msgspec.Struct, rename="camel"):
    topic_config_serialize_wrapper: _TopicTable | None = None
    filter_server_list: list[str] | None = None


@dataclass(frozen=True, slots=True)
class _Said:
    """The body of a registration, read and not checked yet."""

    version: VersionBody
    topics: list[TopicBody]
    filter_servers: list[str]


def read_version(said: VersionBody) -> DataVersion:
    """Return the version, checked; raises InvalidValue."""
    for value in (said.counter, said.timestamp, said.state_version):
        check_whole("The data version", value, -LONG_MAX - 1, LONG_MAX)
    return DataVersion(said.counter, said.timestamp, said.state_version)


def queue_data(broker_name: str, said: TopicBody) -> QueueData:
    """Return the queues of a topic, checked; raises InvalidValue."""
    name, reads, writes, permission, flag = (
        said.topic_name, said.read_queue_nums, said.write_queue_nums, said.perm, said.topic_sys_flag,
    )  # fmt: skip
    is_fine = (
        0 <= reads <= MOST_QUEUES and 0 <= writes <= MOST_QUEUES
        and 0 <= permission <= MOST_PERMISSION and 0 <= flag <= INT_MAX
    )  # fmt: skip
    if not is_fine or _NAME.fullmatch(name) is None:
        # words are made only where they are needed: a registration has thousands of topics
        checked_name("The name of a topic", name)
        check_whole(f"readQueueNums of {name}", reads, 0, MOST_QUEUES)
        check_whole(f"writeQueueNums of {name}", writes, 0, MOST_QUEUES)
        check_whole(f"perm of {name}", permission, 0, MOST_PERMISSION)
        check_whole(f"topicSysFlag of {name}", flag, 0, INT_MAX)
    return QueueData(broker_name, reads, writes, permission, flag)


def _filter_servers(said: list[str]) -> tuple[str, ...]:
    if len(said) > MOST_FILTER_SERVERS:
        raise InvalidValue("The registration", f"has more than {MOST_FILTER_SERVERS} filter servers")
    return tuple(checked_name("A filter server", each) for each in said)


def _said(body: bytes) -> _Said:
    if not body:
        return _Said(VersionBody(), [], [])
    read = body_as(_RegisterBody, body)
    table = read.topic_config_serialize_wrapper or _TopicTable()
    return _Said(table.data_version, list((table.topic_config_table or {}).values()), read.filter_server_list or [])


# The deflated form.


def _inflated(body: bytes) -> _Said:
    inflater = zlib.decompressobj()
    try:
        parts = _Parts(inflater.decompress(body, MOST_BODY_BYTES))
    except zlib.error as error:
        raise InvalidValue("The body", f"cannot be inflated: {error}") from None
    if inflater.unconsumed_tail:
        raise InvalidValue("The body", f"has more than {MOST_BODY_BYTES:,} bytes when it is inflated")
    version = body_as(VersionBody, parts.part())
    count = parts.number()
    check_whole("The number of topics", count, 0, MOST_TOPICS)
    topics = [_topic_of_words(parts.part()) for _ in range(count)]
    return _Said(version, topics, body_as(list[str], parts.part()))


class _Parts:
    """The parts of a body, each behind its size."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self) -> int:
        """Return the next four bytes as a number."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def part(self) -> bytes:
        """Return the next part."""
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise InvalidValue("The body", f"ends within a part of {size:,} bytes")
        part, self._at = self._content[self._at : end], end
        return part


class _Words(msgspec.Struct, array_like=True):
    name: str
    read_queues: Annotated[int, msgspec.Meta(ge=0)]
    write_queues: Annotated[int, msgspec.Meta(ge=0)]
    permission: Annotated[int, msgspec.Meta(ge=0)]


def _topic_of_words(part: bytes) -> TopicBody:
    """Return a topic from its words (TopicConfig.encode): name, read queues, write queues, permission; the rest is not
    needed."""
    try:
        words = msgspec.convert(part.decode().split(" ", 4)[:4], _Words, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InvalidValue("A topic of the registration", f"cannot be read: {error}") from None
    return TopicBody(words.name, words.read_queues, words.write_queues, words.permission)


# What our own broker says of itself.


class KnownTopic(Protocol):
    """A topic of our broker, which is never changed, only replaced."""

    @property
    def name(self) -> str:
        """The name of the topic."""

    def to_json(self) -> dict[str, Any]:
        """Return it in RocketMQ's form (TopicConfig)."""


def registration_body(version: DataVersion, topics: Iterable[KnownTopic]) -> bytes:
    """Return the body of a registration with these topics."""
    table = {topic.name: topic.to_json() for topic in topics}
    wrapper = {
        "dataVersion": version.to_json(),
        "topicConfigTable": table,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return json_body({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
