"""The topics of a store: ``config/topics.json`` in RocketMQ's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from ...rocketmq.topics import SYSTEM_PREFIX, SYSTEM_TOPICS, check_topic_name, is_of_group
from ...rocketmq.values import (
    INT_MAX,
    RESERVED_PART,
    byte_count,
    check_table,
    check_text,
    check_whole,
)
from ..disk import Files
from ..errors import InvalidValue, TopicNotFound
from . import json_file
from .json_file import Kept

READ = 4
WRITE = 2
#: What is to become of that which waits for a topic that is deleted.
Pending = Literal["cancel", "keep"]

#: Our own part of the file: name and log position of deleted topics, so that a topic made again stays empty when the
#: queues are built from the log.
_DELETED_KEY = "escapementDeletedTopics"
#: The same of topics that were deleted with all that waited for them; and as what those were that left it waiting.
_CANCELLED_KEY = "escapementCancelledTopics"
_KEPT_KEY = "escapementKeptTopics"
#: Queues that a topic may be given: requests about a topic name each of them.
MOST_QUEUES = 16_384
#: Queues of all topics together: who follows the broker keeps each of them.
MOST_QUEUES_TOGETHER = 65_536
#: TopicFilterType.
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
#: Attributes of one topic; RocketMQ knows seven.
MOST_ATTRIBUTES = 64
LONGEST_ATTRIBUTE_NAME = 128
LONGEST_ATTRIBUTE = 1024
#: Names and values of all attributes of one topic.
MOST_ATTRIBUTE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Topic:
    """The configuration of a topic. ``permission``: 4 read, 2 write, 6 both."""

    name: str
    read_queues: int
    write_queues: int
    permission: int = READ | WRITE
    filter_type: str = "SINGLE_TAG"
    system_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        """Queues that can be read or written."""
        return max(self.read_queues, self.write_queues)

    @property
    def is_system(self) -> bool:
        """Tell whether the topic is the broker's own."""
        return self.name in SYSTEM_TOPICS or self.name.startswith(SYSTEM_PREFIX)

    def to_json(self) -> dict[str, Any]:
        """Return the topic in RocketMQ's form (TopicConfig)."""
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.permission,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.system_flag,
            "writeQueueNums": self.write_queues,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Topic:
        """Read RocketMQ's TopicConfig; raises ValueError or KeyError."""
        return cls(
            name=str(value["topicName"]),
            read_queues=int(value.get("readQueueNums", 0)),
            write_queues=int(value.get("writeQueueNums", 0)),
            permission=int(value.get("perm", READ | WRITE)),
            filter_type=str(value.get("topicFilterType", "SINGLE_TAG")),
            system_flag=int(value.get("topicSysFlag", 0)),
            order=bool(value.get("order", False)),
            attributes={str(k): str(v) for k, v in (value.get("attributes") or {}).items()},
        )


def check_topic(topic: Topic, known: Topic | None = None) -> None:
    """Raise InvalidTopicName, InvalidValue unless the topic may be so. What ``known``, the topic as it is, has already
    is not asked for again: another broker, or an older version of this one, may have allowed it."""
    if known is None:
        check_topic_name(topic.name)
    _check_queues("readQueueNums", topic.read_queues, known.read_queues if known is not None else None)
    _check_queues("writeQueueNums", topic.write_queues, known.write_queues if known is not None else None)
    if known is None or topic.permission != known.permission:
        check_whole("The field 'perm'", topic.permission, 0, 7)
    if known is None or topic.system_flag != known.system_flag:
        check_whole("The field 'topicSysFlag'", topic.system_flag, 0, INT_MAX)
    if topic.filter_type not in FILTER_TYPES and (known is None or topic.filter_type != known.filter_type):
        raise InvalidValue("The field 'topicFilterType'", f"is none of {', '.join(FILTER_TYPES)}")
    _check_attributes(topic.attributes, known.attributes if known is not None else {})


def _check_queues(name: str, count: int, known: int | None) -> None:
    if count != known:
        check_whole(f"The field {name!r}", count, 1, MOST_QUEUES)


def _check_attributes(attributes: Mapping[str, str], known: Mapping[str, str]) -> None:
    if len(attributes) > max(MOST_ATTRIBUTES, len(known)):
        raise InvalidValue("The topic", f"has {len(attributes)} attributes; allowed are {MOST_ATTRIBUTES}")
    for name, value in attributes.items():
        if known.get(name) != value:
            check_text("The name of an attribute", name, least=1, most=LONGEST_ATTRIBUTE_NAME)
            check_text(f"The attribute {name!r}", value, most=LONGEST_ATTRIBUTE)
    size, known_size = _bytes_of(attributes), _bytes_of(known)
    if size > max(MOST_ATTRIBUTE_BYTES, known_size):
        raise InvalidValue("The topic", f"has attributes of {size:,} bytes; allowed are {MOST_ATTRIBUTE_BYTES:,}")


def _bytes_of(attributes: Mapping[str, str]) -> int:
    return sum(byte_count(name) + byte_count(value) for name, value in attributes.items())


class _Size(NamedTuple):
    """The space that topics take: bytes of the table's file, and queues."""

    bytes: int = 0
    queues: int = 0

    def changed(self, before: _Size, after: _Size) -> _Size:
        """Return it after topics that took so much have come to take something else."""
        return _Size(self.bytes - before.bytes + after.bytes, self.queues - before.queues + after.queues)


_TABLE = "The table of topics"
#: Bytes around the name of a topic that is gone, with its position.
_AROUND_NAME = len(',\n  "": 9223372036854775807')


def void_positions_in(value: dict[str, Any]) -> dict[str, int]:
    """Return from the content of ``topics.json`` the position by name below which records are of a deleted topic."""
    return {str(name): int(position) for name, position in (value.get(_DELETED_KEY) or {}).items()}


class Topics(Kept):
    """Owner of ``topics.json``. A change is durable when the call returns."""

    _memory = ("_topics", "_deleted", "cancelled", "_kept", "_size", "data_version")

    def __init__(self, files: Files, path: str, touched: Callable[[str], None]) -> None:
        super().__init__(files, path)
        self._touched = touched
        self._topics: dict[str, Topic] = {}
        self._rows = json_file.Rows()
        self._deleted: dict[str, int] = {}
        #: by topic: what was parked for it below this position of the log never comes out
        self.cancelled: dict[str, int] = {}
        self._kept: dict[str, Topic] = {}
        #: of all topics, also of those that were deleted and come back
        self._size = _Size()
        self.data_version = 0
        self.changed_ms = 0

    def load(self) -> bool:
        """Read the file; False if it cannot be read: the version before, which then is taken, may lack topics."""
        is_current = json_file.is_readable(self._files, self._path)
        return super().load() and is_current

    def _read(self, value: dict[str, Any]) -> bool:
        topics = [Topic.from_json(entry) for entry in value["topicConfigTable"].values()]
        version = value.get("dataVersion") or {}
        self.data_version = int(version.get("counter", 0))
        self.changed_ms = int(version.get("timestamp", 0))
        self._topics = {topic.name: topic for topic in topics}
        self._deleted = void_positions_in(value)
        self.cancelled = {str(name): int(position) for name, position in (value.get(_CANCELLED_KEY) or {}).items()}
        self._kept = {str(name): Topic.from_json(entry) for name, entry in (value.get(_KEPT_KEY) or {}).items()}
        self._rows.of(self._topics)
        self._size = self._size_of(self._topics.keys() | self._kept.keys())
        return True

    def get(self, name: str) -> Topic | None:
        """Return the topic of a name, None without one."""
        return self._topics.get(name)

    def all(self) -> list[Topic]:
        """Return all topics of the table."""
        return list(self._topics.values())

    def put(self, topic: Topic) -> None:
        """Make or change a topic. Raises InvalidTopicName, InvalidValue, OSError; then nothing has changed."""
        self.put_many([topic])

    def put_many(self, topics: list[Topic]) -> None:
        """Make or change topics with one save. Raises as ``put``."""
        for topic in topics:
            check_topic(topic, self._topics.get(topic.name))
        self.check_room(topics)
        self._put(topics)

    def check_room(self, topics: Iterable[Topic]) -> None:
        """Raise InvalidValue if the table would hold too much with these made or changed. What makes it no larger may
        always be: the store may be another broker's and have more."""
        made = {topic.name: topic for topic in topics}
        after = self._size.changed(self._size_of(made), self._size_as(made.values()))
        of_groups = all(map(is_of_group, made))
        shrink = "delete topics that nobody needs"
        if self._kept:
            back = "those that were deleted and come back with pending messages"
            shrink += f" (also, with escPending=cancel, {back}: {', '.join(islice(self._kept, 3))})"
        more = after.bytes - self._size.bytes
        check_table(_TABLE, self._size.bytes, more, f"drop attributes, or {shrink}", reserve=of_groups)
        most = MOST_QUEUES_TOGETHER + of_groups * MOST_QUEUES_TOGETHER // RESERVED_PART
        if after.queues > max(most, self._size.queues):
            raise InvalidValue(
                _TABLE, f"would have {after.queues:,} queues; allowed are {most:,}: ask for fewer, or {shrink}"
            )

    def _size_of(self, names: Iterable[str]) -> _Size:
        """Return what the topics of these names take now."""
        tables = (self._topics, self._kept)
        return self._size_as([table[name] for name in names for table in tables if name in table])

    def _size_as(self, topics: Iterable[Topic]) -> _Size:
        rows = [(self._rows.size_of(topic.name, topic), topic.queues) for topic in topics]
        return _Size(sum(size for size, _ in rows), sum(queues for _, queues in rows))

    @contextmanager
    def _resizing(self, *names: str) -> Iterator[None]:
        """Save what the block changed in memory of these topics, and keep count of what they take."""
        with self._changing():
            before = self._size_of(set(names))
            yield
            self._size = self._size.changed(before, self._size_of(set(names)))

    def restore(self, topics: list[Topic]) -> None:
        """Make topics that the log or the queues know of, as they know them. Raises InvalidTopicName, OSError."""
        for topic in topics:
            check_topic_name(topic.name)
        self._put(topics)

    def _put(self, topics: list[Topic]) -> None:
        with self._resizing(*(topic.name for topic in topics)):
            for topic in topics:
                self._topics[topic.name] = topic
                self._kept.pop(topic.name, None)
        for topic in topics:
            self._touched(topic.name)

    def ensure(self, name: str, queues: int, *, is_due: bool = False) -> Topic:
        """Return the topic, made now if need be: as it was, if it was deleted while something waited that was kept,
        else with so many queues, or as many as a topic may have. ``is_due``: for what was taken long ago and comes out
        now, so it is made however full the table is."""
        topic = self._topics.get(name)
        if topic is None and (topic := self._kept.get(name)) is not None:
            self.restore([topic])
        elif topic is None:
            queues = min(queues, MOST_QUEUES)
            topic = Topic(name, queues, queues)
            make = self.restore if is_due else self.put_many
            make([topic])
        return topic

    def delete(
        self, name: str, log_end_position: int, pending: Pending | None = None, *, was_used: bool = True
    ) -> None:
        """Forget a topic, and note that its records below a position of the log are void, if it ``was_used``: else
        there are none. Raises TopicNotFound, InvalidValue, OSError.

        ``pending``: whether what waits for it now is ``cancel``led, so that it never comes out, or ``keep`` it: then
        the first that is due makes the topic anew as it was.
        """
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        self._check_remembered(name, as_deleted=was_used, as_cancelled=pending == "cancel")
        with self._resizing(name):
            del self._topics[name]
            if was_used:
                self._deleted[name] = log_end_position
            self._kept.pop(name, None)
            if pending == "keep":
                self._kept[name] = topic
            elif pending == "cancel":
                self.cancelled[name] = log_end_position
        self._touched(name)

    def cancel_waiting(self, name: str, log_end_position: int) -> None:
        """Have nothing come out that waits for a topic now and was parked below a position. Raises InvalidTopicName,
        InvalidValue, OSError."""
        check_topic_name(name)
        self._check_remembered(name, as_deleted=False, as_cancelled=True)
        with self._resizing(name):
            self.cancelled[name] = log_end_position
            self._kept.pop(name, None)

    def _check_remembered(self, name: str, *, as_deleted: bool, as_cancelled: bool) -> None:
        """Raise InvalidValue if too much would be remembered of topics that are gone with one more name."""
        more = (as_deleted and name not in self._deleted) + (as_cancelled and name not in self.cancelled)
        size = sum(byte_count(known) + _AROUND_NAME for known in chain(self._deleted, self.cancelled))
        shrink = "names are removed with the oldest part of the log (329 removes what has expired)"
        check_table("The list of deleted topics", size, more * (byte_count(name) + _AROUND_NAME), shrink)

    def is_kept(self, name: str) -> bool:
        """Tell whether a topic was deleted while what waits for it was kept: then it comes back with that."""
        return name in self._kept

    def is_cancelled(self, name: str, position: int) -> bool:
        """Tell whether what was parked for a topic at this position never comes out."""
        return position < self.cancelled.get(name, 0)

    def void_below(self, name: str) -> int:
        """Return the position below which records of this name are of an older, deleted topic; 0 if there was none."""
        return self._deleted.get(name, 0)

    def forget_deleted(self, log_min_position: int) -> None:
        """Drop what is remembered of deleted topics whose records are gone; the next save leaves it out."""
        self._deleted = {name: position for name, position in self._deleted.items() if position > log_min_position}
        self.cancelled = {name: position for name, position in self.cancelled.items() if position > log_min_position}

    def _content(self) -> dict[str, Any]:
        self.data_version += 1
        value: dict[str, Any] = {
            "dataVersion": {"counter": self.data_version, "stateVersion": 0, "timestamp": self.changed_ms},
            "topicConfigTable": self._rows.of(self._topics),
        }
        if self._deleted:
            value[_DELETED_KEY] = self._deleted
        if self.cancelled:
            value[_CANCELLED_KEY] = self.cancelled
        if self._kept:
            value[_KEPT_KEY] = {name: topic.to_json() for name, topic in self._kept.items()}
        return value
