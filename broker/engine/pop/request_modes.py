"""How the clients of a group are told to consume a topic, pulling or popping: ``config/messageRequestMode.json`` in
RocketMQ's shape."""

from __future__ import annotations

from itertools import starmap
from typing import Any, NamedTuple

from ...rocketmq.values import INT_MAX, check_table, check_whole
from ..disk.files import Files
from ..errors import InvalidValue
from ..tables.groups import check_group_name
from ..tables.kept_table import Kept
from ..tables.topics import check_topic_name

#: The file is written anew with each change.
MOST_MODES = 100_000
MODES = ("PULL", "POP")
#: Bytes of a mode's row beside the names, with the longest number.
_AROUND_MODE = 140


class RequestMode(NamedTuple):
    """``mode`` is PULL or POP. Each client pops the queues of ``share_queues`` other clients, too; 0 or less: all."""

    mode: str
    share_queues: int = 0


class RequestModes(Kept):
    """Owner of the file. A change is durable when the call returns."""

    _memory = ("_modes",)

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._modes: dict[tuple[str, str], RequestMode] = {}

    def _read(self, value: dict[str, Any]) -> bool:
        self._modes = {
            (str(group), str(topic)): RequestMode(str(mode["mode"]), int(mode.get("popShareQueueNum") or 0))
            for topic, groups in (value.get("messageRequestModeMap") or {}).items()
            for group, mode in groups.items()
        }
        return True

    def get(self, group: str, topic: str) -> RequestMode | None:
        """Return what was set, None if nothing was."""
        return self._modes.get((group, topic))

    def put(self, group: str, topic: str, mode: RequestMode) -> None:
        """Set it. Raises InvalidGroupName, InvalidTopicName, InvalidValue, OSError; then nothing has changed."""
        check_group_name(group)
        check_topic_name(topic)
        check_whole("The field 'popShareQueueNum'", mode.share_queues, -1, INT_MAX)
        if mode.mode not in MODES:
            raise InvalidValue("The field 'mode'", f"is none of {', '.join(MODES)}")
        if (group, topic) not in self._modes and len(self._modes) >= MOST_MODES:
            raise InvalidValue("The mode", f"is one more than allowed: there are {MOST_MODES:,} already")
        size, more = sum(starmap(_size_of, self._modes)), _size_of(group, topic)
        check_table("The table of modes", size, more * ((group, topic) not in self._modes), "set fewer")
        with self._changing():
            self._modes[group, topic] = mode

    def _content(self) -> dict[str, Any]:
        table: dict[str, dict[str, Any]] = {}
        for (group, topic), known in self._modes.items():
            table.setdefault(topic, {})[group] = {
                "consumerGroup": group,
                "mode": known.mode,
                "popShareQueueNum": known.share_queues,
                "topic": topic,
            }
        return {"messageRequestModeMap": table}


def _size_of(group: str, topic: str) -> int:
    """Return how many bytes a mode takes in the file, or a little more."""
    return 2 * (len(group) + len(topic)) + _AROUND_MODE
