"""Users and policies of access control as an admin makes, changes and deletes them (RocketMQ's requests 3001 to 3010).

Each is kept by a broker for itself: without a broker chosen the first answers, and is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..rocketmq.acl import (
    PREVIOUS_UNTIL,
    AccessError,
    Entry,
    Policies,
    PolicyType,
    parse_resource,
    subject_of,
    user_of,
    user_status,
    user_type,
)
from ..rocketmq.codes import Request
from ._admin_settings import AccessQuestions, policies_of
from ._answers import read_json, rows
from .admin import AccessUser
from .errors import BadAnswer, InvalidArgument
from .names import check_user


class AccessChanges(AccessQuestions):
    """The changes of users and policies, and the lists of both."""

    async def access_users(self, containing: str = "") -> tuple[AccessUser, ...]:
        """Return the users of access control whose name contains some text, by name, each with the policies of it.

        Raises BrokerRefused where the broker has no access control. No secret is told.
        """
        body = (await self._ask(Request.AUTH_LIST_USER, {"filter": containing})).body
        acls = (await self._ask(Request.AUTH_LIST_ACL, {"subjectFilter": containing})).body
        try:
            policies = {user_of(str(each["subject"])): policies_of(msgspec.json.encode(each)) for each in _rows(acls)}
            found = [_user(each, policies.get(str(each["username"]), {})) for each in _rows(body)]
        except (AccessError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise BadAnswer(f"The users of access control cannot be read: {error}") from None
        return tuple(sorted(found, key=lambda user: user.name))

    async def access_user(self, name: str) -> AccessUser | None:
        """Return a user of access control with the policies; None: there is none of that name."""
        check_user(name)
        body = (await self._ask(Request.AUTH_GET_USER, {"username": name})).body
        said = read_json(body) if body else None
        if not isinstance(said, dict):
            return None
        acl = (await self._ask(Request.AUTH_GET_ACL, {"subject": subject_of(name)})).body
        try:
            return _user(said, policies_of(acl))
        except (AccessError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise BadAnswer(f"The user {name!r} cannot be read: {error}") from None

    async def create_access_user(self, name: str, secret: str, *, is_super: bool = False) -> None:
        """Make a user of access control; refused where there is one of that name."""
        check_user(name)
        await self._change(
            Request.AUTH_CREATE_USER, {"username": name}, _body(secret=secret, is_super=is_super, is_enabled=True)
        )

    async def change_access_user(
        self,
        name: str,
        *,
        secret: str | None = None,
        keep_until_ms: int | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
    ) -> None:
        """Change what is given of a user and leave the rest.

        `keep_until_ms`: until when the secret that is replaced counts beside the new one, or, without a new one, the
        one before does; 0 ends it immediately. A broker of Apache RocketMQ keeps one secret and ends the old one.
        """
        check_user(name)
        ext = {"username": name} | ({} if keep_until_ms is None else {PREVIOUS_UNTIL: str(keep_until_ms)})
        await self._change(
            Request.AUTH_UPDATE_USER, ext, _body(secret=secret, is_super=is_super, is_enabled=is_enabled)
        )

    async def delete_access_user(self, name: str) -> None:
        """Delete a user and the policies; nothing happens where there is none."""
        check_user(name)
        await self._change(Request.AUTH_DELETE_USER, {"username": name})

    async def set_policies(self, user: str, entries: Sequence[Entry], *, kind: PolicyType = PolicyType.CUSTOM) -> None:
        """Give a user entries, each in the place of the one of the same resource."""
        check_user(user)
        policy = {"policyType": str(kind), "entries": [each.to_json() for each in entries]}
        body = msgspec.json.encode({"subject": subject_of(user), "policies": [policy]})
        await self._change(Request.AUTH_UPDATE_ACL, {"subject": subject_of(user)}, body)

    async def delete_policy(self, user: str, resource: str, *, kind: PolicyType = PolicyType.CUSTOM) -> None:
        """Take a user's entry of this resource away. Raises InvalidArgument for what is no resource."""
        check_user(user)
        try:
            text = str(parse_resource(resource))
        except AccessError as error:
            raise InvalidArgument(str(error), field="resource") from None
        ext = {"subject": subject_of(user), "policyType": str(kind), "resource": text}
        await self._change(Request.AUTH_DELETE_ACL, ext)


def _body(*, secret: str | None, is_super: bool | None, is_enabled: bool | None) -> bytes:
    said: dict[str, str] = {}
    if secret is not None:
        said["password"] = secret
    if is_super is not None:
        said["userType"] = "Super" if is_super else "Normal"
    if is_enabled is not None:
        said["userStatus"] = "enable" if is_enabled else "disable"
    return msgspec.json.encode(said)


def _rows(body: bytes) -> Iterable[Mapping[str, Any]]:
    return rows(read_json(body)) if body else ()


def _user(said: Mapping[str, Any], policies: Policies) -> AccessUser:
    until = said.get(PREVIOUS_UNTIL)
    return AccessUser(
        name=str(said["username"]),
        is_super=user_type(said.get("userType")) is True,
        is_enabled=user_status(said.get("userStatus")) is not False,
        policies=policies,
        previous_until_ms=until if isinstance(until, int) else None,
    )
