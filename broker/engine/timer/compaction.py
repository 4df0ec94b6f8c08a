"""Timers that alone keep an old segment of the log: they are appended again, so that the segment can go.

The copy names the old record (ESC_REPLACES) and is due at the same moment; nothing else changes. Only where what waits
is a small part of the segment, and only so many at a time.
"""

from __future__ import annotations

from itertools import islice

from ..errors import BrokerError
from .core import Core
from .keys import Keys
from .steer import Steering

#: Timers moved in one pass, and the largest part of a segment that is worth moving.
_MOVES_PER_PASS = 500
_SMALL_PART = 4


class Survivors:
    """Moves them."""

    def __init__(self, core: Core, keys: Keys, steering: Steering) -> None:
        self._core = core
        self._keys = keys
        self._steering = steering

    def move(self, end_position: int, now_ms: int) -> int:
        """Append again what waits below a position, the end of a segment that is old; return how many. Raises OSError.

        A store that takes nothing now is asked again with the next pass.
        """
        core = self._core
        lowest = core.done.lowest()
        if lowest is None or end_position > core.store.visible_position:
            return 0
        queue = core.queue
        end_offset = queue.search(lowest, queue.max_offset, end_position)
        offsets = [o for o in islice(core.done.open_offsets(lowest, end_offset), 100_000) if o not in core.claimed]
        entries = [entry for offset in offsets[:_MOVES_PER_PASS] for entry in queue.entries(offset, 1)]
        size = sum(entry.size for entry in entries) * max(1, len(offsets) // max(1, len(entries)))
        if size * _SMALL_PART > core.store.log.chain.segment_size:
            return 0
        moved = 0
        for entry in entries:
            message = self._keys.message_at(entry.position)
            timer = self._keys.at(entry.position)
            if message is None or timer is None or not core.waits(timer.offset):
                continue
            if core.store.topics.is_cancelled(timer.topic, timer.position):
                core.is_over(timer.offset, timer.topic)
                continue
            try:
                self._steering.append_again(timer, message, now_ms)
            except BrokerError:
                break
            moved += 1
        return moved
