"""What waits in the outbox, what is stuck there, and having that sent again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min, Q, QuerySet

from .models import OutboxMessage


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
    """What waits, by topic; raises Django's Error."""
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
    """Stuck rows: all, or those of these topics, or these."""
    rows = OutboxMessage.objects.using(using).filter(stuck_at__isnull=False)
    chosen_topics, chosen_ids = list(topics), list(ids)
    rows = rows.filter(topic__in=chosen_topics) if chosen_topics else rows
    return rows.filter(pk__in=chosen_ids) if chosen_ids else rows


def send_again(rows: QuerySet[OutboxMessage]) -> int:
    """Have a worker try these rows at once, with all their attempts before them; returns how many."""
    return rows.update(refusals=0, stuck_at=None, next_attempt_at=None)
