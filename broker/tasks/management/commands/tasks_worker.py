"""`manage.py tasks_worker`: runs the tasks of a backend until SIGTERM or SIGINT, and sends the outbox beside that.

Several processes are children of the one that was started; a child that dies is started again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.utils.crypto import get_random_string

from ....client import DRAIN_S, ClientError
from ....log_lines import escaped
from ....outbox.configuration import NotConfigured, namesrv, producer_group
from ....outbox.transaction_block import close_all
from ...configuration import check_queue

logger = logging.getLogger(__name__)

#: Tasks were left behind.
EXIT_LATE = 1
DEFAULT_THREADS = 8
DEFAULT_HELD_S = 60.0
#: A child that dies is started again after so long.
RESTART_S = 1.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Command(BaseCommand):
    """Threads, or processes with threads each, that run tasks."""

    #: In a child, the end of a pipe whose other end only its parent has: it is closed when that dies.
    _parent: int | None = None
    help = "Run the tasks of a backend (TASKS): those that are due, the most urgent first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options: which tasks, how many at once."""
        parser.add_argument("--backend", default="default", help="the entry of TASKS (default: %(default)s)")
        parser.add_argument("--queue", action="append", help="only this queue; can be repeated")
        parser.add_argument(
            "--threads", type=int, default=DEFAULT_THREADS, help="tasks in parallel (default: %(default)s)"
        )
        parser.add_argument("--processes", type=int, default=1, help="each with these threads (default: %(default)s)")
        parser.add_argument(
            "--drain-timeout", type=float, default=DRAIN_S, metavar="SECONDS",
            help="how long to wait for running tasks at the end (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--held", type=float, default=DEFAULT_HELD_S, metavar="SECONDS",
            help="a worker that is silent for so long counts as dead, its tasks run again (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument("--no-outbox", action="store_true", help="leave the outbox to `manage.py outbox`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal; tasks that have begun are waited for."""
        from ...backend import EscapementBackend
        from ...framework import task_backends

        backend = task_backends[options["backend"]]
        if not isinstance(backend, EscapementBackend):
            raise CommandError(escaped(f"TASKS[{options['backend']!r}] is another backend: its tasks run elsewhere."))
        for name, least in (("threads", 1), ("processes", 1), ("held", 1)):
            if options[name] < least:
                raise CommandError(f"--{name} {options[name]} is not valid: at least {least}.")
        queues = options["queue"] or sorted(backend.queues)
        try:
            producer_group(None)
            if not queues:
                raise ValueError("TASKS names no QUEUES: say which, --queue NAME.")
            for queue in queues:
                check_queue(backend.named, queue, queues)
                if backend.queues and queue not in backend.queues:
                    raise ValueError(
                        f"Queue {queue!r} is not in QUEUES: there are {', '.join(sorted(backend.queues))}."
                    )
        except (NotConfigured, ValueError) as error:
            raise CommandError(escaped(str(error))) from error
        if options["processes"] > 1:
            self._supervise(backend, queues, options)
        elif (left := self._work(backend, queues, options)) > 0:
            self._end_now(left)

    # One process.

    def _work(self, backend: Any, queues: list[str], options: dict[str, Any]) -> int:
        """Run tasks in this process; return how many were left behind."""
        from ...attempt import Worker
        from ...sending import keep_up
        from ...worker import prepare_topics

        named = backend.named
        worker = Worker(f"{socket.gethostname()[:24]}-{os.getpid()}-{get_random_string(6)}", named, options["held"])
        # the most urgent of all queues first
        topics = [topic for level in zip(*map(named.topics, queues), strict=True) for topic in level]
        try:
            prepare_topics(namesrv(), named.group, topics)
        except ClientError as error:
            logger.warning("the topics of the tasks are left as they are: %s", error)
        stopping = threading.Event()
        beside = threading.Thread(target=keep_up, args=(named, stopping), name="outbox", daemon=True)
        if not options["no_outbox"]:
            beside.start()
        self.stdout.write(escaped(f"{worker.id} runs tasks of {', '.join(queues)}"))
        self.stdout.flush()
        try:
            return asyncio.run(self._serve(worker, topics, options))
        finally:
            stopping.set()
            if beside.is_alive():
                beside.join(DRAIN_S)
            close_all()
            connections.close_all()

    async def _serve(self, worker: Any, topics: list[str], options: dict[str, Any]) -> int:
        from ...worker import Workshop

        workshop = Workshop(namesrv(), worker, topics, options["threads"])
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            if os.name == "posix":
                loop.add_signal_handler(number, workshop.stop)
            else:
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(workshop.stop))
        if (parent := self._parent) is not None:
            loop.add_reader(parent, self._orphaned, loop, parent, workshop)
        return await workshop.run(options["drain_timeout"])

    def _orphaned(self, loop: asyncio.AbstractEventLoop, parent: int, workshop: Any) -> None:
        """Stop as by a signal: the process that would start this one again has died."""
        loop.remove_reader(parent)
        workshop.stop()

    def _end_now(self, left: int) -> None:
        """End without the threads that Python would wait for, without end if need be."""
        self.stderr.write(f"{left:,} tasks did not end within the drain timeout: they run again")
        for stream in (self.stdout, self.stderr):
            stream.flush()
        logging.shutdown()
        os._exit(EXIT_LATE)

    # Several processes.

    def _supervise(self, backend: Any, queues: list[str], options: dict[str, Any]) -> None:
        """Keep the children alive until a signal, then have them end; ends with 1 if one left tasks behind."""
        if not hasattr(os, "fork"):
            raise CommandError("--processes needs a system that forks: start the command several times.")
        connections.close_all()
        self._parent, mine = os.pipe()
        children: set[int] = set()
        stopping = threading.Event()

        def stop(*_: object) -> None:
            stopping.set()
            for child in list(children):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)

        for number in STOP_SIGNALS:
            signal.signal(number, stop)
        failed = 0
        while True:
            while len(children) < options["processes"] and not stopping.is_set():
                children.add(self._child(mine, backend, queues, options))
            if stopping.is_set():
                stop()  # one that was born meanwhile
            if not children:
                break
            ended, status = os.waitpid(-1, 0)
            children.discard(ended)
            if stopping.is_set():
                failed |= status
            else:
                logger.error("worker process %d ended (%d), another one takes its place", ended, status)
                stopping.wait(RESTART_S)
        if failed:
            raise CommandError("tasks were left behind: they run again", returncode=EXIT_LATE)

    def _child(self, parents_end: int, backend: Any, queues: list[str], options: dict[str, Any]) -> int:
        """Fork a process that works, and return its id."""
        pid = os.fork()
        if pid:
            return pid
        code = EXIT_LATE
        try:
            os.close(parents_end)
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            code = EXIT_LATE if self._work(backend, queues, options) else 0
        except BaseException:
            logger.exception("worker process %d ends", os.getpid())
        finally:
            for stream in (self.stdout, self.stderr):
                stream.flush()
            logging.shutdown()
            os._exit(code)
