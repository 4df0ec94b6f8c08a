"""Dead letters of consumer groups by REST: list them, give them back to their group, or send them as new messages.

Who may is said by the token's `consume` prefixes, as for receiving as the group; what becomes a new message needs
`publish` on its topic, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct, field
from starlette.responses import Response

from broker.client import BrokerUnreachable
from broker.client.names import check_group
from console.features.dead_letters.pages import read_dead_letters as letters_of
from console.features.dead_letters.shapes import After, DeadLetter, DeadLetterFilter, DeadLetterPage, read_after
from console.operations.actor import RESEND_DEAD_LETTERS
from console.rest.access import Group, InBody, InRows
from console.rest.database import token_actor
from console.rest.errors import InvalidParameter, SchemaViolated, TooManyMatch
from console.rest.operations import begun, in_thread
from console.rest.query import Moment as QueryMoment
from console.rest.query import moment_ms
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, BrokerName, Look, Moment, OfBroker, Place, Reason, Text
from console.rest.several import Missing, of_broker
from console.security.tokens import CONSUME, PUBLISH, READ
from console.site.evidence import StaleReason

_LETTERS = "/groups/{group}/dead-letters"


class DeadLettersQuery(Struct, kw_only=True):
    """The dead letters that a list has."""

    topic: Annotated[str, Meta(description="Only of this topic.")] = ""
    key: Annotated[str, Meta(description="Only with this key, tag or message_id.")] = ""
    error: Annotated[str, Meta(description="Only with this last error, numbers in it aside; - for none.")] = ""
    state: Annotated[
        Literal["", "handled", "all"], Meta(description="Handled ones, or all; without it those not handled.")
    ] = ""
    from_ms: (
        Annotated[
            QueryMoment, Meta(description="RFC 3339 with a zone, or ms since 1970; dead-lettered from this time on.")
        ]
        | None
    ) = field(name="from", default=None)
    to_ms: (
        Annotated[
            QueryMoment, Meta(description="RFC 3339 with a zone, or ms since 1970; dead-lettered before this time.")
        ]
        | None
    ) = field(name="to", default=None)
    broker: BrokerName = ""
    cursor: Annotated[str | None, Meta(description="From the previous page.")] = None


class ChosenLetter(Struct, forbid_unknown_fields=True, kw_only=True):
    """A dead letter of the group, by its queue and its offset there."""

    queue: Place
    offset: Place
    broker: Annotated[
        str, Meta(max_length=255, description="At which it lies; needed where there are several brokers.")
    ] = ""


class DeadLetterConditions(Struct, forbid_unknown_fields=True, kw_only=True):
    """A choice of dead letters: all conditions that are given hold at once. `topic`: in which the group got it."""

    topic: Text | None = None
    key: Annotated[str, Meta(max_length=255, description="A key, a tag or a message_id.")] | None = None
    error: (
        Annotated[str, Meta(max_length=1_000, description="The last error, numbers in it aside; - for none.")] | None
    ) = None
    state: (
        Annotated[Literal["handled", "all"], Meta(description="Handled ones, or all; without it those not handled.")]
        | None
    ) = None
    died_from: Moment | None = None
    died_before: Moment | None = None


class ManyLetters(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 dead letters that are chosen, or up to 10,000 that match and were not sent again before.

    `all: true` is needed for a filter without any condition.
    """

    letters: Annotated[list[ChosenLetter], Meta(min_length=1, max_length=1_000)] | None = None
    filter: DeadLetterConditions | None = None
    all: bool = False
    reason: Reason
    preview: Look = False


#: values of console.operations.fates.Fate
FateWord = Literal["waits", "out", "again", "received", "dead", "unknown"]


class DeadLetterShown(Struct, kw_only=True):
    """A message that the group gave up. `sent_again`: what an operation has done with it since, if anything; `became`:
    what became of it then, as far as it is known, and `became_id`: the offset id of the record that says so;
    `last_error`: why its handler gave it up, where that was reported; `state`: `handled`, or null."""

    queue: int
    offset: int
    topic: str
    message_id: str | None
    offset_message_id: str
    keys: list[str]
    tag: str | None
    born_ms: int
    died_ms: int
    attempts: int
    size_bytes: int
    sent_again: str | None
    became: FateWord | None
    became_id: str | None
    last_error: str | None
    state: str | None
    broker: str


class DeadLetterRows(Struct, kw_only=True):
    """Dead letters, the newest first. While there is a `cursor`, there may be more, also behind a short page; brokers
    in `brokers_missing` did not answer."""

    letters: list[DeadLetterShown]
    cursor: str | None
    brokers_missing: Missing


@route(
    "GET",
    _LETTERS,
    "List the dead letters of a group",
    action=READ,
    on=(Group(), InRows()),
    answers=((200, "A page of them.", DeadLetterRows),),
)
async def dead_letters(call: Call, query: DeadLettersQuery) -> Response:
    """List a page of them, the newest first; only those of topics that the token may read."""
    group = _group(call)
    wanted = DeadLetterFilter(query.topic[:255], query.key[:255], query.from_ms, query.to_ms, query.error, query.state)
    after, is_visible = _after(query.cursor), call.row_check()

    def read() -> DeadLetterPage:
        with of_broker(query.broker):
            return letters_of(group, wanted, after, is_visible)

    found = await in_thread(read)
    missing = list(found.evidence.stale_of)
    if found.evidence.stale_reason not in (None, StaleReason.NOT_THERE) and found.total is None:
        raise BrokerUnreachable(found.evidence.source, found.evidence.detail)
    hiding = await call.hiding()
    rows = [_letter(hiding.row(row, row.topic)) for row in found.rows]
    return json_answer(DeadLetterRows(letters=rows, cursor=found.cursor, brokers_missing=missing))


@route(
    "POST",
    f"{_LETTERS}:send-back",
    "Resend dead letters to their group",
    action=CONSUME,
    permission=RESEND_DEAD_LETTERS,
    on=(Group(), InBody()),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(TooManyMatch,),
    example={"filter": {"topic": "orders"}, "reason": "the shop was down", "preview": True},
)
async def send_back(call: Call, query: OfBroker, body: ManyLetters) -> Response:
    """Give dead letters to their group for one more attempt."""
    return await _begin(call, "dead_letters.send_back", query.broker, body, CONSUME)


@route(
    "POST",
    f"{_LETTERS}:send-as-new",
    "Resend dead letters as new messages, for every group",
    action=CONSUME,
    permission=RESEND_DEAD_LETTERS,
    on=(Group(), InBody(), InBody(PUBLISH)),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(TooManyMatch,),
    example={"filter": {"topic": "orders"}, "reason": "the shop was down", "preview": True},
)
async def send_as_new(call: Call, query: OfBroker, body: ManyLetters) -> Response:
    """Send dead letters as new messages of their topics, which every group gets."""
    return await _begin(call, "dead_letters.send_as_new", query.broker, body, CONSUME, PUBLISH)


_ANSWERS = (BEGUN_OR_WAITS, PREVIEWED)
_EXAMPLE = {"filter": {"topic": "orders", "error": "no such account"}, "reason": "paid by hand", "preview": True}


@route(
    "POST",
    f"{_LETTERS}:mark-handled",
    "Mark dead letters as handled",
    action=CONSUME,
    permission=RESEND_DEAD_LETTERS,
    on=(Group(), InBody()),
    answers=_ANSWERS,
    errors=(TooManyMatch,),
    example=_EXAMPLE,
)
async def mark_handled(call: Call, query: OfBroker, body: ManyLetters) -> Response:
    """Say that nothing more has to be done about dead letters; nothing is sent, also of those resent before."""
    return await _begin(call, "dead_letters.mark_handled", query.broker, body, CONSUME)


@route(
    "POST",
    f"{_LETTERS}:reopen",
    "Mark dead letters as not handled",
    action=CONSUME,
    permission=RESEND_DEAD_LETTERS,
    on=(Group(), InBody()),
    answers=_ANSWERS,
    errors=(TooManyMatch,),
    example={"filter": {"state": "handled"}, "reason": "it was another one", "preview": True},
)
async def reopen(call: Call, query: OfBroker, body: ManyLetters) -> Response:
    """Take the mark away; a filter needs `state: handled` to find them."""
    return await _begin(call, "dead_letters.reopen", query.broker, body, CONSUME)


@route(
    "POST",
    f"{_LETTERS}:hide",
    "Hide dead letters for good",
    action=CONSUME,
    permission=RESEND_DEAD_LETTERS,
    on=(Group(), InBody()),
    answers=_ANSWERS,
    errors=(TooManyMatch,),
    example=_EXAMPLE,
)
async def hide(call: Call, query: OfBroker, body: ManyLetters) -> Response:
    """Leave them out of every list. No broker deletes single messages: records stay until their retention ends."""
    return await _begin(call, "dead_letters.hide", query.broker, body, CONSUME)


async def _begin(call: Call, kind: str, broker: str, wanted: ManyLetters, *actions: str) -> Response:
    """Begin the operation, if the token allows these actions on the topics of the letters."""
    if (wanted.filter is None) == (wanted.letters is None):
        raise SchemaViolated("Give filter or letters, and not both.")
    parameters: dict[str, Any] = {"group": _group(call)}
    if wanted.letters is not None:
        parameters["targets"] = [
            {"queueId": each.queue, "offset": each.offset, **({"broker": each.broker} if each.broker else {})}
            for each in wanted.letters
        ]
    else:
        parameters |= {"filter": _filter(wanted.filter), "is_all": wanted.all}
    actor, allow = token_actor(call.grant, frozenset((RESEND_DEAD_LETTERS,))), call.preview_check(*actions)
    return await begun(kind, parameters, wanted.reason, actor, allow=allow, is_look=wanted.preview, broker=broker)


def _group(call: Call) -> str:
    group = call.named["group"]
    check_group(group)
    return group


def _filter(chosen: DeadLetterConditions | None) -> dict[str, Any]:
    chosen = chosen or DeadLetterConditions()
    bounds = {"from_ms": ("died_from", chosen.died_from), "to_ms": ("died_before", chosen.died_before)}
    moments = {name: None if given is None else moment_ms(given, field) for name, (field, given) in bounds.items()}
    texts = {name: getattr(chosen, name) or "" for name in ("topic", "key", "error", "state")}
    return {**texts, **moments}


def _after(cursor: str | None) -> After:
    if cursor is None:
        return None
    after = read_after(cursor)
    if after is None:
        raise InvalidParameter(f"The cursor {cursor[:40]!r} is none of this list's; begin without one.")
    return after


def _letter(row: DeadLetter) -> DeadLetterShown:
    return DeadLetterShown(
        queue=row.queue_id,
        offset=row.offset,
        topic=row.topic,
        message_id=row.unique_key or None,
        offset_message_id=row.offset_message_id,
        keys=list(row.keys),
        tag=row.tag or None,
        born_ms=row.born_ms,
        died_ms=row.died_ms,
        attempts=row.attempts,
        size_bytes=row.size_bytes,
        sent_again=row.sent_again or None,
        became=None if row.became is None else cast(FateWord, row.became.fate.value),
        became_id=None if row.became is None else row.became.message_id or None,
        last_error=row.last_error or None,
        state=row.state or None,
        broker=row.broker,
    )
