"""The figures that are kept over time, from what a snapshot took and the mirror's rows of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.db.models import Max, Sum

from broker.mirror.models import Queue, Topic
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.groups.kept import GroupsKept
from console.features.schedule.shapes import Lanes
from console.features.timers.kept import TimersKept
from console.kept_figures import Figures, FigureSubject

KIND = FigureSubject.Kind


def figures_of(
    broker: str, lanes: Lanes | None, timers: TimersKept | None, groups: GroupsKept | None
) -> Iterator[Figures]:
    """Yield the figures of each subject; nothing of what could not be read."""
    released = _released(lanes)
    if lanes is not None:
        late = _us(lanes.figures.lateness_p99_ms)
        yield Figures(KIND.LANES, "", released, lanes.figures.pending, lateness_us=late)
    if timers is not None:
        told = timers.page.figures
        late = _us(told.lateness_p99_ms)
        yield Figures(KIND.TIMERS, "", told.released_total, told.pending, lateness_us=late)
    if groups is not None:
        consumed = Counter[str]()
        for line in groups.topics:
            consumed[line.group] += line.offset_sum
        lags = [row.lag for row in groups.rows if row.lag is not None]
        yield Figures(KIND.FLOW, "consumed", consumed.total(), lag=sum(lags) if lags else None)
        for row in groups.rows:
            yield Figures(KIND.GROUP, row.name, consumed.get(row.name), lag=row.lag)
    if lanes is not None:
        yield from _topics(broker, released, timers, groups)


def _released(lanes: Lanes | None) -> int | None:
    known = [lane.delay_offset for lane in lanes.lanes if lane.delay_offset is not None] if lanes is not None else []
    return sum(known) if known else None


def _topics(
    broker: str, released: int | None, timers: TimersKept | None, groups: GroupsKept | None
) -> Iterator[Figures]:
    """Yield what was accepted in all, and each topic: stored, its timers, how far its readers are behind."""
    own = set(Topic.objects.filter(broker=broker, is_system=True).values_list("name", flat=True))
    rows = Queue.objects.filter(broker=broker).values("topic")
    sums = rows.annotate(newest=Max("last_ms"), total=Sum("max_offset"))
    # those with the newest messages first: where there are too many, the others have no rows
    found = sums.order_by("-newest", "topic").values_list("topic", "total")
    stored = {topic: int(total) for topic, total in found if total is not None}
    sent = sum(total for topic, total in stored.items() if topic not in own or topic == SCHEDULE_TOPIC)
    # what a lane releases is stored again in its topic
    yield Figures(KIND.FLOW, "accepted", sent - (released or 0))
    lags: dict[str, list[int | None]] = {}
    for line in groups.topics if groups is not None else ():
        lags.setdefault(line.topic, []).append(line.lag)
    waiting = {row.topic: row for row in timers.page.topics} if timers is not None else {}
    is_whole = timers is not None and not timers.page.topics_left
    for topic, total in stored.items():
        if topic in own:
            continue
        row = waiting.get(topic)
        known = [lag for lag in lags.get(topic, ()) if lag is not None]
        yield Figures(
            KIND.TOPIC,
            topic,
            total,
            row.pending if row is not None else 0 if is_whole else None,
            sum(known) if known else None,
            _us(row.lateness.p99_ms) if row is not None and row.lateness is not None else None,
        )


def _us(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1000)
