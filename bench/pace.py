"""Something done so many times a second, whether the last one is over or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count


async def at_rate(do: Callable[[int], Awaitable[None]], rate: float, over: asyncio.Event) -> int:
    """Call `do` with 0, 1, .. at a rate a second until `over`; wait for all, return how many.

    Raises an ExceptionGroup of what went wrong.
    """
    begin_s = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in count():
            late_s = begin_s + number / rate - time.monotonic()
            if late_s > 0:
                await asyncio.sleep(late_s)
            if over.is_set():
                return number
            tasks.create_task(as_coroutine(do, number))
    raise AssertionError("unreachable")


async def as_coroutine(do: Callable[[int], Awaitable[None]], number: int) -> None:
    """Await whatever `do` returns, as a coroutine."""
    await do(number)
