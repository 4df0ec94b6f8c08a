"""`manage.py sends BROKER stop|allow --reason TEXT`: whether producers may send to a broker, by the name servers."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from broker.client import ClientError
from broker.log_lines import escaped
from console.features.topics.sends_operations import set_sends
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import OperationError


class Command(BaseCommand):
    """Stop new sends to a broker, or allow them again."""

    help = (
        "Stops new sends to a broker at all name servers (stop), or allows them again (allow). Producers apply it "
        "within 30 s. Messages there are still consumed, and pending ones are delivered."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Arguments: the broker, what is to be, and the reason."""
        parser.add_argument("broker", metavar="BROKER", help="broker-a; of a further cluster: lisbon/broker-a")
        parser.add_argument("what", choices=("stop", "allow"))
        parser.add_argument("--reason", required=True, help="reason; kept in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and say how many topics each name server told."""
        actor = Actor(f"shell {getpass.getuser()}", frozenset(PERMISSIONS))
        is_allowed = options["what"] == "allow"
        try:
            counts = set_sends(options["broker"], is_allowed, actor, options["reason"])
        except (ClientError, OperationError, Http404) as error:
            raise CommandError(escaped(str(error) or type(error).__name__)) from None
        for namesrv, count in counts.items():
            said = "may be sent to" if is_allowed else "nothing may be sent to"
            self.stdout.write(escaped(f"{namesrv}: {said} {options['broker']} ({count} topics)"))
