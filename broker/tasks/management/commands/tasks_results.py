"""`manage.py tasks_results`: says what waits, runs and failed; deletes what is over; sends again what was lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Min
from django.utils import timezone

from ....log_lines import escaped
from ...configuration import Options
from ...models import Status, TaskRow


class Command(BaseCommand):
    """What is in the table of tasks, and what is done about it."""

    help = "Count tasks by state; or delete those that are over (--clean), or resend lost ones (--send-again)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options: of which backend, and what to do."""
        parser.add_argument("--backend", default="default", help="the entry of TASKS (default: %(default)s)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--clean", action="store_true", help="delete what is over for longer than KEEP_DAYS")
        what.add_argument(
            "--send-again", type=float, metavar="MINUTES",
            help="resend tasks that were due this long ago and did not run: their messages are lost, or late",
        )  # fmt: skip
        parser.add_argument("--days", type=float, help="with --clean: instead of KEEP_DAYS")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked for, in each database of the backend."""
        from ...backend import EscapementBackend
        from ...framework import task_backends
        from ...sending import send_again
        from ...states import clean

        alias = options["backend"]
        backend = task_backends[alias]
        if not isinstance(backend, EscapementBackend):
            raise CommandError(escaped(f"TASKS[{alias!r}] is another backend: its tasks are not here."))
        if options["days"] is not None and not options["clean"]:
            raise CommandError("--days belongs to --clean.")
        named = backend.named
        for using in named.own_databases():
            if options["clean"]:
                count = clean(using, named.keep_days if options["days"] is None else options["days"])
                self.stdout.write(f"{using}: {count:,} tasks deleted")
            elif options["send_again"] is not None:
                before = timezone.now() - timedelta(minutes=options["send_again"])
                self.stdout.write(f"{using}: {send_again(using, named, alias, before):,} tasks resent")
            else:
                self._tell(using, named)

    def _tell(self, using: str, named: Options) -> None:
        rows = TaskRow.objects.using(using)
        found = rows.values("queue_name", "status").annotate(count=Count("pk"), due_at=Min("due_at"))
        for each in found.order_by("queue_name", "status"):
            line = f"{using}: {each['queue_name']} {each['status']} {each['count']:,}"
            if each["status"] == Status.READY:
                line += f", the first due {each['due_at']:%Y-%m-%d %H:%M:%S %Z}".rstrip()
            self.stdout.write(escaped(line))
        if not found:
            self.stdout.write(escaped(f"{using}: no tasks; those that are over are kept for {named.keep_days:g} days"))
