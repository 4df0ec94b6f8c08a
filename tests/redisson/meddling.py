"""A Redis client at whose every command something else may happen first: Java does something, or this client dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import redis


class Died(BaseException):
    """This client was killed between two commands."""


class Meddled:
    """Runs one of `between` before each command; dies instead of sending when `lives` is used up."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self.between: deque[Callable[[], None]] = deque()
        self.lives: int | None = None
        self.commands = 0

    def execute_command(self, *args: bytes | str | int) -> object:
        """The seam that a queue uses."""
        if self.between:
            self.between.popleft()()
        if self.lives is not None:
            if self.lives == 0:
                raise Died
            self.lives -= 1
        self.commands += 1
        result: object = self._client.execute_command(*args)
        return result
