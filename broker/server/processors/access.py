"""Users and policies: 3001 to 3010, as `mqadmin` asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...rocketmq.acl import (
    AccessError,
    Entry,
    InvalidAccess,
    Policies,
    PolicyType,
    User,
    check_name,
    entry,
    parse_resource,
    policy_type,
    subject_of,
    user_of,
    user_status,
    user_type,
)
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import body_as, json_body, text
from ...rocketmq.frame import Command
from ..access.accounts import AccessBook
from ..connection import Connection, Handler

#: Answers with names and policies stay below what Java clients read in one frame.
MOST_LISTED = 10_000


class UserBody(msgspec.Struct, rename="camel"):
    """A user as RocketMQ describes one (UserInfo); the name stands in the header."""

    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class EntryBody(msgspec.Struct, rename="camel"):
    """One entry of a policy (AclInfo.PolicyEntryInfo)."""

    resource: str
    actions: list[str] = []
    source_ips: list[str] | None = None
    decision: str = ""


class PolicyBody(msgspec.Struct, rename="camel"):
    """The entries of one type (AclInfo.PolicyInfo)."""

    policy_type: str | None = None
    entries: list[EntryBody] | None = None


class AclBody(msgspec.Struct, rename="camel"):
    """The policies of a user (AclInfo)."""

    subject: str | None = None
    policies: list[PolicyBody] | None = None


class AccessProcessor:
    """The requests that make, change, delete and describe users and their policies."""

    def __init__(self, book: AccessBook) -> None:
        self._book = book

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        handlers: dict[int, Handler] = {
            Request.AUTH_CREATE_USER: self._create_user,
            Request.AUTH_UPDATE_USER: self._update_user,
            Request.AUTH_DELETE_USER: self._delete_user,
            Request.AUTH_GET_USER: self._get_user,
            Request.AUTH_LIST_USER: self._list_users,
            Request.AUTH_CREATE_ACL: self._put_acl,
            Request.AUTH_UPDATE_ACL: self._put_acl,
            Request.AUTH_DELETE_ACL: self._delete_acl,
            Request.AUTH_GET_ACL: self._get_acl,
            Request.AUTH_LIST_ACL: self._list_acls,
        }
        return {code: _refusing(handler) for code, handler in handlers.items()}

    # users

    def _create_user(self, connection: Connection, request: Command) -> Command:
        name, body = _name(request), body_as(UserBody, request.body)
        is_super = user_type(body.user_type) or False
        if is_super:
            self._require_super(connection, "create")
        is_enabled = user_status(body.user_status) is not False
        self._book.create_user(User(name, body.password or "", is_super=is_super, is_enabled=is_enabled))
        return request.answer()

    def _update_user(self, connection: Connection, request: Command) -> Command:
        name, body = _name(request), body_as(UserBody, request.body)
        is_super = user_type(body.user_type)
        if is_super or self._is_super(name):
            self._require_super(connection, "update")
        self._book.change_user(name, secret=body.password, is_super=is_super, is_enabled=user_status(body.user_status))
        return request.answer()

    def _delete_user(self, connection: Connection, request: Command) -> Command:
        name = _name(request)
        if self._is_super(name):
            self._require_super(connection, "delete")
        self._book.delete_user(name)
        return request.answer()

    def _get_user(self, connection: Connection, request: Command) -> Command:
        user = self._book.user(_name(request))
        return request.answer(body=json_body(self._shown(connection, user)) if user is not None else b"")

    def _list_users(self, connection: Connection, request: Command) -> Command:
        users = self._book.users(request.ext.get("filter") or "")[:MOST_LISTED]
        rows = [self._shown(connection, user) for user in users]
        return request.answer(body=json_body(rows) if rows else b"")

    def _shown(self, connection: Connection, user: User) -> dict[str, object]:
        """Return a user as he is shown; secrets only to who may set them, and that of the broker's own user to
        nobody."""
        is_told = self._is_super(connection.user) and user.name != self._book.inner.name
        return user.to_json(with_secret=is_told)

    def _is_super(self, name: str) -> bool:
        user = self._book.user(name)
        return user is not None and user.is_super

    def _require_super(self, connection: Connection, verb: str) -> None:
        if not self._is_super(connection.user):
            raise RequestRefused(Answer.SYSTEM_ERROR, f"The super user can only be {verb} by super user")

    # policies

    def _put_acl(self, _: Connection, request: Command) -> Command:
        """Add policies to a user: 3006 and 3007 do the same in RocketMQ, too."""
        body = body_as(AclBody, request.body)
        name = user_of(body.subject or text(request.ext, "subject"))
        added: dict[PolicyType, list[Entry]] = {}
        for policy in body.policies or ():
            entries = [
                entry(each.resource, each.actions, each.decision, each.source_ips or ())
                for each in policy.entries or ()
            ]
            added.setdefault(policy_type(policy.policy_type), []).extend(entries)
        self._book.add_policies(name, added)
        return request.answer()

    def _delete_acl(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        resource = ext.get("resource")
        self._book.delete_policies(
            user_of(text(ext, "subject")),
            policy_type(ext.get("policyType")),
            parse_resource(resource) if resource else None,
        )
        return request.answer()

    def _get_acl(self, _: Connection, request: Command) -> Command:
        name = user_of(text(request.ext, "subject"))
        if self._book.user(name) is None:
            raise InvalidAccess("The subject is not exist.")
        policies = self._book.policies(name)
        return request.answer(body=json_body(_acl(name, policies)) if policies else b"")

    def _list_acls(self, _: Connection, request: Command) -> Command:
        of_subject, of_resource = request.ext.get("subjectFilter") or "", request.ext.get("resourceFilter") or ""
        rows = []
        for name, policies in self._book.all_policies():
            if of_subject in subject_of(name):
                found = {
                    type_: tuple(each for each in entries if of_resource in str(each.resource))
                    for type_, entries in policies.items()
                }
                if any(found.values()):
                    rows.append(_acl(name, found))
        return request.answer(body=json_body(rows[:MOST_LISTED]) if rows else b"")


def _name(request: Command) -> str:
    name = request.ext.get("username")
    if not name:
        raise RequestRefused(Answer.INVALID_PARAMETER, "The username is blank")
    check_name(name)
    return name


def _acl(name: str, policies: Policies) -> dict[str, object]:
    rows: Sequence[dict[str, object]] = [
        {"policyType": str(type_), "entries": [each.to_json() for each in entries]}
        for type_, entries in policies.items()
        if entries
    ]
    return {"subject": subject_of(name), "policies": rows}


def _refusing(handler: Handler) -> Handler:
    """Return the handler with refusals answered as RocketMQ answers them: no permission, and why."""

    def handled(connection: Connection, request: Command) -> Command | None:
        try:
            return handler(connection, request)
        except AccessError as error:
            raise RequestRefused(Answer.NO_PERMISSION, str(error)) from None

    return handled
