"""`manage.py prepare`: tables up to date, their roles, and a first login, before anything else starts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from console.run.database_roles import OWNER
from console.run.private_files import ensure_first_login


class Command(BaseCommand):
    """Migrate the database, give its roles their rights, and make the first login when there is no user yet. Does
    nothing the second time."""

    help = "Bring the database up to date and create the first login."

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, then give rights to what is new, then create the first login."""
        # with its checks: a database that cannot be brought up to date is refused before anything is changed
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout, skip_checks=False)
        if OWNER in settings.DATABASES:
            call_command("database_roles", stdout=self.stdout)
        if ensure_first_login():
            self.stdout.write("created the first login")
