"""`manage.py demo flights`: real flights as delayed messages, so that there is something to watch."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.log_lines import escaped
from console.run.flights import FIRST_DAY, FlightsUnavailable, ensure_days
from console.run.replay import DEFAULT_SPEED, Options, Replay

SLOWEST, FASTEST = 1.0, 1440.0


def minute_of(text: str) -> float:
    """Return minutes since the year began of a moment such as ``2013-07-01T06:00``. Raises ValueError."""
    given = datetime.fromisoformat(text)
    if given.year != FIRST_DAY.year or given.tzinfo is not None:
        raise ValueError(text)
    return (given.date() - FIRST_DAY).days * 1440.0 + given.hour * 60 + given.minute


class Command(BaseCommand):
    """Replay the flights of New York, 2013."""

    help = "Replays the flights that left New York in 2013 as delayed messages; goes on where it stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommand: flights [--speed N] [--from WHEN]."""
        parser.add_argument("scene", choices=["flights"], help="what to replay")
        parser.add_argument("--speed", type=float, default=DEFAULT_SPEED, help="times faster (48: a day in 30 minutes)")
        parser.add_argument("--from", dest="start", metavar="WHEN", help="begin anew at, for example, 2013-07-01T06:00")

    def handle(self, *args: Any, **options: Any) -> None:
        """Replay until SIGINT or SIGTERM."""
        if not SLOWEST <= options["speed"] <= FASTEST:
            raise CommandError(f"--speed must be from {SLOWEST:g} to {FASTEST:g}.")
        try:
            start = minute_of(options["start"]) if options["start"] else None
        except ValueError:
            raise CommandError("--from must be a time of 2013 such as 2013-07-01T06:00.") from None
        chosen = Options(settings.ESCAPEMENT_NAMESRV, settings.VAR / "demo", options["speed"], start)
        try:
            asyncio.run(self._replay(chosen))
        except FlightsUnavailable as error:
            raise CommandError(escaped(str(error))) from None

    async def _replay(self, options: Options) -> None:
        loop = asyncio.get_running_loop()
        preparing = asyncio.ensure_future(asyncio.to_thread(ensure_days, options.directory))
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        end = asyncio.ensure_future(ended.wait())
        await asyncio.wait({preparing, end}, return_when=asyncio.FIRST_COMPLETED)
        if ended.is_set():
            preparing.cancel()
            return
        replay = Replay(options, preparing.result(), self._tell)
        end.add_done_callback(lambda _: replay.end())
        await replay.run()

    def _tell(self, line: str) -> None:
        self.stdout.write(escaped(f"flights: {line}"))
        self.stdout.flush()
