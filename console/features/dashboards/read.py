"""The content of the dashboards' pages: the points of the current run, drawn, listed and exported."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, ExpressionWrapper, F, Max, Min, Q, QuerySet, Sum
from django.urls import reverse
from django.utils.http import urlencode

from broker.mirror.models import Broker
from console.features.dashboards import DASHBOARDS, PanelSpec
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.security.topic_scope import TopicScope, VisibleTopics
from console.site.chosen import choice_of, choosing, chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster

#: Bars of a drawing, rows of a table, lines of the history at most.
MOST_BARS, MOST_ROWS, MOST_RUNS = 24, 100, 12
#: Buckets that a drawing has room for; finer ones are put together.
MOST_MOMENTS = 120
#: Moments and lines of a plot; further lines are put together.
MOST_POINTS, MOST_LINES = 3_000, 5
#: Messages named behind a bar.
MOST_MESSAGES = 20
_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 5, 15, 60, 360, 1_440, 10_080, 43_200, 525_600))

_AHEAD_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a drawing: its series, and its name (None: no bar by name) or its moment and how long that lasts."""

    series: str
    name: str | None = None
    at_ms: int | None = None
    step_ms: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The query in the address of a page. Moments bound the series that have them; None is open."""

    window: str = "all"
    topic: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    bar: Bar | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A point, and where its messages are (an address, empty where nothing leads there)."""

    series: str
    topic: str
    label: str
    part: str
    at_ms: int | None
    value: float
    positions: tuple[int, ...] = ()
    link: str = ""
    #: in whose log each position is, where the figures are of several brokers
    brokers: tuple[str, ...] = ()

    @property
    def broker(self) -> str:
        """In whose log the first position is; "" where all are of one broker."""
        return self.brokers[0] if self.brokers else ""

    @property
    def messages(self) -> list[tuple[str, int]]:
        """The messages by broker and position."""
        return list(zip(self.brokers or ("",) * len(self.positions), self.positions, strict=True))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A line of a table of percentiles."""

    topic: str
    label: str
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A sheet: bars (name, value) or moments for a drawing, rows for its table. `total` counts all rows."""

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
        """Tell whether there is nothing to show."""
        return not self.total


@dataclass(frozen=True, slots=True)
class Behind:
    """The figures behind one bar: their number, their sum, the largest ones, and messages.

    A message: position, address, and the broker in whose log it is, where the figures are of several.
    """

    spec: PanelSpec
    bar: Bar
    total: int
    value: float
    rows: tuple[Row, ...]
    messages: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A time series at its full resolution: moments in seconds, and for each name a value or None at each of them."""

    step_ms: int
    at_s: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """A dashboard as it was last computed, and the runs that compute it now."""

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
    def without_files(self) -> tuple[str, ...]:
        """The brokers that a dashboard about files leaves out: their messages were pulled."""
        if self.run is None or self.name != dashboards_runs.OF_FILES:
            return ()
        pulled = (part for part in self.run.parts if part["source"].startswith(dashboards_runs.CLUSTER))
        return tuple(part["broker"] for part in pulled)

    @property
    def has_plots(self) -> bool:
        """Tell whether a panel has more moments than its drawing shows one by one."""
        return any(panel.is_dense for panel in self.panels)


def dashboard(name: str, asked: Asked, topics: VisibleTopics) -> DashboardPage:
    """Read one dashboard, of the topics that may be seen. Raises KeyError if there is none of that name."""
    specs = DASHBOARDS[name].panels
    run = current_run(name, asked.window)
    found = points(run, asked, topics) if run is not None else DashboardPoint.objects.none()
    ids = _MessageIds(run)
    shown = _shown(run)
    runs = DashboardRun.objects.filter(broker__in=shown)
    names: tuple[str, ...] = ()
    if run is not None:
        every = points(run, Asked(), topics).exclude(topic="").values_list("topic", flat=True)
        names = tuple(every.distinct().order_by("topic")[:500])
    return DashboardPage(
        name=name,
        asked=asked,
        run=run,
        panels=tuple(_panel(spec, number, found, ids) for number, spec in enumerate(specs)),
        topics=names,
        active=tuple(runs.filter(state__in=("queued", "running"), dashboard=name)),
        history=tuple(runs.filter(dashboard=name)[:MOST_RUNS]),
        missing=dashboards_runs.missing(),
        now_ms=now_ms(),
        behind=_behind(specs, asked.bar, found, ids) if asked.bar is not None else None,
    )


def current_run(name: str, window: str) -> DashboardRun | None:
    """Return the run whose points are shown, None without one.

    Where no broker is chosen, that is the run over all of them, and as long as there is none the first one's.
    """
    if name not in DASHBOARDS:
        return None
    first = dashboards_runs.first_broker()
    names = {chosen().text, first}
    current = DashboardRun.objects.filter(broker__in=names, dashboard=name, window=window, is_current=True)
    found = {run.broker: run for run in current}
    in_total = None if chosen().broker else found.get(chosen().text)
    if in_total is not None and (first not in found or cluster().has_several):
        return in_total
    return found.get(first)


def _shown(run: DashboardRun | None) -> list[str]:
    """Return whose runs are told beside the one that is shown."""
    if run is not None and run.parts:
        return [run.broker]
    return sorted({chosen().text, dashboards_runs.first_broker()})


def points(run: DashboardRun, asked: Asked, topics: VisibleTopics) -> QuerySet[DashboardPoint]:
    """Return the points of a run that are asked for and may be seen; every reader of points uses this."""
    found = run.points.filter(topics.among("topic")).exclude(_of_groups_unseen(run, topics))
    if asked.topic:
        found = found.filter(topic=asked.topic)
    # what has no moment is about the whole window
    if asked.from_ms is not None:
        found = found.exclude(at_ms__lt=asked.from_ms)
    if asked.to_ms is not None:
        found = found.exclude(at_ms__gte=asked.to_ms)
    return found


def _of_groups_unseen(run: DashboardRun, topics: VisibleTopics) -> Q:
    """Return the condition on points that name a consumer group which reads what may not be seen."""
    if topics.is_all or run.dashboard != "flow":
        return Q(pk__in=())
    seen = TopicScope(topics)
    groups = run.points.filter(series="consumed").values_list("label", flat=True).distinct()
    return Q(series="consumed", label__in=[group for group in groups if not seen.group(group)])


def exported(run: DashboardRun, asked: Asked, topics: VisibleTopics) -> Iterator[dict[str, Any]]:
    """Return all points that are asked for and may be seen, as plain values in a stable order."""
    names = ("series", "topic", "label", "part", "at_ms", "value", "positions", "brokers")
    ordered = points(run, asked, topics).order_by(*names[:4], F("at_ms").asc(nulls_first=True), "id")
    for row in ordered.values(*names).iterator(chunk_size=2_000):
        if row["brokers"] is None and row["positions"] is not None:
            row["brokers"] = [run.broker] * len(row["positions"])
        yield row


def lines(run: DashboardRun, series: str, asked: Asked, topics: VisibleTopics) -> Lines:
    """Return one series over time, a line a topic; the smaller topics share a line without a name."""
    mine = points(run, asked, topics).filter(series=series).exclude(at_ms=None)
    ends = mine.aggregate(first=Min("at_ms"), last=Max("at_ms"))
    if ends["first"] is None:
        return Lines(_STEPS_MS[0], (), (), ())
    length_ms = ends["last"] - ends["first"]
    step_ms = next((step for step in _STEPS_MS if length_ms / step < MOST_POINTS), _STEPS_MS[-1])
    largest = mine.values("topic").annotate(total=Sum("value")).order_by("-total", "topic")[:MOST_LINES]
    names = [line["topic"] for line in largest]
    first_ms = ends["first"] // step_ms * step_ms
    count = (ends["last"] - first_ms) // step_ms + 1
    columns: dict[str, list[float | None]] = {name: [None] * count for name in names}
    number = ExpressionWrapper(F("at_ms") / step_ms, BigIntegerField())
    buckets = mine.values("topic", number=number).annotate(total=Sum("value"))
    for line in buckets.order_by().iterator(chunk_size=2_000):
        column = columns.setdefault(line["topic"] if line["topic"] in names else "", [None] * count)
        place = line["number"] - first_ms // step_ms
        column[place] = (column[place] or 0) + line["total"]
    at_s = tuple((first_ms + number * step_ms) // 1_000 for number in range(count))
    return Lines(step_ms, at_s, tuple(columns), tuple(map(tuple, columns.values())))


def _behind(specs: tuple[PanelSpec, ...], bar: Bar, found: QuerySet[DashboardPoint], ids: _MessageIds) -> Behind | None:
    """Return what is behind a bar, None if there is no such bar."""
    spec = next((spec for spec in specs if spec.series == bar.series and spec.kind in ("bars", "time", "heat")), None)
    if spec is None:
        return None
    mine = found.filter(series=bar.series)
    if bar.name is not None:
        mine = mine.filter(**{spec.by: bar.name})
    if bar.at_ms is not None:
        mine = mine.filter(at_ms__gte=bar.at_ms, at_ms__lt=bar.at_ms + max(1, bar.step_ms))
    rows = tuple(_row(point, ids) for point in mine.order_by("-value", "topic", "label", "part")[:MOST_MESSAGES])
    # by broker and position; of one broker alone nobody is named
    named = sorted({message for row in rows for message in row.messages})[:MOST_MESSAGES]
    return Behind(
        spec,
        bar,
        mine.count(),
        mine.aggregate(total=Sum("value"))["total"] or 0.0,
        rows,
        tuple((position, ids.address(position, broker), broker) for broker, position in named),
    )


def _panel(spec: PanelSpec, number: int, found: QuerySet[DashboardPoint], ids: _MessageIds) -> Panel:
    if spec.kind == "quantiles":
        return _quantiles(spec, number, found)
    mine = found.filter(series=spec.series)
    total = mine.count()
    order = F("at_ms").desc(nulls_last=True) if spec.kind in ("time", "heat") else F("value").desc()
    rows = tuple(_row(point, ids) for point in mine.order_by(order, "topic", "label", "part")[:MOST_ROWS])
    bars: tuple[tuple[str, float], ...] = ()
    moments: tuple[tuple[int, float], ...] = ()
    step_ms, is_dense = 0, False
    if spec.kind == "bars":
        summed = mine.values(spec.by).annotate(total=Sum("value")).order_by("-total", spec.by)[:MOST_BARS]
        bars = tuple((line[spec.by], line["total"]) for line in summed)
    elif spec.kind in ("time", "heat"):
        how = Max("value") if spec.kind == "heat" else Sum("value")
        counted = mine.exclude(at_ms=None).values("at_ms").annotate(total=how).order_by("at_ms")
        listed = [(line["at_ms"] or 0, line["total"]) for line in counted]
        moments, step_ms = _fitted(listed, is_heat=spec.kind == "heat")
        is_dense = spec.kind == "time" and len(listed) > len(moments)
    return Panel(spec, number, bars, moments, step_ms, (), rows, total, is_dense)


def _quantiles(spec: PanelSpec, number: int, found: QuerySet[DashboardPoint]) -> Panel:
    names = ("count", "p50", "p95", "p99", "max")
    lines: dict[tuple[str, str], dict[str, float]] = {}
    for point in found.filter(series__in=[spec.series + name for name in names], at_ms=None):
        lines.setdefault((point.topic, point.label), {})[point.series.removeprefix(spec.series)] = point.value
    ordered = sorted(lines.items(), key=lambda line: -line[1].get("count", 0))
    shown = tuple(Quantiles(topic, label, figures) for (topic, label), figures in ordered[:MOST_ROWS])
    return Panel(spec, number, quantiles=shown, total=len(lines))


def _fitted(moments: list[tuple[int, float]], *, is_heat: bool) -> tuple[tuple[tuple[int, float], ...], int]:
    """Merge buckets until they fit into a drawing; a heat map keeps its hours, of the latest four weeks."""
    if is_heat:
        return tuple(moments[-24 * 28 :]), 3_600_000
    if not moments:
        return (), _STEPS_MS[0]
    length_ms = moments[-1][0] - moments[0][0]
    step_ms = next((step for step in _STEPS_MS if length_ms / step < MOST_MOMENTS), _STEPS_MS[-1])
    sums: dict[int, float] = {}
    for at_ms, value in moments:
        bucket = at_ms // step_ms * step_ms
        sums[bucket] = sums.get(bucket, 0) + value
    return tuple(sums.items()), step_ms


def _row(point: DashboardPoint, ids: _MessageIds) -> Row:
    positions, brokers = tuple(point.positions or ()), tuple(point.brokers or ())
    link = ids.address(positions[0], *brokers[:1]) if positions else ""
    if point.run.dashboard == "pending" and point.series in _AHEAD_MS and point.at_ms is not None:
        until_ms = point.at_ms + _AHEAD_MS[point.series]
        bounds: dict[str, str | int] = {"topic": point.topic, "from": point.at_ms, "to": until_ms}
        link = reverse("timer_list") + "?" + urlencode(bounds)
    return Row(
        point.series,
        point.topic,
        point.label,
        point.part,
        point.at_ms,
        point.value,
        positions,
        link or (reverse("topic", args=[point.topic]) if point.topic and "/" not in point.topic else ""),
        brokers,
    )


class _MessageIds:
    """The way from positions to messages' addresses: an offset message id is store host, port and position in hex."""

    def __init__(self, run: DashboardRun | None) -> None:
        names = [part["broker"] for part in run.parts] or [run.broker] if run is not None else []
        rows = Broker.objects.filter(name__in=names).values_list("name", "address") if names else ()
        self._hosts = {name: _host_of(address) for name, address in rows}
        self._own = run.broker if run is not None else ""

    def address(self, position: int, broker: str = "") -> str:
        """Return the address of a message's page, empty if the broker's own address is not known.

        ``broker``: of several the one that has it, and the page is its.
        """
        host = self._hosts.get(broker or self._own)
        if not host:
            return ""
        with choosing(choice_of(broker)) if broker else nullcontext():
            return reverse("message", args=[f"{host}{position:016x}".upper()])


def _host_of(address: str) -> str:
    """Return a broker's address as message ids have it, empty for one that is none."""
    host, _, port = address.rpartition(":")
    try:
        return ipaddress.ip_address(host.strip("[]")).packed.hex() + f"{int(port):08x}"
    except ValueError:
        return ""
