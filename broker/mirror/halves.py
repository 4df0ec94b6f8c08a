"""Follows half and op messages: reads what moved, writes a bounded number of rows.

    open, parked      the oldest MOST_OPEN of each
    decided           those that op records of the last KEPT_MS tell of, at most MOST_DECIDED
    delivered         where a commit's copy went, MOST_ASKED asked for in one look, the others in the next

A look costs one small request (14013) while nothing moves. A broker without it (Apache RocketMQ) is read by pulling:
the newest records of its half, op and parked topics, three requests while nothing moves. There it is not told how one
was decided, so that no delivered message is looked for, and a half has the offset of its newest copy.

Where thousands are decided between two looks, each look takes a quarter of a second and keeps a few hundred of them:
the next one comes later then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import thread_time

from django.db import transaction

from ..client import Admin
from ..client.errors import BrokerRefused, ClientError, NotSupported, RouteNotFound
from ..client.transactions import OpRecord, Transaction, TransactionStatus, ends_of, newest, op_records, transactions_of
from ..rocketmq.topics import HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from .changes import Flaw
from .models import HalfMessage, OpMessage
from .writer import fit_rows

logger = logging.getLogger(__name__)

#: how often it is looked, and how seldom, so that looking takes no more than a fiftieth of a core
INTERVAL_MS, LONGEST_INTERVAL_MS = 2_000, 10_000
_IDLE_OF_BUSY = 50
MOST_OPEN = 200
MOST_DECIDED = 200
MOST_OPS = 64
MOST_ASKED = 50
#: a copy stands in its topic long before
FRESH_MS = 10_000
KEPT_MS = 3_600_000
#: newest records read of each topic where there is no list
NEWEST = 256
_UNDECIDED = (HalfMessage.State.OPEN, HalfMessage.State.DUE, HalfMessage.State.ENDING, HalfMessage.State.PARKED)


class HalfFollower:
    """The rows of half messages: `look` once a round; it remembers what it saw last, and forgets it when told."""

    def __init__(
        self, source: Admin, database: str = "default", *, stopwatch: Callable[[], float] = thread_time
    ) -> None:
        """`stopwatch`: seconds of processor time, by which looks are measured."""
        self._source = source
        self._database = database
        self._stopwatch = stopwatch
        self.forget()

    def forget(self) -> None:
        """Read everything with the next look."""
        self._is_listed = True
        self._looked_ms: int | None = None
        self._interval_ms = INTERVAL_MS
        self._seen: tuple[object, ...] | None = None
        #: commits whose copy was not found yet
        self._has_more = False

    def look(self, broker: str, now_ms: int) -> bool:
        """Write what moved since the last look; return whether anything was written. Raises DatabaseError."""
        if self._looked_ms is not None and now_ms - self._looked_ms < self._interval_ms:
            return False
        self._looked_ms, began_s = now_ms, self._stopwatch()
        try:
            return self._look(broker) if self._is_listed else self._look_at_records(broker, now_ms)
        except NotSupported:
            self._is_listed, self._looked_ms = False, None
            logger.info("%s does not list transactions: its newest records are read", broker)
        except ClientError as error:
            self._seen = None
            logger.info("transactions of %s cannot be read: %s", broker, error)
        finally:
            took_ms = round(1000 * (self._stopwatch() - began_s))
            self._interval_ms = min(max(INTERVAL_MS, _IDLE_OF_BUSY * took_ms), LONGEST_INTERVAL_MS)
        return False

    def _look(self, broker: str) -> bool:
        status = self._source.transaction_status()
        counts = _counts(status)
        if counts == self._seen and not self._has_more:
            return False
        undecided = [
            _half(broker, each)
            for state in ("open", "parked")
            for each in self._source.transactions("open" if state == "open" else "parked", count=MOST_OPEN).items
        ]
        ops = [_op(broker, record) for record in self._newest(OP_TOPIC, MOST_OPS)]
        decided = [_half(broker, each) for each in self._source.transactions("decided", count=MOST_DECIDED).items]
        since_ms = status.now_ms - KEPT_MS
        ops = [op for op in ops if op.store_ms >= since_ms]
        decided = [half for half in decided if (half.decided_ms or 0) >= since_ms]
        has_more = self._delivered(broker, decided, status.now_ms)
        with transaction.atomic(using=self._database):
            _write(broker, undecided, decided, ops, since_ms)
        self._seen = counts
        self._has_more = has_more
        return True

    def _look_at_records(self, broker: str, now_ms: int) -> bool:
        """Look at the records where there is no list, at the op records last: they tell what was decided meanwhile."""
        topics = (PARKED_HALF_TOPIC, HALF_TOPIC, OP_TOPIC)
        ends = tuple(ends_of(self._source.topic_stats, topic) for topic in topics)
        if ends == self._seen:
            return False
        parked, halves = (newest(self._source.topic_stats, self._source.pull, topic, NEWEST)[0] for topic in topics[:2])
        told = self._newest(OP_TOPIC, NEWEST)
        since_ms = now_ms - KEPT_MS
        found = [_half(broker, each) for each in transactions_of(halves, parked, told)]
        decided = [half for half in found if half.decided_ms is not None and half.decided_ms >= since_ms]
        ops = [_op(broker, record) for record in told if record.store_ms >= since_ms]
        with transaction.atomic(using=self._database):
            _write(broker, [half for half in found if half.decided_ms is None], decided, ops, since_ms)
        self._seen = ends
        return True

    def _newest(self, topic: str, count: int) -> list[OpRecord]:
        return op_records(newest(self._source.topic_stats, self._source.pull, topic, count)[0])

    def _delivered(self, broker: str, decided: Iterable[HalfMessage], now_ms: int) -> bool:
        """Fill in where commits went, from the rows or by asking; True if the next look should go on with it."""
        rows = HalfMessage.objects.filter(broker=broker, delivered_position__isnull=False)
        known = {row.offset: row for row in rows}
        asked, has_more = 0, False
        for half in decided:
            if half.state != HalfMessage.State.COMMITTED or half.position is None:
                continue
            row = known.get(half.offset)
            if row is not None:
                half.delivered_queue_id, half.delivered_offset = row.delivered_queue_id, row.delivered_offset
                half.delivered_position = row.delivered_position
            elif asked < MOST_ASKED:
                asked += 1
                # one that waits for its moment may do so for years: it is looked for again when something else moves
                is_fresh = now_ms - (half.decided_ms or 0) < FRESH_MS
                has_more |= not self._find(half) and is_fresh
            else:
                has_more = True
        return has_more

    def _find(self, half: HalfMessage) -> bool:
        """Ask the index for its copy; False if that is not in its topic (yet)."""
        try:
            copy = self._source.message_by_id(half.topic, half.transaction_id)
        except (BrokerRefused, RouteNotFound):
            return False
        if copy is None or copy.prepared_position != half.position:
            return False
        half.delivered_queue_id, half.delivered_offset = copy.queue_id, copy.queue_offset
        half.delivered_position = copy.position
        return True


def _counts(status: TransactionStatus) -> tuple[int, ...]:
    return (
        status.open, status.parked, status.half_total, status.commit_total, status.rollback_total, status.check_total,
        status.parked_total, sum(group.due for group in status.groups),
    )  # fmt: skip


def _write(
    broker: str, undecided: list[HalfMessage], decided: list[HalfMessage], ops: list[OpMessage], since_ms: int
) -> None:
    """Write the rows of one look, delete what is too old or gone. Values that fit no column are clipped and escaped."""
    flaws: list[Flaw] = []
    key = ("broker", "offset")
    undecided, decided = fit_rows("halves", undecided, key, flaws), fit_rows("halves", decided, key, flaws)
    ops = fit_rows("halves", ops, key, flaws)
    for flaw in flaws:
        logger.info("half message %s is %s", flaw.name, flaw.why)
    OpMessage.upsert(ops, ("broker", "offset"))
    OpMessage.mirror_writer.filter(broker=broker).exclude(offset__in=[op.offset for op in ops]).delete()
    numbers = dict(OpMessage.mirror_writer.filter(broker=broker).values_list("offset", "pk"))
    op_of = {half: numbers[op.offset] for op in ops for half in op.half_offsets}
    for half in decided:
        half.op_id = op_of.get(half.offset)
    # what was decided while it was read stands in both lists: the decision counts
    rows = {half.offset: half for half in (*undecided, *decided)}
    HalfMessage.upsert(rows.values(), ("broker", "offset"))
    here = HalfMessage.mirror_writer.filter(broker=broker)
    here.filter(state__in=_UNDECIDED).exclude(offset__in=list(rows)).delete()
    here.exclude(state__in=_UNDECIDED).filter(decided_ms__lt=since_ms).delete()
    kept = here.exclude(state__in=_UNDECIDED).order_by("-decided_ms", "-offset").values_list("pk", flat=True)
    here.filter(pk__in=list(kept[MOST_DECIDED:])).delete()


def _half(broker: str, each: Transaction) -> HalfMessage:
    return HalfMessage(
        broker_id=broker,
        offset=each.offset,
        position=each.position,
        state=each.state,
        group=each.group,
        topic=each.topic,
        queue_id=each.queue_id,
        transaction_id=each.transaction_id or "",
        keys=list(each.keys),
        tag=each.tag or "",
        store_ms=each.store_ms,
        checks=each.checks,
        next_check_ms=each.next_check_ms,
        parked_ms=each.parked_ms,
        decided_ms=each.decided_ms,
        decided_by=each.by,
        reason=each.reason,
    )


def _op(broker: str, record: OpRecord) -> OpMessage:
    return OpMessage(
        broker_id=broker,
        offset=record.offset,
        position=record.position,
        store_ms=record.store_ms,
        half_offsets=list(record.halves),
        commits=record.commits.count(True),
        rollbacks=record.commits.count(False),
    )
