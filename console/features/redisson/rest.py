"""Redisson's delayed queues by REST: looked at, offered to, and everything that the console's operations do to them.

The name of a queue is checked against the token's topic prefixes as if it were a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from broker.redisson import RedissonError
from broker.redisson.queue import due_ms
from console.features.redisson.queue_operations import checked_value
from console.features.redisson.read import delayed_queue, delayed_queues
from console.features.redisson.selection import checked_queue
from console.features.redisson.server import queue_named
from console.features.redisson.shapes import QueueRow
from console.operations.actor import STEER_DELAYED_QUEUES, Actor
from console.operations.errors import OperationError
from console.security.tokens import PUBLISH, READ, Grant
from console.site.evidence import Evidence

from ...rest.errors import (
    InvalidMoment,
    InvalidParameter,
    OperationRefused,
    RedisUnavailable,
    RequestError,
)
from ...rest.grants import eyes_of, require
from ...rest.moments import moment_ms, parameter_ms
from ...rest.operations_bridge import begun
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from .rest_schemas import (
    DelayedQueueList,
    DelayedQueueRow,
    DelayedValue,
    DelayedValues,
    LaterValues,
    ManyValues,
    MovedValues,
    NewValue,
    Offered,
    PoisonValues,
    QueueReason,
    QueueTopic,
)

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
