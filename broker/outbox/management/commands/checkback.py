"""`manage.py checkback`: answers brokers that ask what became of a transaction, with or without web processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from ....client import StopSignals
from ....log_lines import escaped
from ...answering import answer_checks
from ...configuration import NotConfigured, producer_groups


class Command(BaseCommand):
    """A producer of each group in ESCAPEMENT_PRODUCER_GROUPS, until SIGTERM or SIGINT; also cleans old rows."""

    help = "Answer brokers' checks from the database, for every group in ESCAPEMENT_PRODUCER_GROUPS."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option that names databases whose rows are cleaned."""
        parser.add_argument("--database", action="append", help="whose old rows are deleted (default: all)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal."""
        try:
            groups = producer_groups()
        except NotConfigured as error:
            raise CommandError(escaped(str(error))) from error
        with StopSignals() as stop:
            answer_checks(groups, options["database"] or list(connections), stop.wait, lambda: self._tell(groups))

    def _tell(self, groups: Sequence[str]) -> None:
        self.stdout.write(escaped(f"answering checks of {', '.join(groups)}"))
        self.stdout.flush()
