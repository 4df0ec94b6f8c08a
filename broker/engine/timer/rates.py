"""How fast and how late timers were released."""

from __future__ import annotations

from typing import Any

from ..histogram import LATENCY_BOUNDS_MS, Histogram
from ..lateness import Lateness

#: A burst shorter than this says nothing about capacity.
_BURST_MS = 100


class Pace:
    """Lateness by real topic, and the speed at which a herd was released. ``capacity_per_s`` is of the last one."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Lateness] = {}
        self.capacity_per_s: float | None = None
        #: how late timers left since the start, in ms
        self.released_late = Histogram(LATENCY_BOUNDS_MS)
        self._burst_ms: int | None = None
        self._burst_count = 0

    def late(self, topic: str, now_ms: int, late_ms: int, count: int) -> None:
        """Count releases that became visible."""
        known = self.by_topic.get(topic)
        if known is None:
            known = self.by_topic[topic] = Lateness()
        known.add(now_ms, late_ms, count)
        self.released_late.add(max(0, late_ms), count)

    def released(self, now_ms: int, count: int, *, more: bool) -> None:
        """Hear how many a tick released; ``more`` were due."""
        if self._burst_ms is None:
            if more:
                self._burst_ms, self._burst_count = now_ms, 0
            return
        self._burst_count += count
        elapsed_ms = now_ms - self._burst_ms
        if elapsed_ms >= _BURST_MS:
            self.capacity_per_s = round(self._burst_count * 1000 / elapsed_ms, 1)
        if not more or elapsed_ms < 0:
            self._burst_ms = None

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return the part of the status that tells of speed and lateness, of the last five minutes."""
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
            "capacityPerS": self.capacity_per_s,
            "latenessByTopic": topics,
        }
