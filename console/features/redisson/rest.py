"""Redisson's delayed queues by REST: look at them, offer values, and do what the console's operations do to them.

The name of a queue is checked against the token's scopes as if it were a topic's. All `_ms` are by the clock of
the Redis server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, field
from redis.exceptions import RedisError
from starlette.responses import Response

from broker.redisson import RedissonError
from broker.redisson.queue import due_ms
from console.features.redisson.operations import checked_queue
from console.features.redisson.queue_operations import checked_value
from console.features.redisson.read import QueueRow, queue_named
from console.features.redisson.read import read_queue as delayed_queue
from console.features.redisson.read import read_queues as delayed_queues
from console.operations.actor import STEER_DELAYED_QUEUES
from console.operations.errors import OperationError
from console.rest.access import InBody, InRows, Place, Queue, visible_to
from console.rest.database import token_actor
from console.rest.errors import InvalidMoment, InvalidParameter, OperationRefused, RedisUnavailable, RequestError
from console.rest.operations import begun
from console.rest.query import Moment as QueryMoment
from console.rest.query import moment_ms
from console.rest.responses import json_answer
from console.rest.route import Call, Handler, route
from console.rest.schemas import BEGUN, DeliverAt, Moment, Reason, ShiftMs, Text
from console.security.tokens import PUBLISH, READ, Grant
from console.site.evidence import Evidence
from console.site.slow_requests import for_this_request

QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
HandleText = Annotated[str, Meta(min_length=3, max_length=120, description="As a list of values gives it.")]


class DelayedQueueRow(Struct, kw_only=True):
    """A delayed queue. `problem` says what is wrong; null figures: a key of it is not what Redisson puts there."""

    name: str
    waiting: int | None
    in_list: Annotated[int | None, Meta(description="Differs from waiting: damage, which :repair mends.")]
    due_still_there: int | None
    stuck_ms: Annotated[int | None, Meta(description="For how long the oldest due value has not moved.")]
    next_due_ms: int | None
    in_plain_list: Annotated[int | None, Meta(description="Due, not consumed yet.")]
    listeners: Annotated[int | None, Meta(description="Live RDelayedQueues of Java on its channel.")]
    packings: list[str]
    codec: str | None
    has_poison: bool
    mode: str
    topic: str | None
    sent: Annotated[int | None, Meta(description="In the topic, since reliable mode or the import began.")] = None
    sending: Annotated[int | None, Meta(description="In flight to the topic.")] = None
    refused: Annotated[int | None, Meta(description="Quarantined, because the topic cannot take them.")] = None
    taken_over: Annotated[
        int | None, Meta(description="Moved to the destination queue by Java, and taken from there.")
    ] = None
    moved: int | None
    late_ms: int | None
    problem: str | None


class DelayedQueueList(Struct, kw_only=True):
    """Queues by name, 50 at a time, and how many there are."""

    now_ms: int
    total: int
    queues: list[DelayedQueueRow]
    transfer_services: int


class DelayedValue(Struct, kw_only=True):
    """A waiting value. `handle` names it; `is_hex`: no codec reads it, `value` is its bytes in hex."""

    handle: str
    due_ms: int | None
    value: str
    codec: str
    packing: str | None
    size_bytes: int
    is_hex: bool
    is_whole: bool
    is_poison: bool


class DelayedValues(Struct, kw_only=True):
    """Values in the order in which they are due; `cursor` for the next page, null at the end."""

    now_ms: int
    values: list[DelayedValue]
    cursor: str | None


class NewValue(Struct, forbid_unknown_fields=True, kw_only=True):
    """A value to offer; give `delay_ms` or `deliver_at`. JSON codecs take it as JSON, StringCodec as text."""

    value: Annotated[str, Meta(max_length=65_536)]
    codec: Annotated[str, Meta(max_length=40)] = "StringCodec"
    delay_ms: Annotated[int, Meta(ge=0, le=316_224_000_000)] | None = None
    deliver_at: DeliverAt | None = None


class Offered(Struct, kw_only=True):
    """A value that was offered and waits, in list and set."""

    queue: str
    due_ms: int
    packing: str


class ValueRange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Values due from `due_from` to before `due_before`."""

    due_from: Moment | None = None
    due_before: Moment | None = None


class ManyValues(Struct, forbid_unknown_fields=True, kw_only=True):
    """Chosen values (`handles`, up to 1,000), or a `range` of up to 10,000; `all: true` for one without bounds."""

    reason: Reason
    handles: list[HandleText] | None = None
    range: ValueRange | None = None
    all: bool = False


class PoisonValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """The values, as in ManyValues; `all: true` means poison, or with a `packing` every value in it."""

    packing: (
        Annotated[str, Meta(description="old or new: the one that the clients of the queue do not read.")] | None
    ) = None


class MovedValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """The values, as in ManyValues, and the queue they go to."""

    to: QueueName


class LaterValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """The values of ManyValues, and where to: `deliver_at` for all, or each `shift_ms` later (earlier if negative)."""

    deliver_at: DeliverAt | None = None
    shift_ms: ShiftMs | None = None


class QueueReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason why something is done to a whole queue."""

    reason: Reason


class QueueTopic(QueueReason, forbid_unknown_fields=True, kw_only=True):
    """The reason, and the topic that values go to."""

    topic: Text


class QueuesQuery(Struct, kw_only=True):
    """The queues that a list has."""

    search: Annotated[str, Meta(description="Part of a name.")] = ""
    offset: Annotated[int, Meta(le=999_999_999, description="How many to skip.")] = 0


class ValuesQuery(Struct, kw_only=True):
    """The values of a queue that a list has."""

    from_ms: (
        Annotated[QueryMoment, Meta(description="RFC 3339 with a zone, or ms since 1970; from this time on.")] | None
    ) = field(name="from", default=None)
    to_ms: (
        Annotated[QueryMoment, Meta(description="RFC 3339 with a zone, or ms since 1970; up to this time.")] | None
    ) = field(name="to", default=None)
    cursor: Annotated[str | None, Meta(description="From the previous page.")] = None
    aside: Annotated[str, Meta(description="true: quarantined values instead.")] = "false"


Result = TypeVar("Result")
_threads = ThreadPoolExecutor(4, thread_name_prefix="api-redisson")
_QUEUE = "/redisson/queues/{queue}"
_MOST_BYTES = 256 * 1024


@route(
    "GET",
    "/redisson/queues",
    "List Redisson's delayed queues",
    action=READ,
    on=InRows(),
    answers=((200, "A page of them.", DelayedQueueList),),
)
async def queues(call: Call, query: QueuesQuery) -> Response:
    """List the queues that the token may read, by name."""
    visible, is_visible = visible_to(call.grant), call.row_check()
    data = await _in_thread(
        lambda: delayed_queues(query.search[:255], query.offset, lambda name: visible.queue(name) and is_visible(name))
    )
    _there(data.evidence)
    rows = [_row(row, call.grant) for row in data.rows]
    return json_answer(
        DelayedQueueList(now_ms=data.now_ms, total=data.total, queues=rows, transfer_services=len(data.services))
    )


@route(
    "GET",
    f"{_QUEUE}/values",
    "List pending values by due time",
    action=READ,
    on=Queue(),
    answers=((200, "A page of them.", DelayedValues),),
)
async def values(call: Call, query: ValuesQuery) -> Response:
    """List pending values by due time, or what was set aside."""
    name = call.named["queue"]

    def look() -> Any:
        return delayed_queue(
            name, cursor=query.cursor, from_ms=query.from_ms, to_ms=query.to_ms, aside=query.aside == "true"
        )

    try:
        data = await _in_thread(look)
    except ValueError:
        raise InvalidParameter("This is not a cursor of a previous page.") from None
    _there(data.evidence)
    hiding = await call.hiding()
    rows = [
        DelayedValue(
            handle=row.handle,
            due_ms=row.due_ms,
            value=row.text,
            codec=row.codec,
            packing=row.packing or None,
            size_bytes=row.size_bytes,
            is_hex=row.is_hex,
            is_whole=row.is_whole,
            is_poison=row.is_poison,
        )
        for row in (hiding.row(each, name) for each in data.values)
    ]
    return json_answer(DelayedValues(now_ms=data.now_ms, values=rows, cursor=data.cursor))


@route(
    "POST",
    f"{_QUEUE}/values",
    "Offer a value",
    action=PUBLISH,
    permission=STEER_DELAYED_QUEUES,
    on=Queue(),
    answers=((201, "It waits.", Offered),),
    errors=(OperationRefused, RedisUnavailable),
    most_body_bytes=_MOST_BYTES,
)
async def offer(call: Call, body: NewValue) -> Response:
    """Offer a value, as Java's RDelayedQueue.offer does."""
    name = call.named["queue"]
    if (body.delay_ms is None) == (body.deliver_at is None):
        raise InvalidMoment("Give delay_ms or deliver_at, and not both.", "delay_ms")
    at = None if body.deliver_at is None else due_ms(moment_ms(body.deliver_at, "deliver_at"))

    def put() -> Offered:
        checked_queue({"queue": name})
        value = checked_value(body.codec, body.value)
        receipt = queue_named(name, codec=body.codec, to_write=True).offer(value, body.delay_ms, at=at)
        return Offered(queue=name, due_ms=receipt.due_ms, packing=receipt.packing.value)

    return json_answer(await _in_thread(put), 201)


def _acts(verb: str, summary: str, *others: Place) -> Callable[[Handler], Handler]:
    """Declare a route that begins an operation on a queue; small ones have run when it answers."""
    return route(
        "POST",
        f"{_QUEUE}:{verb}",
        summary,
        action=PUBLISH,
        permission=STEER_DELAYED_QUEUES,
        on=(Queue(), *others),
        answers=(BEGUN,),
        most_body_bytes=_MOST_BYTES,
    )


@_acts("remove", "Remove pending values")
async def remove(call: Call, body: ManyValues) -> Response:
    """Remove the values that are chosen."""
    return await _begun(call, "redisson.remove", body)


@_acts("deliver-now", "Deliver values to the destination queue now")
async def deliver_now(call: Call, body: ManyValues) -> Response:
    """Put values into the plain list before their moment."""
    return await _begun(call, "redisson.deliver_now", body)


@_acts("reschedule", "Reschedule values")
async def reschedule(call: Call, body: LaterValues) -> Response:
    """Reschedule named values, or a range of them."""
    return await _begun(call, "redisson.reschedule", body)


@_acts("move", "Move values to another queue", InBody())
async def move(call: Call, body: MovedValues) -> Response:
    """Move values to another queue, which the token has to allow as well."""
    call.require(body.to)
    return await _begun(call, "redisson.move", body)


@_acts("set-aside", "Quarantine poison values; all of them without handles")
async def set_aside(call: Call, body: PoisonValues) -> Response:
    """Move values that Java cannot read out of its way."""
    return await _begun(call, "redisson.set_aside", body)


@_acts("put-back", "Restore quarantined values")
async def put_back(call: Call, body: ManyValues) -> Response:
    """Put back values that were set aside."""
    return await _begun(call, "redisson.put_back", body)


@_acts("clear", "Remove all pending values")
async def clear(call: Call, body: QueueReason) -> Response:
    """Remove all that waits in the queue."""
    return await _begun(call, "redisson.clear", body)


@_acts("repair", "Repair differences of list and set")
async def repair(call: Call, body: QueueReason) -> Response:
    """Make the list and the set of the queue agree again."""
    return await _begun(call, "redisson.repair", body)


@_acts("make-reliable", "Send due values to a topic", InBody())
async def make_reliable(call: Call, body: QueueTopic) -> Response:
    """Send what becomes due to a topic, which the token has to allow as well."""
    call.require(body.topic)
    return await _begun(call, "redisson.make_reliable", body)


@_acts("import", "Import all values as timers of a topic", InBody())
async def import_values(call: Call, body: QueueTopic) -> Response:
    """Import all values as timers of a topic, which the token has to allow as well."""
    call.require(body.topic)
    return await _begun(call, "redisson.import", body)


@_acts("make-plain", "Deliver due values to the destination queue again")
async def make_plain(call: Call, body: QueueReason) -> Response:
    """Send what becomes due to the plain list again."""
    return await _begun(call, "redisson.make_plain", body)


@route("GET", _QUEUE, "Get a delayed queue", action=READ, on=Queue(), answers=((200, "The queue.", DelayedQueueRow),))
async def queue(call: Call) -> Response:
    """Answer the figures of one queue, and where its due values go."""
    name = call.named["queue"]
    data = await _in_thread(lambda: delayed_queue(name))
    _there(data.evidence)
    assert data.row is not None
    shown = _row(data.row, call.grant)
    if data.handing is not None:
        to = data.handing
        shown.mode, shown.topic = to.kind if to.is_on else "plain", _topic(to.topic, call.grant)
        shown.sent, shown.sending, shown.refused, shown.taken_over = to.sent, to.sending, to.refused, to.taken_over
    return json_answer(shown)


async def _begun(call: Call, kind: str, wanted: ManyValues | QueueReason) -> Response:
    parameters = {"queue": call.named["queue"], **_parameters(wanted)}
    actor = token_actor(call.grant, frozenset((STEER_DELAYED_QUEUES,)))
    return await begun(kind, parameters, wanted.reason, actor)


def _parameters(wanted: ManyValues | QueueReason) -> dict[str, Any]:
    """Return the parameters of an operation from the body of a request."""
    found: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("to", "topic", "packing") if hasattr(wanted, name)
    }
    if not isinstance(wanted, ManyValues):
        return found
    if wanted.handles is not None:
        found["handles"] = wanted.handles
    else:
        chosen = wanted.range
        bounds = {"from_ms": chosen.due_from, "to_ms": chosen.due_before} if chosen is not None else {}
        found["filter"] = {
            name: None if value is None else moment_ms(value, name.replace("_ms", "")) for name, value in bounds.items()
        }
        found["is_all"] = wanted.all
    if isinstance(wanted, LaterValues):
        if (wanted.deliver_at is None) == (wanted.shift_ms is None):
            raise InvalidMoment("Give deliver_at or shift_ms, and not both.", "deliver_at")
        found["due_ms"] = None if wanted.deliver_at is None else moment_ms(wanted.deliver_at, "deliver_at")
        found["shift_ms"] = wanted.shift_ms
    return found


def _topic(name: str | None, grant: Grant) -> str | None:
    """Return the topic of a queue for a token that may read it, else None."""
    return name if name and grant.allows(READ, name) else None


def _row(row: QueueRow, grant: Grant) -> DelayedQueueRow:
    found, moved = row.survey, row.moved
    return DelayedQueueRow(
        name=row.name,
        waiting=found.set_size if found else None,
        in_list=found.list_size if found else None,
        due_still_there=found.overdue if found else None,
        stuck_ms=found.stuck_ms if found else None,
        next_due_ms=found.next_due_ms if found else None,
        in_plain_list=found.target_size if found else None,
        listeners=found.listeners if found else None,
        packings=[packing.value for packing in found.packings] if found else [],
        codec=found.codec_guess if found else None,
        has_poison=bool(found and found.sampled_poison),
        mode=moved.mode if moved else "plain",
        topic=_topic(moved.topic, grant) if moved else None,
        moved=moved.moved if moved else None,
        late_ms=moved.late_ms if moved else None,
        problem=row.problem or (moved.problem if moved else "") or None,
    )


def _there(evidence: Evidence) -> None:
    if evidence.stale:
        raise RedisUnavailable(evidence.detail or None)


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(_threads, _asked, for_this_request(work))


def _asked(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except RequestError:
        raise
    except OperationError as error:
        raise OperationRefused(str(error), error.field) from None
    except RedissonError as error:
        raise OperationRefused(str(error)) from None
    except (RedisError, OSError) as error:
        raise RedisUnavailable(str(error)) from None
