"""Transactions as brokers report them and operators steer them (requests 14010 to 14013, 37 and 323).

All values are frozen and read straight from the answers' JSON, whose names are the same in camel case
(docs/PROTOCOL.md). Moments are epoch ms. Apache RocketMQ knows 37 and 323 only; the others raise NotSupported there.

Apache RocketMQ has no list of its transactions: `transactions_of` makes one from the newest records of its three
topics. A half is decided if an op record names its offset, or that of an older copy: such a broker puts a half back
into its topic with each check, whole, with a new offset and one more in TRANSACTION_CHECK_TIMES. So of records with one
unique key the newest counts, also against those in TRANS_CHECK_MAX_TIME_TOPIC. How it was decided, by whom, and which
producers are there is not told; op records come some seconds late, the first one after the broker's start later still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct, field

from ..rocketmq.properties import CHECK_TIMES, DECISIONS, DELAY, PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_KEY
from ._types import Message
from .admin import TopicStats
from .errors import BrokerRefused, RouteNotFound

__all__ = [
    "MOST_ROWS",
    "MOST_TARGETS",
    "Action",
    "GroupTransactions",
    "LifeEvent",
    "OpRecord",
    "State",
    "SteeredTransaction",
    "SteeredTransactions",
    "Transaction",
    "TransactionLife",
    "TransactionPage",
    "TransactionStatus",
    "TransactionTarget",
    "ends_of",
    "newest",
    "op_records",
    "transactions_of",
]

State = Literal["open", "parked", "decided"]
Action = Literal["commit", "rollback", "check", "resume"]
#: Most targets of one request 14011, most rows of one answer to 14010.
MOST_TARGETS = 10_000
MOST_ROWS = 1_000


class Transaction(Struct, frozen=True, rename="camel"):
    """A transaction. `offset` and `position` are the half's, `topic` and `queue_id` the real ones.

    `state`: open, due (checked as soon as a producer of the group is there), ending (its decision is on its
    way to the disk), parked, committed, rolled back, decided (an op record of Apache RocketMQ leaves out which), or
    replaced. `timer_act`: its commit shows no message, it cancels or moves the timer of `schedule_key`. What a half
    says of itself is missing where its record is gone or damaged. `producers`: client ids of those that are checked.
    """

    offset: int
    state: str
    position: int | None = None
    group: str = ""
    topic: str = ""
    queue_id: int = 0
    transaction_id: str | None = None
    keys: list[str] = []
    tag: str | None = field(name="tags", default=None)
    store_ms: int | None = None
    born_ms: int | None = None
    born_host: str | None = None
    body_bytes: int | None = None
    delay_level: str | None = None
    schedule_key: str | None = None
    timer_act: Literal["cancel", "move"] | None = None
    checks: int | None = None
    next_check_ms: int | None = None
    parked_ms: int | None = None
    copy_position: int | None = None
    decided_ms: int | None = None
    by: str = ""
    reason: str = ""
    producers: list[str] = []


class TransactionPage(Struct, frozen=True, rename="camel"):
    """Transactions, oldest half first; decided ones, newest decision first. Next page: `following`, None at the end; a
    page may be short or empty and yet have one: the broker looks at so many for one answer."""

    now_ms: int
    items: list[Transaction] = field(name="transactions")
    following: int | None = field(name="next", default=None)


class LifeEvent(Struct, frozen=True, rename="camel"):
    """Something that happened to a transaction: half, check, parked, resumed, committed, rolled back, decided,
    scheduled, delivered; or what its commit did to a timer: timer cancelled, timer moved, nothing changed. `count`: how
    often its producer was asked by then."""

    kind: str
    at_ms: int
    position: int | None = None
    count: int | None = None
    by: str = ""
    reason: str = ""
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


class TransactionLife(Transaction, frozen=True, rename="camel"):
    """A transaction and what happened to it, oldest first."""

    now_ms: int = 0
    life: list[LifeEvent] = []


class GroupTransactions(Struct, frozen=True):
    """Open halves of one producer group: how many, how many of them are due, and how many producers are there."""

    group: str
    open: int
    due: int = 0
    producers: int = 0


class TransactionStatus(Struct, frozen=True, rename="camel"):
    """The transactions of one broker as a whole; totals since it started."""

    now_ms: int
    open: int
    parked: int
    oldest_store_ms: int | None
    next_check_ms: int | None
    timeout_ms: int
    interval_ms: int
    max_checks: int
    half_total: int = 0
    commit_total: int = 0
    rollback_total: int = 0
    check_total: int = 0
    parked_total: int = 0
    groups: list[GroupTransactions] = []


class TransactionTarget(Struct, frozen=True):
    """The half to steer: its offset in the half topic, and its position in the log."""

    offset: int
    position: int


class SteeredTransaction(Struct, frozen=True):
    """The fate of one target: done, already (so it was before), or refused with the code and why."""

    offset: int
    position: int
    outcome: Literal["done", "already", "refused"]
    code: int = 0
    error: str = ""


class SteeredTransactions(Struct, frozen=True, rename="camel"):
    """The fates of all targets, in their order; what was done is durable."""

    now_ms: int
    results: list[SteeredTransaction]


# Transactions of a broker that has no list of them (Apache RocketMQ).

#: TransactionalMessageUtil.REMOVE_TAG
_OP_TAG = "d"
#: What our op records say of each offset: commit or roll back, and who (docs/FORMATS.md).
_PAIR = re.compile(r"([cr])(\d+)")
#: ResponseCode.TOPIC_NOT_EXIST
_TOPIC_NOT_EXIST = 17


@dataclass(frozen=True, slots=True)
class OpRecord:
    """A record of the op topic: the halves that it decides, by their offsets. `commits` has one word for each: True,
    False, or None where it is not told."""

    offset: int
    position: int
    store_ms: int
    halves: tuple[int, ...]
    commits: tuple[bool | None, ...]


def op_records(records: Iterable[Message]) -> list[OpRecord]:
    """Return the records that decide something, in their order."""
    found = []
    for record in records:
        if record.tags != _OP_TAG:
            continue
        halves = tuple(int(word) for word in record.body.split(b",") if word.isdigit() and len(word) < 19)
        said = _PAIR.findall(record.properties.get(DECISIONS, ""))
        commits: tuple[bool | None, ...] = tuple(letter == "c" for letter, _ in said)
        if len(commits) != len(halves):
            commits = (None,) * len(halves)
        found.append(OpRecord(record.queue_offset, record.position, record.store_ms, halves, commits))
    return found


def transactions_of(
    halves: Sequence[Message], parked: Sequence[Message], ops: Sequence[OpRecord]
) -> list[Transaction]:  # fmt: skip
    """Return each transaction, by the offset of its newest half; its state is open, parked or decided."""
    decided_ms = {half: op.store_ms for op in ops for half in op.halves}
    copies = {_key(record): record for record in parked}
    of_one: dict[str, list[Message]] = {}
    for record in halves:
        of_one.setdefault(_key(record), []).append(record)
    found = []
    for key, records in of_one.items():
        last, copy = records[-1], copies.get(key)
        at_ms = next((decided_ms[each.queue_offset] for each in records if each.queue_offset in decided_ms), None)
        is_parked = at_ms is None and copy is not None and copy.position > last.position
        found.append(_transaction(records[0], last, at_ms, copy if is_parked else None))
    return sorted(found, key=lambda each: each.offset)


def newest(
    stats_of: Callable[[str], TopicStats], pull: Callable[[str, int, int, int], Sequence[Message]], topic: str,
    count: int,
) -> tuple[list[Message], int]:  # fmt: skip
    """Return the newest records of queue 0 of a topic, oldest first, and how many the queue holds.

    Nothing where the topic is not there yet; raises ClientError.
    """
    ends = ends_of(stats_of, topic)
    if ends is None or ends[1] <= ends[0]:
        return [], 0
    at = max(ends[0], ends[1] - count)
    found: list[Message] = []
    while at < ends[1]:
        part = pull(topic, 0, at, ends[1] - at)
        if not part:
            break
        found += part
        at = part[-1].queue_offset + 1
    return found, ends[1] - ends[0]


def ends_of(stats_of: Callable[[str], TopicStats], topic: str) -> tuple[int, int] | None:
    """Return the first and the next offset of queue 0; None where the topic is not there yet. Raises ClientError."""
    try:
        queues = stats_of(topic).queues
    except RouteNotFound:
        return None
    except BrokerRefused as error:
        if error.code == _TOPIC_NOT_EXIST:
            return None
        raise
    return next(((each.min_offset, each.max_offset) for each in queues if each.queue.queue_id == 0), None)


def _transaction(first: Message, last: Message, decided_ms: int | None, copy: Message | None) -> Transaction:
    named = last.properties
    queue_id, checks = named.get(REAL_QUEUE_ID, ""), named.get(CHECK_TIMES, "")
    host, port = last.born_host
    return Transaction(
        offset=last.queue_offset,
        state="decided" if decided_ms is not None else "parked" if copy is not None else "open",
        position=last.position,
        group=named.get(PRODUCER_GROUP, ""),
        topic=named.get(REAL_TOPIC, ""),
        queue_id=int(queue_id) if queue_id.isdigit() and len(queue_id) < 10 else 0,
        transaction_id=last.unique_key,
        keys=list(last.keys),
        tag=last.tags,
        store_ms=first.store_ms,
        born_ms=last.born_ms,
        born_host=f"{host}:{port}",
        body_bytes=len(last.body),
        delay_level=named.get(DELAY),
        schedule_key=named.get(SCHEDULE_KEY),
        checks=int(checks) if checks.isdigit() and len(checks) < 6 else None,
        parked_ms=copy.store_ms if copy is not None else None,
        copy_position=copy.position if copy is not None else None,
        decided_ms=decided_ms,
    )


def _key(record: Message) -> str:
    return record.unique_key or str(record.position)
