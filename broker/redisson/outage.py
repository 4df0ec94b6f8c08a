"""A server that does not answer: how long to wait before the next attempt, and since when it is gone."""

from __future__ import annotations

import random
import threading
import time

from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's own name
    MasterDownError,
    ReadOnlyError,
    TimeoutError,  # noqa: A004 - redis-py's own name
    TryAgainError,
)

FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 3.0
_OUTAGES = (
    ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError,
)  # fmt: skip


class Outage:
    """The state of the connection to one server, shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause_s = FIRST_PAUSE_S
        self.since_ms: int | None = None
        self.problem = ""
        self.count = 0

    def note(self, problem: str) -> float:
        """An attempt failed; how many seconds to wait before the next: ever more, with some chance in it."""
        with self._lock:
            if self.since_ms is None:
                self.since_ms = int(time.time() * 1000)
                self.count += 1
            self.problem = problem
            self._pause_s = min(LAST_PAUSE_S, self._pause_s * 1.5)
            return self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come at once

    def over(self) -> bool:
        """An attempt succeeded; whether it was the first one after an outage."""
        with self._lock:
            was_out = self.since_ms is not None
            self.since_ms, self.problem, self._pause_s = None, "", FIRST_PAUSE_S
            return was_out


def is_outage(error: BaseException) -> bool:
    """Whether this error means that the server is down, starting or failing over, and is worth waiting for."""
    return isinstance(error, (*_OUTAGES, OSError))
