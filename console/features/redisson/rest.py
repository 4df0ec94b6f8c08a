"""Redisson's delayed queues by REST: look at them, offer values, and do what the console's operations do to them.

The name of a queue is checked against the token's topic prefixes as if it were a topic. All `_ms` are by the clock of
the Redis server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from broker.redisson import RedissonError
from broker.redisson.queue import due_ms
from console.features.messages.rest import only_parameters
from console.features.redisson.operations import checked_queue
from console.features.redisson.queue_operations import checked_value
from console.features.redisson.read import queue_named
from console.features.redisson.read import read_queue as delayed_queue
from console.features.redisson.read import read_queues as delayed_queues
from console.features.redisson.shapes import QueueRow
from console.features.timers.rest_bulk_schemas import BulkReason, Moment, OperationShown
from console.operations.actor import STEER_DELAYED_QUEUES, Actor
from console.operations.errors import OperationError
from console.rest.errors import InvalidMoment, InvalidParameter, OperationRefused, RedisUnavailable, RequestError
from console.rest.grants import eyes_of, require
from console.rest.moments import moment_ms, parameter_ms
from console.rest.operations_bridge import begun
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Narrowing, Operation
from console.rest.schemas import DeliverAt, Text
from console.rest.state import Room
from console.security.tokens import PUBLISH, READ, Grant
from console.site.evidence import Evidence

QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
HandleText = Annotated[str, Meta(min_length=3, max_length=120, description="As a list of values gives it.")]


class DelayedQueueRow(Struct, kw_only=True):
    """One queue. `problem` says what is wrong; null figures: a key of it is not what Redisson puts there."""

    name: str
    waiting: int | None
    in_list: Annotated[int | None, Meta(description="Differs from waiting: damage, which :repair puts right.")]
    due_still_there: int | None
    stuck_ms: Annotated[int | None, Meta(description="For how long the oldest due value has not moved.")]
    next_due_ms: int | None
    in_plain_list: Annotated[int | None, Meta(description="Due, not taken by a consumer yet.")]
    listeners: Annotated[int | None, Meta(description="Live RDelayedQueues of Java on its channel.")]
    packings: list[str]
    codec: str | None
    has_poison: bool
    mode: str
    topic: str | None
    sent: Annotated[int | None, Meta(description="In the topic, since reliable mode or the import began.")] = None
    sending: Annotated[int | None, Meta(description="On their way to the topic.")] = None
    refused: Annotated[int | None, Meta(description="Set aside, because the topic cannot take them.")] = None
    taken_over: Annotated[int | None, Meta(description="Moved to the plain list by Java, and taken from there.")] = None
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
    """One waiting value. `handle` names it; `is_hex`: no codec reads it, `value` is its bytes in hex."""

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
    """It waits, in list and set."""

    queue: str
    due_ms: int
    packing: str


class ValueRange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Values due from `due_from` to before `due_before`."""

    due_from: Moment | None = None
    due_before: Moment | None = None


class ManyValues(Struct, forbid_unknown_fields=True, kw_only=True):
    """Chosen values (`handles`, up to 1,000), or a `range` of up to 10,000; `all: true` for one without bounds."""

    reason: BulkReason
    handles: list[HandleText] | None = None
    range: ValueRange | None = None
    all: bool = False


class PoisonValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues; `all: true` means poison, or with a `packing` every value in it."""

    packing: (
        Annotated[str, Meta(description="old or new: the one that the clients of the queue do not read.")] | None
    ) = None


class MovedValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues, and to which queue."""

    to: QueueName


class LaterValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues, and where to: `deliver_at` for all, or `shift_ms` later (earlier if negative) each."""

    deliver_at: DeliverAt | None = None
    shift_ms: Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)] | None = None


class QueueReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why."""

    reason: BulkReason


class QueueTopic(QueueReason, forbid_unknown_fields=True, kw_only=True):
    """Why, and the topic that values go to."""

    topic: Text


MAX_BODY_BYTES = 256 * 1024
Result = TypeVar("Result")
_threads = ThreadPoolExecutor(4, thread_name_prefix="api-redisson")
_takes: Mapping[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(form)
    for kind, form in (
        ("redisson.remove", ManyValues), ("redisson.deliver_now", ManyValues), ("redisson.set_aside", PoisonValues),
        ("redisson.put_back", ManyValues), ("redisson.move", MovedValues), ("redisson.reschedule", LaterValues),
        ("redisson.clear", QueueReason), ("redisson.repair", QueueReason), ("redisson.make_plain", QueueReason),
        ("redisson.make_reliable", QueueTopic), ("redisson.import", QueueTopic),
    )
}  # fmt: skip
_new_value = msgspec.json.Decoder(NewValue)


async def queues(request: Request, grant: Grant, room: Room) -> Response:
    """The queues that the token may read, by name."""
    only_parameters(request, "search", "offset")
    offset = request.query_params.get("offset", "0")
    if not offset.isascii() or not offset.isdigit() or len(offset) > 9:
        raise InvalidParameter("offset is a whole number.")
    search = request.query_params.get("search", "")[:255]
    eyes = eyes_of(grant)
    data = await _in_thread(
        lambda: delayed_queues(search, int(offset), lambda name: eyes.queue(name) and grant.allows(READ, name))
    )
    _there(data.evidence)
    rows = [_row(row, grant) for row in data.rows]
    answer = DelayedQueueList(
        now_ms=data.now_ms, total=data.total, queues=rows, transfer_services=len(data.services)
    )  # fmt: skip
    return json_answer(answer)


async def queue(request: Request, grant: Grant, room: Room) -> Response:
    """One queue."""
    only_parameters(request)
    name = request.path_params["queue"]
    data = await _in_thread(lambda: delayed_queue(name))
    _there(data.evidence)
    assert data.row is not None
    shown = _row(data.row, grant)
    if data.handing is not None:
        to = data.handing
        shown.mode, shown.topic = to.kind if to.is_on else "plain", _topic(to.topic, grant)
        shown.sent, shown.sending, shown.refused, shown.taken_over = to.sent, to.sending, to.refused, to.taken_over
    return json_answer(shown)


async def values(request: Request, grant: Grant, room: Room) -> Response:
    """Waiting values by due time."""
    only_parameters(request, "from", "to", "cursor", "aside")
    name = request.path_params["queue"]
    given = request.query_params
    bounds = {side: parameter_ms(given[side], side) if side in given else None for side in ("from", "to")}

    def look() -> Any:
        return delayed_queue(
            name, cursor=given.get("cursor"), from_ms=bounds["from"], to_ms=bounds["to"],
            aside=given.get("aside") == "true",
        )  # fmt: skip

    try:
        data = await _in_thread(look)
    except ValueError:
        raise InvalidParameter("This is no cursor of a page before.") from None
    _there(data.evidence)
    hiding = await room.grants.hiding(grant)
    rows = [
        DelayedValue(
            handle=row.handle, due_ms=row.due_ms, value=row.text, codec=row.codec, packing=row.packing or None,
            size_bytes=row.size_bytes, is_hex=row.is_hex, is_whole=row.is_whole, is_poison=row.is_poison,
        )
        for row in (hiding.row(each, name) for each in data.values)
    ]  # fmt: skip
    return json_answer(DelayedValues(now_ms=data.now_ms, values=rows, cursor=data.cursor))


async def offer(request: Request, grant: Grant, room: Room) -> Response:
    """Offer a value, as Java's RDelayedQueue.offer does."""
    only_parameters(request)
    name = request.path_params["queue"]
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _new_value)
    if (wanted.delay_ms is None) == (wanted.deliver_at is None):
        raise InvalidMoment("Give delay_ms or deliver_at, and not both.", "delay_ms")
    at = None if wanted.deliver_at is None else due_ms(moment_ms(wanted.deliver_at, "deliver_at"))

    def put() -> Offered:
        checked_queue({"queue": name})
        value = checked_value(wanted.codec, wanted.value)
        receipt = queue_named(name, codec=wanted.codec, to_write=True).offer(value, wanted.delay_ms, at=at)
        return Offered(queue=name, due_ms=receipt.due_ms, packing=receipt.packing.value)

    return json_answer(await _in_thread(put), 201)


def operation(kind: str) -> Callable[[Request, Grant, Room], Any]:
    """The handler that starts this kind of operation; small ones have run when it answers."""

    async def handler(request: Request, grant: Grant, room: Room) -> Response:
        only_parameters(request)
        name = request.path_params["queue"]
        wanted = decode(await read_body(request, MAX_BODY_BYTES), _takes[kind])
        parameters = {"queue": name, **_parameters(wanted)}
        if "to" in parameters:
            require(grant, PUBLISH, parameters["to"])
        if "topic" in parameters:
            require(grant, PUBLISH, parameters["topic"])
        actor = Actor(f"token {grant.name}", frozenset((STEER_DELAYED_QUEUES,)), grant.user_id)
        return await begun(kind, parameters, wanted.reason, actor)

    handler.__doc__ = f"Start {kind}."
    return handler


def _parameters(wanted: Any) -> dict[str, Any]:
    """What the kind of operation takes, of what the request gives."""
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
    """Where its values go; not told to who may not read there."""
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
    return await asyncio.get_running_loop().run_in_executor(_threads, _asked, work)


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


_QUEUE = "/redisson/queues/{queue}"
_BEGUN = ((202, "It runs, or has run already if it is small; Location says where to look.", OperationShown),)
#: address, summary, kind of operation, what it takes
_ACTIONS: tuple[tuple[str, str, str, type[msgspec.Struct]], ...] = (
    ("remove", "Remove waiting values", "redisson.remove", ManyValues),
    ("deliver-now", "Put values into the plain list now", "redisson.deliver_now", ManyValues),
    ("reschedule", "Move values to another moment", "redisson.reschedule", LaterValues),
    ("move", "Move values to another queue", "redisson.move", MovedValues),
    ("set-aside", "Move poison out of Java's way; all of it without handles", "redisson.set_aside", PoisonValues),
    ("put-back", "Put back what was set aside", "redisson.put_back", ManyValues),
    ("clear", "Let nothing wait any more", "redisson.clear", QueueReason),
    ("repair", "Make list and set agree again", "redisson.repair", QueueReason),
    ("make-reliable", "Send due values to a topic", "redisson.make_reliable", QueueTopic),
    ("import", "Move all values into timers of a topic", "redisson.import", QueueTopic),
    ("make-plain", "Send due values to the plain list again", "redisson.make_plain", QueueReason),
)


def _all() -> Iterator[Operation]:
    yield Operation(
        "GET", "/redisson/queues", "List Redisson's delayed queues", READ, queues, None,
        ((200, "A page of them.", DelayedQueueList),), (("search", "Part of a name."), ("offset", "How many to skip.")),
        "rows",
    )  # fmt: skip
    yield Operation(
        "GET", _QUEUE + "/values", "List waiting values by due time", READ, values, None,
        ((200, "A page of them.", DelayedValues),),
        (
            ("from", "RFC 3339 with a zone, or ms since 1970; from this moment on."),
            ("to", "RFC 3339 with a zone, or ms since 1970; up to this moment."),
            ("cursor", "From the page before."), ("aside", "true: what was set aside instead."),
        ),
    )  # fmt: skip
    yield Operation(
        "POST",
        _QUEUE + "/values",
        "Offer a value",
        PUBLISH,
        offer,
        NewValue,
        ((201, "It waits.", Offered),),
    )
    for name, summary, kind, takes in _ACTIONS:
        narrows: Narrowing | None = "body" if takes in (MovedValues, QueueTopic) else None
        yield Operation("POST", f"{_QUEUE}:{name}", summary, PUBLISH, operation(kind), takes, _BEGUN, (), narrows)
    yield Operation(
        "GET",
        _QUEUE,
        "Look at a delayed queue",
        READ,
        queue,
        None,
        ((200, "The queue.", DelayedQueueRow),),
    )


OPERATIONS = tuple(_all())
