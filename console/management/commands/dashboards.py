"""`manage.py dashboards run|list|cancel`: compute dashboards from the log, see what ran, end what runs."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connection

from broker.log_lines import escaped
from console.features.dashboards import DASHBOARDS
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardRun


class Command(BaseCommand):
    """Compute dashboards, list and end runs."""

    help = "Computes dashboards from the broker's log."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: run [NAME ...], list, cancel BATCH."""
        actions = parser.add_subparsers(dest="action", required=True)
        run = actions.add_parser("run", help="compute dashboards; all of them if none is named")
        run.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DASHBOARDS))
        run.add_argument("--since", default="all", metavar="WINDOW", help="how far back: 24h, 7d, ...; all by default")
        run.add_argument(
            "--store", default="", help="the store to read (those of all brokers by default); also hdfs://, s3://"
        )
        run.add_argument("--broker", default="", help="whose store that is; alone: this broker and no others")
        run.add_argument(
            "--namesrv", default="", metavar="HOST:PORT", help="ask that broker by its name servers, where no store is"
        )
        run.add_argument(
            "--follow", action="store_true", help="run until Ctrl-C; only flow is followed record by record"
        )
        run.add_argument("--interval", type=float, default=60.0, metavar="S", help="with --follow: from end to start")
        listed = actions.add_parser("list", help="show the latest runs")
        listed.add_argument("--count", type=int, default=20)
        cancel = actions.add_parser("cancel", help="stop a batch that is queued or running")
        cancel.add_argument("batch", type=uuid.UUID)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        try:
            connection.ensure_connection()
        except OperationalError as error:
            raise CommandError(
                f"PostgreSQL does not respond: {str(error).strip().splitlines()[0]}. The dashboards are kept there: "
                "start it (`make run` does), or set DATABASE_URL."
            ) from None
        {"run": self._run, "list": self._list, "cancel": self._cancel}[options["action"]](options)

    def _run(self, options: dict[str, Any]) -> None:
        names = options["names"] or tuple(DASHBOARDS)
        if options["namesrv"]:
            names = _without_files(options)
        if not 0 <= options["interval"] < math.inf:
            raise CommandError(f"--interval {options['interval']}: give a number of seconds from 0 on.")
        if options["store"] and "://" not in options["store"]:
            options["store"] = os.path.abspath(options["store"])  # whoever reads it works in another directory
        try:
            with _sigterm_as_interrupt():
                self._go_on(names, options)
        except KeyboardInterrupt:
            self.stdout.write("stopped")

    def _go_on(self, names: Sequence[str], options: dict[str, Any]) -> None:
        """Compute once, or again and again until KeyboardInterrupt."""
        if options["follow"] and list(names) == ["flow"] and not options["namesrv"]:
            if options["since"] != "all":
                raise CommandError("flow alone is followed from the beginning of the log: leave out --since.")
            self._guarded(lambda: dashboards_runs.follow(store=options["store"], broker=options["broker"]))
            return
        while True:
            self._run_once(names, options)
            if not options["follow"]:
                return
            time.sleep(options["interval"])

    def _run_once(self, names: Sequence[str], options: dict[str, Any]) -> None:
        batch = uuid.uuid4()

        def compute() -> None:
            nonlocal batch
            batch = _queued(names, options)
            dashboards_runs.run_batch(batch)

        self._guarded(compute)
        for run in DashboardRun.objects.filter(batch=batch).order_by("queued_at", "id"):
            self.stdout.write(escaped(_line(run)))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run `work`; a failure is told in one line."""
        try:
            work()
        except (ValueError, dashboards_runs.DashboardsUnavailable) as error:
            raise CommandError(escaped(str(error))) from None
        except subprocess.CalledProcessError:
            failed = DashboardRun.objects.filter(state="failed").order_by("-finished_at").first()
            raise CommandError(failed.error if failed else "Its process exited without a message.") from None

    def _list(self, options: dict[str, Any]) -> None:
        dashboards_runs.fail_abandoned()
        for run in DashboardRun.objects.all()[: max(0, options["count"])]:
            self.stdout.write(escaped(f"{run.batch} {run.queued_at:%Y-%m-%d %H:%M:%S} {_line(run)}"))

    def _cancel(self, options: dict[str, Any]) -> None:
        if not dashboards_runs.cancel(options["batch"]):
            raise CommandError(
                f"No batch {options['batch']} waits or runs; `dashboards list` shows batches and their states."
            )


def _without_files(options: dict[str, Any]) -> Sequence[str]:
    """Choose the name servers as what is read; return the dashboards that need no files of the log."""
    if options["store"]:
        raise CommandError("--store and --namesrv are two ways to the same messages: leave one out.")
    options["store"] = f"{dashboards_runs.CLUSTER}{options['namesrv']}"
    _refuse_files(options["names"], options["store"])
    return dashboards_runs.readable(options["names"] or tuple(DASHBOARDS), options["store"])


def _queued(names: Sequence[str], options: dict[str, Any]) -> uuid.UUID:
    """Queue what is asked for: of one broker that is named, or whose store is, else of all there are."""
    store, broker = options["store"], options["broker"]
    if not store and not broker:
        parts = dashboards_runs.parts_in_total()
        if parts:
            _refuse_files(options["names"], *(part["source"] for part in parts))
            return dashboards_runs.queue_total(names, options["since"], parts)
    store = store or (dashboards_runs.source_of(broker) if broker else "")
    _refuse_files(options["names"], store)
    names = dashboards_runs.readable(names, store)
    return dashboards_runs.queue(names, options["since"], store=store, broker=broker)


def _refuse_files(names: Sequence[str], *sources: str) -> None:
    """Refuse a dashboard about files that is named where nothing but messages can be had."""
    if dashboards_runs.OF_FILES in names and not dashboards_runs.readable((dashboards_runs.OF_FILES,), *sources):
        raise CommandError(
            f"{dashboards_runs.OF_FILES} is about the files of the log: give --store, or name other dashboards."
        )


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C meanwhile, so that what is under way is marked as stopped."""

    def end(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _line(run: DashboardRun) -> str:
    if run.state != DashboardRun.State.DONE:
        return f"{run.dashboard} {run.window}: {run.state} {run.error}".strip()
    said = f"{run.dashboard} {run.window}: {run.points.count():,} points from {run.rows_read or 0:,} records "
    took = f" in {(run.duration_ms or 0) / 1000:.1f} s" + (f" by {run.engine_name}" if run.engine else "")
    if not run.parts:
        return f"{said}[{run.start_position:,}, {run.end_position:,}){took}"
    lacking = "".join(f"; without {part['broker']}: {part['error']}" for part in run.lacking)
    read = ", ".join(part["broker"] for part in run.parts if not part.get("error"))
    return f"{said}of {read}{took}{lacking}"
