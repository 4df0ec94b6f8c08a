"""What of the console waits in a Celery worker: answers to checks (`--checkback`), and the timetable (`--timetable`).

They are guests as the mirror is (broker/hosting/worker.py), in threads of their own, so that what only waits needs no
process each.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.beat import Service
from celery.signals import worker_shutting_down
from celery.worker.components import Pool
from django.conf import settings
from django.db import connections

from broker.hosting import HostingRefused
from broker.hosting.worker import STOP_TIMEOUT_S, Guest, HostStep
from broker.log_lines import escaped
from broker.outbox.answering import answer_checks
from console.features.checkback.allowed import AddressRefused
from console.features.checkback.worker import Worker
from console.site.child_processes import end_all

logger = logging.getLogger(__name__)

#: how long the timetable may sleep before it notices that it was told to end
BEAT_S = 2


class ThreadsGuest(Guest):
    """A guest of one or several threads, any of which ends the worker when it fails."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(failed)
        self._threads: list[threading.Thread] = []

    def _begin(self, what: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                logger.exception("%s ended", what)
                self._failed(f"{what} ended by itself: {error}")

        thread = threading.Thread(target=guarded, name=what, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Wait for the threads, which were told to end."""
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)


class CheckbackGuest(ThreadsGuest):
    """Answers to brokers' checks: from the database, and from the addresses of REST producers."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(failed)
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> str:
        """Answer for the groups of ESCAPEMENT_PRODUCER_GROUPS, and for those that have an address."""
        try:
            worker = Worker(settings.ESCAPEMENT_NAMESRV)
        except AddressRefused as error:
            raise HostingRefused(f"ESCAPEMENT_CHECKBACK_ORIGINS or ESCAPEMENT_CHECKBACK_NETWORKS: {error}") from error
        self._begin("answering checks by addresses", lambda: asyncio.run(self._ask(worker)))
        groups = settings.ESCAPEMENT_PRODUCER_GROUPS
        if groups:
            self._begin("answering checks from the database", lambda: self._answer(groups))
        return f"answers to checks of {', '.join([*groups, 'registered addresses'])}"

    def stop(self) -> None:
        """Finish the answers under way and sign off."""
        self._stopping.set()
        if self._loop is not None and self._asking is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._asking.cancel)
        super().stop()

    def _answer(self, groups: Sequence[str]) -> None:
        answer_checks(groups, list(connections), self._stopping.wait, lambda: None)

    async def _ask(self, worker: Worker) -> None:
        self._asking = asyncio.create_task(worker.run(_tell))
        self._loop = asyncio.get_running_loop()
        if self._stopping.is_set():
            self._asking.cancel()
        with suppress(asyncio.CancelledError):
            await self._asking


def _tell(groups: Sequence[str]) -> None:
    logger.info("asking for %s", escaped(", ".join(groups) or "no group"))


class TimetableGuest(ThreadsGuest):
    """Celery's beat: what is due by the timetable is queued."""

    def __init__(self, failed: Callable[[str], None], app: Celery) -> None:
        super().__init__(failed)
        self._app = app
        self._beat = Service(app, max_interval=BEAT_S, schedule_filename=str(settings.VAR / "beat-schedule"))

    def start(self) -> str:
        """Start queueing what is due."""
        self._begin("the timetable", self._run)
        return "the timetable"

    def stop(self) -> None:
        """Write down what was queued when."""
        self._beat.stop()
        super().stop()

    def _run(self) -> None:
        self._app.set_current()
        self._beat.start()


class CheckbackStep(HostStep):
    """The step of `--checkback`: this worker answers brokers' checks."""

    label = "Checkback"
    option = "checkback"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make a guest that answers; several workers may have one."""
        return CheckbackGuest(failed)


class TimetableStep(HostStep):
    """The step of `--timetable`: this worker queues what the timetable says; one worker of all does."""

    label = "Timetable"
    option = "timetable"

    def create(self, worker: Any) -> None:
        """Keep the app: its timetable is meant."""
        self._app = worker.app
        super().create(worker)

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that is Celery's beat."""
        return TimetableGuest(failed, self._app)


Pool.requires = (*(Pool.requires or ()), CheckbackStep, TimetableStep)


@worker_shutting_down.connect
def end_computing(**_: Any) -> None:
    """End what computes for this worker: it would wait for it until it is killed."""
    end_all()
