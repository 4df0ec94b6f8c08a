"""How late timers left, and how fast this broker releases: as it was measured, and kept over a restart.

The speed is measured under load, whenever timers that are due keep the broker busy for a tenth of a second. Where
nothing was measured, whoever hosts the engine measures another one beside it (``server/self_test.py``), in the
directory ``SCRATCH`` of the store: the same disk, the same way to flush. The engine says when it is quiet enough for
that, and takes the outcome over. The last figure counts, however it was found.

``escapement.pace``, saved in two versions (disk.py), ours:

     0  8 magic "ESCPACE1"   8  8 timers in a thousand seconds   16  8 when it was measured, ms
    24  1 how: 1 under load, 2 by a self-test   25  1 flush: 0 async, 1 sync   26  2 zero   28  4 CRC32 of all before

A figure of the other way to flush says nothing of this one and is left out. One by a simulated clock holds for its
speed and is not kept.
"""

from __future__ import annotations

import struct
from typing import Any, Literal, NamedTuple
from zlib import crc32

from ..config import EngineConfig
from ..disk import Files, join, load_valid_file
from ..lateness import LATENCY_BOUNDS_MS, Histogram, Lateness

PACE_FILE = "escapement.pace"
#: The directory of a self-test; what a crash left of one goes when the store is opened.
SCRATCH = "escapement.selftest"

How = Literal["load", "self_test"]

#: A burst shorter than this says nothing about how fast timers are released.
BURST_MS = 100
#: It is quiet when no more than so many bytes came into the log for so long: a hundred small messages a second.
QUIET_MS, _QUIET_BYTES = 5_000, 256 << 10
#: A figure is saved when it is the first, or found in another way; one under load that only moved, so often.
_SAVE_INTERVAL_MS = 60_000

_MAGIC = b"ESCPACE1"
_FIGURE = struct.Struct(">8sqqBB2x")
_CRC = struct.Struct(">I")
_SIZE = _FIGURE.size + _CRC.size
_HOW: tuple[How, How] = ("load", "self_test")


class Measured(NamedTuple):
    """How many timers a second were released, when that was measured, and how."""

    per_s: float
    at_ms: int
    how: How


class Pace:
    """Lateness by real topic, and the speed at which a herd was released: ``measured`` is the last one."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Lateness] = {}
        self.measured: Measured | None = None
        #: how late timers left since the start, in ms
        self.released_late = Histogram(LATENCY_BOUNDS_MS)
        self._least_burst_ms = BURST_MS
        self._burst_ms: int | None = None
        self._burst_count = 0

    @property
    def capacity_per_s(self) -> float | None:
        """The measured speed; None: nothing was measured."""
        return self.measured.per_s if self.measured is not None else None

    def begin_anew(self, least_burst_ms: int) -> None:
        """Forget what was measured; from now on a burst of this length says how fast timers are released."""
        self.measured, self._least_burst_ms = None, least_burst_ms

    def late(self, topic: str, now_ms: int, late_ms: int, count: int) -> None:
        """Count timers of a topic that became visible so late."""
        known = self.by_topic.get(topic)
        if known is None:
            known = self.by_topic[topic] = Lateness()
        known.add(now_ms, late_ms, count)
        self.released_late.add(max(0, late_ms), count)

    def released(self, now_ms: int, count: int, *, more: bool) -> None:
        """Take note of how many timers a tick released, and whether ``more`` were due.

        ``now_ms`` is when the tick began: the first one's timers are left out, as this one's time is. A tick that had
        less to do than it could says nothing.
        """
        if self._burst_ms is None:
            if more:
                self._burst_ms, self._burst_count = now_ms, 0
            return
        self._burst_count += count
        elapsed_ms = now_ms - self._burst_ms
        if more and elapsed_ms >= self._least_burst_ms:
            self.measured = Measured(round(self._burst_count * 1000 / elapsed_ms, 1), now_ms, "load")
        if not more or elapsed_ms < 0:
            self._burst_ms = None

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return the part of the status that is about speed, and about lateness in the last five minutes."""
        topics = []
        for topic, lateness in self.by_topic.items():
            histogram = lateness.counts(now_ms)
            if histogram:
                topics.append(
                    {
                        "topic": topic,
                        "count": sum(count for _, count in histogram),
                        "p50": lateness.percentile(now_ms, 0.50),
                        "p99": lateness.percentile(now_ms, 0.99),
                        "max": histogram[-1][0],
                        "histogram": [[int(up_to_ms + 0.999), count] for up_to_ms, count in histogram],
                    }
                )
        return {
            "releasedPerS": round(sum(lateness.per_second(now_ms) for lateness in self.by_topic.values()), 2),
            **measured_json(self.measured),
            "latenessByTopic": topics,
        }


def measured_json(measured: Measured | None) -> dict[str, Any]:
    """Return a figure as requests answer it: null where nothing was measured."""
    per_s, at_ms, how = measured or (None, None, None)
    return {"capacityPerS": per_s, "capacityAtMs": at_ms, "capacityHow": how}


# Kept over a restart.


class KeptPace:
    """The file of the figure: read when the store is opened, written beside other small files when it changed."""

    def __init__(self, config: EngineConfig, files: Files, pace: Pace) -> None:
        self._path = join(config.root, PACE_FILE)
        self._flush = config.flush
        self._files = files
        self._pace = pace
        self._is_kept = not config.is_simulated
        self._saved: Measured | None = None
        self._out: Measured | None = None
        self._saved_ms = 0

    def load(self) -> None:
        """Take over what was measured before, if it was measured with this way to flush."""
        found = load_valid_file(self._files, self._path, unpacked) if self._is_kept else None
        if found is not None and found[1] == self._flush:
            self._pace.measured = self._saved = found[0]

    def take(self, now_ms: int, *, is_last: bool = False) -> tuple[str, bytes] | None:
        """Return path and content to save now, None if nothing is; then ``done`` says what became of it."""
        measured, saved = self._pace.measured, self._saved
        if measured is None or measured == saved or not self._is_kept:
            return None
        is_news = saved is None or measured.how != saved.how or measured.how == "self_test"
        if not (is_news or is_last) and self._saved_ms <= now_ms < self._saved_ms + _SAVE_INTERVAL_MS:
            return None
        self._out = measured
        self._saved_ms = now_ms
        return self._path, packed(measured, self._flush)

    def done(self, *, failed: bool) -> None:
        """Take over whether what was taken is saved; fine if nothing was."""
        if not failed:
            self._saved = self._out or self._saved
        self._out = None


def packed(measured: Measured, flush: Literal["sync", "async"]) -> bytes:
    """Return the content of the file."""
    thousandths, how = round(measured.per_s * 1000), _HOW.index(measured.how) + 1
    head = _FIGURE.pack(_MAGIC, thousandths, measured.at_ms, how, flush == "sync")
    return head + _CRC.pack(crc32(head))


def unpacked(content: bytes) -> tuple[Measured, Literal["sync", "async"]]:
    """Return the figure and how was flushed. Raises ValueError for what is damaged, or of another version."""
    if len(content) != _SIZE or crc32(content[: _FIGURE.size]) != _CRC.unpack_from(content, _FIGURE.size)[0]:
        raise ValueError("The figure of how fast timers are released is damaged.")
    magic, thousandths, at_ms, how, is_sync = _FIGURE.unpack_from(content)
    if magic != _MAGIC or how not in (1, 2):
        raise ValueError("The figure of how fast timers are released is of another version.")
    return Measured(thousandths / 1000, at_ms, _HOW[how - 1]), "sync" if is_sync else "async"


# When nobody would notice a self-test.


class Quiet:
    """Tells whether little came into the log lately; asked now and again, with the end of the log."""

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._position: int | None = None

    def saw(self, position: int, now_ms: int) -> bool:
        """Return whether it was quiet until now, for long enough."""
        is_known = self._position is not None and now_ms >= self._since_ms
        is_loud = self._position is not None and position - self._position > _QUIET_BYTES
        if not is_known or is_loud:
            self._since_ms, self._position = now_ms, position
            return False
        if now_ms - self._since_ms < QUIET_MS:
            return False
        self._since_ms, self._position = now_ms, position
        return True
