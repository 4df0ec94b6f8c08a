"""The operations of receiving, for the table of all."""

from __future__ import annotations

from console.security.tokens import CONSUME

from ...rest.route import Operation
from . import rest_consuming
from .rest_consuming_schemas import (
    Acknowledge,
    Acknowledged,
    Extend,
    Extended,
    GiveBack,
    GivenBack,
    Receive,
    ReceivedList,
)

_GROUP = "/topics/{topic}/groups/{group}"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", f"{_GROUP}:receive", "Receive messages", CONSUME, rest_consuming.receive, Receive,
        ((200, "Messages, or none if none came in time.", ReceivedList),),
    ),
    Operation(
        "POST", f"{_GROUP}:ack", "Acknowledge messages", CONSUME, rest_consuming.acknowledge, Acknowledge,
        ((200, "They are done, but those that are not held any more.", Acknowledged),),
    ),
    Operation(
        "POST", f"{_GROUP}:nack", "Have messages delivered again", CONSUME, rest_consuming.give_back, GiveBack,
        ((200, "They are delivered again, but those that are not held any more.", GivenBack),),
    ),
    Operation(
        "POST", f"{_GROUP}:extend", "Keep messages for longer", CONSUME, rest_consuming.extend, Extend,
        ((200, "Their new receipts.", Extended),),
    ),
)  # fmt: skip
