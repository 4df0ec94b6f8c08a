"""`manage.py doctor`: what is to be changed on this machine, in its settings, and at the servers of this house."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.doctor import Check, as_json, chosen, examine, exit_code, machine, ports, store, told
from broker.log_lines import escaped
from console.doctor import services, settings_checks

_START = "start it: `sudo systemctl start escapement-broker`, or `escapement-console serve broker`"


def all_checks() -> dict[str, Check]:
    """Return all checks; those of a broker's store and ports only where the broker is one of this house."""
    steps = machine.ClockSteps()
    found: dict[str, Check] = {}
    if "ESCAPEMENT_NAMESRV" not in os.environ:
        broker = partial(ports.port, "broker", settings.BROKER_HOST)
        found |= store.checks(Path(settings.BROKER_STORE))
        for name, place in settings.OTHER_STORES.items():
            found |= {f"{check}@{name}": look for check, look in store.checks(place).items()}
        found["port.broker"] = partial(broker, settings.BROKER_PORT, "ESCAPEMENT_BROKER_PORT")
        found["port.namesrv"] = partial(
            ports.port, "name service", settings.BROKER_HOST, settings.NAMESRV_PORT, "ESCAPEMENT_NAMESRV_PORT"
        )
        found["broker.ready"] = partial(ports.broker_ready, settings.BROKER_HOST, settings.BROKER_PORT, _START)
        found["permissions.umask"] = partial(ports.umask, settings.BROKER_PORT)
    found["port.web"] = partial(ports.port, "console", settings.WEB_HOST, settings.WEB_PORT, "ESCAPEMENT_WEB_PORT")
    return {**found, **services.checks(), **settings_checks.checks(), **machine.checks(steps)}


class Command(BaseCommand):
    """Run the checks and print what each found."""

    help = (
        "Looks at machine, settings and servers, says what to change, and changes nothing. Exit code 1: there is some."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take names of checks, and how to print."""
        parser.add_argument("check", nargs="*", help="only checks that begin so, such as clock or disk.sync")
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the findings; ends with 1 if something is to be changed."""
        try:
            checks = chosen(all_checks(), options["check"])
        except ValueError as error:
            raise CommandError(escaped(str(error)), returncode=2) from None
        found = list(examine(checks))
        for line in [as_json(found)] if options["json"] else told(found):
            self.stdout.write(escaped(line))
        if exit_code(found):
            raise SystemExit(1)
