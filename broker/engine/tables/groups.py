"""The consumer groups of a store, ``config/subscriptionGroup.json`` in RocketMQ's shape, and their retry policies.

The retry policy of a group says when a message that the group could not handle is tried again. RocketMQ keeps it
(``groupRetryPolicy``) and its proxy tells 5.x clients of it; its broker itself follows the delay levels only. Here a
consumer that leaves the delay to the broker gets that of the policy, where the group says one:

    CUSTOMIZED   {"next": [ms, ...]}: of try n (from 0 on) entry n + 2, at last the last one, as RocketMQ counts
    EXPONENTIAL  {"initial": ms, "max": ms, "multiplier": number}: initial * multiplier ** n, at most max
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

from ...rocketmq.topics import check_group_name, check_topic_name, is_of_tools
from ...rocketmq.values import INT_MAX, LONG_MAX, byte_count, check_json, check_table, check_whole
from ..disk.files import Files
from ..errors import GroupNotFound, InvalidValue
from . import json_file
from .json_file import Kept
from .topics import MOST_QUEUES, READ

#: Fields unknown here that a group keeps for whoever reads them, and the longest text in them.
MOST_EXTRA = 64
LONGEST_EXTRA = 4096
#: A group's configuration in RocketMQ's form.
MOST_GROUP_BYTES = 65_536
#: Topics that one group may be forbidden to read.
MOST_FORBIDDEN = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """The configuration of a consumer group (SubscriptionGroupConfig). ``extra`` keeps fields unknown here."""

    name: str
    retry_max_times: int = 16
    retry_queues: int = 1
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the group in RocketMQ's form (SubscriptionGroupConfig)."""
        known = {json_name: getattr(self, name) for json_name, name, _ in _FIELDS}
        return {"attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0, **self.extra, **known}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Group:
        """Read RocketMQ's form; raises ValueError or KeyError."""
        known = {name: kind(value[json_name]) for json_name, name, kind in _FIELDS if value.get(json_name) is not None}
        names = {json_name for json_name, _, _ in _FIELDS}
        return cls(**known, extra={k: v for k, v in value.items() if k not in names})


_FIELDS: tuple[tuple[str, str, type], ...] = (
    ("groupName", "name", str),
    ("retryMaxTimes", "retry_max_times", int),
    ("retryQueueNums", "retry_queues", int),
    ("consumeEnable", "consume_enable", bool),
    ("consumeFromMinEnable", "consume_from_min_enable", bool),
    ("consumeBroadcastEnable", "consume_broadcast_enable", bool),
    ("consumeMessageOrderly", "consume_message_orderly", bool),
    ("consumeTimeoutMinute", "consume_timeout_minute", int),
    ("brokerId", "broker_id", int),
    ("whichBrokerWhenConsumeSlowly", "which_broker_when_consume_slowly", int),
    ("notifyConsumerIdsChangedEnable", "notify_consumer_ids_changed", bool),
)


#: Fields known here: RocketMQ's name, and what it is.
FIELDS = tuple((json_name, kind) for json_name, _, kind in _FIELDS)

_RANGES: tuple[tuple[str, str, int, int], ...] = (
    ("retryMaxTimes", "retry_max_times", -1, INT_MAX),
    ("retryQueueNums", "retry_queues", 0, MOST_QUEUES),
    ("consumeTimeoutMinute", "consume_timeout_minute", 0, INT_MAX),
    ("brokerId", "broker_id", 0, LONG_MAX),
    ("whichBrokerWhenConsumeSlowly", "which_broker_when_consume_slowly", 0, LONG_MAX),
)


def check_group(group: Group, known: Group | None = None) -> None:
    """Raise InvalidGroupName, InvalidValue unless the group may be so. What ``known``, the group as it is, has already
    is not asked for again: another broker, or an older version of this one, may have allowed it."""
    if known is None:
        check_group_name(group.name)
    for json_name, name, low, high in _RANGES:
        value = getattr(group, name)
        if known is None or value != getattr(known, name):
            check_whole(f"The field {json_name!r}", value, low, high)
    kept = known.extra if known is not None else {}
    if len(group.extra) > max(MOST_EXTRA, len(kept)):
        raise InvalidValue("The group", f"has {len(group.extra)} more fields; allowed are {MOST_EXTRA}")
    changed = {name: value for name, value in group.extra.items() if name not in kept or kept[name] != value}
    check_json("A field of the group", changed, most=LONGEST_EXTRA)
    if changed and len(json_file.row(changed)) > MOST_GROUP_BYTES:
        raise InvalidValue("The group", f"has more than {MOST_GROUP_BYTES:,} characters")


def _size_of_forbidden(group: str, topics: Mapping[str, int]) -> int:
    """Return how many bytes of the file say what a group may not read."""
    rows = [byte_count(name) + len(f',\n   "": {bits}') for name, bits in topics.items()]
    return byte_count(group) + len(',\n  "": {\n  }') + sum(rows) if rows else 0


_TABLE = "The table of groups"


class Groups(Kept):
    """Owner of ``subscriptionGroup.json``. A change is durable when the call returns."""

    _memory = ("_groups", "_forbidden", "_size", "data_version")

    def __init__(self, files: Files, path: str, touched: Callable[[str], None]) -> None:
        super().__init__(files, path)
        self._touched = touched
        self._groups: dict[str, Group] = {}
        self._rows = json_file.Rows()
        self._rest: dict[str, Any] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        #: bytes of all that in the file
        self._size = 0
        self.data_version = 0

    def _read(self, value: dict[str, Any]) -> bool:
        groups = [Group.from_json(entry) for entry in (value.pop("subscriptionGroupTable", None) or {}).values()]
        self.data_version = int((value.pop("dataVersion", None) or {}).get("counter", 0))
        self._groups = {group.name: group for group in groups}
        self._forbidden = {
            str(group): {str(topic): int(bits) for topic, bits in topics.items()}
            for group, topics in (value.pop("forbiddenTable", None) or {}).items()
        }
        self._rest = value
        self._rows.of(self._groups)
        self._size = self._size_of(self._groups) + sum(starmap(_size_of_forbidden, self._forbidden.items()))
        return True

    def _size_of(self, names: Iterable[str]) -> int:
        """Return how many bytes groups take now."""
        groups = self._groups
        return sum(self._rows.size_of(name, groups[name]) for name in names if name in groups)

    def get(self, name: str) -> Group | None:
        """Return the group of a name, None without one."""
        return self._groups.get(name)

    def all(self) -> list[Group]:
        """Return all groups of the table."""
        return list(self._groups.values())

    def put(self, group: Group) -> None:
        """Make or change a group. Raises InvalidGroupName, InvalidValue, OSError; then nothing has changed."""
        self.put_many([group])

    def put_many(self, groups: list[Group]) -> None:
        """Make or change groups with one save. Raises as ``put``."""
        for group in groups:
            check_group(group, self._groups.get(group.name))
        made = {group.name: group for group in groups}
        more = sum(self._rows.size_of(name, group) for name, group in made.items()) - self._size_of(made)
        check_table(_TABLE, self._size, more, "delete groups that nobody needs")
        with self._changing():
            self._groups |= made
            self._size += more
        for group in groups:
            self._touched(group.name)

    def ensure(self, name: str) -> Group:
        """Return the group, made now if need be."""
        group = self._groups.get(name)
        if group is None:
            group = Group(name)
            self.put(group)
        return group

    def find(self, name: str, *, may_make: bool) -> Group:
        """Return the group that somebody consumes as. One that is not there is made, where that is allowed.

        Those of tools are there without being kept. Raises GroupNotFound, InvalidGroupName, InvalidValue, OSError.
        """
        group = self._groups.get(name)
        if group is not None:
            return group
        if is_of_tools(name):
            check_group_name(name)
            return Group(name)
        if not may_make:
            raise GroupNotFound(name)
        return self.ensure(name)

    def delete(self, name: str) -> None:
        """Forget a group. Raises GroupNotFound, OSError."""
        if name not in self._groups:
            raise GroupNotFound(name)
        with self._changing():
            self._size -= self._size_of([name])
            del self._groups[name]
        self._touched(name)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Tell whether a group may not read a topic."""
        return bool(self._forbidden) and bool(self._forbidden.get(group, {}).get(topic, 0) & READ)

    def forbidden(self) -> dict[str, dict[str, int]]:
        """Return what is forbidden: permission bits by group and topic."""
        return self._forbidden

    def forbid(self, group: str, topic: str, is_forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it again. Raises InvalidTopicName, InvalidValue, OSError."""
        known = self._forbidden.get(group, {})
        bits = known.get(topic, 0)
        if is_forbidden:
            check_topic_name(topic)
        topics = {**known, topic: bits | READ if is_forbidden else bits & ~READ}
        topics = {name: bits for name, bits in topics.items() if bits}
        if len(topics) > MOST_FORBIDDEN:
            raise InvalidValue("The group", f"may not read {len(topics):,} topics; allowed are {MOST_FORBIDDEN:,}")
        more = _size_of_forbidden(group, topics) - _size_of_forbidden(group, known)
        check_table(_TABLE, self._size, more, "delete groups that nobody needs, or let groups read again")
        with self._changing():
            self._size += more
            others = {name: kept for name, kept in self._forbidden.items() if name != group}
            self._forbidden = {**others, group: topics} if topics else others

    def _content(self) -> dict[str, Any]:
        self.data_version += 1
        return {
            **self._rest,
            "forbiddenTable": self._forbidden,
            "dataVersion": {"counter": self.data_version, "stateVersion": 0, "timestamp": 0},
            "subscriptionGroupTable": self._rows.of(self._groups),
        }


# The retry policy.

INITIAL_MS, LONGEST_MS, MULTIPLIER = 5_000, 7_200_000, 2
"""ExponentialRetryPolicy of 5.5.0, where nothing else is said."""
_SKIPPED = 2
_MOST_STEPS = 32


def is_dead_letter(group: Group | None, tries: int, *, most_tries: int | None = None, gives_up: bool = False) -> bool:
    """Tell whether a message that a consumer of the group could not handle goes to its dead letters, instead of to
    another try: the one rule of messages that are given back, sent to a retry topic, or popped and not acknowledged.

    ``tries``: how often it was tried again before, not counting its first delivery. ``most_tries``: what the consumer
    allows; None is what its group allows, or a new group would. ``gives_up``: the consumer wants no other try.
    """
    if most_tries is None:
        most_tries = (group or Group("")).retry_max_times
    return gives_up or tries >= most_tries


def retry_delay_ms(group: Group | None, times: int) -> int | None:
    """Return how long a message rests that was tried again ``times`` times; None: as its next delay level says.

    What cannot be understood (any client may write a group's configuration) counts as not said.
    """
    policy = group.extra.get("groupRetryPolicy") if group is not None else None
    if not isinstance(policy, Mapping):
        return None
    if policy.get("type") == "EXPONENTIAL":
        said = policy.get("exponentialRetryPolicy")
        return _exponential(said if isinstance(said, Mapping) else {}, min(times, _MOST_STEPS))
    said = policy.get("customizedRetryPolicy")
    delays = said.get("next") if isinstance(said, Mapping) else None
    if not isinstance(delays, list) or not delays:
        return None
    return _positive(delays[min(times + _SKIPPED, len(delays) - 1)])


def _exponential(said: Mapping[str, Any], step: int) -> int | None:
    initial, longest, multiplier = (
        _positive(said.get(name, usual))
        for name, usual in (("initial", INITIAL_MS), ("max", LONGEST_MS), ("multiplier", MULTIPLIER))
    )
    if initial is None or longest is None or multiplier is None:
        return None
    grown: int = initial * multiplier**step
    return min(longest, grown)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
