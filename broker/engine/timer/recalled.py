"""What was recalled, so that a copy that arrives later does not come out: a sender's retry, or the message itself.

Apache RocketMQ leaves a delete in the second of the message, which ends whatever comes into that second. Here the
delete is in the log, and what it says is remembered until its moment is over; with each checkpoint it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Recalls remembered; beyond it those are forgotten first that were made first.
MOST_REMEMBERED = 100_000


class Recalled:
    """Topic and unique key of recalled messages, and until when (ms) each counts. False while there are none."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __len__(self) -> int:
        return len(self._until)

    def add(self, topic: str, unique_key: str, until_ms: int) -> None:
        """Remember a recall."""
        key = (topic, unique_key)
        until_ms = max(until_ms, self._until.pop(key, 0))
        if len(self._until) >= MOST_REMEMBERED:
            del self._until[next(iter(self._until))]
        self._until[key] = until_ms

    def holds(self, topic: str, unique_key: str | None, now_ms: int) -> bool:
        """Tell whether a message with this key was recalled and its moment is not over."""
        return unique_key is not None and now_ms <= self._until.get((topic, unique_key), -1)

    def load(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Take over what was kept."""
        self._until = {(str(topic), str(key)): int(until_ms) for topic, key, until_ms in rows}

    def kept(self, now_ms: int) -> list[tuple[str, str, int]]:
        """Return what counts still; the rest is forgotten."""
        if any(until_ms < now_ms for until_ms in self._until.values()):
            self._until = {key: until_ms for key, until_ms in self._until.items() if until_ms >= now_ms}
        return [(topic, key, until_ms) for (topic, key), until_ms in self._until.items()]
