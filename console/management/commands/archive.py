"""`manage.py archive keep|list|find|check`: closed segments of the log in Parquet, kept longer than the log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.log_lines import escaped
from console.features.archive import asking
from console.features.archive.asking import Answer, ArchiveUnavailable
from console.features.archive.shapes import Archived
from console.operations.typed_moments import bound_ms


class Command(BaseCommand):
    """Archive closed segments, list, search and check what is archived."""

    help = "Keeps closed segments of the log as Parquet, and searches them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: keep, list, find NAME, check."""
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("keep", help="archive what is closed now, and remove what is too old; Ctrl-C stops it")
        actions.add_parser("list", help="show what is archived of each broker")
        find = actions.add_parser("find", help="find messages by key, message id or offset id")
        find.add_argument("name", metavar="NAME")
        find.add_argument("--topic", default="", help="in this topic only")
        find.add_argument("--broker", default="", help="of this broker only")
        find.add_argument("--from", default="", dest="since", metavar="TIME", help="stored from: a time, or -90d")
        find.add_argument("--to", default="", dest="until", metavar="TIME", help="stored before")
        find.add_argument("--count", type=int, default=200, help="records at most, 1000 at the very most")
        find.add_argument("--json", action="store_true", help="all columns, properties and bodies: a line of JSON each")
        actions.add_parser("check", help="compare all files with their checksums")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        things = {"keep": self._keep, "list": self._list, "find": self._find, "check": self._check}
        try:
            things[options["action"]](options)
        except ArchiveUnavailable as error:
            raise CommandError(escaped(str(error))) from None
        except KeyboardInterrupt:
            self.stdout.write("stopped")

    def _keep(self, options: dict[str, Any]) -> None:
        outcome = asking.keep(lambda line: self._told("archived", line.get("written")))
        for log in outcome["logs"]:
            words = [f"{log['written']} segments archived"]
            if log["left"]:
                words.append(f"{log['left']} wait for room on the disk")
            words += [f"missing: positions {start:,} to {end:,}" for start, end in log["lost"]]
            if log["error"]:
                words.append(log["error"])
            self.stdout.write(escaped(f"{log['broker']}: {'; '.join(words)}"))
        if outcome["removed"]:
            self.stdout.write(f"{outcome['removed']:,} files removed that were too old")
        if any(log["error"] for log in outcome["logs"]):
            raise CommandError("Not everything was archived: see above.")

    def _list(self, options: dict[str, Any]) -> None:
        found = asking.listed()
        if not found:
            self.stdout.write("nothing is archived")
        for each in found:
            self.stdout.write(escaped(_line(each)))
            for start, end in each["gaps"]:
                self.stdout.write(f"  missing: positions {start:,} to {end:,}")
            for file in each["unreadable"]:
                self.stdout.write(escaped(f"  unreadable: {file}"))

    def _find(self, options: dict[str, Any]) -> None:
        errors: dict[str, str] = {}
        from_ms, to_ms = (bound_ms(options[name], name, errors, "back") for name in ("since", "until"))
        if errors:
            raise CommandError(escaped(" ".join(errors.values())))
        sought = {name: options[name] for name in ("name", "topic", "broker", "count")}
        answer = asking.found({**sought, "from_ms": from_ms, "to_ms": to_ms, "with_content": options["json"]})
        for row in answer["records"]:
            self.stdout.write(escaped(json.dumps(row) if options["json"] else _found(row)))
        if answer["is_cut"]:
            self.stderr.write("There are more: give --count, --topic, --from or --to.")
        for file in answer["unreadable"]:
            self.stderr.write(escaped(f"unreadable, left out: {file}"))
        if not answer["records"]:
            self.stderr.write("No archived record matches.")

    def _check(self, options: dict[str, Any]) -> None:
        outcome = asking.checked()
        self.stdout.write(f"{outcome['checked']:,} files checked, {len(outcome['damaged']):,} damaged")
        for file in outcome["damaged"]:
            self.stdout.write(escaped(file))
        if outcome["damaged"]:
            raise CommandError("Restore the damaged files from a backup, or remove them: what they hold is lost then.")

    def _told(self, what: str, file: str | None) -> None:
        if file is not None:
            self.stdout.write(escaped(f"{what} {file}"))


def _line(each: Answer) -> str:
    return (
        f"{each['broker']}: {each['records']:,} records of {each['segments']} segments, {_moment(each['first_ms'])} to "
        f"{_moment(each['last_ms'])}, {each['bytes']:,} bytes for {each['log_bytes']:,} of log"
    )


def _found(row: Answer) -> str:
    record = Archived.of(row)
    due = f" due {_moment(record.due_ms)}" if record.due_ms is not None else ""
    keys = f" keys {' '.join(record.keys)}" if record.keys else ""
    return (
        f"{_moment(record.store_ms)} {record.what} {record.topic}{due} id {record.unique_key or '-'}{keys} "
        f"[{record.broker} {record.position}]"
    )


def _moment(moment_ms: int | None) -> str:
    if moment_ms is None:
        return "-"
    return datetime.fromtimestamp(moment_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
