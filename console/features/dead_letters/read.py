"""Reads dead letters: which groups have some from the mirror, the messages from the broker, newest first."""

from __future__ import annotations

from collections.abc import Callable

from django.db.models import F, Max, Sum

from broker.client import Admin
from broker.mirror.models import ConsumerGroup, Queue
from console.features.dead_letters.find import matches
from console.features.dead_letters.records import bounds_of, marked, newest_first
from console.features.dead_letters.shapes import (
    DLQ_PREFIX,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterPage,
)
from console.site.broker import ask
from console.site.mirrored import mirrored

#: topic stats on an Apache RocketMQ broker; topic stats and pull
GROUPS_REQUESTS = (202,)
PAGE_REQUESTS = (202, 11)
ROWS = 50
#: read for one page at most: a page with a narrow filter is short rather than slow
READ_AT_MOST = 2_000


def dead_letter_groups() -> DeadLetterGroups:
    """Every group that has some."""
    here = mirrored()
    queues = Queue.objects.filter(broker=here.name, topic__startswith=DLQ_PREFIX)
    held = queues.values("topic").annotate(
        held=Sum(F("max_offset") - F("min_offset")), stored=Sum("max_offset"), last=Max("last_ms")
    )
    members = dict(ConsumerGroup.objects.filter(broker=here.name).values_list("name", "members"))
    rows = [
        DeadLetterGroup(name, int(row["held"]), int(row["stored"]), row["last"], members.get(name))
        for row in held.order_by()
        if row["held"] and (name := row["topic"].removeprefix(DLQ_PREFIX))
    ]
    rows.sort(key=lambda row: (-row.count, row.name))
    return DeadLetterGroups(here.evidence(polled_by=GROUPS_REQUESTS), here.now_ms, tuple(rows))


def dead_letters(
    group: str, wanted: DeadLetterFilter, after: tuple[int, int] | None = None,
    is_seen: Callable[[str], bool] = lambda topic: True,
) -> DeadLetterPage:  # fmt: skip
    """A page of those whose topic is seen; `after` is the `following` of the page before."""
    here = mirrored()
    found, evidence = ask(
        lambda admin: _page(admin, group, wanted, after, is_seen), source=here.name, requests=PAGE_REQUESTS
    )
    rows, total, following, looked = found if found is not None else ((), None, None, 0)
    members = ConsumerGroup.objects.filter(broker=here.name, name=group).values_list("members", flat=True).first()
    return DeadLetterPage(
        evidence, here.now_ms, group, wanted, marked(group, rows), total, following, members, looked
    )  # fmt: skip


def _page(
    admin: Admin, group: str, wanted: DeadLetterFilter, after: tuple[int, int] | None, is_seen: Callable[[str], bool]
) -> tuple[tuple[DeadLetter, ...], int, tuple[int, int] | None, int]:
    bounds = bounds_of(admin, group)
    rows: list[DeadLetter] = []
    following, looked = None, 0
    for number, row in enumerate(newest_first(admin, group, bounds, after), 1):
        if matches(row, wanted) and is_seen(row.topic):
            rows.append(row)
        if len(rows) == ROWS or number == READ_AT_MOST:
            following, looked = (row.queue_id, row.offset), 0 if len(rows) == ROWS else number
            break
    return tuple(rows), sum(high - low for low, high in bounds.values()), following, looked
