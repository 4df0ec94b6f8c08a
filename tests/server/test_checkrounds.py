"""Questions to producers give way to those who send, and are asked all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.server.processors.transactions import CheckRounds


class Rounds(CheckRounds):
    """Halves without end, which take no time."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.is_busy_disk = False
        state = cast("Any", SimpleNamespace(config=SimpleNamespace(broker_name="broker-a")))
        super().__init__(state, lambda: None, lambda: self.is_busy_disk)

    def ask(self, count: int) -> int:
        self.asked.append(count)
        return count


async def test_nobody_is_asked_while_something_is_written() -> None:
    rounds = Rounds()
    rounds.is_busy_disk = True
    assert rounds.ask_slice() > 0
    assert rounds.asked == []
    rounds.is_busy_disk = False
    assert rounds.ask_slice() == 0
    assert len(rounds.asked) == 1


async def test_a_disk_that_is_always_busy_does_not_end_the_questions() -> None:
    rounds = Rounds()
    rounds.is_busy_disk = True
    pauses = [rounds.ask_slice() for _ in range(100)]
    assert 10 <= len(rounds.asked) <= 20
    assert pauses.count(0) == len(rounds.asked)


async def test_slices_grow_while_they_are_short() -> None:
    rounds = Rounds()
    for _ in range(100):
        rounds.ask_slice()
    assert rounds.asked[0] < rounds.asked[-1] <= 256
