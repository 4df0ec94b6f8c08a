"""`manage.py rehearse`: prove a backup without touching the broker; the same as `python -m escapement_mq rehearse`."""

from __future__ import annotations

import sys

from django.core.management.base import BaseCommand

from broker.backup.command import rehearsal


class Command(BaseCommand):
    """The command without Django's own options: what follows its name is handed on as it is."""

    help = "Restore a backup to a temporary directory, open it, count and check it: `rehearse BACKUP`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Run it and end with its exit code."""
        sys.exit(rehearsal(argv[2:]))
