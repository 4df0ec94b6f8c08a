"""`manage.py token create|list|revoke`: tokens of the REST interface."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.client import InvalidArgument
from broker.log_lines import escaped
from console.security import tokens as security_tokens
from console.security.models import ApiToken


class Command(BaseCommand):
    """Make, list and revoke tokens."""

    help = "Makes, lists and revokes tokens of the REST interface."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: create NAME, list, revoke PREFIX."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a token; it is shown once")
        create.add_argument("name", help="what the token is for")
        create.add_argument("--publish", action="append", default=[], metavar="PREFIX", help="topics to send to; * all")
        create.add_argument("--read", action="append", default=[], metavar="PREFIX", help="topics to read; * all")
        create.add_argument(
            "--admin", action="append", default=[], metavar="PREFIX", help="producer groups to administer; * all"
        )
        create.add_argument(
            "--consume",
            action="append",
            default=[],
            metavar="PREFIX",
            help="topics to receive from, and consumer groups to receive as; * all",
        )
        create.add_argument(
            "--configure",
            action="append",
            default=[],
            metavar="PREFIX",
            help="topics and consumer groups to make, change and delete; * all",
        )
        create.add_argument(
            "--unmask",
            action="append",
            default=[],
            metavar="PREFIX",
            help="topics of which it reads what rules of masks hide, as well; * all",
        )
        create.add_argument(
            "--access-user",
            default="",
            metavar="USER",
            help="user of the brokers' access control whose policies decide, too (alone, if no prefix is given)",
        )
        create.add_argument("--days", type=int, help="expires after so many days (never by default)")
        create.add_argument("--user", help="who it is made for: it ends with the account, and while that is not active")
        actions.add_parser("list", help="list all tokens")
        revoke = actions.add_parser("revoke", help="refuse a token from now on")
        revoke.add_argument("prefix", help="the characters after esc_")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        {"create": self._create, "list": self._list, "revoke": self._revoke}[options["action"]](options)

    def _create(self, options: dict[str, Any]) -> None:
        try:
            scopes = security_tokens.scope_rows(
                options["publish"],
                options["read"],
                options["admin"],
                options["consume"],
                options["configure"],
                options["unmask"],
            )
        except ValueError as error:
            raise CommandError(escaped(str(error))) from None
        if not scopes and not options["access_user"]:
            raise CommandError(
                "A token that allows nothing is of no use; give --publish, --read, --consume, --configure or --admin"
                " (* for all), or --access-user."
            )
        if options["days"] is not None and options["days"] < 1:
            raise CommandError("--days must be at least 1.")
        user = None
        if options["user"]:
            user = get_user_model().objects.filter(username=options["user"]).first()
            if user is None:
                raise CommandError(f"There is no user {options['user']!r}.")
        lasts = timedelta(days=options["days"]) if options["days"] else None
        try:
            _, token = security_tokens.create(
                options["name"], scopes, created_by=user, lasts=lasts, access_user=options["access_user"]
            )
        except InvalidArgument as error:
            raise CommandError(escaped(str(error))) from None
        self.stderr.write("This token is shown once; only its hash is kept.")
        self.stdout.write(token)

    def _list(self, options: dict[str, Any]) -> None:
        for row in ApiToken.objects.select_related("created_by"):
            is_orphan = row.created_by is not None and not row.created_by.is_active
            state = "revoked" if row.revoked_at else "inactive" if is_orphan else "valid"
            allowed = ", ".join(f"{'+'.join(each['actions'])} {each['prefix']}*" for each in row.scopes)
            if row.access_user:
                allowed = f"{allowed or 'all'} that User:{row.access_user} may"
            expires = row.expires_at.date().isoformat() if row.expires_at else "never"
            self.stdout.write(escaped(f"{row.prefix}  {state:8} expires {expires:10}  {row.name}: {allowed}"))

    def _revoke(self, options: dict[str, Any]) -> None:
        prefix = options["prefix"].removeprefix("esc_").split("_")[0]
        row = ApiToken.objects.filter(prefix=prefix).first()
        if row is None:
            raise CommandError(f"There is no token with prefix {prefix!r}; `token list` shows all.")
        security_tokens.revoke(row)
        self.stdout.write(escaped(f"revoked {row}"))
