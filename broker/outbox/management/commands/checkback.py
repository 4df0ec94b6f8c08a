"""`manage.py checkback`: answers brokers that ask what became of a transaction, with or without web processes."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, close_old_connections, connections

from ....client import StopSignals
from ....log_lines import escaped
from ...configuration import NotConfigured, producer_groups
from ...decisions import clean
from ...transaction_block import close_all, producer_of

logger = logging.getLogger(__name__)
CLEAN_EVERY_S = 3600.0


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
        databases = options["database"] or list(connections)
        with StopSignals() as stop:
            for group in groups:
                producer_of(group).start()
            self.stdout.write(escaped(f"answering checks of {', '.join(groups)}"))
            self.stdout.flush()
            while not stop.is_set:
                for using in databases:
                    _clean(using)
                stop.wait(CLEAN_EVERY_S)
            close_all()


def _clean(using: str) -> None:
    try:
        count = clean(using)
    except Error as error:
        logger.warning("old rows of %s are not cleaned: %s", using, error)
    else:
        if count:
            logger.info("%d old rows of %s deleted", count, using)
    finally:
        close_old_connections()
