"""The consumer groups of a store: ``config/subscriptionGroup.json`` in RocketMQ's shape, their retry policies, and how
far each has come: ``config/consumerOffset.json``.

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
from typing import Any, Protocol

from ...rocketmq.topics import check_group_name, check_topic_name, is_of_tools
from ...rocketmq.values import INT_MAX, LONG_MAX, byte_count, check_json, check_size, check_table, check_whole
from ..disk import Files, save_file
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
        check_table(_TABLE, self._size, more, "delete groups that nobody needs, or allow groups to read again")
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


# How far each group has come.

#: All rows together, each as request 14000 tells it: one for each group, topic and queue.
MOST_OFFSETS_BYTES = 12 << 20
_AROUND_ROW = len('{"group":"","topic":"","queueId":16383,"offset":9223372036854775807},')


def _size_of_row(group: str, topic: str) -> int:
    return len(group) + len(topic) + _AROUND_ROW


class Watch(Protocol):
    """A service that hands out messages itself, and so must hear when a group is set back or forward."""

    def placed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Hear that the offset of a group was set."""

    def removed(self, group: str, topic: str, queue_id: int) -> None:
        """Hear that the offset of a group was removed."""


class ConsumerOffsets:
    """Next offset to consume, by group, topic and queue. Saved by upkeep: a crash repeats at most what came since."""

    def __init__(self, files: Files, path: str, touched: Callable[[tuple[str, str, int]], None]) -> None:
        self._files = files
        self.path = path
        self._touched = touched
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        #: what stands in the file for a group and topic, where that is as the table has it
        self._rows: dict[tuple[str, str], json_file.Row] = {}
        self._rest: dict[str, Any] = {}
        #: bytes of all rows
        self._size = 0
        self._version = 0
        self._saved_version = 0
        self.watch: Watch | None = None
        #: True if the file was written by Apache RocketMQ, which notes the time of its last change
        self.is_foreign = False

    def load(self) -> bool:
        """Read the file; False if there is none that can be read."""
        return json_file.load(self._files, self.path, self._read) or False

    def _read(self, value: dict[str, Any]) -> bool:
        table: dict[tuple[str, str], dict[int, int]] = {}
        for name, queues in (value.pop("offsetTable", None) or {}).items():
            topic, _, group = str(name).partition("@")
            table[group, topic] = {int(queue): int(offset) for queue, offset in queues.items()}
        version = value.pop("dataVersion", None) or {}
        self.is_foreign = bool(version.get("timestamp"))
        self._table, self._rest, self._rows = table, value, {}
        self._size = sum(len(queues) * _size_of_row(*key) for key, queues in table.items())
        return True

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the next offset a group will consume. Raises InvalidGroupName, InvalidTopicName, InvalidValue."""
        self.check_room(group, {topic: (queue_id,)})
        if self.note(group, topic, queue_id, offset) and self.watch is not None:
            self.watch.placed(group, topic, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have a group begin at an offset, though it may stand there already: what is out of the queue is void. Raises
        as ``commit``."""
        self.check_room(group, {topic: (queue_id,)})
        self.note(group, topic, queue_id, offset)
        if self.watch is not None:
            self.watch.placed(group, topic, queue_id, offset)

    def check_room(self, group: str, queues: Mapping[str, Iterable[int]]) -> None:
        """Raise InvalidValue if the table would hold too much with offsets of a group on these queues, by topic."""
        more = 0
        for topic, queue_ids in queues.items():
            known = self._table.get((group, topic), {})
            more += sum(queue_id not in known for queue_id in queue_ids) * _size_of_row(group, topic)
        what, shrink = "The table of consumer offsets", "delete groups that nobody needs, with their offsets"
        check_size(what, self._size, more, MOST_OFFSETS_BYTES, shrink)

    def note(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commit on behalf of the watch, however full the table is; return True if the offset changed."""
        queues = self._table.get((group, topic))
        if queues is None:
            check_group_name(group)
            check_topic_name(topic)
            queues = self._table[group, topic] = {}
        if queue_id not in queues:
            self._size += _size_of_row(group, topic)
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self._rows.pop((group, topic), None)
            self._version += 1
            self._touched((group, topic, queue_id))
            return True
        return False

    def fit(self, end_of: Callable[[str, int], int]) -> None:
        """Set back who is further than a queue's end, as recovery found it.

        Messages that were consumed before they were durable (flush=async) may be gone: others take their offsets, and
        a group that stayed ahead would never see those.
        """
        for (group, topic), queues in self._table.items():
            for queue_id, offset in list(queues.items()):
                if offset > (end := end_of(topic, queue_id)):
                    self.note(group, topic, queue_id, end)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset, None if the group never consumed the queue."""
        return self._table.get((group, topic), {}).get(queue_id)

    def of_group(self, group: str) -> dict[str, dict[int, int]]:
        """Return a group's offsets by topic and queue."""
        return {topic: dict(queues) for (name, topic), queues in self._table.items() if name == group}

    def of_topic(self, group: str, topic: str) -> dict[int, int]:
        """Return a group's offsets on one topic by queue."""
        return dict(self._table.get((group, topic), {}))

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that have offsets on a topic."""
        return sorted({group for group, name in self._table if name == topic})

    def all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return the offsets of all queues, by (group, topic)."""
        return self._table

    def remove(self, group: str, topic: str | None = None) -> None:
        """Forget a group, or its offsets on one topic."""
        for key in [key for key in self._table if key[0] == group and topic in (None, key[1])]:
            self._rows.pop(key, None)
            queues = self._table.pop(key)
            self._size -= len(queues) * _size_of_row(*key)
            for queue_id in queues:
                self._touched((*key, queue_id))
                if self.watch is not None:
                    self.watch.removed(*key, queue_id)
            self._version += 1

    def remove_topic(self, topic: str) -> None:
        """Forget what any group consumed of a topic."""
        for group, name in list(self._table):
            if name == topic:
                self.remove(group, topic)

    def take(self) -> tuple[int, bytes] | None:
        """Return (version, content of the file) if it has changed since it was last saved."""
        if self._version == self._saved_version:
            return None
        rows = self._rows
        for key, queues in self._table.items():
            if key not in rows:
                rows[key] = json_file.row({str(queue): offset for queue, offset in queues.items()})
        table = {f"{topic}@{group}": row for (group, topic), row in rows.items()}
        value = {**self._rest, "dataVersion": {"counter": self._version, "stateVersion": 0, "timestamp": 0}}
        return self._version, json_file.dump({**value, "offsetTable": table})

    def save(self) -> None:
        """Put the table on disk now. Raises OSError."""
        if (taken := self.take()) is not None:
            save_file(self._files, self.path, taken[1])
            self.saved(taken[0])

    def saved(self, version: int) -> None:
        """Note that a version is on disk."""
        self._saved_version = version
