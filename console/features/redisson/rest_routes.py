"""The part of the table of REST operations that is about Redisson's delayed queues."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from console.security.tokens import PUBLISH, READ

from ...rest.route import Narrowing, Operation
from ..timers.rest_bulk_schemas import OperationShown
from . import rest as redisson_rest
from .rest_schemas import (
    DelayedQueueList,
    DelayedQueueRow,
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
        "GET", "/redisson/queues", "List Redisson's delayed queues", READ, redisson_rest.queues, None,
        ((200, "A page of them.", DelayedQueueList),), (("search", "Part of a name."), ("offset", "How many to skip.")),
        "rows",
    )  # fmt: skip
    yield Operation(
        "GET", _QUEUE + "/values", "List waiting values by due time", READ, redisson_rest.values, None,
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
        redisson_rest.offer,
        NewValue,
        ((201, "It waits.", Offered),),
    )
    for name, summary, kind, takes in _ACTIONS:
        narrows: Narrowing | None = "body" if takes in (MovedValues, QueueTopic) else None
        yield Operation(
            "POST", f"{_QUEUE}:{name}", summary, PUBLISH, redisson_rest.operation(kind), takes, _BEGUN, (), narrows
        )
    yield Operation(
        "GET",
        _QUEUE,
        "Look at a delayed queue",
        READ,
        redisson_rest.queue,
        None,
        ((200, "The queue.", DelayedQueueRow),),
    )


OPERATIONS = tuple(_all())
