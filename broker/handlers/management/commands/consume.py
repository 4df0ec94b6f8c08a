"""`manage.py consume`: runs the handlers of all apps until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from ....client import DRAIN_S, ClientError, StopSignals
from ....log_lines import escaped
from ...consumers import consumers, stop_all
from ...registry import Handling, HandlingError, registered

#: Handlers were left behind.
EXIT_LATE = 1
DEFAULT_NAMESRV = "127.0.0.1:9876"


class Command(BaseCommand):
    """A consumer of each group that has handlers in an app's `handlers.py`."""

    help = "Consume messages with the handlers found in handlers.py of the installed apps."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which groups, and whether only to look."""
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
        for handling in chosen:
            self.stdout.write(escaped(f"{handling.group}: {handling.topic} [{handling.expression}] {handling.place}"))
        self.stdout.flush()
        if options["list"]:
            return
        namesrv = str(getattr(settings, "ESCAPEMENT_NAMESRV", DEFAULT_NAMESRV))
        try:
            made = consumers(chosen, namesrv, drain_timeout_s=options["drain_timeout"])
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


def _chosen(groups: list[str] | None) -> tuple[Handling, ...]:
    """The handlers of these groups; raises HandlingError when there are none."""
    known = registered()
    if not known:
        raise HandlingError(
            "No handlers: write functions with @consumer(topic, group) into handlers.py of an installed app."
        )
    missing = sorted(set(groups or ()) - {handling.group for handling in known})
    if missing:
        have = ", ".join(sorted({handling.group for handling in known}))
        raise HandlingError(f"No handlers for group {', '.join(missing)}; there are some for {have}.")
    return tuple(handling for handling in known if not groups or handling.group in groups)
