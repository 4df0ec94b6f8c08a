"""`manage.py access list|create|rotate|end-old-secret|disable|enable|delete|allow|deny|take-away`: broker users."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from broker.client import ClientError
from broker.log_lines import escaped
from broker.rocketmq.acl import PolicyType
from console.features.access.operations import entry_words
from console.operations import workflow
from console.operations.actor import CHANGE_ACCESS, Actor
from console.operations.errors import OperationError
from console.operations.shown_once import shown_once
from console.site.broker import asked_of, tell_each
from console.site.chosen import choice_of, choosing
from console.site.mirrored import cluster

_DEFAULT = "the one of type Default, which counts where no Custom one applies"


class Command(BaseCommand):
    """List, make, change and delete users of the brokers' access control, and their policies."""

    help = "Users of the brokers' access control, their secrets and policies. Each change is in the audit log."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: list; and for one user by its name what can be done with it."""
        actions = parser.add_subparsers(dest="action", required=True)
        listed = actions.add_parser("list", help="list users with their policies")
        listed.add_argument("--broker", default="", help="of this broker alone; without it of all")
        create = _one(actions, "create", "create a user; the secret is shown once")
        create.add_argument("--super", action="store_true", help="it may do everything")
        rotate = _one(actions, "rotate", "rotate its secret; the new one is shown once")
        rotate.add_argument(
            "--overlap-hours",
            type=float,
            default=24.0,
            metavar="HOURS",
            help="the old one stays valid for so long (24)",
        )
        _one(actions, "end-old-secret", "expire its previous secret now")
        _one(actions, "disable", "disable it")
        _one(actions, "enable", "enable it")
        _one(actions, "delete", "delete a user with its policies")
        for verb in ("allow", "deny"):
            policy = _one(actions, verb, f"{verb} it something; an entry of the same resource is replaced")
            policy.add_argument("resource", help="Topic:name, Group:prefix*, Cluster:* or *")
            policy.add_argument(
                "actions", nargs="+", metavar="ACTION", help="Pub Sub Create Update Delete Get List All"
            )
            policy.add_argument("--from", action="append", default=[], dest="sources", metavar="NETWORK")
            policy.add_argument("--default", action="store_true", help=_DEFAULT)
        taken = _one(actions, "take-away", "remove the policy of a resource")
        taken.add_argument("resource")
        taken.add_argument("--default", action="store_true", help=_DEFAULT)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        try:
            with choosing(choice_of(options["broker"])):
                if options["action"] == "list":
                    self._list()
                else:
                    self._change(options)
        except Http404 as error:
            raise CommandError(f"{escaped(options['broker'])}: {error}") from None
        except (OperationError, ClientError) as error:
            raise CommandError(escaped(str(error) or type(error).__name__)) from None

    def _list(self) -> None:
        for told in tell_each(lambda admin: admin.access_users(), asked_of(cluster())):
            if told.error is not None:
                self.stderr.write(escaped(f"{told.broker}: {told.error}"))
            at = f"{told.broker}: " if told.broker else ""
            for user in told.answer or ():
                kind, status = "Super" if user.is_super else "Normal", "enabled" if user.is_enabled else "disabled"
                old = f", the previous secret is valid until {user.previous_until_ms}" if user.previous_until_ms else ""
                self.stdout.write(escaped(f"{at}{user.name}  {kind}, {status}{old}"))
                for type_ in PolicyType:
                    for entry in user.policies.get(type_, ()):
                        self.stdout.write(escaped(f"    {entry.resource}  {entry_words(entry)}  ({type_})"))

    def _change(self, options: dict[str, Any]) -> None:
        kind, parameters = _operation(options)
        actor = Actor(f"shell {getpass.getuser()}", frozenset((CHANGE_ACCESS,)))
        with shown_once() as secrets:
            row = workflow.start(kind, {"name": options["name"], **parameters}, actor, reason=options["reason"])
        for item in row.items.all():
            where = f" at {item.label['broker']}" if item.label.get("broker") else ""
            error = item.result.get("error")
            self.stderr.write(escaped(f"{item.outcome}{where}{f': {error}' if error else ''}"))
        for secret in secrets.values():
            self.stderr.write("This secret is shown once; the brokers keep it, the console does not.")
            self.stdout.write(escaped(secret))
        if row.error or not row.items.filter(outcome__in=("made", "changed", "deleted")).exists():
            raise CommandError(escaped(row.error or "Nothing was changed."))


def _one(actions: Any, name: str, help_: str) -> CommandParser:
    parser: CommandParser = actions.add_parser(name, help=help_)
    parser.add_argument("name", help="the user's name")
    parser.add_argument("--reason", required=True, help="reason; kept in the audit log")
    parser.add_argument("--broker", default="", help="at this broker alone; without it at all")
    return parser


def _operation(options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of operation and its parameters besides the name."""
    action = options["action"]
    type_ = str(PolicyType.DEFAULT if options.get("default") else PolicyType.CUSTOM)
    if action in ("allow", "deny"):
        entry = {"resource": options["resource"], "actions": options["actions"], "sources": options["sources"]}
        return "access.set_policy", {**entry, "type": type_, "decision": action.capitalize()}
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "create": ("access.create", {"is_super": options.get("super", False)}),
        "rotate": ("access.rotate", {"overlap_hours": options.get("overlap_hours")}),
        "end-old-secret": ("access.end_old_secret", {}),
        "disable": ("access.change", {"is_enabled": False}),
        "enable": ("access.change", {"is_enabled": True}),
        "delete": ("access.delete", {}),
        "take-away": ("access.delete_policy", {"type": type_, "resource": options.get("resource")}),
    }
    return found[action]
