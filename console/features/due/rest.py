"""What falls due by REST: the same as the Due page."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from console.features.due.read import due_of
from console.features.due.shapes import DEFAULT, Band, BrokerLoad, DuePage
from console.operations.actor import CHANGE_SETTINGS
from console.rest.access import Everywhere, InRows, Overview, is_everywhere
from console.rest.database import token_actor
from console.rest.operations import begun, in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN, Reason
from console.rest.several import OnlyOf, named_of, of_broker
from console.security.tokens import READ, SETTINGS
from console.site.mirrored import cluster


class DueQuery(Struct, kw_only=True):
    """The stretch from now on, and whose messages are counted."""

    window: Annotated[
        Literal["10m", "1h", "1d"], Meta(description="The next 10 minutes, the next hour (default), or the next day.")
    ] = DEFAULT  # type: ignore[assignment]  # it is one of them
    broker: OnlyOf | None = None


class NotKnown(Struct, kw_only=True):
    """Something that is in no sum, and why."""

    source: str
    why: str


class DueBand(Struct, kw_only=True):
    """One kind. `counts` has one number a slot; null: nothing of it is known, which is not 0."""

    kind: Annotated[str, Meta(description="lanes, timers, retries, redisson or checks.")]
    counts: list[int] | None
    total: int | None
    overdue: Annotated[int | None, Meta(description="Due before now and still there.")]
    is_whole: Annotated[bool, Meta(description="False: there is more than was counted.")]
    queues_left: Annotated[int, Meta(description="Redisson's queues that are not counted.")]
    not_known: list[NotKnown]


class DueLoad(Struct, kw_only=True):
    """What one broker has to release, against what it was measured (or seen) to release."""

    broker: str
    peak_ms: int | None
    peak_per_s: float
    capacity_per_s: Annotated[float | None, Meta(description="Null: it was never measured.")]
    capacity_how: Annotated[
        str | None, Meta(description="load: timers that were due kept it busy; self_test: it tried by itself.")
    ]
    capacity_at_ms: int | None
    seen_per_s: Annotated[float | None, Meta(description="The most that was seen to go out: it can do that at least.")]
    seen_ms: int | None
    late_ms: Annotated[int | None, Meta(description="How late the last one of the worst minute is.")]
    late_at_ms: int | None
    is_known: bool
    is_paused: bool


class DueAnswer(Struct, kw_only=True):
    """What falls due, kind by kind, and whether it goes out in time. Slots begin at `start_ms`."""

    now_ms: int
    start_ms: int
    slot_ms: int
    slots: int
    bands: list[DueBand]
    loads: list[DueLoad]
    verdict: Annotated[str, Meta(description="yes, probably, unknown or no; of several brokers of the worst.")]
    verdict_broker: str | None
    is_partial: Annotated[bool, Meta(description="Of some broker lanes or timers are not known.")]
    total: Annotated[
        int | None, Meta(description="In all; for a token of some topics what is counted of the whole broker alone.")
    ]
    overdue: Annotated[int | None, Meta(description="Of these, due before now and still there.")]


class MeasureReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason why it is measured now how fast timers are released: at one broker, or at all."""

    reason: Reason
    broker: Annotated[str, Meta(min_length=1, max_length=255, description="Only of this broker.")] | None = None


@route(
    "POST",
    "/due:measure",
    "Measure how fast brokers release",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Everywhere(),
    answers=(BEGUN,),
)
async def measure(call: Call, body: MeasureReason) -> Response:
    """Have each broker measure now how fast it releases, which takes it some seconds."""
    broker = await named_of(call.state, (), body.broker)
    actor = token_actor(call.grant, frozenset((CHANGE_SETTINGS,)))
    return await begun("due.measure", {}, body.reason, actor, broker=broker)


@route(
    "GET",
    "/due",
    "What falls due, by kind and over time, and whether it goes out in time",
    action=READ,
    on=(Overview(), InRows()),
    answers=((200, "Counts of each slot.", DueAnswer),),
)
async def due(call: Call, query: DueQuery) -> Response:
    """Answer what falls due; queues and transactions are those that the token may read."""
    is_seen, broker = call.row_check(), query.broker or ""
    is_limited = not is_everywhere(call.grant, READ)

    def read() -> DuePage:
        with of_broker(broker):
            return due_of(cluster(), query.window, is_topic=is_seen, is_queue=is_seen, is_limited=is_limited)

    return json_answer(_answer(await in_thread(read)))


def _answer(page: DuePage) -> DueAnswer:
    verdict = page.verdict
    return DueAnswer(
        now_ms=page.now_ms,
        start_ms=page.start_ms,
        slot_ms=page.window.slot_ms,
        slots=page.length,
        bands=[_band(band) for band in page.bands],
        loads=[_load(load) for load in page.loads],
        verdict=verdict.answer.value,
        verdict_broker=verdict.load.broker if verdict.load else None,
        is_partial=verdict.is_partial,
        total=page.total,
        overdue=page.overdue,
    )


def _band(band: Band) -> DueBand:
    return DueBand(
        kind=band.kind.value,
        counts=None if band.counts is None else list(band.counts),
        total=band.total,
        overdue=band.overdue,
        is_whole=band.is_whole,
        queues_left=band.left,
        not_known=[NotKnown(source=each.source, why=each.why.value) for each in band.unknown],
    )


def _load(load: BrokerLoad) -> DueLoad:
    return DueLoad(
        broker=load.broker,
        peak_ms=load.peak_ms,
        peak_per_s=load.peak_per_s,
        capacity_per_s=load.capacity_per_s,
        capacity_how=load.capacity_how.value if load.capacity_how else None,
        capacity_at_ms=load.capacity_at_ms,
        seen_per_s=load.seen_per_s,
        seen_ms=load.seen_ms,
        late_ms=load.late_ms,
        late_at_ms=load.late_at_ms,
        is_known=load.is_known,
        is_paused=load.is_paused,
    )
