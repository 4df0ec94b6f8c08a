"""How the clients of a group are told to consume a topic, pulling or popping: ``config/messageRequestMode.json`` in
RocketMQ's shape."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..disk import atomic, json_file
from ..disk.files import Files


class RequestMode(NamedTuple):
    """``mode`` is PULL or POP. Each client pops the queues of ``share_queues`` other clients, too; 0 or less: all."""

    mode: str
    share_queues: int = 0


class RequestModes:
    """Owner of the file. A change is durable when the call returns."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._modes: dict[tuple[str, str], RequestMode] = {}

    def load(self) -> bool:
        """Read the file; False if there is none that can be read."""
        return json_file.load(self._files, self._path, self._read) or False

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
        """Set it. Raises OSError; then nothing has changed."""
        modes = {**self._modes, (group, topic): mode}
        table: dict[str, dict[str, Any]] = {}
        for (of_group, of_topic), known in modes.items():
            table.setdefault(of_topic, {})[of_group] = {
                "consumerGroup": of_group,
                "mode": known.mode,
                "popShareQueueNum": known.share_queues,
                "topic": of_topic,
            }
        atomic.save(self._files, self._path, json_file.dump({"messageRequestModeMap": table}))
        self._modes = modes
