"""The zoom of the Timers page: eight stretches of future from ten years to one second, and how one opens the next."""

from __future__ import annotations

from dataclasses import dataclass

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
#: the furthest moment that is looked at: ten years and a little more
FURTHEST_MS = 3_700 * DAY


@dataclass(frozen=True, slots=True)
class Zoom:
    """A stretch of `span_ms` in slots of `step_ms`; a slot opens into the zoom `opens`, None: into its messages."""

    name: str
    span_ms: int
    step_ms: int
    opens: str | None


#: at most 168 slots each, so that a drawing stays small and a broker is never asked for more than 2,000
ZOOMS: dict[str, Zoom] = {
    zoom.name: zoom
    for zoom in (
        Zoom("10y", 122 * 30 * DAY, 30 * DAY, "30d"),
        Zoom("1y", 122 * 3 * DAY, 3 * DAY, "7d"),
        Zoom("30d", 30 * DAY, 6 * HOUR, "1d"),
        Zoom("7d", 7 * DAY, HOUR, "1h"),
        Zoom("1d", DAY, 10 * MINUTE, "1h"),
        Zoom("1h", HOUR, 30 * SECOND, "1m"),
        Zoom("1m", MINUTE, SECOND, "1s"),
        Zoom("1s", SECOND, 10, None),
    )
}
DEFAULT = "1h"


@dataclass(frozen=True, slots=True)
class Window:
    """A zoom at a place in time. `following`: it begins now, and moves on."""

    zoom: Zoom
    start_ms: int
    following: bool

    @property
    def end_ms(self) -> int:
        """The moment at which it ends."""
        return self.start_ms + self.zoom.span_ms

    @property
    def earlier_ms(self) -> int:
        """Where the stretch before begins."""
        return self.start_ms - self.zoom.span_ms

    @property
    def later_ms(self) -> int:
        """Where the stretch behind begins."""
        return self.end_ms


def window_of(name: str, at_ms: int | None, now_ms: int) -> Window:
    """The stretch with this zoom; an unknown name is the default's, a moment beyond the furthest is the furthest."""
    zoom = ZOOMS.get(name, ZOOMS[DEFAULT])
    wanted = now_ms if at_ms is None else min(max(at_ms, 0), now_ms + FURTHEST_MS)
    # one second's slots are cut out of a whole second
    grid = max(zoom.step_ms, SECOND)
    return Window(zoom, wanted - wanted % grid, at_ms is None)
