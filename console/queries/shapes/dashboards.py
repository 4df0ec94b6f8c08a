"""What the pages of dashboards show."""

from __future__ import annotations

from dataclasses import dataclass

from console.dashboards.panels import PanelSpec
from console.dashboards.rows import DashboardRun


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address of a page asks for. Moments bound the series that have them; None is open."""

    window: str = "all"
    topic: str = ""
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One point, and where its messages are (an address, empty where nothing leads there)."""

    series: str
    topic: str
    label: str
    part: str
    at_ms: int | None
    value: float
    positions: tuple[int, ...] = ()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """One line of a table of percentiles."""

    topic: str
    label: str
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One sheet: bars (name, value, address) for a drawing, rows for its table. `total` counts all rows."""

    spec: PanelSpec
    number: int
    bars: tuple[tuple[str, float, str], ...] = ()
    moments: tuple[tuple[int, float], ...] = ()
    step_ms: int = 0
    quantiles: tuple[Quantiles, ...] = ()
    rows: tuple[Row, ...] = ()
    total: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to show."""
        return not self.total


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """One dashboard as it was last computed, and what computes now."""

    name: str
    asked: Asked
    run: DashboardRun | None
    panels: tuple[Panel, ...]
    topics: tuple[str, ...]
    active: tuple[DashboardRun, ...]
    history: tuple[DashboardRun, ...]
    missing: str | None
    now_ms: int
