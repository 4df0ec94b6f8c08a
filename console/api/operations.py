"""Every operation of the REST interface in one table: routes and OpenAPI are both made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.credentials import PUBLISH, READ, Grant

from . import looking, sending
from .room import Room
from .schemas import FoundMessage, GroupList, LevelList, NewMessage, NewMessages, Sent, SentBatch, TopicList

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address. Without a handler it is planned: answered with 501, nothing is done."""

    method: str
    path: str
    summary: str
    action: str
    handler: Handler | None = None
    takes: type[msgspec.Struct] | None = None
    answers: tuple[tuple[int, str, type[msgspec.Struct]], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()


#: The busiest comes first: addresses are looked through in order.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/topics/{topic}/messages", "Send a message", PUBLISH, sending.send_one, NewMessage,
        ((201, "It is on disk.", Sent), (202, "It is taken, not known to be on disk.", Sent)),
    ),
    Operation(
        "POST", "/topics/{topic}/messages:batch", "Send up to 1,000 messages, each on its own", PUBLISH,
        sending.send_several, NewMessages, ((207, "One answer a message, in order.", SentBatch),),
    ),
    Operation("POST", "/messages/{id}:resend", "Send a message again", PUBLISH),
    Operation("POST", "/messages/{id}:deliver-now", "Deliver a waiting message now", PUBLISH),
    Operation("DELETE", "/messages/{id}/schedule", "Cancel a waiting message", PUBLISH),
    Operation("PATCH", "/messages/{id}/schedule", "Move a waiting message to another time", PUBLISH),
    Operation(
        "GET", "/messages/{id}", "Look at a message", READ, looking.message, None,
        ((200, "The message.", FoundMessage),), (("topic", "The topic of a RocketMQ unique id."),),
    ),
    Operation("GET", "/topics", "List topics", READ, looking.topics, None, ((200, "Topics.", TopicList),)),
    Operation("GET", "/groups", "List consumer groups", READ, looking.groups, None, ((200, "Groups.", GroupList),)),
    Operation(
        "GET", "/schedule/levels", "List delay levels", READ, looking.levels, None, ((200, "Levels.", LevelList),)
    ),
    Operation("DELETE", "/topics/{topic}/schedule/{schedule_key}", "Cancel by schedule key", PUBLISH),
    Operation("PATCH", "/topics/{topic}/schedule/{schedule_key}", "Reschedule by schedule key", PUBLISH),
    Operation("POST", "/transactions", "Begin a transaction (send a half message)", PUBLISH),
    Operation("POST", "/transactions/{id}:commit", "Commit a half message", PUBLISH),
    Operation("POST", "/transactions/{id}:rollback", "Roll a half message back", PUBLISH),
    Operation("POST", "/transactions/{id}:check", "Have its producer asked", PUBLISH),
    Operation("GET", "/transactions", "List transactions", READ),
    Operation("POST", "/topics/{topic}/groups/{group}:receive", "Receive messages", READ),
    Operation("POST", "/topics/{topic}/groups/{group}:ack", "Acknowledge messages", READ),
    Operation("POST", "/topics/{topic}/groups/{group}:nack", "Have messages delivered again", READ),
    Operation("POST", "/topics/{topic}/groups/{group}:extend", "Keep messages invisible for longer", READ),
    Operation("GET", "/timers", "List timers", READ),
    Operation("GET", "/timers/forecast", "How many timers are due when", READ),
)  # fmt: skip
