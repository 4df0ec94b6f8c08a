"""`manage.py restore`: make a store of a backup; the same as `python -m escapement_mq restore`."""

from __future__ import annotations

import sys

from django.core.management.base import BaseCommand

from broker.backup.command import restore


class Command(BaseCommand):
    """The command without Django's own options: what follows its name is handed on as it is."""

    help = "Restore a backup to an empty directory: `restore BACKUP STORE`, as of a time with `--until`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Run it and end with its exit code."""
        sys.exit(restore(argv[2:]))
