"""Dead letters and offsets of consumer groups by REST: list and resend dead letters, move a group to other offsets.

Who may is said by the token's `consume` prefixes, as for receiving as the group; what becomes a new message needs
`publish` on its topic, too, and a move of the group `settings` on the group.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client import BrokerUnreachable
from broker.client.names import check_group, check_topic
from console.features.dead_letters.read import read_dead_letters as letters_of
from console.features.dead_letters.shapes import DeadLetter, DeadLetterFilter, DeadLetterPage
from console.features.messages.rest import only_parameters
from console.features.timers.rest_bulk import MAX_BODY_BYTES, actor_of
from console.features.timers.rest_bulk_schemas import OperationShown
from console.operations.actor import RESEND_DEAD_LETTERS, RESET_OFFSETS
from console.rest.choice_schemas import (
    DeadLetterConditions,
    DeadLetterRows,
    DeadLetterShown,
    ManyLetters,
    NewOffsets,
    OperationPreview,
)
from console.rest.errors import InvalidParameter, SchemaViolated
from console.rest.moments import moment_ms, parameter_ms
from console.rest.needs import SOMEWHERE, Need
from console.rest.operations_bridge import allowed, begun, in_thread
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Operation
from console.rest.state import Room
from console.security.tokens import CONSUME, PUBLISH, READ, SETTINGS, Grant
from console.site.evidence import StaleReason

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]
_CURSOR = re.compile(r"(\d{1,9})-(\d{1,18})", re.ASCII)
_many = msgspec.json.Decoder(ManyLetters)
_offsets = msgspec.json.Decoder(NewOffsets)


async def dead_letters(request: Request, grant: Grant, room: Room) -> Response:
    """A page of them, the newest first; only those of topics that the token may read."""
    only_parameters(request, "topic", "key", "from", "to", "cursor")
    group, given = _group(request), request.query_params
    bounds = [parameter_ms(given[name], name) if name in given else None for name in ("from", "to")]
    wanted = DeadLetterFilter(given.get("topic", "")[:255], given.get("key", "")[:255], *bounds)
    after = _after(given.get("cursor"))
    found: DeadLetterPage = await in_thread(
        lambda: letters_of(group, wanted, after, lambda topic: grant.allows(READ, topic))
    )
    if found.evidence.stale_reason not in (None, StaleReason.NOT_THERE):
        raise BrokerUnreachable(found.evidence.source, found.evidence.detail)
    hiding = await room.grants.hiding(grant)
    rows = [_letter(hiding.row(row, row.topic)) for row in found.rows]
    cursor = None if found.following is None else "{}-{}".format(*found.following)
    return json_answer(DeadLetterRows(letters=rows, cursor=cursor))


def sending(act: str) -> Handler:
    """The handler of `send_back` or `send_as_new`."""

    async def handler(request: Request, grant: Grant, room: Room) -> Response:
        only_parameters(request)
        group = _group(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), _many)
        if (wanted.filter is None) == (wanted.letters is None):
            raise SchemaViolated("Give filter or letters, and not both.")
        parameters: dict[str, Any] = {"group": group}
        if wanted.letters is not None:
            parameters["targets"] = [{"queueId": each.queue, "offset": each.offset} for each in wanted.letters]
        else:
            parameters |= {"filter": _filter(wanted.filter), "is_all": wanted.all}
        actor = replace(actor_of(grant), permissions=frozenset((RESEND_DEAD_LETTERS,)))
        allow = allowed(grant, CONSUME, *((PUBLISH,) if act == "send_as_new" else ()))
        return await begun(
            f"dead_letters.{act}", parameters, wanted.reason, actor, allow=allow, is_look=wanted.preview
        )  # fmt: skip

    handler.__doc__ = "Send dead letters again."
    return handler


async def reset_offsets(request: Request, grant: Grant, room: Room) -> Response:
    """Have the group go on elsewhere in the topic: messages are given out again, or skipped."""
    only_parameters(request)
    topic, group = request.path_params["topic"], _group(request)
    check_topic(topic)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _offsets)
    if (wanted.at is not None) != (wanted.to == "time") or (wanted.offsets is not None) != (wanted.to == "offsets"):
        raise SchemaViolated("`at` is given with to: time, `offsets` with to: offsets, and nothing else.")
    parameters: dict[str, Any] = {"group": group, "topic": topic, "to": wanted.to}
    if wanted.at is not None:
        parameters["at_ms"] = moment_ms(wanted.at, "at")
    if wanted.offsets is not None:
        parameters["offsets"] = [list(pair) for pair in wanted.offsets]
    actor = replace(actor_of(grant), permissions=frozenset((RESET_OFFSETS,)))
    return await begun("groups.reset_offsets", parameters, wanted.reason, actor, is_look=wanted.preview)


def _group(request: Request) -> str:
    """The group of the address."""
    group: str = request.path_params["group"]
    check_group(group)
    return group


def _filter(chosen: DeadLetterConditions | None) -> dict[str, Any]:
    chosen = chosen or DeadLetterConditions()
    bounds = {"from_ms": ("died_from", chosen.died_from), "to_ms": ("died_before", chosen.died_before)}
    moments = {name: None if given is None else moment_ms(given, field) for name, (field, given) in bounds.items()}
    return {"topic": chosen.topic or "", "key": chosen.key or "", **moments}


def _after(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    place = _CURSOR.fullmatch(cursor)
    if place is None:
        raise InvalidParameter(f"The cursor {cursor[:40]!r} is none of this list's; begin without one.")
    return int(place[1]), int(place[2])


def _letter(row: DeadLetter) -> DeadLetterShown:
    return DeadLetterShown(
        queue=row.queue_id, offset=row.offset, topic=row.topic, message_id=row.unique_key or None,
        offset_message_id=row.offset_message_id, keys=list(row.keys), tag=row.tag or None, born_ms=row.born_ms,
        died_ms=row.died_ms, attempts=row.attempts, size_bytes=row.size_bytes, sent_again=row.sent_again or None,
    )  # fmt: skip


_LETTERS = "/groups/{group}/dead-letters"
_BEGUN = (202, "It runs, has run, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what it would touch.", OperationPreview)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", _LETTERS, "List the dead letters of a group", READ, dead_letters, None,
        ((200, "A page of them.", DeadLetterRows),),
        (
            ("topic", "Only of this topic."), ("key", "Only with this key, tag or message_id."),
            ("from", "RFC 3339 with a zone, or ms since 1970; died from this moment on."),
            ("to", "RFC 3339 with a zone, or ms since 1970; died before this moment."),
            ("cursor", "From the page before."),
        ),
        "rows",
    ),
    Operation(
        "POST", f"{_LETTERS}:send-back", "Give dead letters to their group once more", CONSUME,
        sending("send_back"), ManyLetters, (_BEGUN, _PREVIEW), narrows="body",
    ),
    Operation(
        "POST", f"{_LETTERS}:send-as-new", "Send dead letters as new messages, for every group", CONSUME,
        sending("send_as_new"), ManyLetters, (_BEGUN, _PREVIEW), narrows="body",
        needs=(Need((CONSUME,), "group", "group"), Need((PUBLISH,), SOMEWHERE)),
    ),
    Operation(
        "POST", "/topics/{topic}/groups/{group}:reset-offsets", "Have a group go on elsewhere in a topic", SETTINGS,
        reset_offsets, NewOffsets, (_BEGUN, _PREVIEW),
        needs=(Need((CONSUME,), "topic"), Need((CONSUME,), "group", "group"), Need((SETTINGS,), "group", "group")),
    ),
)  # fmt: skip
