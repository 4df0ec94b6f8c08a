"""Transactions by REST: list them, and look at one and what happened to it.

`{id}` is our id of a half, or RocketMQ's transaction id. An Apache RocketMQ broker cannot be asked for one transaction:
there the newest records of its topics are read, as for the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import AsyncAdmin, BrokerRefused, ClientError, NotSupported
from broker.client.errors import Answer
from broker.client.names import check_topic
from broker.client.transactions import Transaction, TransactionLife, TransactionPage
from broker.rocketmq.properties import SCHEDULE_KEY, UNIQUE_KEY
from console.features.transactions.records import Newest, read_newest
from console.features.transactions.shapes import TransactionRow
from console.features.transactions.total import behind, start_of
from console.rest.access import InRecord, InRows
from console.rest.errors import InvalidParameter, MessageNotFound
from console.rest.identifiers import MessageIdentifier, parse, written
from console.rest.masking import Masked
from console.rest.operations import in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.several import Missing, OnlyOf, Page, asked, first_found, places_of, tell_each
from console.rest.state import ApiState
from console.security.tokens import READ
from console.site import broker as site_broker
from console.site.broker import at
from console.site.clock import now_ms
from console.site.merged import Part, Place, Places, merged
from console.site.parsing import whole_number
from console.site.reading_on import fill_waiting


class TransactionsQuery(Struct, kw_only=True):
    """The transactions that a list has."""

    state: Annotated[Literal["open", "parked", "decided"], Meta(description="open (default), parked or decided.")] = (
        "open"
    )
    topic: Annotated[str, Meta(description="Only of this topic.")] = ""
    producer_group: Annotated[str, Meta(description="Only of this group.")] = ""
    older_than_ms: Annotated[int, Meta(le=2**53, description="Least age of the half; not with decided.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="1 to 1,000, 100 by default.")] = 100
    cursor: Annotated[str, Meta(description="From the previous page.")] | None = None
    broker: OnlyOf | None = None


class TransactionShown(Struct, kw_only=True):
    """A transaction. `state`: open, due (asked as soon as a producer is there), ending, parked, committed,
    rolled back, or decided (a record of Apache RocketMQ does not say how)."""

    id: str | None
    transaction_id: str | None
    state: str
    topic: str
    producer_group: str
    keys: list[str]
    tag: str | None
    schedule_key: str | None
    timer_act: Annotated[
        Literal["cancel", "move"] | None,
        Meta(description="What its commit does to the timer of `schedule_key`, instead of delivering a message."),
    ]
    stored_ms: int | None
    checks: int | None
    next_check_ms: int | None
    parked_ms: int | None
    decided_ms: int | None
    decided_by: str | None
    reason: str | None
    producers: Annotated[list[str], Meta(description="Client ids that a check would go to, at most ten.")]
    broker: str | None


class TransactionRows(Struct, kw_only=True):
    """Transactions, oldest half first; decided ones, newest decision first. While there is a `cursor`, there may be
    more, also behind a page that is short: give it back for the next page."""

    now_ms: int
    transactions: list[TransactionShown]
    cursor: str | None
    brokers_missing: Missing


class TransactionMoment(Struct, kw_only=True):
    """A moment in the life of a transaction. `event`: half, check (`check`: which one), parked, resumed, committed,
    rolled back, decided, scheduled, delivered (in its topic, at `queue_id` and `queue_offset`), timer cancelled, timer
    moved, nothing changed (a commit that acts on a timer)."""

    event: str
    at_ms: int
    check: int | None = None
    by: str | None = None
    reason: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


class TransactionLifeShown(Struct, kw_only=True):
    """A transaction and what happened to it, oldest first. On Apache RocketMQ from the newest records of its topics:
    neither checks nor who decided are told there, and `now_ms` is null."""

    now_ms: int | None
    transaction: TransactionShown
    life: list[TransactionMoment]


@route(
    "GET",
    "/transactions",
    "List transactions",
    action=READ,
    on=InRows(),
    answers=((200, "A page of them.", TransactionRows),),
)
async def transactions(call: Call, query: TransactionsQuery) -> Response:
    """List open, parked or decided ones; only those of topics that the token may read."""
    if query.topic:
        check_topic(query.topic)
        call.require(query.topic)
    admins, is_visible = await asked(call.state, query.broker), call.row_check()
    page, found, cursor = await fill_waiting(
        lambda place, step: _page(admins, query, place, step),
        lambda page: (page.rows, page.cursor),
        lambda each: is_visible(each[1].topic),
        query.cursor,
        query.limit,
    )
    hiding = await call.hiding()
    rows = [_hide(_shown(each, broker), hiding.of(each.topic)) for broker, each in found]
    return json_answer(
        TransactionRows(now_ms=page.now_ms, transactions=rows, cursor=cursor, brokers_missing=page.missing)
    )


#: a transaction with its broker
Placed = tuple[str, Transaction]


async def _page(
    admins: Mapping[str, AsyncAdmin], query: TransactionsQuery, cursor: str | None, count: int
) -> Page[Transaction]:
    is_one, is_decided = len(admins) == 1, query.state == "decided"
    if is_one:
        places: Places = dict.fromkeys(admins, _offset(cursor)) if cursor else {}
    else:
        places = places_of(cursor)

    async def page(broker: str, admin: AsyncAdmin) -> TransactionPage:
        if broker in places and places[broker] is None:
            return TransactionPage(now_ms(), [])
        begin, half = start_of(places.get(broker))
        found = await admin.transactions(
            query.state,
            after=begin,
            count=count,
            group=query.producer_group,
            topic=query.topic,
            older_than_ms=query.older_than_ms,
        )
        return msgspec.structs.replace(found, items=list(behind(found.items, half)))

    found, missing = await tell_each(admins, page)
    at_ms = min(each.now_ms for each in found.values())
    parts = [Part(broker, [(broker, each) for each in page.items], page.following) for broker, page in found.items()]
    if is_one:
        following = parts[0].following
        return Page(at_ms, parts[0].rows, None if following is None else str(following), missing)

    def key(row: Placed) -> int:
        return -(row[1].decided_ms or 0) if is_decided else row[1].store_ms or 0

    def place(row: Placed) -> Place:
        begin = start_of(places.get(row[0]))[0]
        return f"{'' if begin is None else begin}:{row[1].offset}" if is_decided else row[1].offset

    whole = merged(parts, before=places, key=key, place=place, count=count)
    return Page(at_ms, whole.rows, whole.cursor, missing)


def _offset(cursor: str) -> int:
    offset = whole_number(cursor, 0, 2**62)
    if offset is None:
        raise InvalidParameter(f"The cursor {cursor[:40]!r} is none of this list's; begin without one.")
    return offset


@route(
    "GET",
    "/transactions/{id}",
    "Get a transaction",
    action=READ,
    on=InRecord(),
    answers=((200, "The transaction, and what happened to it.", TransactionLifeShown),),
    errors=(MessageNotFound,),
)
async def transaction(call: Call) -> Response:
    """Answer one by its id; raises MessageNotFound, also for one of a topic that the token must not read."""
    text = call.named["id"]
    named = parse(text) if text.startswith("m1") else None
    if named is not None:
        call.require(named.topic)
    hiding = await call.hiding()
    try:
        broker, found = await _found(named, text, call.state)
    except NotSupported:
        newest = await _among_newest(named, text, call)
        _hide(newest.transaction, hiding.of(newest.transaction.topic))
        return json_answer(newest)
    is_named = named is None or (found.topic == named.topic and named.unique_key in ("", found.transaction_id))
    if not is_named or not call.allows(found.topic):
        raise MessageNotFound
    told = _hide(_shown(found, broker), hiding.of(found.topic))
    return json_answer(TransactionLifeShown(now_ms=found.now_ms, transaction=told, life=_life(found)))


def _hide(row: TransactionShown, masked: Masked) -> TransactionShown:
    """Mask a row in place, and return it."""
    row.transaction_id = masked.text(UNIQUE_KEY, row.transaction_id)
    row.schedule_key = masked.text(SCHEDULE_KEY, row.schedule_key)
    row.id = None if row.id is None else masked.identifier(row.id)
    return masked.label(row)


def _shown(each: Transaction, broker: str | None) -> TransactionShown:
    """Return a row of the answer, without an id where its record or its broker is not known."""
    is_named = each.position is not None and broker is not None
    return TransactionShown(
        id=written(broker or "", each.topic, each.position or 0, each.transaction_id or "") if is_named else None,
        transaction_id=each.transaction_id,
        state=each.state,
        topic=each.topic,
        producer_group=each.group,
        keys=each.keys,
        tag=each.tag,
        schedule_key=each.schedule_key,
        timer_act=each.timer_act,
        stored_ms=each.store_ms,
        checks=each.checks,
        next_check_ms=each.next_check_ms,
        parked_ms=each.parked_ms,
        decided_ms=each.decided_ms,
        decided_by=each.by or None,
        reason=each.reason or None,
        producers=each.producers,
        broker=broker,
    )


async def _found(named: MessageIdentifier | None, text: str, state: ApiState) -> tuple[str, TransactionLife]:
    """Return a transaction with its broker: the one that the id names, or that has one with this transaction id.

    Raises NotSupported where it may be at a broker that cannot be asked for one.
    """
    if named is None:
        return await first_found(await asked(state, None), lambda _broker, admin: admin.transaction(text), is_not_there)
    address = await state.admin.address_of(named.broker)
    return named.broker, await state.admin.transaction(position=named.position, address=address)


def is_not_there(error: ClientError) -> bool:
    """Tell whether a broker says that it has no such half."""
    return isinstance(error, BrokerRefused) and error.code == Answer.QUERY_NOT_FOUND


def _life(found: TransactionLife) -> list[TransactionMoment]:
    return [
        TransactionMoment(
            event=event.kind,
            at_ms=event.at_ms,
            check=event.count,
            by=event.by or None,
            reason=event.reason or None,
            queue_id=event.queue_id,
            queue_offset=event.queue_offset,
        )
        for event in found.life
    ]


async def _among_newest(named: MessageIdentifier | None, text: str, call: Call) -> TransactionLifeShown:
    """Look among the newest records of the broker that the id names, or of each that cannot be asked."""
    key = named.unique_key if named is not None else text
    several = await asked(call.state, None)
    names = [named.broker if named is not None else broker for broker in several][: 1 if named else None]
    row, broker = None, ""
    for broker in names:
        found = await in_thread(partial(_newest, broker if len(several) > 1 else ""))
        row = next((each for each in found.rows if each.transaction_id == key), None) if found else None
        if row is not None:
            break
    if row is None or not call.allows(row.topic) or (named is not None and row.topic != named.topic):
        raise MessageNotFound
    moments = [("half", row.store_ms), ("parked", row.parked_ms), ("decided", row.decided_ms)]
    # without an id of ours it was found by its transaction id alone
    named_at = named.broker if named is not None else broker if len(several) > 1 else None
    return TransactionLifeShown(
        now_ms=None,
        transaction=_shown(_as_told(row), named_at),
        life=[TransactionMoment(event=event, at_ms=at_ms) for event, at_ms in moments if at_ms is not None],
    )


def _newest(broker: str) -> Newest | None:
    """Read the newest records of a broker; None of one that can be asked for a transaction, or does not answer."""
    with at(broker):
        if not broker:
            return read_newest(site_broker.admin())
        try:
            site_broker.admin().transaction_status()
        except NotSupported:
            return read_newest(site_broker.admin())
        except ClientError:
            return None
        return None


def _as_told(row: TransactionRow) -> Transaction:
    return Transaction(
        offset=row.offset,
        state=row.state.value,
        position=row.position,
        group=row.group,
        topic=row.topic,
        transaction_id=row.transaction_id,
        keys=list(row.keys),
        tag=row.tag or None,
        schedule_key=row.schedule_key or None,
        store_ms=row.store_ms,
        checks=row.checks,
        parked_ms=row.parked_ms,
        decided_ms=row.decided_ms,
    )
