"""The one event-loop thread behind the synchronous API of this process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class EventLoopThread:
    """Runs coroutines for callers in other threads; started at first use, anew in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """The result of `work`; raises what it raises, TimeoutError after `timeout_s`."""
        loop = self._running()
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("The synchronous API was called in its own event loop; use the asynchronous one there.")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            # the caller was interrupted or waited long enough: nobody is there for the result any more
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(target=self._loop.run_forever, name="broker-client", daemon=True)
                self._thread.start()
            return self._loop


event_loop_thread = EventLoopThread()
