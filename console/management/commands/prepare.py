"""`manage.py prepare`: tables up to date, their roles, and a first login, before anything else starts."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from broker.log_lines import escaped
from console.run.database_roles import OWNER
from console.run.private_files import ensure_first_login

BETWEEN_S = 1.0


class Command(BaseCommand):
    """Migrate the database, give its roles their rights, and make the first login when there is no user yet. Does
    nothing the second time."""

    help = "Bring the database up to date and create the first login."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare how long a database that does not respond yet is waited for."""
        parser.add_argument(
            "--wait-s", type=float, default=0.0, metavar="SECONDS",
            help="how long to wait for a database that does not respond yet, as after a boot; 0: not at all",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        """Wait for the database, migrate, then give rights to what is new, then create the first login."""
        self._wait(time.monotonic() + options["wait_s"])
        # with its checks: a database that cannot be brought up to date is refused before anything is changed
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout, skip_checks=False)
        if OWNER in settings.DATABASES:
            call_command("database_roles", stdout=self.stdout)
        if ensure_first_login():
            self.stdout.write("created the first login")

    def _wait(self, until_s: float) -> None:
        """Return when the database answers, or at `until_s`; say each new reason for which it does not."""
        told = ""
        # the application's own role is made by this command
        connection = connections[OWNER if OWNER in settings.DATABASES else DEFAULT_DB_ALIAS]
        while time.monotonic() < until_s:
            try:
                connection.ensure_connection()
            except OperationalError as error:
                reason = " ".join(str(error).split())
                if reason != told:
                    self.stdout.write(escaped(f"waiting for the database: {reason}"))
                    self.stdout.flush()
                told = reason
                time.sleep(min(BETWEEN_S, max(0.0, until_s - time.monotonic())))
            else:
                return
