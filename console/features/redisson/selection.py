"""Which values of which delayed queue an operation is about, and asking Redis for them.

{"queue": "orders", "handles": ["1795247527000~3f..~31", ...]}
{"queue": "orders", "filter": {"from_ms": None, "to_ms": None}, "is_all": True}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from broker.redisson import RedissonError
from broker.redisson.pages import page
from broker.redisson.values import Handle, Waiting
from console.features.redisson.server import queue_named, why_locked
from console.operations.errors import InvalidParameter, NotPossible

#: named at once, as for timers
MOST_HANDLES = 1_000
_NAME_LENGTH = 255


def checked_queue(parameters: Mapping[str, Any], field: str = "queue") -> str:
    """The name of a queue that may be changed here; raises InvalidParameter, NotPossible."""
    name = parameters.get("queue")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LENGTH:
        raise InvalidParameter(field, f"The name of a queue has 1 to {_NAME_LENGTH} characters.")
    reason = why_locked(name)
    if reason == "read-only":
        raise NotPossible("Delayed queues are only looked at here (ESCAPEMENT_REDISSON_READ_ONLY).")
    if reason:
        raise NotPossible(f"Queue {name!r} is not among those that may be touched (ESCAPEMENT_REDISSON_QUEUES).")
    return name


def checked_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Which values, in one form; raises InvalidParameter."""
    if "handles" in parameters:
        handles = parameters["handles"]
        if not isinstance(handles, list) or not 0 < len(handles) <= MOST_HANDLES:
            raise InvalidParameter("handles", f"Name 1 to {MOST_HANDLES:,} values; for more, use a range.")
        for text in handles:
            try:
                Handle.parse(text)
            except (ValueError, AttributeError):
                raise InvalidParameter("handles", "This is no handle of a waiting value.") from None
        return {"handles": list(dict.fromkeys(handles))}
    given = parameters.get("filter")
    if not isinstance(given, Mapping):
        raise InvalidParameter("filter", "Name values (handles), or give a range.")
    bounds = {name: given.get(name) for name in ("from_ms", "to_ms")}
    for name, bound in bounds.items():
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or not 0 <= bound < 2**53):
            raise InvalidParameter(name, f"{name} is a moment in epoch milliseconds.")
    if not any(bound is not None for bound in bounds.values()) and not parameters.get("is_all"):
        raise InvalidParameter("filter", "Without a range every value is meant; say so with all.")
    return {"filter": bounds, "is_all": bool(parameters.get("is_all"))}


def in_redis(question: Any) -> Any:
    """The answer of Redis; raises NotPossible where there is none."""
    try:
        return question()
    except (RedissonError, RedisError, OSError) as error:
        raise NotPossible(f"The Redis server did not do it: {error}") from error


def values_between(name: str, from_ms: int | None, to_ms: int | None, *, aside: bool) -> Iterator[Waiting]:
    """Yield the values due from one moment to before another, in order."""
    queue, cursor = queue_named(name), None
    low, high = (-math.inf if from_ms is None else from_ms), (math.inf if to_ms is None else to_ms - 1)
    while True:
        found = page(queue, from_ms=low, to_ms=high, limit=1_000, cursor=cursor, shown_bytes=200, aside=aside)
        yield from found.items
        cursor = found.cursor
        if cursor is None or not found.items:
            return


def values_named(name: str, handles: Sequence[str], *, aside: bool) -> Iterator[Waiting]:
    """The chosen ones that still wait: looked for at their own moments."""
    wanted = set(handles)
    scores = sorted({float(text.partition("~")[0]) for text in handles})
    for score in scores:
        at_ms = int(score) if math.isfinite(score) else None
        queue = queue_named(name)
        found = page(
            queue,
            from_ms=score if at_ms is None else at_ms,
            to_ms=score if at_ms is None else at_ms + 1,
            limit=1_000,
            shown_bytes=200,
            aside=aside,
        )
        yield from (each for each in found.items if str(each.handle) in wanted)
