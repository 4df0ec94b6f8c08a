"""Transactions of a broker as rows, from the client's types and from records; on Apache RocketMQ from records alone.

On the board half queue and op queue stand side by side: the newest halves, and the op records that decide them.

Of an Apache RocketMQ broker the newest records of its half, op and parked topics are pulled. What they say, and what
they do not, stands in broker.client.transactions. They are decided by END_TRANSACTION for each as its producer would
send it, and resumed by request 323.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.client import Admin, BrokerRefused, ClientError, Decision, Message
from broker.client.transactions import Action, Transaction, ends_of, op_records, transactions_of
from broker.rocketmq.codes import Request
from broker.rocketmq.properties import CHECK_TIMES, DELAY, PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from console.features.transactions.shapes import (
    FIRST_COUNT,
    Board,
    LifeEvent,
    OpRow,
    TransactionEvent,
    TransactionFigures,
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
    TransactionState,
)
from console.features.transactions.total import behind, part_of, start_of
from console.operations.kind import ItemResult
from console.site.broker import ask, pull_all
from console.site.evidence import Evidence
from console.site.merged import Place
from console.site.mirrored import Mirrored, mirrored

_WORDS = {True: TransactionState.COMMITTED, False: TransactionState.ROLLED_BACK, None: TransactionState.DECIDED}
#: halves drawn, and op records looked through for what decides them
HALVES = 14
OPS = 64
REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.PULL_MESSAGE)
#: newest records that are read of each topic: eight pulls of 32, as much as such a broker gives from memory at once
NEWEST = 256


def row_of(found: Transaction) -> TransactionRow:
    """Return a transaction of the client as a row."""
    return TransactionRow(
        offset=found.offset,
        state=_state(found.state),
        position=found.position,
        group=found.group,
        topic=found.topic,
        queue_id=found.queue_id,
        transaction_id=found.transaction_id or "",
        keys=tuple(found.keys),
        tag=found.tag or "",
        store_ms=found.store_ms,
        born_ms=found.born_ms,
        born_host=found.born_host or "",
        body_bytes=found.body_bytes,
        delay_level=found.delay_level or "",
        schedule_key=found.schedule_key or "",
        timer_act=found.timer_act or "",
        checks=found.checks,
        next_check_ms=found.next_check_ms,
        parked_ms=found.parked_ms,
        copy_position=found.copy_position,
        decided_ms=found.decided_ms,
        by=found.by,
        reason=found.reason,
        producers=tuple(found.producers),
    )


def _state(word: str) -> TransactionState:
    return TransactionState(word) if word in TransactionState.values else TransactionState.UNKNOWN


def offset_id(store_address: str, position: int | None) -> str:
    """Return RocketMQ's offset message id: address, port and position in hex; empty if the address has no numbers."""
    host, _, port = store_address.rpartition(":")
    try:
        packed = ipaddress.ip_address(host.strip("[]")).packed
    except ValueError:
        return ""
    if position is None or not port.isdigit():
        return ""
    return f"{packed.hex()}{int(port):08x}{position:016x}".upper()


def newest(admin: Admin, topic: str, count: int) -> tuple[list[Message], int]:
    """Return the newest records of a transaction topic's queue 0, oldest first, and how many the queue holds.

    Nothing where the topic is not there yet; raises ClientError.
    """
    ends = ends_of(admin.topic_stats, topic)
    if ends is None or ends[1] <= ends[0]:
        return [], 0
    start = max(ends[0], ends[1] - count)
    return pull_all(admin, topic, 0, start, ends[1] - start), ends[1] - ends[0]


def ops_of(records: Iterable[Message]) -> tuple[OpRow, ...]:
    """Return op records in their order; one of Apache RocketMQ says that halves were decided, not how."""
    return tuple(
        OpRow(each.offset, each.position, each.store_ms, each.halves, tuple(_WORDS[commit] for commit in each.commits))
        for each in op_records(records)
    )


def row_of_half(record: Message, state: TransactionState) -> TransactionRow:
    """Return a half record as a row, with what it says of itself."""
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


@dataclass(frozen=True, slots=True)
class Pulled:
    """The newest records of both topics, oldest first, and how many each holds."""

    halves: Sequence[Message]
    halves_total: int
    ops: Sequence[Message]
    ops_total: int


def pulled(admin: Admin) -> Pulled:
    """Pull halves first: each may have been decided by the time that the op records are read, never the other way."""
    halves, halves_total = newest(admin, HALF_TOPIC, HALVES)
    ops, ops_total = newest(admin, OP_TOPIC, OPS)
    return Pulled(halves, halves_total, ops, ops_total)


def board_of(evidence: Evidence, found: Pulled, known: Iterable[TransactionRow]) -> Board:
    """Return the drawing's facts; `known`: rows that the broker lists, which say more than the records do."""
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
        ops=tuple(part_of(op, shown) for op in ops if shown.intersection(op.halves)),
        ops_read=len(found.ops),
        ops_total=found.ops_total,
        halves_total=found.halves_total,
    )


def _row(record: Message, listed: TransactionRow | None, said: Mapping[int, TransactionState]) -> TransactionRow:
    """Return a half's row; an op record is final, while what is listed as open was read before or after it."""
    word = said.get(record.queue_offset)
    if listed is not None and (word is None or not listed.is_undecided):
        return listed
    return row_of_half(record, word or TransactionState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Newest:
    """The transactions by the newest records; `halves` and `ops` are the records themselves."""

    rows: tuple[TransactionRow, ...]
    halves: tuple[Message, ...]
    halves_total: int
    ops: tuple[Message, ...]
    ops_total: int


def read_newest(admin: Admin) -> Newest:
    """Read all three topics; raises ClientError."""
    # what is decided meanwhile is in the op records: halves first would leave it open for longer, never the opposite
    parked, _ = newest(admin, PARKED_HALF_TOPIC, NEWEST)
    halves, halves_total = newest(admin, HALF_TOPIC, NEWEST)
    ops, ops_total = newest(admin, OP_TOPIC, NEWEST)
    return Newest(rows_of(halves, parked, ops), tuple(halves), halves_total, tuple(ops), ops_total)


def rows_of(halves: Sequence[Message], parked: Sequence[Message], ops: Sequence[Message]) -> tuple[TransactionRow, ...]:
    """Return a row for each transaction, by the offset of its newest half."""
    found = transactions_of(halves, parked, op_records(ops))
    return tuple(replace(row_of(each), producers=None) for each in found)  # which producers are there is not told


def transactions(here: Mirrored) -> TransactionsPage:
    """Return the page from what was pulled."""
    found, evidence = _read(here)
    rows = found.rows if found else ()
    states = [row.state for row in rows]
    oldest = next((row.store_ms for row in rows if row.state is TransactionState.OPEN), None)
    figures = TransactionFigures(
        open=states.count(TransactionState.OPEN) if found else None,
        parked=states.count(TransactionState.PARKED) if found else None,
        oldest_store_ms=oldest,
    )
    board = None
    if found is not None:
        parts = Pulled(found.halves[-HALVES:], found.halves_total, found.ops, found.ops_total)
        board = board_of(evidence, parts, rows)
    lists = [
        _listed(here, evidence, found, TransactionFilter(state), None, FIRST_COUNT)
        for state in ("open", "parked", "decided")
    ]
    return TransactionsPage(
        evidence,
        here.now_ms,
        here.name,
        figures,
        (),
        lists[0],
        lists[1],
        lists[2],
        board,
        polled=True,
    )


def transaction_list(here: Mirrored, wanted: TransactionFilter, after: int | None, count: int) -> TransactionList:
    """Return a page of what was pulled; `after` is a number of rows."""
    found, evidence = _read(here)
    return _listed(here, evidence, found, wanted, after, count)


def transaction_list_at(here: Mirrored, wanted: TransactionFilter, place: Place | None, count: int) -> TransactionList:
    """Return a page of what was pulled at a place of a merged list: behind a half, as others' lists are paged."""
    found, evidence = _read(here)
    page = _listed(here, evidence, found, wanted, None, NEWEST)
    begin, half = start_of(place)
    if wanted.state == "decided":
        rows = behind(page.rows, half)
    else:
        rows = tuple(row for row in page.rows if begin is None or row.offset > begin)
    shown = rows[:count]
    following: Place | None = None
    if len(rows) > count:
        following = f":{shown[-1].offset}" if wanted.state == "decided" else shown[-1].offset
    return replace(page, rows=shown, following=following)


def transaction_life(here: Mirrored, position: int) -> TransactionLife:
    """Return a half by its position, and what the newest records say of it."""

    def look(admin: Admin) -> tuple[Message | None, Newest]:
        try:
            record = admin.message_at(position, topic=HALF_TOPIC)
        except BrokerRefused:
            return None, read_newest(admin)
        return record if record.topic == HALF_TOPIC else None, read_newest(admin)

    answer, evidence = ask(look, source=here.name, requests=(Request.VIEW_MESSAGE_BY_ID, *REQUESTS))
    record, found = answer or (None, None)
    if record is None or found is None:
        return TransactionLife(evidence, here.now_ms, position, None, (), polled=True)
    row = next((row for row in found.rows if row.transaction_id == (record.unique_key or "")), None)
    shown = row or row_of_half(record, TransactionState.UNKNOWN)
    return TransactionLife(evidence, here.now_ms, position, shown, _events(record, found, shown), polled=True)


def matches(row: TransactionRow, wanted: TransactionFilter) -> bool:
    """Tell whether the filter takes the row."""
    state = TransactionState.DECIDED if wanted.state == "decided" else TransactionState(wanted.state)
    return (
        wanted.takes(row) and row.state is state and wanted.group in ("", row.group) and wanted.topic in ("", row.topic)
    )


def copy_id(row: TransactionRow, store_address: str) -> str:
    """Return the offset id of a parked half's copy, which request 323 names it by; empty if it has none."""
    return offset_id(store_address, row.copy_position)


def _key(record: Message) -> str:
    return record.unique_key or str(record.position)


def _read(here: Mirrored) -> tuple[Newest | None, Evidence]:
    return ask(read_newest, source=here.name, requests=REQUESTS)


def _listed(
    here: Mirrored, evidence: Evidence, found: Newest | None, wanted: TransactionFilter, after: int | None, count: int
) -> TransactionList:
    rows = [replace(row, broker=here.name) for row in found.rows if matches(row, wanted)] if found else []
    if wanted.state == "decided":
        rows.sort(key=lambda row: -(row.decided_ms or 0))
    start = after or 0
    return TransactionList(
        evidence, here.now_ms, wanted, tuple(rows[start : start + count]),
        start + count if start + count < len(rows) else None,
        read=len(found.halves) if found else 0, total=found.halves_total if found else 0,
    )  # fmt: skip


def _events(record: Message, found: Newest, row: TransactionRow) -> tuple[LifeEvent, ...]:
    same = [each for each in found.halves if _key(each) == _key(record)] or [record]
    events = [LifeEvent(TransactionEvent.HALF, same[0].store_ms, same[0].position)]
    for each in same[1:]:
        times = each.properties.get(CHECK_TIMES, "")
        count = int(times) if times.isdigit() else None
        events.append(LifeEvent(TransactionEvent.CHECK, each.store_ms, each.position, count=count))
    if row.parked_ms is not None:
        events.append(LifeEvent(TransactionEvent.PARKED, row.parked_ms, row.copy_position))
    if row.decided_ms is not None:
        events.append(LifeEvent(TransactionEvent.DECIDED, row.decided_ms))
    return tuple(sorted(events, key=lambda event: event.ms))


_DECISIONS: Mapping[str, Decision] = {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK}


def steer(admin: Admin, action: Action, done: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
    """Do it to each in its turn; raises ClientError when the broker cannot be read."""
    if action == "check":
        return [ItemResult("refused", {"error": "not-supported"}) for _ in targets]
    rows = {row.position: row for row in read_newest(admin).rows}
    return [_steer(admin, action, done, rows.get(target["position"])) for target in targets]


def _steer(admin: Admin, action: Action, done: str, row: TransactionRow | None) -> ItemResult:
    if row is None or row.position is None:
        return ItemResult("unknown")
    if not row.is_undecided:
        return ItemResult("already_decided", {"position": row.position})
    try:
        if action == "resume":
            return _resume(admin, done, row)
        admin.end_transaction(
            _DECISIONS[action],
            group=row.group,
            offset=row.offset,
            position=row.position,
            transaction_id=row.transaction_id,
            topic=row.topic,
        )
    except BrokerRefused as error:
        return ItemResult("refused", {"error": error.remark, "code": error.code})
    except ClientError as error:
        # the answer is lost, not the decision
        return ItemResult("unknown", {"error": str(error)})
    return ItemResult(done, {"position": row.position})


def _resume(admin: Admin, done: str, row: TransactionRow) -> ItemResult:
    here = mirrored()
    name = copy_id(row, here.broker.address if here.broker else "")
    if not row.is_parked or not name:
        return ItemResult("refused", {"error": "It is not parked; only parked ones can be resumed."})
    admin.resume_check(name, topic=PARKED_HALF_TOPIC)
    return ItemResult(done, {"position": row.position})
