"""`manage.py look_at_store DIRECTORY`: what is in a store that is to move, and what of it can be had."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ....engine.disk import OsFiles
from ....engine.fsck.survey import Survey, survey, way_back
from ....log_lines import escaped


class Command(BaseCommand):
    """Say whether a store can be taken over, what is in it, what stays behind, and the same of the way back."""

    help = (
        "Inspect a store directory (ours or Apache RocketMQ's) whose broker is stopped, without changing it. Exit code"
        " 1: something is left out, 2: it cannot be taken over, or is no store."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one argument, the store's directory."""
        parser.add_argument("directory", help="the store: the folder that holds commitlog/ and consumequeue/")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what was found; a CommandError where something stays behind, or all does."""
        directory = options["directory"]
        try:
            look = survey(OsFiles(), directory, time.time_ns() // 1_000_000)
        except FileNotFoundError as error:
            raise CommandError(f"{directory} is not a store: there is no {error}.", returncode=2) from None
        self._say(f"last written by {look.writer}, {'stopped cleanly' if look.was_stopped else 'running or killed'}")
        for name, count in look.counts.items():
            self._say(f"{name}: {count:,}")
        if look.refused:
            raise CommandError(escaped("\n".join(look.refused)), returncode=2)
        self._say_ways(look, directory)
        if look.lost:
            raise CommandError(escaped("\n".join(f"stays behind: {what}" for what in look.lost)), returncode=1)
        self._say("Escapement takes all of it")

    def _say_ways(self, look: Survey, directory: str) -> None:
        """Print what Apache RocketMQ needs to open it, and makes of it."""
        for name, value in look.broker_conf().items():
            self._say(f"for Apache RocketMQ: {name}={value}")
        for what in way_back(look, OsFiles(), directory):
            self._say(f"at Apache RocketMQ: {what}")

    def _say(self, line: str) -> None:
        self.stdout.write(escaped(line))
