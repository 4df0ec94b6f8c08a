"""Timers by REST: which messages wait, the wheel, the forecast, totals, and the switch that pauses all of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field
from starlette.responses import Response

from broker.client.names import check_topic
from broker.client.timers import Timer
from broker.rocketmq.properties import SCHEDULE_KEY, UNIQUE_KEY
from console.operations.actor import PAUSE_TIMERS
from console.rest.access import Everywhere, InRows, Overview
from console.rest.database import token_actor
from console.rest.errors import InvalidParameter
from console.rest.identifiers import written
from console.rest.masking import Masked
from console.rest.operations import begun
from console.rest.query import Moment
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN, Reason
from console.security.tokens import PUBLISH, READ
from console.site.clock import now_ms
from console.site.reading_on import fill_waiting

MOST_STEPS = 2000
_HOUR_MS = 3_600_000
#: the end of time for a list
_FOREVER_MS = 2**63 - 1

From = Annotated[Moment, Meta(description="RFC 3339 with a zone, or ms since 1970; from this moment on.")]
Until = Annotated[Moment, Meta(description="RFC 3339 with a zone, or ms since 1970; before this moment.")]


class TimersQuery(Struct, kw_only=True):
    """The waiting messages that a list has."""

    from_ms: From = field(name="from", default=0)
    to_ms: Until = field(name="to", default=_FOREVER_MS)
    topic: Annotated[str | None, Meta(description="Only of this topic.")] = None
    key: Annotated[str, Meta(min_length=1, description="Only with this schedule key, key or message_id.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="1 to 1,000, 100 by default.")] = 100
    cursor: Annotated[str | None, Meta(description="From the page before.")] = None


class StepsQuery(Struct, kw_only=True):
    """A span of time in steps; by default the next hour in steps of a minute."""

    from_ms: From | None = field(name="from", default=None)
    to_ms: Until | None = field(name="to", default=None)
    step_ms: (
        Annotated[int, Meta(ge=1_000, le=2**53, description="Length of a step, 1,000 or more; at most 2,000 steps.")]
        | None
    ) = None


class TimerRow(Struct, kw_only=True):
    """A message that waits for its moment."""

    id: str
    message_id: str | None
    topic: str
    queue: int
    due_ms: int
    schedule_key: str | None
    keys: list[str]
    tag: str | None
    size_bytes: int
    stored_ms: int
    roll_times: int
    recall_handle: str | None


class TimerRows(Struct, kw_only=True):
    """Waiting messages by due time. While there is a `cursor`, there may be more: give it back for the next page."""

    now_ms: int
    timers: list[TimerRow]
    cursor: str | None


class DueStep(Struct, kw_only=True):
    """The number of messages due from `start_ms` on, for one step."""

    start_ms: int
    count: int
    size_bytes: int | None = None


class RollStep(Struct, kw_only=True):
    """The number of far timers that are placed anew at `roll_ms`."""

    roll_ms: int
    count: int


class Wheel(Struct, kw_only=True):
    """The wheel of timers from one moment to another; steps that hold nothing are left out."""

    now_ms: int
    read_ms: int
    paused: bool
    step_ms: int
    buckets: list[DueStep]
    rolls: list[RollStep]
    pending: int
    later: Annotated[int, Meta(description="How many are due after the last step.")]


class HerdTopic(Struct, kw_only=True):
    """The number of timers of a herd that belong to a topic."""

    topic: str
    count: int


class LateHerd(Struct, kw_only=True):
    """A second with more due timers than are released in one: the last one is `last_late_ms` late."""

    due_ms: int
    count: int
    topics: list[HerdTopic]
    last_late_ms: int


class Forecast(Struct, kw_only=True):
    """The number of timers due in each step, against the measured speed of releases (null until there were some)."""

    now_ms: int
    step_ms: int
    capacity_per_s: float | None
    buckets: list[DueStep]
    herds: list[LateHerd]


class TimerTotals(Struct, kw_only=True):
    """The timers of the broker as a whole."""

    now_ms: int
    paused: bool
    pending: int
    backlog: Annotated[int, Meta(description="Overdue and not released yet.")]
    next_due_ms: int | None
    released_total: int
    cancelled_total: int
    rescheduled_total: int
    rolled_total: int
    early_total: Annotated[int, Meta(description="Released before their moment: must be 0.")]
    released_per_s: float
    capacity_per_s: float | None
    max_delay_ms: int | None


class SwitchReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason why all timers are paused or resumed."""

    reason: Reason


@route(
    "GET",
    "/timers",
    "List waiting messages by due time",
    action=READ,
    on=InRows(),
    answers=((200, "A page of them.", TimerRows),),
)
async def timers(call: Call, query: TimersQuery) -> Response:
    """List waiting messages by due time; only those of topics that the token may read."""
    if query.topic is not None:
        check_topic(query.topic)
        call.require(query.topic)
    if query.to_ms <= query.from_ms:
        raise InvalidParameter("to must be later than from.")
    admin, is_visible = call.state.admin, call.row_check()
    page, found, cursor = await fill_waiting(
        lambda place, step: admin.timers(
            query.from_ms, query.to_ms, topic=query.topic, key=query.key, limit=step, cursor=place
        ),
        lambda page: (page.items, page.cursor),
        lambda each: is_visible(each.topic),
        query.cursor,
        query.limit,
    )
    broker = (await admin.brokers())[0].name
    hiding = await call.hiding()
    rows = [_hide(_row(each, broker), hiding.of(each.topic)) for each in found]
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


def _hide(row: TimerRow, masked: Masked) -> TimerRow:
    """Mask a row in place, and return it; a recall handle holds the unique id."""
    row.schedule_key = masked.text(SCHEDULE_KEY, row.schedule_key)
    row.message_id = masked.text(UNIQUE_KEY, row.message_id)
    row.id = masked.identifier(row.id)
    if UNIQUE_KEY in masked.masks:
        row.recall_handle = None
    return masked.label(row)


@route(
    "GET",
    "/timers/wheel",
    "What is due when, and the next rolls",
    action=READ,
    on=Overview(),
    answers=((200, "Steps that hold something.", Wheel),),
)
async def wheel(call: Call, query: StepsQuery) -> Response:
    """Answer the wheel from one moment to another."""
    found = await call.state.admin.timer_wheel(*_steps(query))
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


@route(
    "GET",
    "/timers/forecast",
    "How many timers are due when, and which will be late",
    action=READ,
    on=(Overview(), InRows()),
    answers=((200, "Steps that hold something, and herds.", Forecast),),
)
async def forecast(call: Call, query: StepsQuery) -> Response:
    """Answer how many are due when; topics that the token may not read are not named."""
    found, is_visible = await call.state.admin.timer_forecast(*_steps(query)), call.row_check()
    herds = [
        LateHerd(
            due_ms=herd.due_ms,
            count=herd.count,
            topics=[HerdTopic(topic=t.topic, count=t.count) for t in herd.topics if is_visible(t.topic)],
            last_late_ms=herd.last_late_ms,
        )
        for herd in found.herds
    ]
    buckets = [DueStep(start_ms=bucket.start_ms, count=bucket.count) for bucket in found.buckets]
    told = Forecast(
        now_ms=found.now_ms, step_ms=found.step_ms, capacity_per_s=found.capacity_per_s, buckets=buckets, herds=herds
    )
    return json_answer(told)


@route(
    "GET",
    "/timers/status",
    "All timers in figures",
    action=READ,
    on=Overview(),
    answers=((200, "Figures.", TimerTotals),),
)
async def totals(call: Call) -> Response:
    """Answer the figures of all timers."""
    found = await call.state.admin.timer_status()
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


@route("POST", "/timers:pause", "Release no timers any more", action=PUBLISH, on=Everywhere(), answers=(BEGUN,))
async def pause(call: Call, body: SwitchReason) -> Response:
    """Release no timers any more; needs a token for every topic."""
    return await begun("timers.pause", {}, body.reason, token_actor(call.grant, frozenset((PAUSE_TIMERS,))))


@route("POST", "/timers:resume", "Release timers again", action=PUBLISH, on=Everywhere(), answers=(BEGUN,))
async def resume(call: Call, body: SwitchReason) -> Response:
    """Release timers again; needs a token for every topic."""
    return await begun("timers.resume", {}, body.reason, token_actor(call.grant, frozenset((PAUSE_TIMERS,))))


def _steps(query: StepsQuery) -> tuple[int, int, int]:
    """Return from, to and the length of a step in ms; raises InvalidParameter."""
    from_ms = now_ms() if query.from_ms is None else query.from_ms
    to_ms = from_ms + _HOUR_MS if query.to_ms is None else query.to_ms
    step_ms = max(1000, -(-(to_ms - from_ms) // 60)) if query.step_ms is None else query.step_ms
    if to_ms <= from_ms:
        raise InvalidParameter("to must be later than from.")
    if (to_ms - from_ms) / step_ms > MOST_STEPS:
        raise InvalidParameter(f"That is more than {MOST_STEPS:,} steps; choose a longer step_ms.")
    return from_ms, to_ms, step_ms
