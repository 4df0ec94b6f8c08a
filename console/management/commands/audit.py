"""`manage.py audit verify|export`: whether the audit is as it was written, and its entries as lines of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.log_lines import escaped
from console.operations import chain
from console.operations.exported_audit import ExportFailed, export_to


class Command(BaseCommand):
    """Verify and export the audit."""

    help = "Tells whether the audit is as it was written, and writes its entries as lines of JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: verify, which changes nothing, and export."""
        actions = parser.add_subparsers(dest="action", required=True)
        verify = actions.add_parser("verify", help="look at every entry; ends with 1 and names the first that is wrong")
        verify.add_argument(
            "--known", action="append", default=[], metavar="NUMBER:HASH",
            help="an end of the chain that was noted elsewhere, as verify prints it",
        )  # fmt: skip
        verify.add_argument("--file", metavar="FILE", help="a file of exported entries: each has to be there unchanged")
        export = actions.add_parser("export", help="write entries as lines of JSON")
        export.add_argument("--after", type=int, default=0, metavar="NUMBER", help="only those behind this one")
        export.add_argument(
            "--file", metavar="FILE", help="add those that the file does not have; else they are printed"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        {"verify": self._verify, "export": self._export}[options["action"]](options)

    def _verify(self, options: dict[str, Any]) -> None:
        try:
            known = dict(map(chain.as_known, options["known"]))
            if options["file"]:
                known |= chain.known_of(Path(options["file"]))
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from None
        verdict = chain.verify(known)
        if verdict.flaw is not None:
            raise CommandError(f"The audit is not as it was written: {verdict.flaw}. {verdict.entries:,} entries fit.")
        self.stdout.write(f"{verdict.entries:,} entries fit. The end of the chain, to be noted elsewhere:")
        self.stdout.write(escaped(f"{verdict.entries}:{verdict.digest}"))

    def _export(self, options: dict[str, Any]) -> None:
        if not options["file"]:
            for link in chain.links(options["after"]):
                self.stdout.write(escaped(link.line()))
            return
        try:
            count = export_to(Path(options["file"]))
        except ExportFailed as error:
            raise CommandError(str(error)) from None
        self.stdout.write(escaped(f"{count:,} entries were added to {options['file']}."))
