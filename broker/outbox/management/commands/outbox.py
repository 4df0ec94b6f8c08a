"""`manage.py outbox`: sends what send_later() wrote, until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, Error, close_old_connections

from ....client import TransactionProducer
from ....client.stopsignals import StopSignals
from ...configuration import producer_group
from ...errors import NotConfigured
from ...later import send_waiting
from ...producers import close_all, producer_of

logger = logging.getLogger(__name__)
#: Pause after a turn that found nothing, and the longest one after failures.
POLL_S = 0.2
LONGEST_PAUSE_S = 5.0


class Command(BaseCommand):
    """A worker of the outbox; several may run at once."""

    help = "Send the messages that send_later() wrote."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which rows, in whose name, and whether to stay."""
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="whose rows (an entry of DATABASES)")
        parser.add_argument("--group", help="producer group to send in (default: the first of the setting)")
        parser.add_argument("--once", action="store_true", help="send what is there and end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal."""
        try:
            producer = producer_of(producer_group(options["group"]))
        except NotConfigured as error:
            raise CommandError(str(error)) from error
        with StopSignals() as stop:
            self.stdout.write(f"sending the outbox of {options['database']}")
            self.stdout.flush()
            _send_all(producer, options["database"], stop, once=options["once"])
            close_all()


def _send_all(producer: TransactionProducer, using: str, stop: StopSignals, *, once: bool) -> None:
    failures = 0
    while not stop.is_set:
        sent = failed = 0
        try:
            sent, failed = send_waiting(producer, using)
        except Error as error:
            failed = 1
            logger.warning("the outbox cannot be read: %s", error)
        finally:
            close_old_connections()
        if failed:
            failures += 1
            logger.warning("%d messages of the outbox not sent, tried again", failed)
        if once and not sent:
            return
        if failed or not sent:
            failures = failures if failed else 0
            stop.wait(min(POLL_S * 2**failures, LONGEST_PAUSE_S))
