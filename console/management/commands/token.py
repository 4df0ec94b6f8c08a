"""`manage.py token create|list|rotate|revoke`: tokens of the REST interface."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from broker.client import InvalidArgument
from broker.log_lines import escaped
from console.security import tokens as security_tokens
from console.security.models import ApiToken

_MOST_DAYS, _MOST_HOURS = 36_500, 8_760


class Command(BaseCommand):
    """Make, list, rotate and revoke tokens."""

    help = "Creates, lists, rotates and revokes tokens of the REST interface."

    def add_arguments(self, parser: CommandParser) -> None:
        """Subcommands: create NAME, list, rotate PREFIX, revoke PREFIX."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser(
            "create",
            help="create a token; it is shown once",
            description="Names: orders is that one alone, orders* are all that begin so, * is every one.",
        )
        create.add_argument("name", help="what the token is for")
        _add_scopes(create)
        create.add_argument(
            "--access-user",
            default="",
            metavar="USER",
            help="user of the brokers' access control whose policies apply, too (alone, if no scope is given)",
        )
        _add_lasting(create)
        create.add_argument(
            "--requests-per-s", type=int, default=0, metavar="COUNT",
            help="requests per second (0: as ESCAPEMENT_TOKEN_REQUESTS_PER_S says)",
        )  # fmt: skip
        create.add_argument("--user", help="owner: it ends with the account, and is refused while that is disabled")
        actions.add_parser("list", help="list all tokens")
        rotate = actions.add_parser("rotate", help="create a token that replaces one, which stays valid for a while")
        rotate.add_argument("prefix", help="the characters after esc_ of the old one")
        rotate.add_argument(
            "--overlap-hours",
            type=float,
            default=24.0,
            metavar="HOURS",
            help="the old one stays valid for so long (24)",
        )
        _add_lasting(rotate)
        revoke = actions.add_parser("revoke", help="refuse a token from now on")
        revoke.add_argument("prefix", help="the characters after esc_")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand that was asked for."""
        {"create": self._create, "list": self._list, "rotate": self._rotate, "revoke": self._revoke}[options["action"]](
            options
        )

    def _create(self, options: dict[str, Any]) -> None:
        try:
            scopes = security_tokens.scope_rows(
                options["publish"],
                options["read"],
                options["admin"],
                options["consume"],
                options["configure"],
                options["unmask"],
                options["access"],
                options["people"],
            )
        except ValueError as error:
            raise CommandError(escaped(str(error))) from None
        if not scopes and not options["access_user"]:
            raise CommandError(
                "A token without a scope is of no use; give --publish, --read, --consume, --configure or --admin"
                " with a name (orders), a beginning (orders*) or * for all, or --access-user."
            )
        if options["requests_per_s"] < 0:
            raise CommandError("--requests-per-s must not be below 0.")
        user = None
        if options["user"]:
            user = get_user_model().objects.filter(username=options["user"]).first()
            if user is None:
                raise CommandError(f"There is no user {options['user']!r}.")
        if options["people"] and user is None:
            raise CommandError("Users and tokens are changed in a user's name: give --user.")
        lasts = _lasting(options)
        try:
            row, token = security_tokens.create(
                options["name"],
                scopes,
                created_by=user,
                lasts=lasts,
                access_user=options["access_user"],
                requests_per_s=options["requests_per_s"],
            )
        except (InvalidArgument, security_tokens.NameTaken) as error:
            raise CommandError(escaped(str(error))) from None
        self._show(row, token)

    def _show(self, row: ApiToken, token: str) -> None:
        until = "never expires" if row.expires_at is None else f"expires {row.expires_at.date().isoformat()}"
        self.stderr.write(escaped(f"This token is shown once; only its hash is kept. It {until}."))
        self.stdout.write(token)

    def _rotate(self, options: dict[str, Any]) -> None:
        if not 0 <= options["overlap_hours"] <= _MOST_HOURS:
            raise CommandError("--overlap-hours must be between 0 and 8760.")
        row = _row_of(options["prefix"])
        overlap = timedelta(hours=options["overlap_hours"])
        try:
            new, token = security_tokens.rotate(row, overlap=overlap, lasts=_lasting(options))
        except security_tokens.NotRotatable as error:
            raise CommandError(escaped(str(error))) from None
        row.refresh_from_db()
        self.stderr.write(escaped(f"{row} is valid until {row.expires_at:%Y-%m-%d %H:%M} UTC."))
        self._show(new, token)

    def _list(self, options: dict[str, Any]) -> None:
        for row in ApiToken.objects.select_related("created_by"):
            is_orphan = row.created_by is not None and not row.created_by.is_active
            is_over = row.expires_at is not None and row.expires_at <= timezone.now()
            state = "revoked" if row.revoked_at else "expired" if is_over else "inactive" if is_orphan else "valid"
            used = row.last_used_at.strftime("%Y-%m-%d %H:%M") if row.last_used_at else "never"
            allowed = ", ".join(f"{'+'.join(each['actions'])} {each['pattern']}" for each in row.scopes)
            if row.access_user:
                allowed = f"{allowed or 'all'} that User:{row.access_user} may"
            expires = row.expires_at.date().isoformat() if row.expires_at else "never"
            self.stdout.write(
                escaped(f"{row.prefix}  {state:8} expires {expires:10}  used {used:16}  {row.name}: {allowed}")
            )

    def _revoke(self, options: dict[str, Any]) -> None:
        row = _row_of(options["prefix"])
        security_tokens.revoke(row)
        self.stdout.write(escaped(f"revoked {row}"))


def _row_of(given: str) -> ApiToken:
    prefix = given.removeprefix("esc_").split("_")[0]
    row = ApiToken.objects.filter(prefix=prefix).first()
    if row is None:
        raise CommandError(f"There is no token with prefix {prefix!r}; `token list` shows all.")
    return row


def _add_scopes(create: CommandParser) -> None:
    create.add_argument(
        "--publish",
        action="append",
        default=[],
        metavar="TOPIC",
        help="topics to send to, whose timers it steers and half messages it decides: orders, orders*, *",
    )
    create.add_argument("--read", action="append", default=[], metavar="TOPIC", help="topics to read")
    create.add_argument("--admin", action="append", default=[], metavar="GROUP", help="producer groups to administer")
    create.add_argument(
        "--consume",
        action="append",
        default=[],
        metavar="NAME",
        help="topics to receive from, and consumer groups to receive as",
    )
    create.add_argument(
        "--configure", action="append", default=[], metavar="NAME",
        help="topics and consumer groups to create, change and delete",
    )  # fmt: skip
    create.add_argument(
        "--unmask",
        action="append",
        default=[],
        metavar="TOPIC",
        help="topics of which it reads what rules of masks hide, as well",
    )
    create.add_argument(
        "--access", action="append", default=[], metavar="*", help="to administer users of the brokers: * only"
    )
    create.add_argument(
        "--people", action="append", default=[], metavar="*",
        help="to administer users and tokens, in the name of --user: * only",
    )  # fmt: skip


def _add_lasting(parser: CommandParser) -> None:
    lasting = parser.add_mutually_exclusive_group()
    lasting.add_argument("--days", type=int, help="expires after so many days (ESCAPEMENT_TOKEN_DAYS, 90)")
    lasting.add_argument("--never-expires", action="store_true", help="valid until it is revoked")


def _lasting(options: dict[str, Any]) -> timedelta | None:
    """Return how long a new token counts; None: until it is revoked."""
    if options["never_expires"]:
        return None
    days = settings.TOKEN_DAYS if options["days"] is None else options["days"]
    if not 1 <= days <= _MOST_DAYS:
        raise CommandError(f"--days must be between 1 and {_MOST_DAYS}.")
    return timedelta(days=days)
