"""Pages in total over a broker of ours and an Apache RocketMQ broker behind one name service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from broker.client import Admin, Decision, Producer, TransactionProducer, prepare
from broker.testing import BrokerThread
from console.features.schedule import read as schedule_read
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.site.merged import Place
from tests.cluster import Cluster
from tests.console.several import Several
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

TOPIC, OURS, MINUTE_MS = "MixedPagesTopic", "ours-1", 60_000


class Listed:
    """An Apache RocketMQ broker as a cluster of tests lists it: it runs on when the cluster ends."""

    def __init__(self, server: Server) -> None:
        self.namesrv = server.namesrv

    def stop(self) -> None:
        """Leave it running."""


@pytest.fixture
def mixed(apache: Server, transactional_db: None, settings: Any) -> Iterator[Several]:
    with Admin(apache.namesrv) as admin:
        (theirs,) = admin.brokers()
    with Cluster(0) as cluster:
        cluster.add(OURS)
        cluster.processes[theirs.name, 0] = cast(BrokerThread, Listed(apache))
        settings.ESCAPEMENT_NAMESRV = cluster.namesrv
        made = Several(cluster, TOPIC)
        yield made
        made.close()


def theirs_of(mixed: Several) -> str:
    (name,) = set(mixed.cluster.names) - {OURS}
    return name


def timers(key: str, count: int = 100) -> list[TimerRow]:
    """All pages of those with a key."""
    rows: list[TimerRow] = []
    cursor: str | None = None
    while True:
        page = timers_read.timer_list(TimerFilter(TOPIC, key), cursor, count)
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return rows


def halves(count: int) -> list[TransactionRow]:
    """All pages of those that are open."""
    rows: list[TransactionRow] = []
    after: Place | None = None
    while True:
        page = transactions_pages.read_transaction_list(TransactionFilter("open", topic=TOPIC), after, count)
        rows += page.rows
        after = page.following
        if after is None:
            return rows


def test_timers_of_both_stand_in_one_list(mixed: Several) -> None:
    base_ms, theirs = time.time_ns() // 1_000_000 + 10 * MINUTE_MS, theirs_of(mixed)
    for number in range(6):
        producer: Producer = mixed.producers[theirs if number % 2 else OURS]
        producer.send(TOPIC, "x", keys=[f"mixed-{number}", "mixed"], deliver_at_ms=base_ms + number * 1_500)
    assert wait_until(lambda: len(timers("mixed")) == 6)
    for count in (1, 4, 100):
        rows = timers("mixed", count)
        assert [row.name for row in rows] == [f"mixed-{number}" for number in range(6)]
        assert [row.broker for row in rows] == [OURS, theirs] * 3
    data = timers_read.timers("1h")
    assert (data.polled, data.polled_of, data.evidence.stale) == (False, (theirs,), False)
    assert data.wheel is not None
    assert data.wheel.strip.total >= 6
    assert data.forecast is not None
    assert timers_read.timer_list(TimerFilter(TOPIC, "mixed")).polled_of == (theirs,)


def test_lanes_of_both_are_one_each(mixed: Several) -> None:
    theirs = theirs_of(mixed)
    for name in (OURS, theirs):
        # our broker has two levels here: 1 s and an hour, which is 17 there
        mixed.producers[name].send(TOPIC, "x", keys=["lane"], delay_level=2 if name == OURS else 17)
    mixed.mirror()
    data = schedule_read.lanes()
    assert data.is_uneven
    lane = next(lane for lane in data.lanes if lane.delay_ms == 3_600_000)
    assert [(part.broker, part.level) for part in lane.parts] == sorted([(OURS, 2), (theirs, 17)])
    assert (lane.backlog or 0) >= 2
    page = schedule_read.lane(2)
    assert OURS in {row.broker for row in page.messages}
    assert page.has_other_delays


def test_halves_of_both_stand_in_one_list(mixed: Several) -> None:
    theirs = theirs_of(mixed)
    before = len(halves(100))
    for number, name in enumerate((OURS, theirs, OURS)):
        namesrv = mixed.cluster[name].namesrv
        with TransactionProducer("mixed-payers", namesrv, check=lambda _: Decision.UNKNOWN) as producer:
            producer.send_half(TOPIC, prepare("x", keys=[f"half-{number}"]))
    assert wait_until(lambda: len(halves(100)) == before + 3)
    whole = halves(100)
    assert [row.name for row in whole[-3:]] == ["half-0", "half-1", "half-2"]
    assert [row.broker for row in whole[-3:]] == [OURS, theirs, OURS]
    assert [row.position for row in halves(1)] == [row.position for row in whole]
    data = transactions_pages.read_transactions()
    assert (data.polled, data.polled_of) == (False, (theirs,))
    assert {name for name, board in data.boards if board is not None and board.halves} == {OURS, theirs}
