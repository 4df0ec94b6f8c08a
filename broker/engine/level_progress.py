"""How far each delay level has come, in memory and in ``config/delayOffset.json``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .disk import atomic
from .disk.files import Files
from .lateness import Lateness
from .queues.consume_queue import QueueEntry
from .tables import json_file


class Lane:
    """The progress of one level. ``next_offset`` is released next, all below ``offset`` is durably out."""

    __slots__ = (
        "ahead",
        "delay_ms",
        "early_total",
        "gone",
        "lateness",
        "level",
        "next_offset",
        "offset",
        "persisted_ms",
        "persisted_offset",
        "released_total",
        "unreadable_total",
    )

    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.delay_ms = delay_ms
        self.next_offset = 0
        self.offset = 0
        self.persisted_offset = 0
        self.persisted_ms: int | None = None
        self.released_total = 0
        self.early_total = 0
        #: messages passed over since the start because they could not be read or did not say where they belong
        self.unreadable_total = 0
        self.lateness = Lateness()
        self.ahead: deque[QueueEntry] = deque()
        #: offsets from ``offset`` on that are out already: recovery found their releases in the log
        self.gone: set[int] = set()

    def pass_gone(self) -> None:
        """Count what recovery found released, as far as nothing before it is missing."""
        while self.offset in self.gone:
            self.gone.remove(self.offset)
            self.offset += 1
        while self.next_offset < self.offset:
            self.step()

    def pass_over(self) -> None:
        """Go on behind a head that is not released: it counts as out once all before it are."""
        self.gone.add(self.next_offset)
        self.step()
        self.pass_gone()

    def step(self) -> None:
        """Go on behind the head."""
        if self.ahead:
            self.ahead.popleft()
        self.next_offset += 1


class ProgressWrite:
    """``config/delayOffset.json`` as RocketMQ keeps it: a level (one with a queue) and its next offset."""

    def __init__(self, path: str, offsets: dict[str, int], persisted: Callable[[dict[str, int], int], None]) -> None:
        self._path = path
        self._offsets = offsets
        self._persisted = persisted

    def run(self, files: Files) -> None:
        """Save it. Raises OSError."""
        version = {"counter": sum(self._offsets.values()), "stateVersion": 0, "timestamp": 0}
        atomic.save(files, self._path, json_file.dump({"dataVersion": version, "offsetTable": self._offsets}))

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Note that it is on disk."""
        if saved:
            self._persisted(self._offsets, now_ms)
