"""GET: the timers that wait, the wheel, the forecast."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from broker.client.names import check_topic
from broker.client.timers import Timer
from console.security.tokens import READ, Grant
from console.site.clock import now_ms

from ...rest.errors import InvalidParameter
from ...rest.filled_pages import fill
from ...rest.grants import require
from ...rest.identifiers import written
from ...rest.moments import parameter_ms
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from .rest_schemas import (
    DueStep,
    Forecast,
    HerdTopic,
    LateHerd,
    RollStep,
    TimerRow,
    TimerRows,
    TimerTotals,
    Wheel,
)

MOST_ROWS = 1000
MOST_STEPS = 2000
_HOUR_MS = 3_600_000
#: the end of time for a list
_FOREVER_MS = 2**63 - 1


async def timers(request: Request, grant: Grant, room: Room) -> Response:
    """Waiting messages by due time; only those of topics that the token may read."""
    only_parameters(request, "from", "to", "topic", "key", "limit", "cursor")
    given = request.query_params
    topic = given.get("topic")
    if topic is not None:
        check_topic(topic)
        require(grant, READ, topic)
    from_ms, to_ms = _moment(request, "from", 0), _moment(request, "to", _FOREVER_MS)
    if to_ms <= from_ms:
        raise InvalidParameter("to must be later than from.")
    if given.get("key") == "":
        raise InvalidParameter("key is empty: leave it out to see all.")
    page, found, cursor = await fill(
        lambda place, step: room.admin.timers(
            from_ms, to_ms, topic=topic, key=given.get("key"), limit=step, cursor=place
        ),
        lambda page: (page.items, page.cursor),
        lambda each: grant.allows(READ, each.topic),
        given.get("cursor"),
        _whole(request, "limit", 100, 1, MOST_ROWS),
    )
    broker = (await room.admin.brokers())[0].name
    hiding = await room.grants.hiding(grant)
    rows = [hiding.timer(_row(each, broker)) for each in found]
    return json_answer(TimerRows(now_ms=page.now_ms, timers=rows, cursor=cursor))


def _row(each: Timer, broker: str) -> TimerRow:
    return TimerRow(
        id=written(broker, each.topic, each.position, each.unique_key or ""),
        message_id=each.unique_key,
        topic=each.topic,
        queue=each.queue_id,
        due_ms=each.due_ms,
        schedule_key=each.schedule_key,
        keys=each.keys,
        tag=each.tags,
        size_bytes=each.size_bytes,
        stored_ms=each.store_ms,
        roll_times=each.roll_times,
        recall_handle=each.handle,
    )


async def wheel(request: Request, grant: Grant, room: Room) -> Response:
    """The wheel from one moment to another."""
    found = await room.admin.timer_wheel(*_range(request))
    return json_answer(
        Wheel(
            now_ms=found.now_ms,
            read_ms=found.read_ms,
            paused=found.paused,
            step_ms=found.step_ms,
            buckets=[DueStep(start_ms=b.start_ms, count=b.count, size_bytes=b.size_bytes) for b in found.buckets],
            rolls=[RollStep(roll_ms=roll.roll_ms, count=roll.count) for roll in found.rolls],
            pending=found.pending,
            later=found.far,
        )
    )


async def forecast(request: Request, grant: Grant, room: Room) -> Response:
    """How many are due when; topics that the token may not read are not named."""
    found = await room.admin.timer_forecast(*_range(request))
    herds = [
        LateHerd(
            due_ms=herd.due_ms,
            count=herd.count,
            topics=[HerdTopic(topic=t.topic, count=t.count) for t in herd.topics if grant.allows(READ, t.topic)],
            last_late_ms=herd.last_late_ms,
        )
        for herd in found.herds
    ]
    buckets = [DueStep(start_ms=bucket.start_ms, count=bucket.count) for bucket in found.buckets]
    told = Forecast(
        now_ms=found.now_ms, step_ms=found.step_ms, capacity_per_s=found.capacity_per_s, buckets=buckets, herds=herds
    )
    return json_answer(told)


async def totals(request: Request, grant: Grant, room: Room) -> Response:
    """The timers as a whole."""
    only_parameters(request)
    found = await room.admin.timer_status()
    return json_answer(
        TimerTotals(
            now_ms=found.now_ms,
            paused=found.paused,
            pending=found.pending,
            backlog=found.backlog,
            next_due_ms=found.next_due_ms,
            released_total=found.released_total,
            cancelled_total=found.cancelled_total,
            rescheduled_total=found.rescheduled_total,
            rolled_total=found.rolled_total,
            early_total=found.early_total,
            released_per_s=found.released_per_s,
            capacity_per_s=found.capacity_per_s,
            max_delay_ms=found.limits.max_delay_ms if found.limits is not None else None,
        )
    )


def _moment(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    return default if text is None else parameter_ms(text, name)


def _whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):
        raise InvalidParameter(f"{name} {text[:40]!r} is not valid: a whole number from {low:,} to {high:,}.")
    return int(text)


def _range(request: Request) -> tuple[int, int, int]:
    """From, to and step; by default the next hour in steps of a minute."""
    only_parameters(request, "from", "to", "step_ms")
    from_ms = _moment(request, "from", now_ms())
    to_ms = _moment(request, "to", from_ms + _HOUR_MS)
    step_ms = _whole(request, "step_ms", max(1000, -(-(to_ms - from_ms) // 60)), 1000, 2**53)
    if to_ms <= from_ms:
        raise InvalidParameter("to must be later than from.")
    if (to_ms - from_ms) / step_ms > MOST_STEPS:
        raise InvalidParameter(f"That is more than {MOST_STEPS:,} steps; choose a longer step_ms.")
    return from_ms, to_ms, step_ms
