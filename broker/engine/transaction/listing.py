"""Transactions as an operator sees them: status, pages of open, parked and decided halves, and the life of one.

Everything is a plain value for JSON: camelCase, moments in ms of the wall clock. The life of a transaction is what the
log tells of it: half, checks, parking, decision, what went out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import (
    CANCELS,
    DELAY,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    REASON,
    REPLACES,
    SCHEDULE_KEY,
    SOURCE,
    TAGS,
    TIMER_ACT,
    TIMER_DELETE,
)
from ...rocketmq.topics import CHECKS_TOPIC, HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound, TransactionNotFound
from ..message_header import schedule_entry
from .halves import DUE, ENDING, Half, Parked
from .records import CHECK_TAG, RESUME_TAG, read_checks, read_decider, read_op, read_resumed
from .state import Settled, TransactionTable, records_of

#: Halves looked at for one page, however few of them match its filter.
MOST_LOOKED_AT = 20_000
#: Op records read for one page of decisions.
_MOST_OPS = 500
#: Groups named in a status, those with most open halves first.
_MOST_GROUPS = 1_000

Row = dict[str, Any]


def status(table: TransactionTable, now_ms: int) -> Row:
    """Return counts, settings and groups (body of request 14013)."""
    first = table.halves.first()
    counts = sorted(table.halves.groups.counts().items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "nowMs": now_ms,
        "open": len(table.halves),
        "parked": len(table.parked),
        "oldestStoreMs": first.store_ms if first else None,
        "nextCheckMs": table.calendar.next_ms(),
        "timeoutMs": table.timeout_ms,
        "intervalMs": table.interval_ms,
        "maxChecks": table.most_checks,
        "halfTotal": table.half_total,
        "commitTotal": table.commit_total,
        "rollbackTotal": table.rollback_total,
        "checkTotal": table.check_total,
        "parkedTotal": table.parked_total,
        "groups": [
            {"group": group, "open": count, "due": min(table.due(group), count)}
            for group, count in counts[:_MOST_GROUPS]
        ],
    }


def open_page(
    table: TransactionTable, *, after: int, count: int, group: str, topic: str, older_than_ms: int | None
) -> Row:
    """Return open halves with offsets above ``after`` and where to go on."""
    rows: list[Row] = []
    last = after
    for looked_at, half in enumerate(table.halves.since(after + 1)):
        if len(rows) >= count or looked_at >= MOST_LOOKED_AT:
            return _page(rows, last)
        if older_than_ms is not None and half.store_ms > older_than_ms:
            break  # they stand in order of time
        last = half.offset
        if group and half.group != group:
            continue
        row = open_row(table, half)
        if not topic or row.get("topic") == topic:
            rows.append(row)
    return _page(rows, None)


def parked_page(
    table: TransactionTable, *, after: int, count: int, group: str, topic: str, older_than_ms: int | None
) -> Row:
    """Return parked halves with offsets above ``after`` and where to go on."""
    rows: list[Row] = []
    last = after
    for looked_at, parked in enumerate(table.parked.since(after + 1)):
        if len(rows) >= count or looked_at >= MOST_LOOKED_AT:
            return _page(rows, last)
        last = parked.offset
        row = parked_row(table, parked)
        if (
            (not group or row.get("group") == group)
            and (not topic or row.get("topic") == topic)
            and (older_than_ms is None or parked.store_ms <= older_than_ms)
        ):
            rows.append(row)
    return _page(rows, None)


def decided_page(table: TransactionTable, *, before: int | None, count: int, group: str, topic: str) -> Row:
    """Return decisions, newest first, of op records below ``before``; a record is never split."""
    queue = table.store.queues.get(OP_TOPIC, 0)
    rows: list[Row] = []
    if queue is None:
        return _page(rows, None)
    at = queue.max_offset if before is None else min(before, queue.max_offset)
    low = max(queue.min_offset, at - _MOST_OPS)
    while at > low and len(rows) < count:
        at -= 1
        for record in records_of(table.store, queue, at, at + 1):
            for decision in reversed(read_op(record.body, record.properties)):
                row = decided_row(table, decision.offset, Settled(decision, record.store_ms))
                if (not group or row.get("group") == group) and (not topic or row.get("topic") == topic):
                    rows.append(row)
    return _page(rows, at if at > queue.min_offset else None)


def _page(rows: list[Row], following: int | None) -> Row:
    return {"transactions": rows, "next": following}


def open_row(table: TransactionTable, half: Half) -> Row:
    """Return an open half as an answer shows it."""
    state = "ending" if half.flags & ENDING else "due" if half.flags == DUE else "open"
    return {
        "offset": half.offset,
        "position": half.position,
        "state": state,
        "group": half.group,
        "storeMs": half.store_ms,
        "checks": half.checks,
        "nextCheckMs": table.calendar.wall(half.next_ms),
    } | _content(_readable(table, half.position))


def parked_row(table: TransactionTable, parked: Parked) -> Row:
    """Return a parked half as an answer shows it."""
    return {
        "offset": parked.offset,
        "position": parked.position,
        "state": "parked",
        "storeMs": parked.store_ms,
        "parkedMs": parked.parked_ms,
        "copyPosition": parked.copy_position,
        "checks": table.most_checks,
    } | _content(_readable(table, parked.position))


def decided_row(table: TransactionTable, offset: int, settled: Settled) -> Row:
    """Return one half that was decided; of one whose record is gone only the decision."""
    decision, at_ms = settled
    half = half_by_offset(table, offset)
    row: Row = {"offset": offset, "state": decision.word, "decidedMs": at_ms, "by": decision.by}
    row["reason"] = decision.reason
    if half is not None:
        row |= {"position": half.position, "storeMs": half.store_ms}
    return row | _content(half)


def half_by_offset(table: TransactionTable, offset: int) -> Message | None:
    """Return a half message that can be read, or None."""
    queue = table.store.queues.get(HALF_TOPIC, 0)
    entries = queue.entries(offset, 1) if queue is not None else []
    return _readable(table, entries[0].position) if entries else None


def _readable(table: TransactionTable, position: int) -> Message | None:
    try:
        return table.half_at(position)
    except CorruptRecord:
        return None


def _content(half: Message | None) -> Row:
    """Return what a half says of itself; {} if it cannot be read."""
    if half is None:
        return {}
    properties = half.properties
    queue_id = properties.get(REAL_QUEUE_ID, "")
    return {
        "group": properties.get(PRODUCER_GROUP, ""),
        "topic": properties.get(REAL_TOPIC, ""),
        "queueId": int(queue_id) if queue_id.isdigit() else 0,
        "transactionId": half.unique_key,
        "keys": half.keys,
        "tags": half.tags,
        "bornMs": half.born_ms,
        "bornHost": f"{half.born_host[0]}:{half.born_host[1]}",
        "bodyBytes": len(half.body),
        "delayLevel": properties.get(DELAY) or None,
        "scheduleKey": properties.get(SCHEDULE_KEY),
        "timerAct": properties.get(TIMER_ACT),
    }


def rows_by_id(table: TransactionTable, transaction_id: str) -> Iterator[Message]:
    """Yield the halves with a transaction id (unique key), newest first."""
    store = table.store
    for position in store.index.find(HALF_TOPIC, transaction_id, 64, 0, (1 << 62) - 1):
        half = _readable(table, position) if store.log.min_position <= position else None
        if half is not None and half.unique_key == transaction_id:
            yield half


def find_half(table: TransactionTable, *, transaction_id: str, offset: int, position: int) -> Message:
    """Return the half with a transaction id (the newest of several), or at a place. Raises TransactionNotFound."""
    if transaction_id:
        half = next(rows_by_id(table, transaction_id), None)
    else:
        half = half_by_offset(table, offset) if offset >= 0 else _readable(table, position)
    if half is None:
        raise TransactionNotFound(offset, position)
    return half


# The life of one transaction.

#: Note records read for one life.
_MOST_NOTES = 4_096


def life_of(table: TransactionTable, half: Message) -> Row:
    """Return the state of a transaction and what happened to it, oldest first (body of request 14012)."""
    offset = half.queue_offset
    events: list[dict[str, Any]] = [{"kind": "half", "atMs": half.store_ms, "position": half.position}]
    events += _notes(table, half) + _parked(table, half)
    row: Row
    if (open_half := table.halves.get(offset)) is not None:
        row = open_row(table, open_half)
    elif (parked := table.parked.get(offset)) is not None:
        row = parked_row(table, parked)
    elif (settled := table.settled_at(offset, half.position)) is not None:
        row = decided_row(table, offset, settled)
        decision = settled.decision
        events.append({"kind": decision.word, "atMs": settled.at_ms, "by": decision.by, "reason": decision.reason})
    else:
        row = {"offset": offset, "position": half.position, "state": "replaced", "storeMs": half.store_ms}
    events += _copies(table, half)
    events.sort(key=lambda event: event["atMs"])
    return row | {"life": events}


def _notes(table: TransactionTable, half: Message) -> list[dict[str, Any]]:
    """Return when a producer was asked, and when checks were resumed."""
    queue = table.store.queues.get(CHECKS_TOPIC, 0)
    if queue is None:
        return []
    at = queue.search(queue.min_offset, queue.max_offset, half.position)
    events: list[dict[str, Any]] = []
    for record in records_of(table.store, queue, at, min(queue.max_offset, at + _MOST_NOTES)):
        if record.properties.get(TAGS) == CHECK_TAG:
            offsets, counts = read_checks(record.body)
            if half.queue_offset in offsets:
                count = counts[offsets.index(half.queue_offset)]
                events.append({"kind": "check", "atMs": record.store_ms, "count": count})
        elif record.properties.get(TAGS) == RESUME_TAG and half.queue_offset in read_resumed(record.body):
            who, why = read_decider(record.properties)
            events.append({"kind": "resumed", "atMs": record.store_ms, "by": who, "reason": why})
    return events


def _parked(table: TransactionTable, half: Message) -> list[dict[str, Any]]:
    return [
        {"kind": "parked", "atMs": message.store_ms, "position": message.position}
        for message in _same(table, half, PARKED_HALF_TOPIC)
    ]


def _copies(table: TransactionTable, half: Message) -> list[dict[str, Any]]:
    """Return what of the message went out: to its topic, or first to where it waits for its moment."""
    if SCHEDULE_KEY in half.properties and (acted := _acted(table, half)):
        return acted
    topics = {half.properties.get(REAL_TOPIC, ""): "delivered", SCHEDULE_TOPIC: "scheduled", TIMER_TOPIC: "scheduled"}
    return [
        {
            "kind": kind,
            "atMs": message.store_ms,
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "position": message.position,
        }
        for topic, kind in topics.items()
        for message in _same(table, half, topic)
        if message.prepared_position == half.position
    ]


def _acted(table: TransactionTable, half: Message) -> list[dict[str, Any]]:
    """Return what the commit of a half did to the timer of its key; nothing for one that put its message there."""
    store, topic = table.store, half.properties.get(REAL_TOPIC, "")
    entry = schedule_entry(topic, half.properties[SCHEDULE_KEY])
    for position in store.index.find(TIMER_TOPIC, entry, 256, 0, (1 << 62) - 1):
        try:
            message = decode(store.look_at(position), verify=False)
        except (RecordNotFound, CorruptRecord):
            continue
        said = message.properties
        if said.get(SOURCE) != str(half.position) or not (TIMER_ACT in half.properties or TIMER_DELETE in said):
            continue
        kind = "timer cancelled" if CANCELS in said else "timer moved" if REPLACES in said else "nothing changed"
        event = {"kind": kind, "atMs": message.store_ms, "topic": topic, "position": message.position}
        return [event | {"reason": said.get(REASON, "")}]
    return []


def _same(table: TransactionTable, half: Message, topic: str) -> list[Message]:
    """Return the records of a topic that have the half's unique key."""
    store, key = table.store, half.unique_key
    found: list[Message] = []
    for position in store.index.find(topic, key, 64, 0, (1 << 62) - 1) if key else []:
        try:
            message = decode(store.look_at(position), verify=False)
        except (RecordNotFound, CorruptRecord):
            continue
        if message.topic == topic and message.unique_key == key and message.position > half.position:
            found.append(message)
    return found
