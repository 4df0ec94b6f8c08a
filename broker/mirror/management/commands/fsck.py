"""`manage.py fsck DIRECTORY`: check a store without changing it; safe beside a running broker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ....engine.disk import OsFiles
from ....engine.errors import StoreUnsupported
from ....engine.fsck import Report
from ....engine.fsck.store import check_store
from ....log_lines import escaped

#: Lines of each kind that are printed; a store that is worse than that is not read line by line.
_LINES = 200


class Command(BaseCommand):
    """Check every checksum of a store's log, its queues and index against the log, and its tables."""

    help = "Check a store directory (ours or Apache RocketMQ's) without changing it. Exit code 1: something is damaged."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one argument, the store's directory."""
        parser.add_argument("directory", help="the store: the folder that holds commitlog/ and consumequeue/")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print counts and every damaged range; a CommandError where there is damage or no store."""
        directory = options["directory"]
        try:
            report = check_store(OsFiles(), directory)
        except FileNotFoundError as error:
            raise CommandError(f"{directory} is not a store: there is no {error}.", returncode=2) from None
        except StoreUnsupported as error:
            raise CommandError(str(error), returncode=2) from None
        self._print(report)
        if not report.is_sound:
            raise CommandError(f"{len(report.damages):,} places are damaged; everything else can be read.")
        self.stdout.write("sound")

    def _print(self, report: Report) -> None:
        for name, count in report.counts.items():
            self.stdout.write(f"{name}: {count:,}")
        for title, places in (("damaged", report.damages), ("not finished", report.unfinished)):
            for place in places[:_LINES]:
                self.stdout.write(escaped(f"{title}: {place}"))
            if len(places) > _LINES:
                self.stdout.write(f"{title}: and {len(places) - _LINES:,} more")
