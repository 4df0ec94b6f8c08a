"""Which process of a broker a consumer pulls from, what it makes of a slave's answers, heartbeats to many brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from broker.client import MessageQueue
from broker.client import _reader as reading
from broker.client._membership import Heartbeat
from broker.client._offsets import StartOffsets
from broker.client._reader import QueueReader
from broker.client._session import Session
from broker.client._types import SQL92, TAG, Route, RouteQueues, Subscription
from broker.client.errors import BrokerUnreachable
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from tests.waiting import turn

MASTER, SLAVE = "127.0.0.1:1", "127.0.0.1:2"
ROUTE = Route("orders", {"broker-a": MASTER}, (RouteQueues("broker-a", 1, 1, 6),), {"broker-a": {1: SLAVE}})
QUEUE = MessageQueue("orders", "broker-a", 0)
BY_TAG = Subscription("orders", "paid", frozenset({"paid"}), 1, TAG)
BY_FILTER = Subscription("orders", "amount > 10", frozenset(), 1, SQL92)
GIVEN, NOTHING_MATCHED = Answer.SUCCESS, Answer.PULL_RETRY_IMMEDIATELY


class Scripted(Session):
    """Answers pulls by a list of (code, next offset, suggested process) and keeps where each went; then waits."""

    def __init__(self, *answers: tuple[int, int, int]) -> None:
        super().__init__("127.0.0.1:3")
        self.answers = list(answers)
        self.pulls: list[tuple[str, int, str]] = []
        self.is_over = asyncio.Event()

    async def route(self, topic: str, *, max_age_s: float = 0) -> Route:
        return ROUTE

    async def ask(
        self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        fields = ext or {}
        if code != Request.PULL_MESSAGE:
            return Command(Answer.SUCCESS, {"offset": "0"})
        self.pulls.append((address, int(fields["queueOffset"]), fields["subscription"]))
        if not self.answers:
            self.is_over.set()
            await asyncio.get_running_loop().create_future()
        told, next_offset, suggested = self.answers.pop(0)
        return Command(told, {"nextBeginOffset": str(next_offset), "suggestWhichBrokerId": str(suggested)})


async def pulled(wanted: Subscription, *answers: tuple[int, int, int]) -> list[tuple[str, int, str]]:
    """Where pulls go that are answered so, from which offset, and what they ask for."""
    session = Scripted(*answers)
    starts = StartOffsets(session, "billing", from_first=True)
    reader = QueueReader(session, "billing", QUEUE, wanted, lambda *_: None, starts)
    reader.start()
    try:
        await asyncio.wait_for(session.is_over.wait(), 10)
    finally:
        await reader.stop()
        await session.close()
    return session.pulls


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAUSE_AFTER_ERROR_S", 0.0)


async def test_the_process_that_an_answer_suggests_is_pulled_from_next() -> None:
    pulls = await pulled(BY_TAG, (GIVEN, 1, 1), (GIVEN, 2, 1), (GIVEN, 3, 0), (GIVEN, 4, 7))
    # of a process that is not there the master takes the place
    assert [(address, offset) for address, offset, _ in pulls] == [
        (MASTER, 0), (SLAVE, 1), (SLAVE, 2), (MASTER, 3), (MASTER, 4),
    ]  # fmt: skip


async def test_a_filter_of_which_nothing_matches_at_a_slave_moves_on() -> None:
    pulls = await pulled(BY_FILTER, (GIVEN, 1, 1), (NOTHING_MATCHED, 9, 1), (GIVEN, 2, 1))
    assert pulls == [
        (MASTER, 0, "amount > 10"), (SLAVE, 1, "amount > 10"), (SLAVE, 1, "*"), (SLAVE, 9, "amount > 10"),
    ]  # fmt: skip


async def test_a_slave_that_gives_nothing_skips_nothing() -> None:
    pulls = await pulled(BY_FILTER, (GIVEN, 1, 1), (NOTHING_MATCHED, 9, 0), (NOTHING_MATCHED, 2, 0))
    assert pulls[-1] == (MASTER, 1, "amount > 10")
    by_tag = await pulled(BY_TAG, (GIVEN, 1, 1), (NOTHING_MATCHED, 9, 0))
    assert [(address, offset) for address, offset, _ in by_tag] == [(MASTER, 0), (SLAVE, 1), (MASTER, 1)]


class Beaten(Scripted):
    """One broker that never answers among others, one of them away."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[str] = []
        self.hole = asyncio.Event()

    async def ask(
        self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        self.beats.append(address)
        if address == "a:1":
            await self.hole.wait()
        if address == "b:1":
            raise BrokerUnreachable(address, "refused")
        return Command(Answer.SUCCESS, {})


async def test_a_broker_that_does_not_answer_delays_no_heartbeat() -> None:
    session = Beaten()
    heartbeat = Heartbeat(session, consumer_group="billing")
    heartbeat._addresses = {"a:1", "b:1", "c:1", "d:1"}
    async with asyncio.TaskGroup() as group:
        beat = group.create_task(heartbeat.send_once())
        for _ in range(5):
            await turn()
        assert not beat.done()
        session.hole.set()
    assert (sorted(session.beats), beat.result()) == (["a:1", "b:1", "c:1", "d:1"], False)
    await session.close()
