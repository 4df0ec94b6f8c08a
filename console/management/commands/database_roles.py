"""`manage.py database_roles`: what each role of PostgreSQL may do, given anew."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker.log_lines import escaped
from console.run.database_roles import OWNER, RolesFailed, give, roles, steps


class Command(BaseCommand):
    """Give the roles of the application, of Spark and of readers their rights, and nothing else; does nothing twice."""

    help = "Give the application, Spark and readers the least rights in PostgreSQL. Idempotent; `prepare` does it, too."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        """Add the choice to look only."""
        parser.add_argument("--check", action="store_true", help="do nothing; exit code 1 if there is something to do")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print each statement; with `--check` say what is missing."""
        if OWNER not in settings.DATABASES:
            raise CommandError(
                "One role does everything: set ESCAPEMENT_DATABASE_OWNER_URL to the address of the one that owns the"
                " tables, and DATABASE_URL to that of another one (docs/DEPLOY.md)."
            )
        try:
            wanted = roles(settings)
            todo = steps(wanted) if options["check"] else give(wanted)
        except RolesFailed as failure:
            raise CommandError(str(failure)) from None
        for step in todo:
            self.stdout.write(escaped(f"{step.shown};"))
        names = ", ".join(f"{each.name} ({each.part})" for each in wanted)
        if todo and options["check"]:
            raise CommandError(f"{len(todo)} rights are not as they should be: {names}.")
        self.stdout.write(escaped(f"{len(todo) or 'no'} changes: {names}"))
