"""`manage.py operate KIND PARAMETERS`: what a page does, from a shell; a preview unless --run is given."""

from __future__ import annotations

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from broker.client import ClientError
from broker.log_lines import escaped
from broker.redisson import RedissonError
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import OperationError
from console.operations.registry import KINDS
from console.operations.shown_once import shown_once
from console.site.chosen import choice_of, choosing
from console.site.mirrored import cluster


class Command(BaseCommand):
    """Preview or run one operation; it has its page and its audit like any other."""

    help = "Previews one operation, or runs it with --run. A page of the console shows the call that does the same."

    def add_arguments(self, parser: CommandParser) -> None:
        """Arguments: the kind of operation, its parameters, and the reason."""
        parser.add_argument("kind", choices=sorted(KINDS), metavar="KIND", help=", ".join(sorted(KINDS)))
        parser.add_argument("parameters", nargs="?", default="{}", metavar="PARAMETERS", help="JSON")
        parser.add_argument("--broker", default="", help="at this broker alone; without it at all, or the first")
        parser.add_argument("--reason", default="", help="reason; kept in the audit log")
        parser.add_argument("--run", action="store_true", help="run it; without this only the preview is printed")

    def handle(self, *args: Any, **options: Any) -> None:
        """Preview or run it. Whoever has a shell here may do everything; the audit names the account."""
        actor = Actor(f"shell {getpass.getuser()}", frozenset(PERMISSIONS))
        try:
            parameters = json.loads(options["parameters"])
            if not isinstance(parameters, dict):
                raise CommandError("PARAMETERS is a JSON object.")
            with choosing(choice_of(options["broker"])):
                cluster()
                row = workflow.draft(options["kind"], parameters, actor)
            with shown_once() as secrets:
                if options["run"]:
                    row = workflow.confirm(row.pk, actor, reason=options["reason"], is_typing_needed=False)
        except Http404 as error:
            raise CommandError(f"{escaped(options['broker'])}: {error}") from None
        except json.JSONDecodeError as error:
            raise CommandError(f"PARAMETERS is not JSON: {error}") from None
        except (OperationError, ClientError, RedissonError) as error:
            raise CommandError(escaped(str(error) or type(error).__name__)) from None
        told = {"operation": str(row.pk), "state": row.state, "count": row.preview["count"], "results": row.results}
        result = {**told, "error": row.error, **({"secrets": secrets} if secrets else {})}
        said = json.dumps(result, ensure_ascii=False)
        self.stdout.write(escaped(said if said.isprintable() else json.dumps(result)))
        if row.error:
            raise CommandError(escaped(row.error))
