"""`manage.py consume`: runs the handlers of all apps until SIGTERM or SIGINT, or until nothing is left (`--drain`).

There is one consumer a group in each process, and each message is handled with healthy database connections.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections
from django.utils import autoreload
from django.utils.module_loading import autodiscover_modules

from ....client import DRAIN_S, ClientError, Consumer, StopSignals
from ....django import namesrv
from ....log_lines import escaped
from ... import HandlingError, Registration, registered
from ...consuming import consumers, has_drained, stop_all
from ...health import HealthPort
from ...processes import run_in_processes

logger = logging.getLogger(__name__)

#: Handlers were left behind.
EXIT_LATE = 1
#: How often is looked whether anything is left, how often in a row nothing must be, and how often rows are cleaned.
LOOK_S, LOOKS, CLEAN_S = 0.5, 2, 3600.0


class Stop(Protocol):
    """What ends the command."""

    def wait(self, timeout_s: float | None = None, /) -> bool:
        """Wait until it is to end, at most so long."""


class Command(BaseCommand):
    """A consumer of each group that has handlers in an app's `handlers.py`."""

    help = "Consume messages with the handlers found in handlers.py of the installed apps."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options: which groups, how many processes, when to end, and whether only to look."""
        parser.add_argument("--group", action="append", help="only this group; can be repeated")
        parser.add_argument(
            "--drain-timeout", type=float, default=DRAIN_S, metavar="SECONDS",
            help="how long to wait at the end for handlers that have begun (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument("--list", action="store_true", help="print the handlers and end")
        parser.add_argument("--drain", action="store_true", help="end when no message is left that can be handled now")
        parser.add_argument("--reload", action="store_true", help="begin again when code changes (for development)")
        parser.add_argument("--processes", type=int, default=1, help="how many to run (default: %(default)s)")
        parser.add_argument(
            "--health-port", type=int, help="answer /healthz and /metrics there; process n at the port n further"
        )
        parser.add_argument("--health-host", default="127.0.0.1", help="address of that port (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal; handlers that have begun are waited for."""
        _check(options)
        if options["reload"]:
            autoreload.run_with_reloader(self._run_reloaded, options)
            return
        chosen = self._chosen(options)
        if options["list"]:
            return
        if options["processes"] == 1:
            if code := self._run(chosen, options):
                self._end_now(code)
            return
        connections.close_all()  # a connection belongs to one process
        kept = not options["drain"]
        if code := run_in_processes(options["processes"], lambda nth: self._run(chosen, options, nth), is_kept=kept):
            self._end_now(code)

    def _run_reloaded(self, options: Mapping[str, Any]) -> None:
        """Run in a thread of the reloader, which ends the process when code changes: what was begun comes again."""
        autoreload.raise_last_exception()
        self._consume(self._chosen(options), options, threading.Event(), 0)

    def _chosen(self, options: Mapping[str, Any]) -> tuple[Registration, ...]:
        try:
            autodiscover_modules("handlers")
            chosen = _of_groups(options["group"])
        except (HandlingError, ClientError) as error:
            raise CommandError(escaped(str(error))) from error
        for registration in chosen:
            self.stdout.write(
                escaped(f"{registration.group}: {registration.topic} [{registration.expression}] {registration.place}")
            )
        self.stdout.flush()
        return chosen

    def _run(self, chosen: Sequence[Registration], options: Mapping[str, Any], number: int = 0) -> int:
        with StopSignals() as stop:
            return self._consume(chosen, options, stop, number)

    def _consume(self, chosen: Sequence[Registration], options: Mapping[str, Any], stop: Stop, number: int) -> int:
        """Consume until `stop`; return the code to end with."""
        try:
            made = consumers(chosen, namesrv(), drain_timeout_s=options["drain_timeout"])
        except ClientError as error:
            raise CommandError(escaped(str(error))) from error
        with ExitStack() as block:
            if (port := options["health_port"]) is not None:
                block.enter_context(HealthPort(made, options["health_host"], port + number if port else 0))
            try:
                for one in made.values():
                    one.start()
                self.stdout.write("consuming")
                self.stdout.flush()
                _wait(stop, made, chosen, drains=options["drain"])
            finally:
                stop_all(made.values())
        if late := sum(one.core.at_work for one in made.values()):
            self.stderr.write(f"{late:,} handlers did not end within the drain timeout: their messages are redelivered")
            return EXIT_LATE
        return 0

    def _end_now(self, code: int) -> None:
        """End without the threads that Python would wait for, without end if need be."""
        for stream in (self.stdout, self.stderr):
            stream.flush()
        logging.shutdown()
        os._exit(code)


def _check(options: Mapping[str, Any]) -> None:
    if options["processes"] < 1:
        raise CommandError("--processes is at least 1.")
    if options["processes"] > 1 and not hasattr(os, "fork"):
        raise CommandError("--processes needs a system with fork: begin the command several times instead.")
    if options["reload"] and (options["processes"] > 1 or options["drain"]):
        raise CommandError("--reload goes with neither --processes nor --drain.")


def _wait(stop: Stop, made: Mapping[str, Consumer], chosen: Sequence[Registration], *, drains: bool) -> None:
    """Wait until `stop`, or until nothing is left; meanwhile rows of the inbox that are old go."""
    inboxes = {each.once if isinstance(each.once, str) else None for each in chosen if each.once}
    if not drains:
        _clean(inboxes)
        while not stop.wait(CLEAN_S):
            _clean(inboxes)
        return
    empty = 0
    while empty < LOOKS and not stop.wait(LOOK_S):
        empty = empty + 1 if has_drained(made.values()) else 0


def _clean(inboxes: set[str | None]) -> None:
    if not inboxes:
        return
    from ...inbox import clean

    for using in inboxes:
        try:
            clean(using)
        except Error as error:
            logger.warning("old rows of the inbox are not cleaned: %s", error)
    connections.close_all()


def _of_groups(groups: list[str] | None) -> tuple[Registration, ...]:
    """Return the handlers of these groups; raise HandlingError when there are none."""
    known = registered()
    if not known:
        raise HandlingError(
            "No handlers: write functions with @consumer(topic, group) into handlers.py of an installed app."
        )
    missing = sorted(set(groups or ()) - {registration.group for registration in known})
    if missing:
        have = ", ".join(sorted({registration.group for registration in known}))
        raise HandlingError(f"No handlers for group {', '.join(missing)}; there are some for {have}.")
    return tuple(registration for registration in known if not groups or registration.group in groups)
