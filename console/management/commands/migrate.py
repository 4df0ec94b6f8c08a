"""`manage.py migrate`: Django's own, by the owner of the tables where that is another role than the application's."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.commands import migrate

from console.run.database_roles import OWNER, as_owner


class Command(migrate.Command):
    """Migrate as the owner, unless a database is named."""

    def add_arguments(self, parser: Any) -> None:
        """Take Django's options, with another default."""
        super().add_arguments(parser)
        if OWNER in settings.DATABASES:
            parser.set_defaults(database=OWNER)

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate; what is noted in the audit meanwhile is written by the owner, too."""
        if options["database"] != OWNER:
            super().handle(*args, **options)
            return
        with as_owner():
            super().handle(*args, **options)
