"""Timers of two real brokers: in total, merged by due time, each with its own page; one of them dead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from django.test import Client

from broker.rocketmq.codes import Request
from broker.rocketmq.frame import FrameBuffer, decode
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import NotPossible
from console.operations.models import Operation
from console.site.chosen import choice_of, choosing
from console.site.clock import now_ms
from console.site.evidence import StaleReason
from tests.console.several import A, B, Several
from tests.console.ui.test_pages import words

MINUTE = 60_000


@pytest.fixture
def base_ms(brokers: Several) -> int:
    return (now_ms() // MINUTE + 10) * MINUTE


@pytest.fixture
def filled(brokers: Several, base_ms: int) -> list[tuple[int, str, str]]:
    """20 timers, two of three at broker-a, some at the same moment; as (due, broker, key)."""
    sent = []
    for number in range(20):
        name, due_ms = (B if number % 3 == 2 else A), base_ms + (number * 7_919) % 50_000 // 10_000 * 10_000
        brokers.producers[name].send("orders", f"{number}", keys=[f"order-{number}"], deliver_at_ms=due_ms)
        sent.append((due_ms, name, f"order-{number}"))
    return sorted(sent, key=lambda each: each[:2])


def listed(count: int, wanted: TimerFilter | None = None) -> list[TimerRow]:
    """All pages of a list."""
    rows: list[TimerRow] = []
    cursor: str | None = None
    while True:
        page = timers_read.timer_list(wanted or TimerFilter(), cursor, count)
        assert len(page.rows) <= count
        rows.extend(page.rows)
        cursor = page.cursor
        if cursor is None:
            return rows


@pytest.mark.parametrize("count", [1, 3, 7, 100])
def test_the_list_is_merged_by_due_time_whatever_the_size_of_a_page(
    brokers: Several, filled: list[tuple[int, str, str]], count: int
) -> None:
    assert [(row.due_ms, row.broker, row.name) for row in listed(count)] == filled


def test_the_page_adds_up_what_each_broker_tells(
    brokers: Several, operator: Client, filled: list[tuple[int, str, str]], base_ms: int
) -> None:
    data = timers_read.timers("1m", base_ms)
    assert (data.figures.pending, data.figures.next_due_ms) == (20, filled[0][0])
    assert [(row.topic, row.pending) for row in data.topics] == [("orders", 20)]
    assert data.wheel is not None
    assert data.forecast is not None
    assert data.wheel.strip.total == data.forecast.stretch.total == 20
    assert data.has_several
    assert not data.evidence.stale
    each = []
    for name in (A, B):
        with choosing(choice_of(name)):
            each.append(timers_read.timers("1m", base_ms))
    assert [page.figures.pending for page in each] == [14, 6]
    own = [[slot.count for slot in page.wheel.strip.slots] for page in each if page.wheel]
    assert [slot.count for slot in data.wheel.strip.slots] == [sum(counts) for counts in zip(*own, strict=True)]
    page = words(operator.get(f"/timers/?zoom=1m&at={base_ms}"))
    assert "order-0" in page


def test_a_row_leads_to_the_page_of_its_broker(
    brokers: Several, operator: Client, filled: list[tuple[int, str, str]]
) -> None:
    page = operator.get("/timers/list/").content.decode()
    for row in listed(100):
        assert f'href="/at/{row.broker}/timers/{row.position}/"' in page
        assert f'value="{row.position}-{row.broker}"' in page
    row = next(row for row in listed(100) if row.broker == B)
    shown = operator.get(f"/at/{B}/timers/{row.position}/")
    assert row.name in shown.content.decode()
    own = operator.get(f"/at/{A}/timers/list/").content.decode()
    assert "data-select-all" in own
    assert "Broker</th>" not in own


def test_files_say_whose_a_row_is(brokers: Several, operator: Client, filled: list[tuple[int, str, str]]) -> None:
    lines = b"".join(operator.get("/timers/list/?as=csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]  # of a streamed answer
    assert lines[0].endswith(",broker")
    assert [line.rsplit(",", 1)[1] for line in lines[1:]] == [broker for _due, broker, _key in filled]


def test_a_dead_broker_takes_no_page_with_it(
    brokers: Several, operator: Client, filled: list[tuple[int, str, str]], base_ms: int
) -> None:
    brokers[B].stop()
    data = timers_read.timers("1m", base_ms)
    assert data.figures.pending == 14
    assert (data.evidence.stale_reason, data.evidence.stale_of) == (StaleReason.BROKER_UNREACHABLE, (B,))
    page = timers_read.timer_list(TimerFilter(), count=100)
    assert [row.broker for row in page.rows] == [A] * 14
    assert page.evidence.stale_of == (B,)
    assert page.cursor is None
    assert "(broker-b)" in words(operator.get("/timers/"))


def test_a_key_is_looked_for_at_all(brokers: Several, operator: Client, filled: list[tuple[int, str, str]]) -> None:
    (row,) = listed(10, TimerFilter(key="order-2"))
    assert (row.broker, row.name) == (B, "order-2")
    answer = operator.get("/find/key/?q=order-2")
    assert answer["Location"] == f"/at/{B}/timers/{row.position}/"


def done(actor: Actor, kind: str, parameters: Mapping[str, Any], broker: str = "") -> Operation:
    """An operation of one broker, or of all, confirmed and run."""
    with choosing(choice_of(broker)):
        row = workflow.draft(kind, parameters, actor)
    row = workflow.confirm(row.pk, actor, reason="tried", is_typing_needed=False)
    assert row.state == Operation.State.DONE, row.error
    return row


def test_what_is_of_one_broker_is_refused_where_none_is_chosen(
    brokers: Several, actor: Actor, filled: list[tuple[int, str, str]]
) -> None:
    for parameters in ({"targets": [{"position": 0}]}, {"filter": {"topic": "orders"}}):
        with pytest.raises(NotPossible, match="several brokers"):
            workflow.draft("timers.cancel", parameters, actor)
    assert len(listed(100)) == 20


def test_a_cancel_is_of_its_broker_and_taken_back_there(
    brokers: Several, actor: Actor, filled: list[tuple[int, str, str]]
) -> None:
    row = next(each for each in listed(100) if each.broker == B)
    cancelled = done(actor, "timers.cancel", {"targets": [{"position": row.position}]}, B)
    assert (cancelled.broker, cancelled.results) == (B, {"cancelled": 1})
    left = [(each.due_ms, each.broker, each.name) for each in listed(100)]
    assert left == [each for each in filled if each[2] != row.name]
    back = done(actor, "timers.take_back", {"operation": str(cancelled.pk)}, B)
    assert back.results == {"taken_back": 1}
    assert sorted((each.due_ms, each.broker, each.name) for each in listed(100)) == sorted(filled)


def test_all_timers_of_all_brokers_are_paused_and_resumed(
    brokers: Several, actor: Actor, operator: Client, filled: list[tuple[int, str, str]]
) -> None:
    paused = done(actor, "timers.pause", {})
    assert paused.preview["brokers"] == [[A, 14, ""], [B, 6, ""]]
    assert (paused.broker, paused.results) == ("", {"paused": 2})
    assert [item.target for item in paused.items.order_by("number")] == [{"broker": A}, {"broker": B}]
    assert timers_read.timers().figures.paused
    assert done(actor, "timers.resume", {}, A).results == {"resumed": 1}
    data = timers_read.timers()
    assert (data.figures.paused, data.paused_of) == (False, (B,))
    assert "The timers of broker-b are paused" in words(operator.get("/timers/"))
    brokers[A].stop()
    resumed = done(actor, "timers.resume", {})
    assert resumed.results == {"unknown": 1, "resumed": 1}


class Silent:
    """Takes connections and requests in the place of a broker, and never answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_server((host, int(port)))
        self._open: list[socket.socket] = []
        #: codes of the requests that came
        self.asked: list[int] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        frames = FrameBuffer()
        with suppress(OSError):
            while chunk := connection.recv(65_536):
                self.asked += [decode(frame).code for frame in frames.feed(chunk)]

    def close(self) -> None:
        """End it, with all connections."""
        for each in (self._socket, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def test_a_page_waits_for_one_that_is_silent_for_one_time_out(
    brokers: Several, filled: list[tuple[int, str, str]], base_ms: int
) -> None:
    assert timers_read.timers("1m", base_ms).figures.pending == 20
    address = brokers[B].address
    brokers[B].stop()
    silent = Silent(address)
    try:
        data = timers_read.timers("1m", base_ms)
        assert (data.figures.pending, data.evidence.stale_reason) == (14, StaleReason.BROKER_SLOW)
        assert silent.asked == [Request.GET_TIMER_STATUS]
        page = timers_read.timer_list(TimerFilter(), count=100)
        assert len(page.rows) == 14
        assert silent.asked == [Request.GET_TIMER_STATUS, Request.LIST_TIMERS]
    finally:
        silent.close()
