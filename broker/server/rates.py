"""How fast numbers that only grow are growing, from samples taken now and then."""

from __future__ import annotations

from collections import deque

WINDOW_MS = 10_000
MOST_SAMPLES = 64
MOST_SERIES = 20_000


class Rates:
    """Growth per second of named counters over about the last ten seconds."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], deque[tuple[int, int]]] = {}

    def per_second(self, key: tuple[str, ...], total: int, now_ms: int) -> float:
        """Notes the counter's value now and answers its growth since the oldest sample of the window."""
        if len(self._series) >= MOST_SERIES and key not in self._series:
            self._series.clear()
        samples = self._series.setdefault(key, deque(maxlen=MOST_SAMPLES))
        while len(samples) > 1 and now_ms - samples[1][0] >= WINDOW_MS:
            samples.popleft()
        if samples and total < samples[-1][1]:
            samples.clear()
        if not samples or now_ms - samples[-1][0] >= WINDOW_MS // MOST_SAMPLES:
            samples.append((now_ms, total))
        begin_ms, begin = samples[0]
        return (total - begin) * 1000 / (now_ms - begin_ms) if now_ms > begin_ms else 0.0
