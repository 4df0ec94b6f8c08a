"""`manage.py backup`: take a backup of a store beside its broker; the same as `python -m escapement_mq backup`."""

from __future__ import annotations

import sys

from django.core.management.base import BaseCommand

from broker.backup.command import backup


class Command(BaseCommand):
    """The command without Django's own options: what follows its name is handed on as it is."""

    help = "Take a backup of a store whose broker may run: `backup STORE --to DIRECTORY`, or `--to -` for a tar stream."

    def run_from_argv(self, argv: list[str]) -> None:
        """Run it and end with its exit code."""
        sys.exit(backup(argv[2:]))
