"""Users of the brokers' access control by REST: the console's operations, for tokens with the right `access`.

A token with this right can make a user who may do everything: it is given by itself, and on every name only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field
from starlette.responses import Response

from broker.client.admin import AccessUser
from broker.rocketmq.acl import PolicyType
from console.operations.actor import CHANGE_ACCESS
from console.rest.access import Everywhere
from console.rest.database import token_actor
from console.rest.errors import BrokerUserUnknown
from console.rest.operations import begun, in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Deletion, Look, OfBroker, Reason
from console.rest.several import of_broker
from console.security.tokens import ACCESS
from console.site.broker import asked_of, tell_each
from console.site.mirrored import cluster

UserName = Annotated[str, Meta(min_length=1, max_length=128)]
Hours = Annotated[float, Meta(ge=0, le=8_760, description="How long the old secret stays valid beside the new one.")]
ActionName = Literal["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
ResourceName = Annotated[
    str, Meta(min_length=1, max_length=300, description="Topic:name, Group:prefix*, Cluster:* or *.")
]

TypeName = Annotated[
    Literal["Custom", "Default"],
    Meta(description="Which of the user's two lists: those of type Default count where no Custom one applies."),
]


class NewBrokerUser(Struct, forbid_unknown_fields=True, kw_only=True):
    """A user to make; the answer has the secret in `secrets`, once."""

    name: UserName
    is_super: bool = False
    reason: Reason
    preview: Look = False


class BrokerUserChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """A user disabled, or enabled again."""

    is_enabled: bool
    reason: Reason
    preview: Look = False


class SecretRotation(Struct, forbid_unknown_fields=True, kw_only=True):
    """A new secret; the answer has it in `secrets`, once."""

    overlap_hours: Hours = 24.0
    reason: Reason
    preview: Look = False


class OldSecretEnd(Struct, forbid_unknown_fields=True, kw_only=True):
    """The end of the secret before the present one."""

    reason: Reason
    preview: Look = False


class NewPolicy(Struct, forbid_unknown_fields=True, kw_only=True):
    """An entry to set, in the place of the one of the same resource."""

    type: TypeName = "Custom"
    resource: ResourceName
    actions: Annotated[list[ActionName], Meta(min_length=1, max_length=8)]
    decision: Literal["Allow", "Deny"] = "Allow"
    sources: Annotated[list[str], Meta(max_length=1_000)] = field(default_factory=list)
    reason: Reason
    preview: Look = False


class PolicyEnd(Struct, forbid_unknown_fields=True, kw_only=True):
    """An entry to take away."""

    type: TypeName = "Custom"
    resource: ResourceName
    reason: Reason
    preview: Look = False


class PolicyShown(Struct, kw_only=True):
    """An entry of a user's policies, in RocketMQ's words."""

    type: str
    resource: str
    actions: list[str]
    decision: str
    sources: list[str]


class BrokerUserShown(Struct, kw_only=True):
    """A user as one broker has it; `previous_until_ms`: until when the secret before counts, too."""

    name: str
    broker: str
    is_super: bool
    is_enabled: bool
    previous_until_ms: int | None
    policies: list[PolicyShown]


class BrokerUserRows(Struct, kw_only=True):
    """The users, a row for each broker that has them."""

    users: list[BrokerUserShown]
    brokers_missing: list[str]


_USERS = "/broker-users"
_USER = _USERS + "/{user}"
_ON = Everywhere()


@route(
    "GET",
    _USERS,
    "List broker users",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=((200, "Users.", BrokerUserRows),),
)
async def users(call: Call, query: OfBroker) -> Response:
    """List the users of access control with their policies; no secret is told."""
    return json_answer(await in_thread(lambda: _rows("", query.broker)))


@route(
    "POST",
    _USERS,
    "Create a broker user",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def make_user(call: Call, query: OfBroker, body: NewBrokerUser) -> Response:
    """Make a user with a new secret."""
    return await _begun(call, "create", {"name": body.name, "is_super": body.is_super}, body, query.broker)


@route(
    "GET",
    _USER,
    "Get a broker user",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=((200, "The user at each broker.", BrokerUserRows),),
    errors=(BrokerUserUnknown,),
)
async def user(call: Call, query: OfBroker) -> Response:
    """Answer one user, a row for each broker that has it."""
    name = call.named["user"]
    found = await in_thread(lambda: _rows(name, query.broker))
    rows = [each for each in found.users if each.name == name]
    if not rows:
        raise BrokerUserUnknown
    return json_answer(BrokerUserRows(users=rows, brokers_missing=found.brokers_missing))


@route(
    "PATCH",
    _USER,
    "Disable or enable a broker user",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    example={"is_enabled": False, "reason": "left the company"},
)
async def change_user(call: Call, query: OfBroker, body: BrokerUserChange) -> Response:
    """Disable a user, or enable it again."""
    return await _begun(call, "change", {"is_enabled": body.is_enabled}, body, query.broker)


@route(
    "DELETE",
    _USER,
    "Delete a broker user",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def delete_user(call: Call, query: Deletion) -> Response:
    """Delete a user with all policies."""
    actor, is_look = token_actor(call.grant, frozenset((CHANGE_ACCESS,))), query.is_look()
    parameters = {"name": call.named["user"]}
    return await begun("access.delete", parameters, query.reason, actor, is_look=is_look, broker=query.broker)


@route(
    "POST",
    f"{_USER}:rotate",
    "Rotate a secret",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def rotate(call: Call, query: OfBroker, body: SecretRotation) -> Response:
    """Give a user another secret; both count for a while."""
    return await _begun(call, "rotate", {"overlap_hours": body.overlap_hours}, body, query.broker)


@route(
    "POST",
    f"{_USER}:end-old-secret",
    "End an old secret",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def end_old_secret(call: Call, query: OfBroker, body: OldSecretEnd) -> Response:
    """End the secret before the present one now."""
    return await _begun(call, "end_old_secret", {}, body, query.broker)


@route(
    "POST",
    f"{_USER}/policies",
    "Set a policy",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def set_policy(call: Call, query: OfBroker, body: NewPolicy) -> Response:
    """Allow or deny a user something."""
    entry = {name: msgspec.to_builtins(body)[name] for name in ("type", "resource", "actions", "decision", "sources")}
    return await _begun(call, "set_policy", entry, body, query.broker)


@route(
    "POST",
    f"{_USER}/policies:delete",
    "Remove a policy",
    action=ACCESS,
    permission=CHANGE_ACCESS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def delete_policy(call: Call, query: OfBroker, body: PolicyEnd) -> Response:
    """Take a user's entry of a resource away."""
    return await _begun(call, "delete_policy", {"type": body.type, "resource": body.resource}, body, query.broker)


async def _begun(call: Call, verb: str, parameters: Mapping[str, Any], body: Any, broker: str) -> Response:
    actor = token_actor(call.grant, frozenset((CHANGE_ACCESS,)))
    named = {"name": call.named.get("user", parameters.get("name")), **parameters}
    return await begun(f"access.{verb}", named, body.reason, actor, is_look=body.preview, broker=broker)


def _rows(containing: str, broker: str) -> BrokerUserRows:
    with of_broker(broker):
        told = tell_each(lambda admin: admin.access_users(containing), asked_of(cluster()))
        one = "".join(cluster().names[:1])
    rows = [_shown(user, each.broker or one) for each in told for user in each.answer or ()]
    return BrokerUserRows(users=rows, brokers_missing=[each.broker for each in told if each.error is not None])


def _shown(user: AccessUser, broker: str) -> BrokerUserShown:
    entries = [(kind, each.to_json()) for kind in PolicyType for each in user.policies.get(kind, ())]
    return BrokerUserShown(
        name=user.name,
        broker=broker,
        is_super=user.is_super,
        is_enabled=user.is_enabled,
        previous_until_ms=user.previous_until_ms,
        policies=[
            PolicyShown(
                type=str(kind),
                resource=said["resource"],
                actions=said["actions"],
                decision=said["decision"],
                sources=said.get("sourceIps", []),
            )
            for kind, said in entries
        ],
    )
