"""`manage.py consume`: runs the handlers of all apps until SIGTERM or SIGINT.

There is one consumer a group, and each message is handled with healthy database connections.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import close_old_connections
from django.utils.module_loading import autodiscover_modules

from ....client import DRAIN_S, ClientError, Consumer, Handler, StopSignals
from ....django import namesrv
from ....log_lines import escaped
from ....rocketmq.message import Message
from ... import HandlingError, Registration, registered

#: Handlers were left behind.
EXIT_LATE = 1


class Command(BaseCommand):
    """A consumer of each group that has handlers in an app's `handlers.py`."""

    help = "Consume messages with the handlers found in handlers.py of the installed apps."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options: which groups, and whether only to look."""
        parser.add_argument("--group", action="append", help="only this group; may be given more than once")
        parser.add_argument(
            "--drain-timeout", type=float, default=DRAIN_S, metavar="SECONDS",
            help="how long handlers that have begun are waited for at the end (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument("--list", action="store_true", help="print the handlers and end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal; handlers that have begun are waited for."""
        try:
            autodiscover_modules("handlers")
            chosen = _chosen(options["group"])
        except (HandlingError, ClientError) as error:
            raise CommandError(escaped(str(error))) from error
        for registration in chosen:
            self.stdout.write(
                escaped(f"{registration.group}: {registration.topic} [{registration.expression}] {registration.place}")
            )
        self.stdout.flush()
        if options["list"]:
            return
        try:
            made = consumers(chosen, namesrv(), drain_timeout_s=options["drain_timeout"])
        except ClientError as error:
            raise CommandError(str(error)) from error
        with StopSignals() as stop:
            try:
                for one in made.values():
                    one.start()
                self.stdout.write("consuming")
                self.stdout.flush()
                stop.wait()
            finally:
                stop_all(made.values())
        if late := sum(one.core.at_work for one in made.values()):
            self.stderr.write(f"{late:,} handlers did not end within the drain timeout: their messages come again")
            self._end_now()

    def _end_now(self) -> None:
        """End without the threads that Python would wait for, without end if need be."""
        for stream in (self.stdout, self.stderr):
            stream.flush()
        logging.shutdown()
        os._exit(EXIT_LATE)


def _chosen(groups: list[str] | None) -> tuple[Registration, ...]:
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


def consumers(
    registrations: Iterable[Registration], namesrv: str, *, drain_timeout_s: float = DRAIN_S
) -> dict[str, Consumer]:
    """Return a consumer for each group, not started, with the handlers of its topics. Raises InvalidArgument."""
    made: dict[str, Consumer] = {}
    for registration in registrations:
        one = made.get(registration.group)
        if one is None:
            options = registration.options
            one = made[registration.group] = Consumer(
                registration.group,
                namesrv,
                from_where=options.from_where,
                handlers=options.threads,
                orderly=options.orderly,
                max_reconsume_times=options.max_reconsume_times,
                suspend_ms=options.suspend_ms,
                trace=options.trace,
                drain_timeout_s=drain_timeout_s,
            )
        one.subscribe(registration.topic, registration.expression, with_connections(registration.handler))
    return made


def stop_all(running: Iterable[Consumer]) -> None:
    """Stop all at the same time: none begins anything while another one is waited for."""
    stopping = list(running)
    with ThreadPoolExecutor(len(stopping) or 1) as pool:
        list(pool.map(lambda each: each.stop(), stopping))


def with_connections(handler: Handler) -> Handler:
    """Wrap a handler as Django does a request: connections that died or are too old are dropped before and after.

    A coroutine function is left alone: it has no thread of its own, and Django's connections belong to threads.
    """
    if inspect.iscoroutinefunction(handler):
        return handler

    @functools.wraps(handler)
    def handle(message: Message) -> object:
        close_old_connections()
        try:
            return handler(message)
        finally:
            close_old_connections()

    return handle
