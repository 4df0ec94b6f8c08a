"""The part of the asynchronous admin that asks what access control lets a user do.

What a broker tells of a user is decided upon here by the broker's own rule (broker/rocketmq/acl.py): there is no
second one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..rocketmq.acl import (
    AccessError,
    Policies,
    PolicyType,
    entry,
    policy_type,
    subject_of,
    user_status,
    user_type,
)
from ..rocketmq.codes import Request
from ._admin_base import Questions
from ._answers import read_json, read_object
from ._types import Broker
from .admin import UserAccess
from .errors import BadAnswer, BrokerRefused, NotSupported
from .names import check_user


class AccessQuestions(Questions):
    """What access control says of users."""

    async def access_of(self, user: str) -> tuple[UserAccess, ...]:
        """What each broker with access control lets a user do; none has it: (). Raises InvalidArgument, ClientError.

        Asking needs Get on the cluster. A broker of Apache RocketMQ is asked for its configuration, too.
        """
        check_user(user)
        found: list[UserAccess] = []
        for broker in await self._chosen():
            try:
                found.append(await self._access_at(broker, user))
            except BrokerRefused as refusal:
                if not isinstance(refusal, NotSupported) and await self._is_controlled(broker):
                    raise
        return tuple(found)

    async def _access_at(self, broker: Broker, user: str) -> UserAccess:
        body = (await self._ask(Request.AUTH_GET_USER, {"username": user}, address=broker.address)).body
        said = read_json(body) if body else None
        if not isinstance(said, dict):
            return UserAccess(user, broker, is_known=False, is_super=False, is_enabled=False, policies={})
        ext = {"subject": subject_of(user)}
        body = (await self._ask(Request.AUTH_GET_ACL, ext, address=broker.address)).body
        try:
            return UserAccess(
                user, broker, is_known=True,
                is_super=user_type(_word(said.get("userType"))) is True,
                is_enabled=user_status(_word(said.get("userStatus"))) is not False,
                policies=_policies(body),
            )  # fmt: skip
        except (AccessError, msgspec.ValidationError, msgspec.DecodeError) as error:
            raise BadAnswer(f"What broker {broker.name} says of the user {user!r} cannot be read: {error}") from None

    async def _is_controlled(self, broker: Broker) -> bool:
        """Whether the broker decides by policies; Apache RocketMQ refuses the questions of before where it does not."""
        text = (await self._ask(Request.GET_BROKER_CONFIG, address=broker.address)).body.decode("utf-8", "replace")
        lines = (line.partition("=") for line in text.splitlines())
        return {name.strip(): value.strip() for name, _, value in lines}.get("authorizationEnabled") != "false"


class _Entry(msgspec.Struct, rename="camel"):
    """AclInfo.PolicyEntryInfo as it is told; actions are a list, or in some versions one text."""

    resource: str
    actions: list[str] | str = []
    source_ips: list[str] | None = None
    decision: str = ""


class _Policy(msgspec.Struct, rename="camel"):
    policy_type: str | None = None
    entries: list[_Entry] | None = None


class _Acl(msgspec.Struct):
    policies: list[_Policy] | None = None


def _policies(body: bytes) -> Policies:
    """Raises AccessError, msgspec.ValidationError."""
    if not body:
        return {}
    told: dict[PolicyType, list[Any]] = {}
    for policy in msgspec.convert(read_object(body), _Acl).policies or ():
        for each in policy.entries or ():
            actions = each.actions.split(",") if isinstance(each.actions, str) else each.actions
            kept = entry(each.resource, actions, each.decision, each.source_ips or ())
            told.setdefault(policy_type(policy.policy_type), []).append(kept)
    return {type_: tuple(entries) for type_, entries in told.items()}


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
