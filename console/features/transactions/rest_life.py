"""One transaction by REST: what is known of it, and what happened to it.

An Apache RocketMQ broker has no such question: there the newest records of its topics are read, as the pages do.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from broker.client import NotSupported
from broker.client.admin_transactions import Transaction, TransactionLife
from console.features.transactions.apache_records import read_newest
from console.features.transactions.shapes import TransactionRow
from console.security.tokens import READ, Grant
from console.site import broker as site_broker

from ...rest.errors import MessageNotFound
from ...rest.grants import require
from ...rest.identifiers import MessageIdentifier, parse
from ...rest.operations_bridge import in_thread
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from .rest_rows import shown
from .rest_schemas import TransactionLifeShown, TransactionMoment


async def transaction(request: Request, grant: Grant, room: Room) -> Response:
    """One by its id; raises MessageNotFound, also for one of a topic that the token must not read."""
    only_parameters(request)
    text: str = request.path_params["id"]
    named = parse(text) if text.startswith("m1") else None
    if named is not None:
        require(grant, READ, named.topic)
    hiding = await room.grants.hiding(grant)
    try:
        found = await _found(named, text, room)
    except NotSupported:
        polled = await _polled(named, text, grant)
        hiding.transaction(polled.transaction)
        return json_answer(polled)
    is_named = named is None or (
        found.topic == named.topic and named.unique_key in ("", found.transaction_id)
    )  # fmt: skip
    if not is_named or not grant.allows(READ, found.topic):
        raise MessageNotFound
    broker = named.broker if named is not None else (await room.admin.brokers())[0].name
    told = hiding.transaction(shown(found, broker))
    return json_answer(TransactionLifeShown(now_ms=found.now_ms, transaction=told, life=_life(found)))


async def _found(named: MessageIdentifier | None, text: str, room: Room) -> TransactionLife:
    if named is None:
        return await room.admin.transaction(text)
    return await room.admin.transaction(position=named.position, address=await room.admin.address_of(named.broker))


def _life(found: TransactionLife) -> list[TransactionMoment]:
    return [
        TransactionMoment(
            event=event.kind, at_ms=event.at_ms, check=event.count, by=event.by or None, reason=event.reason or None,
            queue_id=event.queue_id, queue_offset=event.queue_offset,
        )
        for event in found.life
    ]  # fmt: skip


async def _polled(named: MessageIdentifier | None, text: str, grant: Grant) -> TransactionLifeShown:
    key = named.unique_key if named is not None else text
    found = await in_thread(lambda: read_newest(site_broker.admin()))
    row = next((each for each in found.rows if each.transaction_id == key), None)
    if row is None or not grant.allows(READ, row.topic) or (named is not None and row.topic != named.topic):
        raise MessageNotFound
    moments = [("half", row.store_ms), ("parked", row.parked_ms), ("decided", row.decided_ms)]
    return TransactionLifeShown(
        now_ms=None,
        transaction=shown(_as_told(row), named.broker if named is not None else None),
        life=[TransactionMoment(event=event, at_ms=at_ms) for event, at_ms in moments if at_ms is not None],
    )


def _as_told(row: TransactionRow) -> Transaction:
    return Transaction(
        offset=row.offset, state=row.state.value, position=row.position, group=row.group, topic=row.topic,
        transaction_id=row.transaction_id, keys=list(row.keys), tags=row.tag or None, store_ms=row.store_ms,
        checks=row.checks, parked_ms=row.parked_ms, decided_ms=row.decided_ms,
    )  # fmt: skip
