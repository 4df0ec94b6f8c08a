"""Offsets that an administrator has set while consumers are at work.

A consumer goes on from what it remembers itself. So its next pull of the queue is answered with "go on there", and what
it commits until then is not taken: it is about messages from before. A pull that waits is answered at once.
"""

from __future__ import annotations

QueueKey = tuple[str, int]


class OffsetResets:
    """Which groups are to be told where to go on: by (topic, queue id)."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[QueueKey, int]] = {}

    def set(self, group: str, queue: QueueKey, offset: int) -> None:
        """The group's next pull of this queue is told to go on at `offset`."""
        self._by_group.setdefault(group, {})[queue] = offset

    def has(self, group: str, queue: QueueKey) -> bool:
        """True if the group was not told yet: what it commits is out of date."""
        return bool(self._by_group) and queue in self._by_group.get(group, ())

    def take(self, group: str, queue: QueueKey) -> int | None:
        """Where the group is to go on; told once."""
        if not self._by_group:
            return None
        queues = self._by_group.get(group)
        if queues is None or queue not in queues:
            return None
        offset = queues.pop(queue)
        if not queues:
            del self._by_group[group]
        return offset

    def forget(self, group: str) -> None:
        """Its consumers are gone; those that come begin with what is stored."""
        self._by_group.pop(group, None)
