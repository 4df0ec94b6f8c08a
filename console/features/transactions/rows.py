"""The broker's transactions in the shapes of the pages: the one place that knows the client's types.

On the board half queue and op queue stand side by side: the newest halves, and the op records that decide them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.client import Admin, Message
from broker.client.transactions import Transaction, ends_of, op_records
from broker.rocketmq.properties import CHECK_TIMES, DELAY, PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC
from console.features.transactions.shapes import (
    Board,
    LifeEvent,
    OpRow,
    TransactionEvent,
    TransactionFilter,
    TransactionRow,
    TransactionState,
)
from console.site.broker import pull_all
from console.site.evidence import Evidence

#: rows of one request, the broker's own limit
PAGE = 1_000
#: how far the broker's clock may be behind the console's
_CLOCKS_APART_MS = 10_000
_WORDS = {True: TransactionState.COMMITTED, False: TransactionState.ROLLED_BACK, None: TransactionState.DECIDED}


def row_of(found: Transaction) -> TransactionRow:
    """A transaction of the client as a row."""
    return TransactionRow(
        offset=found.offset,
        state=_state(found.state),
        position=found.position,
        group=found.group,
        topic=found.topic,
        queue_id=found.queue_id,
        transaction_id=found.transaction_id or "",
        keys=tuple(found.keys),
        tag=found.tags or "",
        store_ms=found.store_ms,
        born_ms=found.born_ms,
        born_host=found.born_host or "",
        body_bytes=found.body_bytes,
        delay_level=found.delay_level or "",
        checks=found.checks,
        next_check_ms=found.next_check_ms,
        parked_ms=found.parked_ms,
        copy_position=found.copy_position,
        decided_ms=found.decided_ms,
        by=found.by,
        reason=found.reason,
        producers=tuple(found.producers),
    )


def page_of(
    admin: Admin, wanted: TransactionFilter, *, now_ms: int, after: int | None, count: int
) -> tuple[list[TransactionRow], int | None]:  # fmt: skip
    """A page of one state, and where the next begins; it may be short and yet have a next.

    The broker is asked by age, and its clock is another one: asked for a little more, what is too new is left out here.
    """
    found = admin.transactions(
        _asked(wanted.state),
        after=after,
        count=min(count, PAGE),
        group=wanted.group,
        topic=wanted.topic,
        older_than_ms=None if wanted.before_ms is None else max(0, now_ms - wanted.before_ms - _CLOCKS_APART_MS),
    )
    rows = [row_of(each) for each in found.items]
    return [row for row in rows if wanted.takes(row)], found.following


def pages_of(admin: Admin, wanted: TransactionFilter, *, now_ms: int) -> Iterator[list[TransactionRow]]:
    """Yield all pages of one state."""
    after: int | None = None
    while True:
        rows, after = page_of(admin, wanted, now_ms=now_ms, after=after, count=PAGE)
        yield rows
        if after is None:
            return


def life_of(admin: Admin, position: int, store_address: str) -> tuple[TransactionRow, tuple[LifeEvent, ...]]:
    """One transaction by its half's position, and its events; raises BrokerRefused (22: no such half)."""
    found = admin.transaction(position=position)
    events = tuple(
        LifeEvent(
            kind=TransactionEvent(event.kind),
            ms=event.at_ms,
            position=event.position,
            count=event.count,
            by=event.by,
            reason=event.reason,
            topic=event.topic or "",
            queue_id=event.queue_id,
            queue_offset=event.queue_offset,
            message_id=offset_id(store_address, event.position) if event.kind in ("delivered", "scheduled") else "",
        )
        for event in found.life
    )
    return row_of(found), events


def offset_id(store_address: str, position: int | None) -> str:
    """RocketMQ's offset message id: address, port and position in hexadecimal; empty if the address has no numbers."""
    host, _, port = store_address.rpartition(":")
    try:
        packed = ipaddress.ip_address(host.strip("[]")).packed
    except ValueError:
        return ""
    if position is None or not port.isdigit():
        return ""
    return f"{packed.hex()}{int(port):08x}{position:016x}".upper()


def newest(admin: Admin, topic: str, count: int) -> tuple[list[Message], int]:
    """The newest records of queue 0 of a topic that transactions use, oldest first, and how many the queue holds.

    Nothing where the topic is not there yet; raises ClientError.
    """
    ends = ends_of(admin.topic_stats, topic)
    if ends is None or ends[1] <= ends[0]:
        return [], 0
    start = max(ends[0], ends[1] - count)
    return pull_all(admin, topic, 0, start, ends[1] - start), ends[1] - ends[0]


def ops_of(records: Iterable[Message]) -> tuple[OpRow, ...]:
    """Op records in their order; one of Apache RocketMQ says that halves were decided, not how."""
    return tuple(
        OpRow(each.offset, each.position, each.store_ms, each.halves, tuple(_WORDS[commit] for commit in each.commits))
        for each in op_records(records)
    )


def row_of_half(record: Message, state: TransactionState) -> TransactionRow:
    """A half record as a row, with what it says of itself."""
    properties: Mapping[str, Any] = record.properties
    queue_id, checks = properties.get(REAL_QUEUE_ID, ""), properties.get(CHECK_TIMES, "")
    host, port = record.born_host
    return TransactionRow(
        offset=record.queue_offset,
        state=state,
        position=record.position,
        group=properties.get(PRODUCER_GROUP, ""),
        topic=properties.get(REAL_TOPIC, ""),
        queue_id=int(queue_id) if queue_id.isdigit() else None,
        transaction_id=record.unique_key or "",
        keys=tuple(record.keys),
        tag=record.tags or "",
        store_ms=record.store_ms,
        born_ms=record.born_ms,
        born_host=f"{host}:{port}",
        body_bytes=len(record.body),
        delay_level=properties.get(DELAY, ""),
        checks=int(checks) if checks.isdigit() and len(checks) < 6 else None,
    )


def _asked(state: str) -> Any:
    return state if state in ("open", "parked", "decided") else "open"


def _state(word: str) -> TransactionState:
    return TransactionState(word) if word in TransactionState.values else TransactionState.UNKNOWN


#: topic stats, pull
BOARD_REQUESTS = (202, 11)
#: halves drawn, and op records looked through for what decides them
HALVES = 14
OPS = 64


@dataclass(frozen=True, slots=True)
class Pulled:
    """The newest records of both topics, oldest first, and how many each holds."""

    halves: Sequence[Message]
    halves_total: int
    ops: Sequence[Message]
    ops_total: int


def pulled(admin: Admin) -> Pulled:
    """Halves first: each may have been decided by the time that the op records are read, never the other way."""
    halves, halves_total = newest(admin, HALF_TOPIC, HALVES)
    ops, ops_total = newest(admin, OP_TOPIC, OPS)
    return Pulled(halves, halves_total, ops, ops_total)


def board_of(evidence: Evidence, found: Pulled, known: Iterable[TransactionRow]) -> Board:
    """The drawing's facts; `known`: rows that the broker lists, which say more than the records do."""
    listed = {row.offset: row for row in known}
    ops = ops_of(found.ops)
    said: Mapping[int, TransactionState] = {
        offset: word for op in ops for offset, word in zip(op.halves, op.words, strict=True)
    }
    rows = tuple(_row(record, listed.get(record.queue_offset), said) for record in found.halves)
    shown = {row.offset for row in rows}
    return Board(
        evidence=evidence,
        halves=rows,
        ops=tuple(_part(op, shown) for op in ops if shown.intersection(op.halves)),
        ops_read=len(found.ops),
        ops_total=found.ops_total,
        halves_total=found.halves_total,
    )


def _row(record: Message, listed: TransactionRow | None, said: Mapping[int, TransactionState]) -> TransactionRow:
    """An op record is final; what is listed as open was read before or after it."""
    word = said.get(record.queue_offset)
    if listed is not None and (word is None or not listed.is_undecided):
        return listed
    return row_of_half(record, word or TransactionState.UNKNOWN)


def _part(op: OpRow, shown: set[int]) -> OpRow:
    """The offsets of an op record that are drawn."""
    pairs = [(half, word) for half, word in zip(op.halves, op.words, strict=True) if half in shown]
    return replace(op, halves=tuple(half for half, _ in pairs), words=tuple(word for _, word in pairs))
