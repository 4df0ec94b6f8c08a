"""Lanes of two real brokers: one row a delay in total, a lane's messages merged by due time; one broker dead."""

from __future__ import annotations

import pytest
from django.test import Client

from broker.mirror.models import ScheduleLevel
from console.features.schedule import read
from console.features.schedule.shapes import LaneState, ParkedMessage
from console.site.chosen import choice_of, choosing
from console.site.evidence import StaleReason
from tests.console.several import A, B, Several
from tests.console.ui.test_pages import words


@pytest.fixture
def filled(brokers: Several) -> list[str]:
    """Twelve messages on level 2 (an hour), now here, now there; their keys in the order of sending."""
    keys = []
    for number in range(12):
        name = B if number % 3 == 1 else A
        brokers.producers[name].send("orders", f"{number}", delay_level=2, keys=[f"late-{number}"])
        keys.append(f"late-{number}")
    brokers.mirror()
    return keys


def pages(level: int, count: int) -> list[ParkedMessage]:
    """All messages of a lane, page by page."""
    rows: list[ParkedMessage] = []
    cursor: str | None = None
    while True:
        page = read.lane(level, cursor, count)
        rows += page.messages
        cursor = page.cursor
        if cursor is None:
            return rows


def test_a_lane_in_total_is_the_sum_of_the_brokers(brokers: Several, operator: Client, filled: list[str]) -> None:
    data = read.lanes()
    assert len(data.lanes) == 2
    assert data.has_several
    assert not data.is_uneven
    assert data.figures.pending == 12
    lane = data.lanes[1]
    assert (lane.level, lane.state, lane.backlog) == (2, LaneState.WAITING, 12)
    assert [(part.broker, part.backlog) for part in lane.parts] == [(A, 8), (B, 4)]
    assert lane.spread is not None
    assert sum(lane.spread.counts) + lane.spread.beyond == 12
    with choosing(choice_of(A)):
        own = read.lanes()
    assert own.lanes[1].backlog == 8
    assert not own.has_several
    assert lane.next_due_ms == min(ScheduleLevel.objects.filter(level=2).values_list("next_due_ms", flat=True))
    page = operator.get("/schedule/").content.decode()
    assert 'href="/schedule/2/"' in page
    assert 'href="/at/broker-b/schedule/2/"' in operator.get("/at/broker-b/schedule/").content.decode()


@pytest.mark.parametrize("count", [1, 5, 50])
def test_a_lane_opens_into_the_messages_of_all_in_due_order(brokers: Several, filled: list[str], count: int) -> None:
    rows = pages(2, count)
    assert [row.due_ms for row in rows] == sorted(row.due_ms for row in rows)
    assert sorted(row.keys[0] for row in rows) == sorted(filled)
    for name in (A, B):
        assert [row.offset for row in rows if row.broker == name] == list(range(8 if name == A else 4))


def test_its_page_says_whose_a_message_is_and_lists_the_parts(
    brokers: Several, operator: Client, filled: list[str]
) -> None:
    page = operator.get("/schedule/2/")
    text = page.content.decode()
    assert 'href="/at/broker-a/schedule/2/"' in text
    assert "By broker" in words(page)
    lines = b"".join(operator.get("/schedule/2/?as=csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]  # of a streamed answer
    assert lines[0].endswith(",broker")
    assert sorted(line.rsplit(",", 1)[1] for line in lines[1:]) == [A] * 8 + [B] * 4
    own = operator.get("/at/broker-b/schedule/2/").content.decode()
    assert "late-1" in own
    assert "late-0" not in own
    assert "By broker" not in own


def test_levels_that_differ_are_grouped_by_delay(brokers: Several, operator: Client, filled: list[str]) -> None:
    row = ScheduleLevel.objects.get(broker=B, level=2)
    ScheduleLevel.mirror_writer.filter(pk=row.pk).update(delay_ms=1_234_000)
    data = read.lanes()
    assert data.is_uneven
    found = {lane.delay_ms: [(part.broker, part.level, part.backlog) for part in lane.parts] for lane in data.lanes}
    assert found[3_600_000] == [(A, 2, 8)]
    assert found[1_234_000] == [(B, 2, 4)]
    assert data.figures.pending == 12
    assert len({lane.mark for lane in data.lanes}) == len(data.lanes)
    page = operator.get("/schedule/")
    assert 'href="/at/broker-b/schedule/2/"' in page.content.decode()
    assert "different delay levels" in words(page)
    assert "another delay at some brokers" in words(operator.get("/schedule/2/"))


def test_a_dead_broker_stays_in_the_sums_and_takes_no_page_with_it(
    brokers: Several, operator: Client, filled: list[str]
) -> None:
    brokers[B].stop()
    assert read.lanes().figures.pending == 12
    page = read.lane(2)
    assert [row.broker for row in page.messages] == [A] * 8
    assert page.lane is not None
    assert page.lane.backlog == 12
    assert (page.evidence.stale_reason, page.evidence.stale_of) == (StaleReason.BROKER_UNREACHABLE, (B,))
    assert page.cursor is None
    assert "(broker-b)" in words(operator.get("/schedule/2/"))
