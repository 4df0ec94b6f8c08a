"""People, their roles, and tokens by REST: the console's operations, in the name of whom the token was made for.

Two things are asked: that the token has the right `people`, which is given by itself and on every name only, and that
its person may do it, sees all topics, and would be let do it on the pages. A token that was made for nobody may not.
The audit has the person's name and the token's prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import msgspec
from django.contrib.auth import get_user_model
from msgspec import Meta, Struct, field
from starlette.responses import Response

from console.features.people.limits import LONGEST_PATTERN, MOST_TOPICS
from console.features.people.new_person import AddPerson
from console.features.people.operations import LONGEST_NAME
from console.features.people.token_operations import MOST_DAYS, RIGHTS
from console.operations.actor import (
    ADD_ROLE,
    ADD_TOKEN,
    ADD_USER,
    CHANGE_ROLE,
    CHANGE_TOKEN,
    CHANGE_USER,
    UNBOUNDED,
    Actor,
)
from console.operations.errors import NotPossible
from console.operations.shown_once import MOST_OVERLAP_HOURS, OVERLAP_HOURS
from console.rest.access import Everywhere
from console.rest.errors import PersonUnknown, RoleUnknown, TokenUnknown
from console.rest.operations import begun, in_thread
from console.rest.person import PersonGrant
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Look, Reason
from console.security.models import ApiToken, PasswordDue, SecondFactor
from console.security.own_role import LONGEST_ROLE, all_own_roles, shared_roles
from console.security.tokens import PEOPLE, Grant
from console.site.clock import epoch_ms

Found = TypeVar("Found")
_MOST_LISTED = 1_000

PersonName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
RoleNames = Annotated[
    list[str], Meta(max_length=100, description="Names of roles; they replace the roles of the user.")
]
_PATTERNS = "Names: `orders` is that one alone, `orders*` are all that begin so, `*` is every one."
Names = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=LONGEST_PATTERN)]], Meta(max_length=100, description=_PATTERNS)
]
Topics = Annotated[list[str], Meta(max_length=MOST_TOPICS, description=_PATTERNS)]


class Paged(Struct, kw_only=True):
    """Which part of a long list is wanted."""

    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0
    limit: Annotated[int, Meta(ge=1, le=_MOST_LISTED)] = 100


class Asked(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why; and whether only to look."""

    reason: Reason
    preview: Look = False


class NewPerson(Struct, forbid_unknown_fields=True, kw_only=True):
    """An account to make, limited to topics beside those of its roles or not; the answer has its first password in
    `secrets`, once."""

    name: PersonName
    roles: RoleNames = field(default_factory=list)
    topics: Topics = field(default_factory=list)
    reason: Reason
    preview: Look = False


class PersonChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Other roles, or the account closed or opened; what is left out stays as it is."""

    roles: RoleNames | None = None
    is_active: bool | None = None
    reason: Reason
    preview: Look = False


class PersonLimit(Struct, forbid_unknown_fields=True, kw_only=True):
    """The topics that one user is limited to beside those of roles; none: roles alone decide."""

    topics: Topics
    reason: Reason
    preview: Look = False


class NewRole(Struct, forbid_unknown_fields=True, kw_only=True):
    """A role to make: its permissions, and the topics that it is limited to; none: it sees all."""

    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_ROLE)]
    permissions: Annotated[list[str], Meta(min_length=1, max_length=100)]
    topics: Topics = field(default_factory=list)
    reason: Reason
    preview: Look = False


class RoleChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The topics that a role is limited to; none: it sees all."""

    topics: Topics
    reason: Reason
    preview: Look = False


class NewToken(Struct, forbid_unknown_fields=True, kw_only=True):
    """A token to make; the answer has it in `secrets`, once. Each right lists the names that it is on."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    publish: Names = field(default_factory=list)
    read: Names = field(default_factory=list)
    admin: Names = field(default_factory=list)
    consume: Names = field(default_factory=list)
    configure: Names = field(default_factory=list)
    unmask: Names = field(default_factory=list)
    access: Names = field(default_factory=list)
    people: Names = field(default_factory=list)
    access_user: Annotated[str, Meta(max_length=128)] = ""
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] | None = None
    reason: Reason
    preview: Look = False


class TokenRotation(Struct, forbid_unknown_fields=True, kw_only=True):
    """Another token in the place of one; the answer has it in `secrets`, once."""

    overlap_hours: Annotated[
        float, Meta(ge=0, le=MOST_OVERLAP_HOURS, description="The old one stays valid for so long.")
    ] = OVERLAP_HOURS
    reason: Reason
    preview: Look = False


class PersonShown(Struct, kw_only=True):
    """An account; `is_password_due`: somebody else has set its password, so that it has to be changed first.

    `topics`: those that it is limited to by itself, beside those of its roles; `orders*` are all that begin so.
    """

    name: str
    is_active: bool
    is_superuser: bool
    roles: list[str]
    topics: list[str]
    is_password_due: bool
    has_second_factor: bool
    last_signed_in_ms: int | None


class PersonRows(Struct, kw_only=True):
    """Accounts by name; `total` is how many there are."""

    people: list[PersonShown]
    total: int


class RoleShown(Struct, kw_only=True):
    """A role; without topics it sees all."""

    name: str
    permissions: list[str]
    topics: list[str]


class RoleRows(Struct, kw_only=True):
    """The roles by name."""

    roles: list[RoleShown]


class ScopeShown(Struct, kw_only=True):
    """What a token may do with this name, with all that begin so (`orders*`), or with every one (`*`)."""

    pattern: str
    actions: list[str]


class TokenShown(Struct, kw_only=True):
    """A token; `prefix` names it and opens nothing."""

    name: str
    prefix: str
    scopes: list[ScopeShown]
    access_user: str
    created_by: str | None
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    last_used_ms: int | None
    is_replaced: bool


class TokenRows(Struct, kw_only=True):
    """Tokens by name; `total` is how many there are."""

    tokens: list[TokenShown]
    total: int


_PEOPLE, _TOKENS = "/people", "/tokens"
_PERSON, _TOKEN = _PEOPLE + "/{person}", _TOKENS + "/{token}"
_ON = Everywhere()


# People.


@route(
    "GET",
    _PEOPLE,
    "List users",
    action=PEOPLE,
    permission=CHANGE_USER,
    on=_ON,
    answers=((200, "Accounts.", PersonRows),),
)
async def people(call: Call, query: Paged) -> Response:
    """List the accounts of the console with their roles."""
    return json_answer(await _read(call, CHANGE_USER, "people.list", lambda: _people(query)))


@route(
    "POST", _PEOPLE, "Create a user", action=PEOPLE, permission=ADD_USER, on=_ON, answers=(BEGUN_OR_WAITS, PREVIEWED)
)
async def add_person(call: Call, body: NewPerson) -> Response:
    """Make an account with a first password."""
    wanted = {"name": body.name, "roles": body.roles, "topics": body.topics}
    return await _begun(call, ADD_USER, AddPerson.name, wanted, body)


@route(
    "GET",
    _PERSON,
    "Get a user",
    action=PEOPLE,
    permission=CHANGE_USER,
    on=_ON,
    answers=((200, "The account.", PersonShown),),
    errors=(PersonUnknown,),
)
async def person(call: Call) -> Response:
    """Answer one account of the console."""
    return json_answer(await _read(call, CHANGE_USER, "people.list", lambda: _person(call.named["person"])))


@route(
    "PATCH",
    _PERSON,
    "Change a user",
    action=PEOPLE,
    permission=CHANGE_USER,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(PersonUnknown,),
    example={"is_active": False, "reason": "left the company"},
)
async def change_person(call: Call, body: PersonChange) -> Response:
    """Give an account other roles, close it or open it again."""
    name = call.named["person"]
    now = await _read(call, CHANGE_USER, "people.change", lambda: _person(name))
    wanted = {
        "name": name,
        "roles": now.roles if body.roles is None else body.roles,
        "is_active": now.is_active if body.is_active is None else body.is_active,
    }
    return await _begun(call, CHANGE_USER, "people.change", wanted, body)


@route(
    "POST",
    f"{_PERSON}:reset-password",
    "Reset a password",
    action=PEOPLE,
    permission=CHANGE_USER,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def reset_password(call: Call, body: Asked) -> Response:
    """Give an account another password, which its owner has to change; the answer has it in `secrets`, once."""
    return await _begun(call, CHANGE_USER, "people.reset_password", {"name": call.named["person"]}, body)


@route(
    "POST",
    f"{_PERSON}:reset-second-factor",
    "Reset a second factor",
    action=PEOPLE,
    permission=CHANGE_USER,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def reset_second_factor(call: Call, body: Asked) -> Response:
    """Take a person's second factor and recovery codes away."""
    return await _begun(call, CHANGE_USER, "people.reset_second_factor", {"name": call.named["person"]}, body)


@route(
    "POST",
    f"{_PERSON}:limit",
    "Limit a user to topics",
    action=PEOPLE,
    permission=CHANGE_ROLE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    example={"topics": ["orders", "shop-*"], "reason": "the shop's own topics"},
)
async def limit_person(call: Call, body: PersonLimit) -> Response:
    """Set the topics that one user is limited to, whatever the roles are."""
    wanted = {"name": call.named["person"], "topics": body.topics}
    return await _begun(call, CHANGE_ROLE, "people.limit", wanted, body)


@route(
    "GET", "/roles", "List roles", action=PEOPLE, permission=CHANGE_USER, on=_ON, answers=((200, "Roles.", RoleRows),)
)
async def roles(call: Call) -> Response:
    """List the roles with their permissions and the topics that they are limited to."""
    return json_answer(await _read(call, CHANGE_USER, "people.list", _roles))


@route(
    "POST",
    "/roles",
    "Create a role",
    action=PEOPLE,
    permission=ADD_ROLE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    example={
        "name": "shop",
        "permissions": ["console.view_console", "console.steer_timers"],
        "topics": ["orders", "shop-*"],
        "reason": "the shop's own users",
    },
)
async def add_role(call: Call, body: NewRole) -> Response:
    """Make a role; the asking user has to have all of its permissions."""
    wanted = {"role": body.name, "permissions": body.permissions, "topics": body.topics}
    return await _begun(call, ADD_ROLE, "people.add_role", wanted, body)


@route(
    "PATCH",
    "/roles/{role}",
    "Limit a role to topics",
    action=PEOPLE,
    permission=CHANGE_ROLE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(RoleUnknown,),
    example={"topics": ["orders", "shop-*"], "reason": "the shop's own topics"},
)
async def limit_role(call: Call, body: RoleChange) -> Response:
    """Set the topics that a role is limited to."""
    name = call.named["role"]
    await _read(call, CHANGE_ROLE, "people.limit_role", lambda: _require_role(name))
    return await _begun(call, CHANGE_ROLE, "people.limit_role", {"role": name, "topics": body.topics}, body)


# Tokens.


@route(
    "GET",
    _TOKENS,
    "List tokens",
    action=PEOPLE,
    permission=CHANGE_TOKEN,
    on=_ON,
    answers=((200, "Tokens.", TokenRows),),
)
async def api_tokens(call: Call, query: Paged) -> Response:
    """List the tokens of REST; nothing that opens is told."""
    return json_answer(await _read(call, CHANGE_TOKEN, "tokens.list", lambda: _tokens(query)))


@route(
    "POST",
    _TOKENS,
    "Create a token",
    action=PEOPLE,
    permission=ADD_TOKEN,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    example={"name": "billing", "publish": ["orders"], "days": 30, "reason": "the billing service"},
)
async def make_token(call: Call, body: NewToken) -> Response:
    """Create a token; it is of whom the asking one is of."""
    wanted: dict[str, Any] = {"name": body.name, "access_user": body.access_user}
    wanted |= {right: getattr(body, right) for right in RIGHTS}
    if body.days is not None:
        wanted["days"] = body.days
    return await _begun(call, ADD_TOKEN, "tokens.make", wanted, body)


@route(
    "GET",
    _TOKEN,
    "Get a token",
    action=PEOPLE,
    permission=CHANGE_TOKEN,
    on=_ON,
    answers=((200, "The token.", TokenShown),),
    errors=(TokenUnknown,),
)
async def api_token(call: Call) -> Response:
    """Answer one token, found by its prefix."""
    return json_answer(await _read(call, CHANGE_TOKEN, "tokens.list", lambda: _token(call.named["token"])))


@route(
    "POST",
    f"{_TOKEN}:rotate",
    "Rotate a token",
    action=PEOPLE,
    permission=CHANGE_TOKEN,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def rotate_token(call: Call, body: TokenRotation) -> Response:
    """Make another token in the place of one; both count for a while."""
    wanted = {"prefix": call.named["token"], "overlap_hours": body.overlap_hours}
    return await _begun(call, CHANGE_TOKEN, "tokens.renew", wanted, body)


@route(
    "POST",
    f"{_TOKEN}:revoke",
    "Revoke a token",
    action=PEOPLE,
    permission=CHANGE_TOKEN,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def revoke_token(call: Call, body: Asked) -> Response:
    """Refuse a token from now on."""
    return await _begun(call, CHANGE_TOKEN, "tokens.end", {"prefix": call.named["token"]}, body)


# Who acts, and what is told.


def _actor(grant: Grant, permission: str, kind: str) -> Actor:
    """Return who asks, or whom the token was made for; raises NotPossible and NotAllowed, which the audit keeps."""
    if isinstance(grant, PersonGrant):
        actor = grant.actor
    else:
        found = get_user_model().objects.filter(is_active=True)
        user = found.filter(pk=grant.user_id).first() if grant.user_id is not None else None
        if user is None:
            raise NotPossible("The token belongs to no user: users and tokens are changed in a user's name.")
        actor = replace(Actor.of(user), token=grant.prefix)
    actor.require(permission, kind)
    actor.require_scope(UNBOUNDED, kind)
    return actor


async def _read(call: Call, permission: str, kind: str, work: Callable[[], Found]) -> Found:
    def allowed() -> Found:
        _actor(call.grant, permission, kind)
        return work()

    return await in_thread(allowed)


async def _begun(call: Call, permission: str, kind: str, parameters: Mapping[str, Any], body: Any) -> Response:
    actor = await in_thread(lambda: _actor(call.grant, permission, kind))
    return await begun(kind, parameters, body.reason, actor, is_look=body.preview)


def _people(query: Paged) -> PersonRows:
    rows = get_user_model().objects.order_by("username").prefetch_related("groups__topic_permissions")
    return PersonRows(people=_persons(rows[query.offset : query.offset + query.limit]), total=rows.count())


def _person(name: str) -> PersonShown:
    rows = _persons(get_user_model().objects.filter(username=name).prefetch_related("groups__topic_permissions"))
    if not rows:
        raise PersonUnknown
    return rows[0]


def _persons(rows: Iterable[Any]) -> list[PersonShown]:
    found = list(rows)
    numbers = [row.pk for row in found]
    due = set(PasswordDue.objects.filter(user__in=numbers).values_list("user_id", flat=True))
    second = set(SecondFactor.objects.filter(user__in=numbers).values_list("user_id", flat=True))
    own = set(all_own_roles().filter(user__in=numbers).values_list("pk", flat=True))
    return [
        PersonShown(
            name=row.username,
            is_active=row.is_active,
            is_superuser=row.is_superuser,
            roles=sorted(group.name for group in row.groups.all() if group.pk not in own),
            topics=sorted(
                {
                    each.pattern
                    for group in row.groups.all()
                    if group.pk in own
                    for each in group.topic_permissions.all()
                }
            ),
            is_password_due=row.pk in due,
            has_second_factor=row.pk in second,
            last_signed_in_ms=epoch_ms(row.last_login),
        )
        for row in found
    ]


def _roles() -> RoleRows:
    rows = shared_roles().prefetch_related("permissions__content_type", "topic_permissions")
    return RoleRows(
        roles=[
            RoleShown(
                name=row.name,
                permissions=sorted(f"{each.content_type.app_label}.{each.codename}" for each in row.permissions.all()),
                topics=[each.pattern for each in row.topic_permissions.all()],
            )
            for row in rows
        ]
    )


def _require_role(name: str) -> None:
    if not shared_roles().filter(name=name).exists():
        raise RoleUnknown


def _tokens(query: Paged) -> TokenRows:
    rows = ApiToken.objects.select_related("created_by")
    found = rows[query.offset : query.offset + query.limit]
    return TokenRows(tokens=[_told(row) for row in found], total=rows.count())


def _token(prefix: str) -> TokenShown:
    row = ApiToken.objects.select_related("created_by").filter(prefix=prefix.removeprefix("esc_")).first()
    if row is None:
        raise TokenUnknown
    return _told(row)


def _told(row: ApiToken) -> TokenShown:
    return TokenShown(
        name=row.name,
        prefix=row.prefix,
        scopes=msgspec.convert(row.scopes, list[ScopeShown]),
        access_user=row.access_user,
        created_by=row.created_by.get_username() if row.created_by is not None else None,
        created_ms=round(row.created_at.timestamp() * 1000),
        expires_ms=epoch_ms(row.expires_at),
        revoked_ms=epoch_ms(row.revoked_at),
        last_used_ms=epoch_ms(row.last_used_at),
        is_replaced=row.replaced_by_id is not None,
    )
