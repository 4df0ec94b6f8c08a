"""What a page costs the database: as many queries with a thousand topics as with one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from broker.mirror.models import (
    SLOT_MS,
    SLOTS,
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    MirrorState,
    Queue,
    RateHistory,
    ScheduleLevel,
    Topic,
)
from broker.mirror.watch import flat
from console.features.groups import read as groups_read
from console.features.overview.pages import read_overview
from console.features.schedule import read as schedule_read
from console.features.topics import pages as topics_pages
from console.site.clock import now_ms

TOPICS = 1_000
QUEUES = 8
GROUPS = 200
PENDING = 1_000_000
DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

LEVEL = ("broker", "level")


def full_lane(broker: Broker, level: int, delay_ms: int, now: int) -> ScheduleLevel:
    end = PENDING // 18
    return ScheduleLevel(
        broker=broker,
        level=level,
        delay_ms=delay_ms,
        min_offset=0,
        delay_offset=0,
        max_offset=end,
        next_due_ms=now,
        marks=flat([(end * n // 255, now + delay_ms * n // 255) for n in range(256)]),
    )


def fill(name: str) -> None:
    """Write the rows of a broker with many topics and groups."""
    now = now_ms()
    broker = Broker(name=name, state="OK", started_ms=now)
    Broker.upsert([broker], ("name",))
    state = MirrorState(broker=broker, token="x", sequence=9, as_of_ms=now, following_since_ms=now - SLOT_MS * SLOTS)
    MirrorState.upsert([state], ("broker",))
    names = [f"topic-{number:04}" for number in range(TOPICS)]
    Topic.upsert(
        [Topic(broker=broker, name=n, read_queues=QUEUES, write_queues=QUEUES, permission=6) for n in names],
        ("broker", "name"),
    )
    Queue.upsert(
        [
            Queue(broker=broker, topic=name, queue_id=queue_id, min_offset=0, max_offset=1_000, last_ms=now)
            for name in names
            for queue_id in range(QUEUES)
        ],
        ("broker", "topic", "queue_id"),
    )
    groups = [f"group-{number:03}" for number in range(GROUPS)]
    ConsumerGroup.upsert([ConsumerGroup(broker=broker, name=name, members=1) for name in groups], ("broker", "name"))
    ConsumerOffset.upsert(
        [
            ConsumerOffset(broker=broker, group=name, topic=names[(number * 5 + step) % TOPICS], queue_id=q, offset=900)
            for number, name in enumerate(groups)
            for step in range(5)
            for q in range(QUEUES)
        ],
        ("broker", "group", "topic", "queue_id"),
    )
    RateHistory.upsert(
        [
            RateHistory(broker=broker, kind=kind, name=name, slot=now // SLOT_MS - 1, counts=[5] * SLOTS)
            for kind, several in (("topic", names), ("group", groups), ("level", [str(n) for n in range(1, 19)]))
            for name in several
        ],
        ("broker", "kind", "name"),
    )
    ScheduleLevel.upsert([full_lane(broker, n, delay_s * 1_000, now) for n, delay_s in enumerate(DELAYS_S, 1)], LEVEL)


@pytest.fixture
def big_mirror(db: None) -> None:
    fill("broker-a")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


PAGES: list[tuple[str, Callable[[], object], int]] = [
    ("overview", read_overview, 15),
    ("topics", topics_pages.read_topics, 5),
    ("topics by rate", lambda: topics_pages.read_topics(order="-rate"), 6),
    ("topic", lambda: topics_pages.read_topic("topic-0500"), 7),
    ("groups", groups_read.groups, 5),
    ("lanes", schedule_read.lanes, 3),
]


def cost(read: Callable[[], object]) -> int:
    """The number of queries of a page that was read before."""
    read()
    with CaptureQueriesContext(connection) as captured:
        read()
    return len(captured)


def dear(pages: list[tuple[str, Callable[[], object], int]]) -> dict[str, int]:
    """Pages that take more queries than they may, each with its number. How long they take is measured in bench/."""
    return {name: found for name, read, most in pages if (found := cost(read)) > most}


def test_every_page_is_cheap(big_mirror: None) -> None:
    assert dear(PAGES) == {}


def test_a_million_pending_are_drawn_exactly(big_mirror: None) -> None:
    lanes = schedule_read.lanes()
    assert lanes.figures.pending == PENDING // 18 * 18
    for lane in lanes.lanes:
        assert lane.spread is not None
        assert sum(lane.spread.counts) + lane.spread.beyond == lane.backlog
