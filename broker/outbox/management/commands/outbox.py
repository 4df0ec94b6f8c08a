"""`manage.py outbox`: sends what send_later() wrote, until SIGTERM or SIGINT; tells what waits, frees what is stuck."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, Error, close_old_connections

from ....client import StopSignals
from ....log_lines import escaped
from ...after_commit import Turn, Worker, send_again, stuck, waiting
from ...configuration import NotConfigured, producer_group
from ...transaction_block import close_all, producer_of

logger = logging.getLogger(__name__)
#: Pause after a turn that sent nothing, and the longest one while the database is away.
POLL_S = 0.2
LONGEST_PAUSE_S = 5.0


class Command(BaseCommand):
    """A worker of the outbox; several may run in parallel."""

    help = "Send the messages that send_later() wrote; or show what is pending (--status), or retry what is stuck."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options: which rows, in whose name, and whether to stay."""
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="whose rows (an entry of DATABASES)")
        parser.add_argument("--group", help="producer group to send in (default: the first of the setting)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--once", action="store_true", help="send what is there, show what is left, and end")
        what.add_argument("--status", action="store_true", help="show what is pending and what is stuck, and end")
        what.add_argument("--send-again", action="store_true", help="let the workers retry stuck rows, and end")
        parser.add_argument("--topic", action="append", default=[], help="with --send-again: only of this topic")
        parser.add_argument("--id", action="append", type=int, default=[], help="with --send-again: only this row")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal."""
        using = options["database"]
        if (options["topic"] or options["id"]) and not options["send_again"]:
            raise CommandError("--topic and --id belong to --send-again.")
        if options["status"]:
            self._tell(using)
            return
        if options["send_again"]:
            count = send_again(stuck(using, topics=options["topic"], ids=options["id"]))
            self.stdout.write(f"{count} stuck messages are retried")
            return
        try:
            producer = producer_of(producer_group(options["group"]))
        except NotConfigured as error:
            raise CommandError(escaped(str(error))) from error
        with StopSignals() as stop:
            self.stdout.write(f"sending the outbox of {using}")
            self.stdout.flush()
            _send_all(Worker(producer, using), stop, once=options["once"])
            close_all()
        if options["once"]:
            self._tell(using)

    def _tell(self, using: str) -> None:
        found = waiting(using)
        if not found:
            self.stdout.write("nothing is pending")
        for each in found:
            line = f"{each.topic}: {each.count} pending since {each.oldest_at:%Y-%m-%d %H:%M:%S %Z}, {each.stuck} stuck"
            if each.next_attempt_at is not None:
                line += f", next attempt {each.next_attempt_at:%H:%M:%S}"
            self.stdout.write(escaped(line + (f": {each.reason}" if each.reason else "")))
        if any(each.stuck for each in found):
            self.stdout.write("retry what is stuck with: manage.py outbox --send-again [--topic ...]")


def _send_all(worker: Worker, stop: StopSignals, *, once: bool) -> None:
    failures = 0
    while not stop.is_set:
        turn = Turn()
        try:
            turn = worker.turn()
            failures = 0
        except Error as error:
            failures += 1
            # said once for each outage
            logger.log(logging.DEBUG if failures > 1 else logging.WARNING, "the outbox cannot be read: %s", error)
        finally:
            close_old_connections()
        if once and not turn.sent:
            return
        if not turn.sent:
            stop.wait(min(POLL_S * 2 ** min(failures, 10), LONGEST_PAUSE_S))
