"""One long-lived thread that runs the engine's jobs, and a lean way there and back."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar


class Job(Protocol):
    """Something that only reads and writes files, so that it may run beside the loop."""

    def run(self) -> None:
        """Does it; raises OSError."""


J = TypeVar("J", bound=Job)
Done = Callable[[J, OSError | None], None]


class JobThread(Generic[J]):
    """Runs jobs in order; `done(job, error)` is called in the event loop after each."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, done: Done[J]) -> None:
        self._jobs: SimpleQueue[J | None] = SimpleQueue()
        self._finished: deque[tuple[J, OSError | None]] = deque()
        self._loop = loop
        self._done = done
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: J) -> None:
        """Queues a job."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Ends the thread after the jobs that are queued; `done` was called for all of them when this returns."""
        self._jobs.put(None)
        self._thread.join()
        while self._finished:
            self._deliver()

    def _deliver(self) -> None:
        if self._finished:
            self._done(*self._finished.popleft())

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._finished.append((job, run_job(job)))
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                return  # the loop is closed: nobody waits for this any more


def run_job(job: Job) -> OSError | None:
    """Runs a job here and now; the error that came of it, if any."""
    try:
        job.run()
    except OSError as error:
        return error
    return None
