"""What the pages of dashboards show."""

from __future__ import annotations

from dataclasses import dataclass

from console.features.dashboards.models import DashboardRun
from console.features.dashboards.panels import PanelSpec


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a drawing: its series, and its name (None: no bar by name) or its moment and how long that lasts."""

    series: str
    name: str | None = None
    at_ms: int | None = None
    step_ms: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address of a page asks for. Moments bound the series that have them; None is open."""

    window: str = "all"
    topic: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    bar: Bar | None = None


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
    """One sheet: bars (name, value) or moments for a drawing, rows for its table. `total` counts all rows."""

    spec: PanelSpec
    number: int
    bars: tuple[tuple[str, float], ...] = ()
    moments: tuple[tuple[int, float], ...] = ()
    step_ms: int = 0
    quantiles: tuple[Quantiles, ...] = ()
    rows: tuple[Row, ...] = ()
    total: int = 0
    #: more moments than the drawing shows one by one
    is_dense: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to show."""
        return not self.total


@dataclass(frozen=True, slots=True)
class Behind:
    """What is behind one bar: how many figures, their sum, the largest ones, messages (position, address)."""

    spec: PanelSpec
    bar: Bar
    total: int
    value: float
    rows: tuple[Row, ...]
    messages: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A time series at its full resolution: moments in seconds, and for each name a value or None at each of them."""

    step_ms: int
    at_s: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


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
    behind: Behind | None = None

    @property
    def has_plots(self) -> bool:
        """True if a panel has more moments than its drawing shows one by one."""
        return any(panel.is_dense for panel in self.panels)
