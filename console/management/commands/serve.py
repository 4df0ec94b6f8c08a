"""`manage.py serve NAME`: become one process of those that `manage.py run` keeps, for whoever else keeps processes."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker import log_lines
from broker.log_lines import escaped
from console.run.private_files import keep_private
from console.run.processes import served


class Command(BaseCommand):
    """Replace this process by the one of that name, so that signals reach it itself."""

    help = "Become one of the processes that `run` keeps: a broker by its name, `worker`, `web`, or a name service."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        """Add the name of the process."""
        parser.add_argument("name", help="`broker`, `worker`, `web`; where there are several brokers, one's own name")
        log_lines.add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Become that process, or say which there are."""
        specs = {spec.name: spec for spec in served()}
        spec = specs.get(options["name"])
        if spec is None:
            there = ", ".join(specs)
            raise CommandError(
                escaped(f"There is no process {options['name']!r} by these settings; there are: {there}.")
            )
        keep_private()
        log_lines.take_options(options)
        os.execve(spec.command[0], spec.command, os.environ | {"PYTHONUNBUFFERED": "1"} | spec.environment)  # noqa: S606 - our own command, no shell
