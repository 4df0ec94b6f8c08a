"""Pulls that wait, with the time as the test says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from broker.rocketmq.frame import Command
from broker.server.connection import Connection
from broker.server.long_polls import WaitingPull, WaitingPulls


class Room:
    """Waiting pulls and what was answered to them."""

    def __init__(self, limit: int = 100) -> None:
        self.now_ms = 1000
        self.answered: list[tuple[str, bool]] = []
        self.has_news: set[str] = set()
        self.pulls = WaitingPulls(asyncio.get_running_loop(), lambda: self.now_ms, limit=limit)

    def add(self, name: str, queue_id: int, deadline_ms: int, *, is_open: bool = True) -> WaitingPull:
        def look(_: WaitingPull, is_last: bool) -> bool:
            if is_last or name in self.has_news:
                self.answered.append((name, is_last))
                return True
            return False

        connection = cast(Connection, SimpleNamespace(is_open=is_open))
        pull = WaitingPull(connection, Command(11), ("T", queue_id), 0, deadline_ms, look)
        self.pulls.add(pull)
        return pull


async def test_only_those_with_news_are_answered_the_others_wait_on() -> None:
    room = Room()
    room.add("a", 0, 5000)
    room.add("b", 0, 5000)
    room.add("c", 1, 5000)
    room.has_news = {"a", "c"}
    room.pulls.wake({("T", 0)})
    assert room.answered == [("a", False)]
    room.has_news = {"b"}
    room.pulls.wake({("T", 0)})
    assert room.answered == [("a", False), ("b", False)]
    assert len(room.pulls) == 1
    room.pulls.release_all()


async def test_each_is_answered_once_at_its_own_time() -> None:
    room = Room()
    for name, deadline_ms in (("late", 3000), ("soon", 2000), ("sooner", 1500)):
        room.add(name, 0, deadline_ms)
    room.pulls.expire(1499)
    assert room.answered == []
    room.pulls.expire(2000)
    room.pulls.expire(2000)
    assert room.answered == [("sooner", True), ("soon", True)]
    room.pulls.expire(9000)
    assert room.answered[2:] == [("late", True)]
    assert len(room.pulls) == 0


async def test_those_whose_connection_ended_are_forgotten_without_a_look() -> None:
    room = Room()
    room.add("gone", 0, 2000, is_open=False)
    room.has_news = {"gone"}
    room.pulls.wake({("T", 0)})
    assert (room.answered, len(room.pulls)) == ([], 0)
    room.pulls.release_all()


async def test_no_more_wait_than_the_limit_says() -> None:
    room = Room(limit=2)
    room.add("a", 0, 2000)
    assert not room.pulls.is_full
    room.add("b", 0, 2000)
    assert room.pulls.is_full
    room.pulls.expire(2000)
    assert not room.pulls.is_full


async def test_answered_pulls_do_not_pile_up_until_their_time() -> None:
    room = Room()
    room.has_news = {"a"}
    for _ in range(10_000):
        room.add("a", 0, 1_000_000)
        room.pulls.wake({("T", 0)})
    assert len(room.pulls._by_deadline) < 100
    room.pulls.release_all()
