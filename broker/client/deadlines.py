"""The time that a whole call may take, whatever it waits for: names, routes, connections, answers, other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from .errors import Timeout

Result = TypeVar("Result")


class Deadline:
    """`timeout_ms` from now, by the running loop's clock."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._loop = asyncio.get_running_loop()
        self._at_s = self._loop.time() + timeout_ms / 1000

    @property
    def left_s(self) -> float:
        """Seconds until then; negative when it is over."""
        return self._at_s - self._loop.time()

    @property
    def left_ms(self) -> int:
        """Milliseconds until then, for a request that has to be given some: at least 1."""
        return max(1, int(self.left_s * 1000))

    async def of(self, work: Awaitable[Result], waited_for: str) -> Result:
        """What `work` gives; raises Timeout, which names `waited_for`, when the time is over first."""
        try:
            async with asyncio.timeout_at(self._at_s):
                return await work
        except TimeoutError:
            raise Timeout("", self.timeout_ms, waited_for) from None
