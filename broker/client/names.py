"""The permitted forms of topics, groups, tags, keys and properties: checked before anything is sent.

Topic and group names follow Apache RocketMQ's TopicValidator (5.5.0): the characters ``A-Z a-z 0-9 _ - | %``,
at most 127 of them for a topic and 120 for a group (so that ``%RETRY%`` + group is still a topic).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..rocketmq.acl import AccessError, check_name
from ..rocketmq.properties import OWN_PREFIX, SYSTEM_PROPERTIES
from ..rocketmq.topics import (
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_TOPIC,
    PARKED_HALF_TOPIC,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TEMPLATE_TOPIC,
    TIMER_TOPIC,
)
from .errors import InvalidArgument

__all__ = [
    "BROKER_TOPICS",
    "MAX_BODY_BYTES",
    "MAX_DELAY_LEVEL",
    "MAX_GROUP_CHARACTERS",
    "MAX_PROPERTIES_BYTES",
    "MAX_SCHEDULE_KEY_CHARACTERS",
    "MAX_TOPIC_CHARACTERS",
    "allow_delay_levels",
    "check_body",
    "check_delay_level",
    "check_from_where",
    "check_group",
    "check_number",
    "check_properties",
    "check_queue_id",
    "check_schedule_key",
    "check_sharding_key",
    "check_tag",
    "check_topic",
    "check_user",
    "check_writable_topic",
    "joined_keys",
]

MAX_BODY_BYTES = 4 * 1024 * 1024
#: The record keeps the length of the properties in a signed 16-bit number.
MAX_PROPERTIES_BYTES = 32_767
MAX_TOPIC_CHARACTERS = 127
MAX_GROUP_CHARACTERS = 120
MAX_SCHEDULE_KEY_CHARACTERS = 200
#: Levels that brokers have unless their messageDelayLevel says otherwise.
MAX_DELAY_LEVEL = 18

_NAME = re.compile(r"[A-Za-z0-9_%|-]+\Z")
_SEPARATORS = re.compile("[\x01\x02]")
_BLANK = re.compile(r"\s")

#: Topics that only the broker writes (TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET and our own use).
BROKER_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        PARKED_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_TOPIC,
        TIMER_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TEMPLATE_TOPIC,
    }
)


def check_topic(topic: str) -> None:
    """Raise InvalidArgument unless `topic` is the name of a topic that can exist."""
    _check_name(topic, "topic", MAX_TOPIC_CHARACTERS)


def check_writable_topic(topic: str) -> None:
    """Raise InvalidArgument unless programs can send to `topic`: those that only the broker writes are refused too."""
    check_topic(topic)
    if topic in BROKER_TOPICS:
        raise InvalidArgument(f"Topic {topic} belongs to the broker; send to a topic of your own.", field="topic")


def check_group(group: str) -> None:
    """Raise InvalidArgument unless `group` is the name of a group that can exist."""
    _check_name(group, "group", MAX_GROUP_CHARACTERS)


def _check_name(name: str, field: str, limit: int) -> None:
    if not isinstance(name, str) or len(name) > limit or not _NAME.match(name):
        raise InvalidArgument(
            f"{field} {str(name)[:140]!r} is not valid: 1 to {limit} characters of A-Z a-z 0-9 _ - | %.", field=field
        )


def check_tag(tag: object) -> None:
    """Raise InvalidArgument unless a tag is one word: subscriptions separate tags by ``||``."""
    if not isinstance(tag, str):
        raise InvalidArgument(f"tag {tag!r:.140} is {_kind(tag)}; a tag is text: {_as_text(tag)}.", field="tag")
    if not tag or _BLANK.search(tag) or "|" in tag or _SEPARATORS.search(tag):
        raise InvalidArgument(f"tag {tag[:140]!r} is not valid: one word without blanks or '|'.", field="tag")


def joined_keys(keys: Iterable[str]) -> str:
    """Join keys to one property, by blanks as RocketMQ does; raises InvalidArgument for a key that holds one."""
    if isinstance(keys, str):
        raise InvalidArgument(f"keys must be a list of words, not one string: [{keys!r:.140}].", field="keys")
    words = list(keys)
    for key in words:
        if not isinstance(key, str):
            raise InvalidArgument(f"key {key!r:.140} is {_kind(key)}; keys are text: {_as_text(key)}.", field="keys")
        if not key or _BLANK.search(key) or _SEPARATORS.search(key):
            raise InvalidArgument(f"key {str(key)[:140]!r} is not valid: one word without blanks.", field="keys")
    return " ".join(words)


def check_properties(properties: Mapping[Any, Any]) -> None:
    """Raise InvalidArgument for properties with system names, or with one of RocketMQ's two separators."""
    for name, text in properties.items():
        if not isinstance(name, str) or not isinstance(text, str):
            odd = text if isinstance(name, str) else name
            raise InvalidArgument(
                f"property {name!r:.140} has {odd!r:.140}, {_kind(odd)}; properties map text to text: {_as_text(odd)}.",
                field="properties",
            )
        if not name or _SEPARATORS.search(name) or _SEPARATORS.search(text):
            raise InvalidArgument(
                f"property {name[:140]!r} is not valid: names are not empty, \\x01 and \\x02 are separators.",
                field="properties",
            )
        if name in SYSTEM_PROPERTIES or name.startswith(OWN_PREFIX):
            raise InvalidArgument(f"property {name!r} is the broker's own; use another name.", field="properties")


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _as_text(value: object) -> str:
    """Return what to write instead of a value that is no text."""
    return f"give {str(value)!r:.140}" if isinstance(value, int | float) else "convert it to text"


def check_delay_level(level: int) -> None:
    """Raise InvalidArgument unless this is 0 (none) or a level: brokers take their highest for one that is above it,
    and say nothing."""
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise InvalidArgument(
            f"delay_level {level!r:.140} is not valid: a whole number from 0 up.", field="delay_level"
        )
    if level > _levels.highest:
        raise InvalidArgument(
            f"delay_level {level if level < 10**9 else 'of so many digits'} is above {_levels.highest}, the highest "
            "that brokers have by default: one would take that instead. For any time give delay=timedelta(...); for "
            "brokers with more levels call names.allow_delay_levels(count) first.",
            field="delay_level",
        )


def allow_delay_levels(count: int) -> None:
    """Have clients of this process take levels up to `count`: as many as messageDelayLevel of all its brokers has."""
    check_number("count", count, 1, 2**31 - 1)
    _levels.highest = count


class _Levels:
    highest = MAX_DELAY_LEVEL


_levels = _Levels()


def check_queue_id(queue_id: int) -> None:
    """Raise InvalidArgument unless this is a number from 0 up; whether a topic has the queue, its route tells."""
    if isinstance(queue_id, bool) or not isinstance(queue_id, int) or queue_id < 0:
        raise InvalidArgument(f"queue_id {queue_id!r} is not valid: a whole number from 0 up.", field="queue_id")


def check_broker(broker: str) -> None:
    """Raise InvalidArgument unless this is a text; whether such a broker has the topic, its route tells."""
    if not isinstance(broker, str) or not broker:
        raise InvalidArgument(f"broker {broker!r:.140} is not valid: the name of a broker.", field="broker")


def check_sharding_key(key: str, queue_id: int | None) -> None:
    """Raise InvalidArgument unless the key is a text that may choose the queue, and nothing else chooses one."""
    if not isinstance(key, str) or not key or _SEPARATORS.search(key):
        raise InvalidArgument(
            f"sharding_key {key!r:.140} is not valid: text without \\x01 and \\x02.", field="sharding_key"
        )
    if queue_id is not None:
        raise InvalidArgument("Give a queue or a sharding_key, not both.", field="sharding_key")


def check_schedule_key(key: str) -> None:
    """Raise InvalidArgument unless the key has 1 to 200 printable characters, blanks among them."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_SCHEDULE_KEY_CHARACTERS or not key.isprintable():
        raise InvalidArgument(
            f"schedule_key {str(key)[:210]!r} is not valid: 1 to {MAX_SCHEDULE_KEY_CHARACTERS} printable characters.",
            field="schedule_key",
        )


def check_body(body: bytes) -> None:
    """Raise InvalidArgument for a body of more than 4 MiB; an empty one is allowed."""
    if len(body) > MAX_BODY_BYTES:
        raise InvalidArgument(
            f"The body has {len(body):,} bytes, the limit is {MAX_BODY_BYTES:,}; send a reference to the content, "
            "or split it.",
            field="body",
        )


def check_number(field: str, value: float, low: float, high: float | None = None) -> None:
    """Raise InvalidArgument unless `value` is from `low` to `high`, both included; None: there is no highest."""
    if high is None:
        if value < low:
            raise InvalidArgument(f"{field} is {value}; it is at least {low}.", field=field)
    elif not low <= value <= high:
        raise InvalidArgument(f"{field} is {value}; allowed are {low} to {high}.", field=field)


def check_from_where(from_where: str) -> None:
    """Raise InvalidArgument unless this is where a new group can begin."""
    if from_where not in ("first", "last"):
        raise InvalidArgument(f"from_where {from_where!r} is not valid: 'first' or 'last'.", field="from_where")


def check_user(user: str) -> None:
    """Raise InvalidArgument unless a user of access control may be called so."""
    try:
        check_name(user)
    except AccessError as error:
        raise InvalidArgument(str(error), field="user") from None
