"""Tokens of REST made, rotated and revoked; what opens is shown once.

    {"name": "billing", "publish": ["orders"], "read": [], ..., "days": 90, "access_user": ""}     make
    {"prefix": "k3v9qxw2ab", "overlap_hours": 24}                                                 rotate
    {"prefix": "k3v9qxw2ab"}                                                                      revoke

A token is its maker's: it ends with the account. `orders` is that name, `orders*` are all that begin so, `*` is every
one. Who may not unmask, change settings or administer broker users or people neither makes a token that may, nor is
shown another one of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import InvalidArgument
from broker.mirror.models import Topic
from console.features.people.operations import Facts, PeopleKind, person_named
from console.operations.actor import ADD_TOKEN, CHANGE_ACCESS, CHANGE_SETTINGS, CHANGE_TOKEN, CHANGE_USER
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import REASON, Call, Outcome, Words
from console.operations.models import OperationItem
from console.operations.registry import register
from console.operations.shown_once import checked_overlap, require_reader, show_once, typed_overlap
from console.security import tokens
from console.security.masking import UNMASK
from console.security.models import ApiToken
from console.security.name_patterns import EVERY, beginning, is_beginning

#: what a token may do, in the order of `tokens.scope_rows`
RIGHTS = ("publish", "read", "admin", "consume", "configure", "unmask", "access", "people")
#: what each permits on the names
RIGHT_WORDS: Mapping[str, Words] = {
    "publish": _(
        "Send to these topics; cancel, move and deliver their timers, decide their half messages, resend their "
        "messages; the same on Redisson queues of these names."
    ),
    "read": _("Read messages, timers, transactions and figures of these topics and groups."),
    "admin": _("Register check addresses of these producer groups."),
    "consume": _(
        "Receive and acknowledge, on the topic and on the group; mark dead letters and resend them to the group, with "
        "publish to everybody; with configure reset offsets."
    ),
    "configure": _("Create, change and delete these topics and groups; with * also alert rules."),
    "unmask": _("What read shows of these topics is shown unmasked."),
    "access": _("Administer broker users, secrets and policies: only *."),
    "people": _("Administer users, roles and tokens, as far as its owner may: only *."),
}
#: what a person has to be allowed to give one that may do this
GIVEN_BY: Mapping[str, str] = {
    tokens.SETTINGS: CHANGE_SETTINGS,
    tokens.UNMASK: UNMASK,
    tokens.ACCESS: CHANGE_ACCESS,
    tokens.PEOPLE: CHANGE_USER,
}
MOST_DAYS = 36_500
LONGEST_NAME = 100


class TokenKind(PeopleKind):
    """An operation on one token."""

    permission, page = CHANGE_TOKEN, "tokens"
    verb_of_call = ""

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the prefix by which the token is known."""
        return {"prefix": given.get("prefix", "").strip()}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the prefix; raises NotPossible where there is no such token."""
        return {"prefix": _row(parameters).prefix}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call about this token."""
        more = {name: value for name, value in parameters.items() if name != "prefix"}
        return "POST", f"tokens/{parameters['prefix']}:{self.verb_of_call}", {**more, **REASON}

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of all tokens."""
        return gettext("Open tokens"), reverse("tokens")

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the token's name with its prefix."""
        row = ApiToken.objects.filter(prefix=parameters["prefix"]).first()
        return str(row) if row is not None else str(parameters["prefix"])


@register
class MakeToken(TokenKind):
    """Create a token of REST."""

    name, permission = "tokens.make", ADD_TOKEN
    title, verb = _("Create a token"), _("Create token")
    begun_on, begun_at = "tokens", "#new"
    effect = _("The token is shown once; only its hash is kept. It ends with your account.")
    outcomes = {"made": Outcome(_("created"))}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the fields of the form."""
        found: dict[str, Any] = {right: given.get(right, "").split() for right in RIGHTS}
        days = given.get("days", "").strip()
        return {
            **found,
            "name": given.get("name", "").strip(),
            "access_user": given.get("access_user", "").strip(),
            "days": int(days) if days.isascii() and days.isdigit() else 0,
        }

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, names by right, user of access control, and days."""
        name, days = parameters.get("name"), parameters.get("days", settings.TOKEN_DAYS)
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise InvalidParameter("name", f"A token's name has 1 to {LONGEST_NAME} printable characters.")
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_DAYS:
            raise InvalidParameter("days", f"days is from 1 to {MOST_DAYS}.")
        given: dict[str, list[str]] = {}
        for right in RIGHTS:
            names = parameters.get(right, [])
            if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
                raise InvalidParameter(right, f"{right} is a list of names.")
            given[right] = names
        try:
            scopes = tokens.scope_rows(*given.values())
        except ValueError as error:
            raise InvalidParameter("scopes", str(error)) from None
        access_user = str(parameters.get("access_user", ""))
        if not scopes and not access_user:
            raise InvalidParameter("scopes", "A token without a scope is of no use: give a name, or * for all.")
        return {"name": name, **given, "access_user": access_user, "days": days}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that makes one."""
        return "POST", "tokens", {**{name: value for name, value in parameters.items() if value}, **REASON}

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the new token's name."""
        return str(parameters["name"])

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return what it may do, and how long."""
        rights = {right: ", ".join(parameters[right]) for right in RIGHTS if parameters[right]}
        bound = {"access_user": parameters["access_user"]} if parameters["access_user"] else {}
        return {}, {**rights, **bound, "days": str(parameters["days"])}

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return the names of each right."""
        return {right: parameters[right] for right in RIGHTS}

    def first_call(self, parameters: Mapping[str, Any]) -> Call | None:
        """Return a call that the token allows: to send, to look, or to list what it administers."""
        if parameters["publish"]:
            topic = quote(_topic_of(parameters["publish"]), safe="")
            return "POST", f"topics/{topic}/messages", {"body": "hello"}
        listed = {"read": "topics", "configure": "alert-rules", "people": "people", "access": "broker-users"}
        for right, path in listed.items():
            if parameters[right] and (right == "read" or EVERY in parameters[right]):
                return "GET", path, None
        return None

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Make it in the name of who acts."""
        require_reader()
        scopes = tokens.scope_rows(*(parameters[right] for right in RIGHTS))
        _require_may_give(who, scopes)
        try:
            _made, token = tokens.create(
                parameters["name"],
                scopes,
                created_by=person_named(who),
                lasts=timedelta(days=parameters["days"]),
                access_user=parameters["access_user"],
            )
        except (InvalidArgument, tokens.NameTaken) as error:
            raise NotPossible(str(error)) from None
        show_once(parameters["name"], token)


@register
class RotateToken(TokenKind):
    """Make another token in the place of one, which counts for a while."""

    name, verb_of_call = "tokens.renew", "rotate"
    title, verb = _("Rotate a token"), _("Rotate token")
    effect = _("A new token with the same scopes is shown once; the old one is valid until it expires.")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the token, and how long both count."""
        return {**super().from_form(given), "overlap_hours": typed_overlap(given)}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the token, and how long both count."""
        return {**super().checked(parameters), "overlap_hours": checked_overlap(parameters)}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return how long the old one counts."""
        return {}, {"secret": "new", "previous": f"{parameters['overlap_hours']:g} h"}

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Rotate it; the new one lasts as long as one that is made without a word."""
        require_reader()
        row = _row(parameters)
        _require_may_give(who, row.scopes)
        overlap, lasts = timedelta(hours=parameters["overlap_hours"]), timedelta(days=settings.TOKEN_DAYS)
        try:
            _made, token = tokens.rotate(row, overlap=overlap, lasts=lasts)
        except tokens.NotRotatable as error:
            raise NotPossible(str(error)) from None
        show_once(row.name, token)


@register
class RevokeToken(TokenKind):
    """Refuse a token from now on."""

    name, is_final, verb_of_call = "tokens.end", True, "revoke"
    is_red = True
    title, verb = _("Revoke a token"), _("Revoke token")
    effect = _("It is refused within a second. This cannot be undone; another one can be created.")

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return that it counts no more."""
        is_revoked = _row(parameters).revoked_at is not None
        return {"is_active": "no" if is_revoked else "yes"}, {"is_active": "no"}

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Revoke it for good."""
        tokens.revoke(_row(parameters))


def _topic_of(patterns: Sequence[str]) -> str:
    """Return a topic that these names mean: one that is given, else one that is there, else a new one."""
    for pattern in patterns:
        if not is_beginning(pattern):
            return pattern
    start = beginning(patterns[0])
    there = Topic.objects.filter(name__startswith=start, is_system=False).exclude(name__startswith="%")
    return there.order_by("name").values_list("name", flat=True).first() or f"{start}hello"


def _require_may_give(who: str, scopes: Iterable[Mapping[str, Any]]) -> None:
    actor = person_named(who)
    # one that allows nothing itself is bound, and may do what policies say
    actions = {action for scope in scopes for action in scope["actions"]} or {tokens.SETTINGS}
    for action, permission in GIVEN_BY.items():
        if actor is not None and action in actions and not actor.has_perm(permission):
            raise NotPossible(f"The token has scopes that you do not have: {action}.")


def _row(parameters: Mapping[str, Any]) -> ApiToken:
    prefix = str(parameters.get("prefix", "")).removeprefix("esc_")[:16]
    row = ApiToken.objects.filter(prefix=prefix).first()
    if row is None:
        raise NotPossible(f"There is no token {prefix!r}.")
    return row
