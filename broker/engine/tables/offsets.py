"""How far each consumer group has come: ``config/consumerOffset.json`` in RocketMQ's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ...rocketmq.topics import check_group_name, check_topic_name
from ...rocketmq.values import check_size
from ..disk import atomic
from ..disk.files import Files
from . import json_file

#: All rows together, each as request 14000 tells it: one for each group, topic and queue.
MOST_OFFSETS_BYTES = 12 << 20
_AROUND_ROW = len('{"group":"","topic":"","queueId":16383,"offset":9223372036854775807},')


def _size_of_row(group: str, topic: str) -> int:
    return len(group) + len(topic) + _AROUND_ROW


class Watch(Protocol):
    """Who hands out messages itself and so must hear when a group is set back or forward."""

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
        """As ``commit``, by the watch itself and however full the table is; True if it is another one than before."""
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
            atomic.save(self._files, self.path, taken[1])
            self.saved(taken[0])

    def saved(self, version: int) -> None:
        """Note that a version is on disk."""
        self._saved_version = version
