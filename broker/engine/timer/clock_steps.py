"""Steps of the wall clock, seen from one tick to the next."""

from __future__ import annotations

#: A tick so much later than promised is a step forward (or the machine slept, which is the same to a timer).
_STEP_MS = 5_000


class ClockWatch:
    """Remembers the largest steps, in ms, and when the last one was seen."""

    def __init__(self) -> None:
        self.back_ms = 0
        self.forward_ms = 0
        self.step_at_ms: int | None = None
        self._last_ms: int | None = None
        self._promised_ms = 0

    def start(self, now_ms: int, steps: dict[str, int]) -> None:
        """Take over what was seen before the last stop, which itself may have been long."""
        self.back_ms = steps.get("back", 0)
        self.forward_ms = steps.get("forward", 0)
        self.step_at_ms = steps.get("at")
        before_ms = steps.get("now", now_ms)
        if now_ms < before_ms:
            self._stepped_back(before_ms - now_ms, now_ms)
        self._last_ms = self._promised_ms = now_ms

    def saw(self, now_ms: int) -> str:
        """Look at the clock; return ``back`` or ``forward`` for a step, else an empty string."""
        last_ms, promised_ms = self._last_ms, self._promised_ms
        self._last_ms = now_ms
        if last_ms is None:
            return ""
        if now_ms < last_ms:
            self._stepped_back(last_ms - now_ms, now_ms)
            return "back" if last_ms - now_ms >= _STEP_MS else ""
        late_ms = now_ms - max(promised_ms, last_ms)
        if late_ms < _STEP_MS:
            return ""
        self.forward_ms = max(self.forward_ms, late_ms)
        self.step_at_ms = now_ms
        return "forward"

    def promise(self, following_ms: int | None) -> None:
        """Note when the next tick is wanted; without one, any time is right."""
        self._promised_ms = (1 << 62) if following_ms is None else following_ms

    def _stepped_back(self, step_ms: int, now_ms: int) -> None:
        if step_ms > self.back_ms:
            self.back_ms = step_ms
        self.step_at_ms = now_ms

    def steps(self) -> dict[str, int]:
        """Return what to keep."""
        found = {"back": self.back_ms, "forward": self.forward_ms}
        if self.step_at_ms is not None:
            found["at"] = self.step_at_ms
        if self._last_ms is not None:
            found["now"] = self._last_ms
        return found
