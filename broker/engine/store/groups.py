"""The consumer groups of a store: ``config/subscriptionGroup.json`` in RocketMQ's shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..disk import atomic, json_file
from ..disk.files import Files
from ..errors import GroupNotFound, InvalidGroupName
from .topics import READ

_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")


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
        """Return RocketMQ's form."""
        known = {json_name: getattr(self, name) for json_name, name, _ in _FIELDS}
        return {"attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0, **self.extra, **known}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Group:
        """Read RocketMQ's form; raises ValueError or KeyError."""
        known = {name: kind(value[json_name]) for json_name, name, kind in _FIELDS if value.get(json_name) is not None}
        names = {json_name for json_name, _, _ in _FIELDS}
        return cls(**known, extra={k: v for k, v in value.items() if k not in names})


_FIELDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
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


def check_group_name(name: str) -> None:
    """Raise InvalidGroupName unless the name is allowed."""
    if not _NAME.fullmatch(name):
        raise InvalidGroupName(name)


class Groups:
    """Owner of ``subscriptionGroup.json``. A change is durable when the call returns."""

    def __init__(self, files: Files, path: str, touched: Callable[[str], None]) -> None:
        self._files = files
        self._path = path
        self._touched = touched
        self._groups: dict[str, Group] = {}
        self._rows = json_file.Rows()
        self._rest: dict[str, Any] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.data_version = 0

    def load(self) -> bool:
        """Read the file; False if there is none that can be read."""
        return json_file.load(self._files, self._path, self._read) or False

    def _read(self, value: dict[str, Any]) -> bool:
        groups = [Group.from_json(entry) for entry in (value.pop("subscriptionGroupTable", None) or {}).values()]
        self.data_version = int((value.pop("dataVersion", None) or {}).get("counter", 0))
        self._groups = {group.name: group for group in groups}
        self._forbidden = {
            str(group): {str(topic): int(bits) for topic, bits in topics.items()}
            for group, topics in (value.pop("forbiddenTable", None) or {}).items()
        }
        self._rest = value
        return True

    def get(self, name: str) -> Group | None:
        """Return a group or None."""
        return self._groups.get(name)

    def all(self) -> list[Group]:
        """Return every group."""
        return list(self._groups.values())

    def put(self, group: Group) -> None:
        """Make or change a group. Raises InvalidGroupName, OSError."""
        self.put_many([group])

    def put_many(self, groups: list[Group]) -> None:
        """Make or change groups with one save. Raises InvalidGroupName, OSError; then nothing has changed."""
        for group in groups:
            check_group_name(group.name)
        before = dict(self._groups)
        self._groups |= {group.name: group for group in groups}
        self._save(before)
        for group in groups:
            self._touched(group.name)

    def ensure(self, name: str) -> Group:
        """Return the group, made now if need be."""
        group = self._groups.get(name)
        if group is None:
            group = Group(name)
            self.put(group)
        return group

    def delete(self, name: str) -> None:
        """Forget a group. Raises GroupNotFound, OSError."""
        before = dict(self._groups)
        if self._groups.pop(name, None) is None:
            raise GroupNotFound(name)
        self._save(before)
        self._touched(name)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Tell whether a group may not read a topic."""
        return bool(self._forbidden) and bool(self._forbidden.get(group, {}).get(topic, 0) & READ)

    def forbidden(self) -> dict[str, dict[str, int]]:
        """Return what is forbidden: permission bits by group and topic."""
        return self._forbidden

    def forbid(self, group: str, topic: str, is_forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it again. Raises OSError."""
        bits = self._forbidden.get(group, {}).get(topic, 0)
        topics = {**self._forbidden.get(group, {}), topic: bits | READ if is_forbidden else bits & ~READ}
        topics = {name: bits for name, bits in topics.items() if bits}
        before = self._forbidden
        self._forbidden = {
            **{name: kept for name, kept in before.items() if name != group},
            **({group: topics} if topics else {}),
        }
        try:
            self._save(dict(self._groups))
        except OSError:
            self._forbidden = before
            raise

    def _save(self, before: dict[str, Group]) -> None:
        self.data_version += 1
        value = {
            **self._rest,
            "forbiddenTable": self._forbidden,
            "dataVersion": {"counter": self.data_version, "stateVersion": 0, "timestamp": 0},
            "subscriptionGroupTable": self._rows.of(self._groups),
        }
        try:
            atomic.save(self._files, self._path, json_file.dump(value))
        except OSError:
            self._groups = before
            raise
