"""Messages that are sent after the commit: by a worker at least once, or by this process at most once.

`send_later` is the outbox in its classical form: it writes a row, and a worker (`manage.py outbox`) sends it. No round
trip to the broker inside the transaction, and none needed: the broker may be away for as long as it likes. A worker
that dies between the send and the delete of the row sends it again, with the same unique id.

`send_on_commit` sends from this process once the transaction has committed. No half, no row: nothing is sent for a
transaction that rolls back, but a process that dies between the commit and the send, or a broker that is away just
then, loses the message.

A worker sends rows turn by turn, until none is left:

| a send ends with                                     | the row                                                      |
|------------------------------------------------------|--------------------------------------------------------------|
| success                                              | is deleted                                                   |
| no broker, no answer, busy: whatever may pass        | waits, however long it takes; counts nothing                 |
| no broker that is there has the topic, or takes it   | the same: the one that does may be away                      |
| a refusal: illegal, too large, not allowed           | is tried again after 2, 4, 8 ... 60 s; after `MOST_REFUSALS` |
| a timer that is taken, past or too far               | (an hour) it is stuck, until a person has it sent again      |

Rows go out by age and pass those that wait. Only in a lane (one sharding key, one queue) each waits for the one before.
`waiting` and `stuck` say what is there, `send_again` has it sent again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Unpack

from django.db import connections, router, transaction
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet
from django.utils import timezone

from ..client import (
    Body,
    BrokerRefused,
    ClientError,
    InvalidArgument,
    MessageOptions,
    NotWritable,
    Outgoing,
    RouteNotFound,
    ScheduleKeyTaken,
    SendResult,
    TimerPast,
    TimerTooFar,
    TransactionProducer,
    plain_sends,
    prepare,
    with_trace,
)
from ..client.errors import Answer
from ..client.names import check_writable_topic
from .configuration import producer_group as chosen_group
from .models import OutboxMessage
from .transaction_block import producer_of

logger = logging.getLogger(__name__)


_LANE_CHARACTERS = 40


def send_later(
    topic: str,
    body: Body,
    *,
    using: str | None = None,
    producer_group: str | None = None,
    **options: Unpack[MessageOptions],
) -> OutboxMessage:
    """Write the message into the transaction of `using`; raises InvalidArgument for one that can never be sent.

    A delay counts from the worker's send; give `deliver_at_ms` for a fixed time. Messages with one `sharding_key`,
    or for one `queue_id` of a topic (and the same `broker`, if one is named), are sent in the order in which they were
    written: each waits for the one before.
    `producer_group`: in whose name, if not in the worker's; raises NotConfigured for one that is not in the settings.
    """
    check_writable_topic(topic)
    group = "" if producer_group is None else chosen_group(producer_group)
    message = with_trace(topic, prepare(body, **options))  # the worker that sends it knows nothing of this request
    return OutboxMessage.objects.using(using or router.db_for_write(OutboxMessage)).create(
        topic=topic, body=message.body, properties=message.properties.encode(), message_id=message.message_id,
        producer_group=group, queue_id=message.queue_id, broker=message.broker or "", lane=_lane(topic, message),
    )  # fmt: skip


def as_outgoing(row: OutboxMessage) -> Outgoing:
    """Return the message that the row holds."""
    properties = bytes(row.properties).decode()
    group, broker = row.producer_group or None, row.broker or None
    return Outgoing.of_stored(bytes(row.body), properties, row.message_id, group, row.queue_id, broker)


def _lane(topic: str, message: Outgoing) -> str | None:
    """Return a text that is the same for messages that keep their order, and for no others."""
    if message.sharding_key is not None:
        name = f"{topic} key {message.sharding_key}"
    elif message.queue_id is not None:
        name = f"{topic} queue {message.queue_id}"
    else:
        return None
    if message.broker is not None:
        name = f"{name} at {message.broker}"
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:_LANE_CHARACTERS]


def send_on_commit(
    topic: str,
    body: Body,
    *,
    using: str | None = None,
    producer_group: str | None = None,
    timeout_ms: int = 3000,
    **options: Unpack[MessageOptions],
) -> None:
    """Send after the commit of `using` (immediately outside of a transaction); what fails then is logged, and lost.

    Raises ClientError (InvalidArgument) now for a message that can never be sent.
    """
    group = chosen_group(producer_group)
    message = prepare(body, **options)
    transaction.on_commit(lambda: _send(group, topic, message, timeout_ms), using=using, robust=True)


def _send(group: str, topic: str, message: Outgoing, timeout_ms: int) -> None:
    with plain_sends(allowed=True):  # the block of another database may still be open
        try:
            outcome = producer_of(group).send_each(topic, [message], timeout_ms=timeout_ms)[0]
        except ClientError as error:
            outcome = error
    if isinstance(outcome, ClientError):
        logger.error("message %s for %s is lost, its transaction has committed: %s", message.message_id, topic, outcome)


# The worker.

#: Rows that one turn of a worker takes, and how long it goes on with the rows behind them in their lanes.
BATCH = 500
TURN_S = 2.0
SEND_TIMEOUT_MS = 5_000
#: A row that was refused so often is left for a person.
MOST_REFUSALS = 60
LONGEST_REST_S = 60.0
#: Pauses while a broker is away: the first, and the longest, after which it is used again when it is back.
AWAY_S, LONGEST_AWAY_S = 0.2, 5.0
#: Not TOPIC_NOT_EXIST: that is said by a broker that is there, and another one may have the topic.
_REFUSALS = frozenset({Answer.MESSAGE_ILLEGAL, Answer.NO_PERMISSION, Answer.INVALID_PARAMETER})
_ERROR_CHARACTERS = 1000


@dataclass(slots=True)
class Turn:
    """The outcome of one turn: how many rows were sent, refused, became stuck, or wait for a broker."""

    sent: int = 0
    refused: int = 0
    stuck: int = 0
    away: int = 0

    @property
    def has_failed(self) -> bool:
        """Tell whether a row that was tried is still there."""
        return bool(self.refused or self.stuck or self.away)


@dataclass(slots=True)
class _Away:
    """A topic whose messages meet no broker: how often in a row, and until when it is left alone (monotonic)."""

    times: int = 0
    until_s: float = 0.0

    def again(self) -> float:
        """Return the seconds to leave it alone now."""
        pause_s = min(AWAY_S * 2.0 ** min(self.times, 10), LONGEST_AWAY_S)
        self.times += 1
        self.until_s = time.monotonic() + pause_s
        return pause_s


@dataclass(slots=True)
class _Failed:
    """Rows that failed for the same reason."""

    reason: str
    rows: list[OutboxMessage] = field(default_factory=list)


def is_refusal(error: ClientError) -> bool:
    """Tell whether the message itself is refused; return False for errors that may pass without any change."""
    if isinstance(error, (RouteNotFound, NotWritable)):
        # said by those brokers that are there, or by none: nobody can tell whether the topic's own is only away
        return False
    if isinstance(error, (InvalidArgument, ScheduleKeyTaken, TimerPast, TimerTooFar)):
        return True
    return isinstance(error, BrokerRefused) and error.code in _REFUSALS


class Worker:
    """A worker on one database; several may run at once, they take different rows."""

    def __init__(self, producer: TransactionProducer, using: str) -> None:
        self._producer = producer
        self._using = using
        self._away: dict[str, _Away] = {}

    def turn(self) -> Turn:
        """Send the oldest rows that may be tried now. Raises Django's Error: then nothing is noted of this turn."""
        done = Turn()
        began_s = time.monotonic()
        with transaction.atomic(using=self._using, durable=True):
            rows = self._take(self._due())
            while rows:
                lanes = self._send(rows, done)
                if not lanes or time.monotonic() - began_s > TURN_S:
                    break
                rows = self._take(self._due().filter(lane__in=lanes))
        return done

    def _due(self) -> QuerySet[OutboxMessage]:
        """Return rows to try now: those of a lane wait for the one before, stuck or taken as it may be."""
        now_s = time.monotonic()
        away = [topic for topic, each in self._away.items() if each.until_s > now_s]
        rows = OutboxMessage.objects.using(self._using)
        before = rows.filter(lane=OuterRef("lane"), pk__lt=OuterRef("pk"))
        is_time = Q(next_attempt_at=None) | Q(next_attempt_at__lte=timezone.now())
        return rows.filter(is_time, ~Exists(before), stuck_at=None).exclude(topic__in=away).order_by("pk")

    def _take(self, rows: QuerySet[OutboxMessage]) -> list[OutboxMessage]:
        if connections[self._using].features.has_select_for_update_skip_locked:
            rows = rows.select_for_update(skip_locked=True)
        return list(rows[:BATCH])

    def _send(self, rows: Sequence[OutboxMessage], done: Turn) -> set[str]:
        """Send these rows; returns the lanes that go on."""
        by_topic: dict[str, list[OutboxMessage]] = {}
        for row in rows:
            by_topic.setdefault(row.topic, []).append(row)
        messages = {topic: [as_outgoing(row) for row in mine] for topic, mine in by_topic.items()}
        results = self._producer.send_topics(messages, timeout_ms=SEND_TIMEOUT_MS)
        sent: list[OutboxMessage] = []
        for topic, mine in by_topic.items():
            sent += self._note(topic, list(zip(mine, results[topic], strict=True)), done)
        OutboxMessage.objects.using(self._using).filter(pk__in=[row.pk for row in sent]).delete()
        done.sent += len(sent)
        return {row.lane for row in sent if row.lane is not None}

    def _note(
        self, topic: str, outcomes: Sequence[tuple[OutboxMessage, SendResult | ClientError]], done: Turn
    ) -> list[OutboxMessage]:
        """Write down what failed of one topic; returns what did not."""
        sent = [row for row, outcome in outcomes if not isinstance(outcome, ClientError)]
        away: dict[str, _Failed] = {}
        for row, outcome in outcomes:
            if isinstance(outcome, ClientError):
                reason = str(outcome)[:_ERROR_CHARACTERS]
                if is_refusal(outcome):
                    self._refused(row, reason, done)
                else:
                    away.setdefault(reason, _Failed(reason)).rows.append(row)
        if away:
            self._wait(topic, list(away.values()), done, has_sent=bool(sent))
        elif self._away.pop(topic, None) is not None:
            logger.warning("messages for %s are accepted again", topic)
            self._away.clear()  # others may have waited for the same broker
        return sent

    def _refused(self, row: OutboxMessage, reason: str, done: Turn) -> None:
        row.refusals, row.last_error = row.refusals + 1, reason
        rest_s = min(2.0 ** min(row.refusals, 10), LONGEST_REST_S)
        row.next_attempt_at = timezone.now() + timedelta(seconds=rest_s)
        if row.refusals >= MOST_REFUSALS:
            row.stuck_at, row.next_attempt_at = timezone.now(), None
            done.stuck += 1
            behind = "; those of its sharding key or queue wait behind it" if row.lane is not None else ""
            logger.error(
                "outbox message %s (%s) for %s is stuck%s; it was refused %d times: %s",
                row.pk, row.message_id, row.topic, behind, row.refusals, reason,
            )  # fmt: skip
        else:
            done.refused += 1
        row.save(using=self._using, update_fields=["refusals", "last_error", "next_attempt_at", "stuck_at"])

    def _wait(self, topic: str, failed: Sequence[_Failed], done: Turn, *, has_sent: bool) -> None:
        """Put off messages that met no broker: the whole topic rests, or only these rows where others went out."""
        away = _Away() if has_sent else self._away.setdefault(topic, _Away())
        if not has_sent and not away.times:
            logger.warning("messages for %s wait, and count nothing: %s", topic, failed[0].reason)
        next_attempt_at = timezone.now() + timedelta(seconds=away.again())
        for each in failed:
            done.away += len(each.rows)
            rows = OutboxMessage.objects.using(self._using).filter(pk__in=[row.pk for row in each.rows])
            rows.update(last_error=each.reason, next_attempt_at=next_attempt_at)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows of one topic: how many, how many of them are stuck, how many failed at least once, and the last reason.

    `oldest_at` is when the oldest was written, `next_attempt_at` when the first of those that failed is tried again.
    """

    topic: str
    count: int
    stuck: int
    failed: int
    oldest_at: datetime
    next_attempt_at: datetime | None
    reason: str


def waiting(using: str) -> tuple[Waiting, ...]:
    """Return how many messages wait, by topic; raises Django's Error."""
    rows = OutboxMessage.objects.using(using)
    found = rows.values("topic").annotate(
        count=Count("pk"), stuck=Count("pk", filter=Q(stuck_at__isnull=False)),
        failed=Count("pk", filter=~Q(last_error="")), oldest_at=Min("written_at"),
        next_attempt_at=Min("next_attempt_at"), failed_last=Max("pk", filter=~Q(last_error="")),
    ).order_by("topic")  # fmt: skip
    reasons = dict(rows.filter(pk__in=[each["failed_last"] for each in found]).values_list("pk", "last_error"))
    return tuple(
        Waiting(
            each["topic"], each["count"], each["stuck"], each["failed"], each["oldest_at"], each["next_attempt_at"],
            reasons.get(each["failed_last"], ""),
        )
        for each in found
    )  # fmt: skip


def stuck(using: str, *, topics: Iterable[str] = (), ids: Iterable[int] = ()) -> QuerySet[OutboxMessage]:
    """Return stuck rows: all, or those of these topics, or these."""
    rows = OutboxMessage.objects.using(using).filter(stuck_at__isnull=False)
    chosen_topics, chosen_ids = list(topics), list(ids)
    rows = rows.filter(topic__in=chosen_topics) if chosen_topics else rows
    return rows.filter(pk__in=chosen_ids) if chosen_ids else rows


def send_again(rows: QuerySet[OutboxMessage]) -> int:
    """Have a worker try these rows immediately, with all their attempts before them; returns how many."""
    return rows.update(refusals=0, stuck_at=None, next_attempt_at=None)
