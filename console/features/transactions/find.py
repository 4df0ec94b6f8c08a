"""Which transactions an operation is about, as the broker has them now, and which have a key in its index of keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.client import Admin, BrokerRefused, NotSupported, RouteNotFound
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.transactions.apache_records import matches, read_newest
from console.features.transactions.rows import pages_of, row_of
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask
from console.site.clock import now_ms
from console.site.mirrored import mirrored

#: ResponseCode.QUERY_NOT_FOUND
_NOT_FOUND = 22


@dataclass(frozen=True, slots=True)
class Found:
    """What was found. `undecided`: open and parked ones of the whole broker; None: not told."""

    now_ms: int
    rows: Sequence[TransactionRow]
    #: all that match were found
    is_whole: bool = True
    #: from the newest records of an Apache RocketMQ broker
    is_polled: bool = False
    #: of named ones: each in its order, None for one that is not there
    named: Sequence[TransactionRow | None] = ()
    undecided: int | None = None


def find_matching(admin: Admin, wanted: TransactionFilter, *, most: int, patience_s: float | None) -> Found:
    """All that match, at most `most`; raises ClientError."""
    begun_ms = now_ms()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    rows: list[TransactionRow] = []
    try:
        status = admin.transaction_status()
        for page in pages_of(admin, wanted, now_ms=begun_ms):
            rows += [row for row in page if row.is_undecided and row.position is not None]
            if len(rows) >= most or (end_s is not None and time.monotonic() > end_s):
                return Found(status.now_ms, rows[:most], is_whole=False, undecided=status.open + status.parked)
    except NotSupported:
        newest = read_newest(admin)
        rows = [row for row in newest.rows if matches(row, wanted)]
        is_whole = len(newest.halves) >= newest.halves_total
        return Found(begun_ms, rows[:most], is_whole, is_polled=True)
    return Found(status.now_ms, rows, undecided=status.open + status.parked)


def find_named(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> Found:
    """Each of them, as it is now; raises ClientError."""
    begun_ms = now_ms()
    try:
        status = admin.transaction_status()
    except NotSupported:
        known = {row.position: row for row in read_newest(admin).rows}
        named = [known.get(target["position"]) for target in targets]
        return Found(begun_ms, [row for row in named if row is not None], is_polled=True, named=named)
    named = [_one(admin, target["position"]) for target in targets]
    rows = [row for row in named if row is not None]
    return Found(status.now_ms, rows, named=named, undecided=status.open + status.parked)


def _one(admin: Admin, position: int) -> TransactionRow | None:
    try:
        return row_of(admin.transaction(position=position))
    except BrokerRefused as error:
        if error.code == _NOT_FOUND:
            return None
        raise


#: by key, transaction by position
KEY_REQUESTS = (12, 14_011)
#: of one key; records that are looked through for them
MOST, LOOKED = 64, 256


@authorised
def halves_named(scope: TopicScope, key: str) -> tuple[TransactionRow, ...]:
    """Return transactions with this key or unique id as they are now, the newest first; none if the broker does not
    answer."""
    found, _evidence = ask(lambda admin: _named(admin, key, scope.topic), source=mirrored().name, requests=KEY_REQUESTS)
    return masks().rows(found or ())


def _named(admin: Admin, key: str, is_seen: Callable[[str], bool]) -> list[TransactionRow]:
    try:
        records = admin.messages_by_key(HALF_TOPIC, key, LOOKED)
    except RouteNotFound:
        return []
    records = [record for record in records if is_seen(record.properties.get(REAL_TOPIC, ""))][:MOST]
    targets = [{"offset": record.queue_offset, "position": record.position} for record in records]
    return [row for row in find_named(admin, targets).named if row is not None]
