"""Marks of what the broker has for a page that is open: the same mark, nothing new.

A mark holds numbers that nobody is shown, so pages of users with other permissions may have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from django.db.models import Max, Sum

from broker.client import Admin
from broker.mirror.models import Queue
from console.site.broker import Answer, ask
from console.site.mirrored import mirrored


def of_topic(name: str) -> Hashable:
    """What is stored in a topic, as the mirror has it: the broker is not asked."""
    queues = Queue.objects.filter(broker=mirrored().name, topic=name).order_by()
    found = queues.aggregate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return tuple(found.values())


def of_timers(_: str) -> Hashable:
    """What waits and what became of it; one small request instead of the page's six."""

    def mark(admin: Admin) -> Hashable:
        told = admin.timer_status()
        counted = (told.released_total, told.cancelled_total, told.rescheduled_total, told.rolled_total)
        return told.pending, told.backlog, told.paused, told.next_due_ms, told.enqueue_offset, counted

    return _asked(mark)


def of_transactions(_: str) -> Hashable:
    """What is open and what became of it; one small request instead of the page's ten."""

    def mark(admin: Admin) -> Hashable:
        told = admin.transaction_status()
        counted = (told.half_total, told.commit_total, told.rollback_total, told.check_total, told.parked_total)
        groups = tuple((row.group, row.open, row.due, row.producers) for row in told.groups)
        return told.open, told.parked, told.oldest_store_ms, told.next_check_ms, counted, groups

    return _asked(mark)


def _asked(question: Callable[[Admin], Answer]) -> Answer | None:
    found, _ = ask(question, source="", requests=())
    return found
