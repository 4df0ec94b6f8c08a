"""Half queue and op queue side by side: the newest halves, and the op records that decide them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from broker.client import Admin, Message
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC
from console.features.transactions.rows import newest, ops_of, row_of_half
from console.features.transactions.shapes import Board, OpRow, TransactionRow, TransactionState
from console.site.evidence import Evidence

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
