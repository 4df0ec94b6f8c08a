"""The options of the data source ``rocketmq``, from text to values; docs/SPARK.md lists them.

Names may be written as here or as Spark's users know them (``maxOffsetsPerTrigger``, ``startingOffsets``): upper and
lower case and underscores make no difference, and what other sources call it is understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from broker.rocketmq.errors import InvalidGroupName, InvalidTopicName, RequestRefused
from broker.rocketmq.subscription import SQL92, TAG, build_subscription
from broker.rocketmq.topics import TOOLS_GROUP, check_group_name, check_topic_name

from .asking import Access
from .cluster import ANY
from .columns import Selection
from .offsets import Offsets, read_offsets
from .options import OptionInvalid, flag, parse_selection, whole, words
from .pulling import MOST_MESSAGES, Wish

EARLIEST, LATEST = "earliest", "latest"
#: The beginning or end of what is read: earliest, latest, a moment in ms since 1970, or offsets.
Edge = str | int | Offsets
#: Columns where nobody chooses any: names, all properties, and the body.
COLUMNS = "names,properties,body"
DEFAULT_SPLIT_MESSAGES = 100_000
#: What the options are, and what else they are called.
NAMES = {
    "namesrv": ("nameserver", "namesrvaddr", "nameserveraddress"),
    "topics": ("topic", "subscribe", "path"),
    "brokers": (),
    "system_topics": (),
    "group": ("consumergroup", "groupid"),
    "start": ("startingoffsets", "startingtimestamp"),
    "end": ("endingoffsets", "endingtimestamp"),
    "end_position": (),
    "tag": ("tags",),
    "sql": ("sql92",),
    "columns": (),
    "extract": (),
    "body_topics": (),
    "inflate": (),
    "levels": (),
    "max_offsets_per_trigger": (),
    "split": ("splitmessages", "maxrecordsperpartition"),
    "pull_count": ("pullbatchsize",),
    "fail_on_data_loss": (),
    "access_key": (),
    "secret_key": (),
    "security_token": (),
    "tls": (),
    "tls_ca_file": (),
    "tls_verify": (),
}
_KNOWN = {spelling.replace("_", ""): name for name, others in NAMES.items() for spelling in (name, *others)}
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which messages of which cluster are read, from where to where, and how they are divided.

    ``most_per_trigger`` 0: a batch of a stream is everything there is. ``end_position``: a batch from one broker has
    what stands before that place in its log; None: all.
    """

    namesrv: tuple[str, ...]
    access: Access
    topics: tuple[str, ...]
    brokers: frozenset[str]
    system_topics: bool
    wish: Wish
    start: Edge
    end: Edge
    selection: Selection
    most_per_trigger: int
    split_messages: int
    end_position: int | None


def parse_cluster_options(options: Mapping[str, str]) -> ClusterOptions:
    """Return the options as values. Raises OptionInvalid."""
    given = _by_name(options)
    return ClusterOptions(
        _namesrv(given.get("namesrv", "")),
        _access(given),
        _topics(given.get("topics", "")),
        frozenset(words(given.get("brokers", ""))),
        flag(given, "system_topics"),
        _wish(given),
        parse_edge("start", given.get("start", EARLIEST)),
        parse_edge("end", given.get("end", LATEST)),
        parse_selection(given, COLUMNS, inflate=True),
        whole(given, "max_offsets_per_trigger", 0),
        max(1, whole(given, "split", DEFAULT_SPLIT_MESSAGES)),
        _end_position(given),
    )


def _end_position(given: Mapping[str, str]) -> int | None:
    if "end_position" not in given:
        return None
    if len(words(given.get("brokers", ""))) != 1:
        raise OptionInvalid("end_position is a place in the log of one broker: name it as well, brokers=NAME.")
    return whole(given, "end_position", 0)


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for spelling, text in options.items():
        name = _KNOWN.get(spelling.lower().replace("_", ""))
        if name is None:
            raise OptionInvalid(f"{spelling!r} is no option of this source; there are {', '.join(NAMES)}.")
        if found.setdefault(name, text) != text:
            raise OptionInvalid(f"{name} is given twice, {found[name]!r} and {text!r}; leave one out.")
    return found


def _namesrv(text: str) -> tuple[str, ...]:
    addresses = tuple(word for word in re.split(r"[;,\s]+", text) if word)
    if not addresses:
        raise OptionInvalid('Say which cluster to read: option("namesrv", "127.0.0.1:9876"), several joined by ";".')
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise OptionInvalid(f"namesrv={text!r}: {address!r} is no address such as 127.0.0.1:9876.")
    return addresses


def _access(given: Mapping[str, str]) -> Access:
    access_key, secret_key = given.get("access_key", ""), given.get("secret_key", "")
    if bool(access_key) != bool(secret_key):
        raise OptionInvalid("access_key and secret_key come together: one of them is missing.")
    return Access(
        access_key, secret_key, given.get("security_token"), flag(given, "tls"), given.get("tls_ca_file"),
        flag(given, "tls_verify", True),
    )  # fmt: skip


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(words(text)))
    if not topics:
        raise OptionInvalid('Say which topics to read: option("topics", "orders,payments"), or "orders-*", or "*".')
    for topic in topics:
        try:
            check_topic_name(topic.removesuffix(ANY) or "all")
        except InvalidTopicName as error:
            raise OptionInvalid(f"topics={text!r}: {error}") from None
    return topics


def _wish(given: Mapping[str, str]) -> Wish:
    group = given.get("group", TOOLS_GROUP)
    tag, sql = given.get("tag"), given.get("sql")
    if tag is not None and sql is not None:
        raise OptionInvalid("tag and sql are two filters, and a broker takes one: say the tag in sql, TAGS = 'a'.")
    expression, kind = (tag or "*", TAG) if sql is None else (sql, SQL92)
    try:
        check_group_name(group)
        if kind == TAG:
            build_subscription("", expression, TAG, 0)
    except InvalidGroupName as error:
        raise OptionInvalid(f"group={group!r}: {error}") from None
    except RequestRefused as error:
        raise OptionInvalid(f"tag={expression!r}: {error}") from None
    count = whole(given, "pull_count", MOST_MESSAGES)
    return Wish(
        group, kind, expression.strip(), flag(given, "fail_on_data_loss", True), min(max(count, 1), MOST_MESSAGES)
    )


def parse_edge(name: str, text: str) -> Edge:
    """Return where reading begins or ends. Raises OptionInvalid."""
    said = text.strip()
    if said.lower() in (EARLIEST, LATEST):
        return said.lower()
    try:
        if said.startswith("{"):
            return read_offsets(json.loads(said))
        if said.isascii() and said.isdigit():
            return int(said)
        moment = datetime.fromisoformat(said)
    except ValueError as error:
        raise OptionInvalid(
            f"{name}={text!r}: it is earliest, latest, ms since 1970, a time such as 2026-11-25T12:00:00Z, or offsets "
            f'as {{"topic": {{"broker": {{"0": 1200}}}}}} ({error}).'
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
