"""Halves of the last moments as they were sent: most are decided at once, and then need not be read again."""

from __future__ import annotations

from typing import NamedTuple

from ..message_header import Facts

#: Halves kept; those that are not decided soon are read from the log.
_MOST = 2_000
#: Larger bodies are read from the log.
_LARGEST_BODY_BYTES = 4_096


class Fresh(NamedTuple):
    """One half; ``facts`` are those of its copy, without the property that names the half."""

    position: int
    group: str
    topic: str
    queue_id: int
    body: bytes
    facts: Facts
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


class FreshHalves:
    """The newest halves by offset; the oldest one goes when there are too many."""

    def __init__(self) -> None:
        self._halves: dict[int, Fresh] = {}

    def put(self, offset: int, half: Fresh) -> None:
        """Keep a half, unless it is large."""
        if len(half.body) <= _LARGEST_BODY_BYTES:
            halves = self._halves
            halves[offset] = half
            if len(halves) > _MOST:
                del halves[next(iter(halves))]

    def get(self, offset: int) -> Fresh | None:
        """Return a half if it is kept."""
        return self._halves.get(offset)

    def drop(self, offset: int) -> None:
        """Forget a half that is decided."""
        self._halves.pop(offset, None)
