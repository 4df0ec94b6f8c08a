"""Timers by REST: which messages wait, the wheel, the forecast, totals, and the switch that pauses all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from starlette.responses import Response

from broker.client import AsyncAdmin
from broker.client.names import check_topic
from broker.client.timers import Timer, TimerPage
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
from console.rest.several import Missing, OnlyOf, Page, asked, named_of, places_of, tell_each
from console.security.tokens import PUBLISH, READ
from console.site.clock import now_ms
from console.site.merged import Part, merged
from console.site.reading_on import fill_waiting

MOST_STEPS = 2000
_HOUR_MS = 3_600_000
#: the end of time for a list
_FOREVER_MS = 2**63 - 1

From = Annotated[Moment, Meta(description="RFC 3339 with a zone, or ms since 1970; from this time on.")]
Until = Annotated[Moment, Meta(description="RFC 3339 with a zone, or ms since 1970; before this time.")]


class TimersQuery(Struct, kw_only=True):
    """The waiting messages that a list has."""

    from_ms: From = field(name="from", default=0)
    to_ms: Until = field(name="to", default=_FOREVER_MS)
    topic: Annotated[str | None, Meta(description="Only of this topic.")] = None
    key: Annotated[str, Meta(min_length=1, description="Only with this schedule key, key or message_id.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="1 to 1,000, 100 by default.")] = 100
    cursor: Annotated[str | None, Meta(description="From the previous page.")] = None
    broker: OnlyOf | None = None


class StepsQuery(Struct, kw_only=True):
    """A span of time in steps; by default the next hour in steps of a minute."""

    from_ms: From | None = field(name="from", default=None)
    to_ms: Until | None = field(name="to", default=None)
    step_ms: (
        Annotated[int, Meta(ge=1_000, le=2**53, description="Length of a step, 1,000 or more; at most 2,000 steps.")]
        | None
    ) = None
    broker: OnlyOf | None = None


class TotalsQuery(Struct, kw_only=True):
    """The brokers whose timers are counted."""

    broker: OnlyOf | None = None


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
    broker: str


class TimerRows(Struct, kw_only=True):
    """Waiting messages by due time. While there is a `cursor`, there may be more: give it back for the next page."""

    now_ms: int
    timers: list[TimerRow]
    cursor: str | None
    brokers_missing: Missing


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
    brokers_missing: Missing


class HerdTopic(Struct, kw_only=True):
    """The number of timers of a herd that belong to a topic."""

    topic: str
    count: int


class LateHerd(Struct, kw_only=True):
    """A second with more due timers than its broker releases in one: the last one is `last_late_ms` late."""

    due_ms: int
    count: int
    topics: list[HerdTopic]
    last_late_ms: int
    broker: str


class Forecast(Struct, kw_only=True):
    """The number of timers due in each step, against the measured speed of releases (null until there were some)."""

    now_ms: int
    step_ms: int
    capacity_per_s: float | None
    buckets: list[DueStep]
    herds: list[LateHerd]
    brokers_missing: Missing


class TimerTotals(Struct, kw_only=True):
    """All timers as a whole. `paused`: those of all brokers are."""

    now_ms: int
    paused: bool
    brokers_paused: list[str]
    pending: int
    backlog: Annotated[int, Meta(description="Overdue and not released yet.")]
    next_due_ms: int | None
    released_total: int
    cancelled_total: int
    rescheduled_total: int
    rolled_total: int
    early_total: Annotated[int, Meta(description="Released before they were due: must be 0.")]
    released_per_s: float
    capacity_per_s: float | None
    max_delay_ms: int | None
    brokers_missing: Missing


class SwitchReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason why all timers are paused or resumed: those of one broker, or of all."""

    reason: Reason
    broker: Annotated[str, Meta(min_length=1, max_length=255, description="Only of this broker.")] | None = None


@route(
    "GET",
    "/timers",
    "List pending timers by due time",
    action=READ,
    on=InRows(),
    answers=((200, "A page of them.", TimerRows),),
)
async def timers(call: Call, query: TimersQuery) -> Response:
    """List pending timers by due time; only those of topics that the token may read."""
    if query.topic is not None:
        check_topic(query.topic)
        call.require(query.topic)
    if query.to_ms <= query.from_ms:
        raise InvalidParameter("to must be later than from.")
    admins, is_visible = await asked(call.state, query.broker), call.row_check()
    page, found, cursor = await fill_waiting(
        lambda place, step: _page(admins, query, place, step),
        lambda page: (page.rows, page.cursor),
        lambda each: is_visible(each[1].topic),
        query.cursor,
        query.limit,
    )
    hiding = await call.hiding()
    rows = [_hide(_row(each, broker), hiding.of(each.topic)) for broker, each in found]
    return json_answer(TimerRows(now_ms=page.now_ms, timers=rows, cursor=cursor, brokers_missing=page.missing))


async def _page(admins: Mapping[str, AsyncAdmin], query: TimersQuery, cursor: str | None, count: int) -> Page[Timer]:
    is_one = len(admins) == 1
    places = {} if is_one else places_of(cursor)

    async def page(broker: str, admin: AsyncAdmin) -> TimerPage:
        place = cursor if is_one else places.get(broker)
        if not is_one and broker in places and place is None:
            return TimerPage(now_ms(), [])
        found = await admin.timers(
            query.from_ms,
            query.to_ms,
            topic=query.topic,
            key=query.key,
            limit=count,
            cursor=None if place is None else str(place),
        )
        if query.key is None or found.cursor is not None or len(found.items) < count:
            return found
        # of those with a key a broker says no cursor, yet it goes on from one
        last = found.items[-1]
        return msgspec.structs.replace(found, cursor=f"{last.due_ms}-{last.offset}")

    found, missing = await tell_each(admins, page)
    at_ms = min(each.now_ms for each in found.values())
    parts = [Part(broker, [(broker, each) for each in page.items], page.cursor) for broker, page in found.items()]
    if is_one:
        return Page(at_ms, parts[0].rows, found[parts[0].broker].cursor, missing)
    whole = merged(
        parts,
        before=places,
        key=lambda row: row[1].due_ms,
        place=lambda row: f"{row[1].due_ms}-{row[1].offset}",
        count=count,
    )
    return Page(at_ms, whole.rows, whole.cursor, missing)


def _row(each: Timer, broker: str) -> TimerRow:
    return TimerRow(
        id=written(broker, each.topic, each.position, each.message_id or ""),
        message_id=each.message_id,
        topic=each.topic,
        queue=each.queue_id,
        due_ms=each.due_ms,
        schedule_key=each.schedule_key,
        keys=each.keys,
        tag=each.tag,
        size_bytes=each.size_bytes,
        stored_ms=each.store_ms,
        roll_times=each.roll_times,
        recall_handle=each.handle,
        broker=broker,
    )


def _hide(row: TimerRow, masked: Masked) -> TimerRow:
    """Mask a row in place, and return it; a recall handle holds the message id."""
    row.schedule_key = masked.text(SCHEDULE_KEY, row.schedule_key)
    row.message_id = masked.text(UNIQUE_KEY, row.message_id)
    row.id = masked.identifier(row.id)
    if UNIQUE_KEY in masked.masks:
        row.recall_handle = None
    return masked.label(row)


@route(
    "GET",
    "/timers/wheel",
    "Count timers by due time, with the next rolls",
    action=READ,
    on=Overview(),
    answers=((200, "Steps that hold something.", Wheel),),
)
async def wheel(call: Call, query: StepsQuery) -> Response:
    """Answer the wheel from one moment to another."""
    steps = _steps(query)
    told, missing = await tell_each(
        await asked(call.state, query.broker), lambda _broker, admin: admin.timer_wheel(*steps)
    )
    found = list(told.values())
    return json_answer(
        Wheel(
            now_ms=min(each.now_ms for each in found),
            read_ms=min(each.read_ms for each in found),
            paused=all(each.paused for each in found),
            step_ms=found[0].step_ms,
            buckets=_added((b.start_ms, b.count, b.size_bytes) for each in found for b in each.buckets),
            rolls=[
                RollStep(roll_ms=step.start_ms, count=step.count)
                for step in _added((roll.roll_ms, roll.count, None) for each in found for roll in each.rolls)
            ],
            pending=sum(each.pending for each in found),
            later=sum(each.far for each in found),
            brokers_missing=missing,
        )
    )


def _added(steps: Iterable[tuple[int, int, int | None]]) -> list[DueStep]:
    """Return steps (beginning, count, bytes) of several brokers added up; bytes are known where all of them are."""
    found: dict[int, DueStep] = {}
    for start_ms, count, size_bytes in steps:
        step = found.get(start_ms)
        if step is None:
            found[start_ms] = DueStep(start_ms=start_ms, count=count, size_bytes=size_bytes)
            continue
        is_known = step.size_bytes is not None and size_bytes is not None
        step.size_bytes = (step.size_bytes or 0) + (size_bytes or 0) if is_known else None
        step.count += count
    return [found[start_ms] for start_ms in sorted(found)]


@route(
    "GET",
    "/timers/forecast",
    "Forecast timers by due time, and which will be late",
    action=READ,
    on=(Overview(), InRows()),
    answers=((200, "Steps that hold something, and bursts.", Forecast),),
)
async def forecast(call: Call, query: StepsQuery) -> Response:
    """Answer how many are due when; topics that the token may not read are not named."""
    steps, is_visible = _steps(query), call.row_check()
    told, missing = await tell_each(
        await asked(call.state, query.broker), lambda _broker, admin: admin.timer_forecast(*steps)
    )
    found = list(told.values())
    capacities = [each.capacity_per_s for each in found if each.capacity_per_s is not None]
    herds = [
        LateHerd(
            due_ms=herd.due_ms,
            count=herd.count,
            topics=[HerdTopic(topic=t.topic, count=t.count) for t in herd.topics if is_visible(t.topic)],
            last_late_ms=herd.last_late_ms,
            broker=broker,
        )
        for broker, each in told.items()
        for herd in each.herds
    ]
    return json_answer(
        Forecast(
            now_ms=min(each.now_ms for each in found),
            step_ms=found[0].step_ms,
            capacity_per_s=sum(capacities) if capacities else None,
            buckets=_added((bucket.start_ms, bucket.count, None) for each in found for bucket in each.buckets),
            herds=sorted(herds, key=lambda herd: herd.due_ms) if len(told) > 1 else herds,
            brokers_missing=missing,
        )
    )


@route(
    "GET",
    "/timers/status",
    "Get totals of all timers",
    action=READ,
    on=Overview(),
    answers=((200, "Figures.", TimerTotals),),
)
async def totals(call: Call, query: TotalsQuery) -> Response:
    """Answer the figures of all timers."""
    told, missing = await tell_each(await asked(call.state, query.broker), lambda _broker, admin: admin.timer_status())
    found = list(told.values())
    capacities = [each.capacity_per_s for each in found if each.capacity_per_s is not None]
    return json_answer(
        TimerTotals(
            now_ms=min(each.now_ms for each in found),
            paused=all(each.paused for each in found),
            brokers_paused=[broker for broker, each in told.items() if each.paused],
            pending=sum(each.pending for each in found),
            backlog=sum(each.backlog for each in found),
            next_due_ms=min((each.next_due_ms for each in found if each.next_due_ms is not None), default=None),
            released_total=sum(each.released_total for each in found),
            cancelled_total=sum(each.cancelled_total for each in found),
            rescheduled_total=sum(each.rescheduled_total for each in found),
            rolled_total=sum(each.rolled_total for each in found),
            early_total=sum(each.early_total for each in found),
            released_per_s=sum(each.released_per_s for each in found),
            capacity_per_s=sum(capacities) if capacities else None,
            max_delay_ms=min((each.limits.max_delay_ms for each in found if each.limits is not None), default=None),
            brokers_missing=missing,
        )
    )


@route(
    "POST",
    "/timers:pause",
    "Pause all timers",
    action=PUBLISH,
    permission=PAUSE_TIMERS,
    on=Everywhere(),
    answers=(BEGUN,),
)
async def pause(call: Call, body: SwitchReason) -> Response:
    """Pause all timers; needs a token for every topic."""
    return await _switched(call, "timers.pause", body)


@route(
    "POST",
    "/timers:resume",
    "Resume all timers",
    action=PUBLISH,
    permission=PAUSE_TIMERS,
    on=Everywhere(),
    answers=(BEGUN,),
)
async def resume(call: Call, body: SwitchReason) -> Response:
    """Resume all timers; needs a token for every topic."""
    return await _switched(call, "timers.resume", body)


async def _switched(call: Call, kind: str, body: SwitchReason) -> Response:
    broker = await named_of(call.state, (), body.broker)
    actor = token_actor(call.grant, frozenset((PAUSE_TIMERS,)))
    return await begun(kind, {}, body.reason, actor, broker=broker)


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
