"""The one way to wait in tests: until something holds that another thread, process or machine brings about.

Where there is a signal (a condition, a future, a line of output) tests wait for that; this is for what can only be
asked: rows of a database, answers of a broker, files. It asks at once and then every few milliseconds, returns as
soon as the answer is true, and fails at the deadline.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

ASK_EVERY_S = 0.02


class NotInTime(AssertionError):
    """What was waited for did not come true before the deadline."""


def until(
    ask: Callable[[], T],
    timeout_s: float = 20,
    *,
    not_yet: tuple[type[Exception], ...] = (),
    every_s: float = ASK_EVERY_S,
) -> T:
    """The first answer that is true; an exception of `not_yet` counts as one that is not. NotInTime at the deadline."""
    ends_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        last: Exception | None = None
        try:
            if answer := ask():
                return answer
        except not_yet as error:
            last = error
        if time.monotonic() >= ends_s:
            raise NotInTime(f"it did not come true within {timeout_s} s") from last
        pause.wait(every_s)


async def until_true(
    ask: Callable[[], T] | Callable[[], Awaitable[T]], timeout_s: float = 20, every_s: float = ASK_EVERY_S
) -> T:
    """The same for coroutines, and for plain questions asked in the loop; TimeoutError at the deadline."""
    async with asyncio.timeout(timeout_s):
        while True:
            answer = ask()
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer:
                return answer
            await asyncio.to_thread(threading.Event().wait, every_s)


async def turn() -> None:
    """Let all that is ready in this loop go on, once."""
    await asyncio.get_running_loop().create_task(_nothing())


async def _nothing() -> None: ...
