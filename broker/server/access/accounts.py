"""The users and policies of a store, and the requests about them (3001 to 3010), as `mqadmin` asks for them.

They are kept in ``config/access.json``, saved atomically in two versions as all small files are.

Shape: ``{"users": {name: UserInfo}, "acls": {name: {"Custom": [PolicyEntryInfo...], "Default": [...]}}}`` in the words
of RocketMQ (which keeps the same in a RocksDB of its own), and of a user whose secret rotates ``previousPassword`` with
``previousUntilMs``, to which that one counts as well. A change is durable when the call returns.

The header field `previousUntilMs` of 3002 is ours: with a new password it says until when the old one counts beside
it, without one until when the one before does; 0 ends that at once. Without it a new password ends the old one.

The inner user is the broker's own: the one that its configuration names, always there, Super, in no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...engine.disk import Files, directory_of, save_file
from ...engine.tables import json_file
from ...rocketmq.acl import (
    PREVIOUS_UNTIL,
    AccessError,
    AccessUnreadable,
    Entry,
    InvalidAccess,
    Policies,
    PolicyNotFound,
    PolicyType,
    Resource,
    User,
    UserExists,
    UserNotFound,
    check_name,
    entry,
    merged,
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
from ..connection import Connection, Handler

MOST_USERS = 10_000
MOST_ENTRIES = 10_000
"""Entries of one user."""

FILE_NAME = "access.json"


class AccountTable:
    """The one owner of users and policies.

    `changed` is called after each change with the user's name and whether he may do less now.
    """

    def __init__(
        self, files: Files, path: str, inner: User, changed: Callable[[str, bool], None] = lambda _name, _is_less: None
    ) -> None:
        self._files = files
        self._path = path
        self.inner = inner
        self._users: dict[str, User] = {}
        self._policies: dict[str, Policies] = {}
        self._changed = changed

    def load(self) -> None:
        """Read the file, if there is one; raises AccessUnreadable: nobody is let in by what cannot be read."""
        if json_file.load(self._files, self._path, self._read) is None and any(
            self._files.exists(path) for path in (self._path, self._path + ".bak")
        ):
            raise AccessUnreadable(self._path)

    def _read(self, value: Mapping[str, Any]) -> bool:
        try:
            users = [User.from_json(each) for each in value["users"].values()]
            policies = {name: _policies_from(each) for name, each in value["acls"].items()}
        except AccessError as error:
            raise ValueError(str(error)) from None
        self._users = {user.name: user for user in users}
        self._policies = policies
        return True

    # looking

    def user(self, name: str) -> User | None:
        """Return the user of that name; None if there is none."""
        return self.inner if name == self.inner.name else self._users.get(name)

    def users(self, containing: str = "") -> list[User]:
        """Return the users whose name contains some text, by name."""
        every = {**self._users, self.inner.name: self.inner}
        return [every[name] for name in sorted(every) if containing in name]

    def policies(self, name: str) -> Policies | None:
        """Return the policies of a user; None if he has none."""
        return self._policies.get(name)

    def all_policies(self) -> list[tuple[str, Policies]]:
        """Return the users who have policies, each with his, by name."""
        return sorted(self._policies.items())

    # changing

    def create_user(self, user: User) -> None:
        """Add a user; raises UserExists, InvalidAccess, OSError."""
        check_name(user.name)
        if not user.secret:
            raise InvalidAccess("The password is empty.")
        if self.user(user.name) is not None:
            raise UserExists(f"The user {user.name!r} exists already.")
        if len(self._users) >= MOST_USERS:
            raise AccessError(f"There are {MOST_USERS:,} users already.")
        self._save({**self._users, user.name: user}, self._policies)
        self._changed(user.name, False)

    def change_user(
        self,
        name: str,
        *,
        secret: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        keep_until_ms: int | None = None,
    ) -> None:
        """Change what is given of a user and leave the rest; raises UserNotFound, AccessError, OSError.

        `keep_until_ms`: until when the secret that is replaced counts as well, or, without a new one, the one before.
        """
        known = self._changeable(name)
        previous, until_ms = known.previous, known.previous_until_ms
        if secret and secret != known.secret:
            previous, until_ms = known.secret, keep_until_ms or 0
        elif keep_until_ms is not None:
            until_ms = keep_until_ms
        if not (previous and until_ms):
            previous, until_ms = "", 0
        changed = User(
            name,
            secret or known.secret,
            is_super=known.is_super if is_super is None else is_super,
            is_enabled=known.is_enabled if is_enabled is None else is_enabled,
            previous=previous,
            previous_until_ms=until_ms,
        )
        if changed != known:
            self._save({**self._users, name: changed}, self._policies)
            self._changed(name, _is_less(changed, known))

    def delete_user(self, name: str) -> None:
        """Delete a user and his policies; nothing happens if there is none. Raises AccessError, OSError."""
        if self.user(name) is None:
            return
        self._changeable(name)
        self._save(_without(self._users, name), _without(self._policies, name))
        self._changed(name, True)

    def add_policies(self, name: str, added: Mapping[PolicyType, Sequence[Entry]]) -> None:
        """Add entries, each instead of the one of the same resource; raises UserNotFound, AccessError, OSError."""
        self._changeable(name)
        if not any(added.values()):
            raise InvalidAccess("The policies are empty.")
        before = self._policies.get(name, {})
        after = {type_: merged(before.get(type_, ()), added.get(type_, ())) for type_ in PolicyType}
        self._put(name, before, after)

    def delete_policies(
        self, name: str, type_: PolicyType = PolicyType.CUSTOM, resource: Resource | None = None
    ) -> None:
        """Delete the entry of a resource, or all policies; raises UserNotFound, PolicyNotFound, OSError."""
        self._changeable(name)
        before = self._policies.get(name)
        if before is None:
            raise PolicyNotFound(f"There are no policies of {name!r}.")
        after: Policies = {}
        if resource is not None:
            left = tuple(each for each in before.get(type_, ()) if each.resource != resource)
            after = {**before, type_: left}
        self._put(name, before, after)

    def _put(self, name: str, before: Policies, after: Policies) -> None:
        kept = {type_: entries for type_, entries in after.items() if entries}
        if sum(map(len, kept.values())) > MOST_ENTRIES:
            raise AccessError(f"A user has at most {MOST_ENTRIES:,} entries.")
        self._save(self._users, {**self._policies, name: kept} if kept else _without(self._policies, name))
        added = [each for type_, entries in kept.items() for each in entries if each not in before.get(type_, ())]
        gone = [each for type_, entries in before.items() for each in entries if each not in kept.get(type_, ())]
        # an entry of type Custom hides those of type Default, so only what allows more of the same is surely not less
        is_less = bool(gone) or not all(each.is_allowed for each in added)
        self._changed(name, is_less)

    def _changeable(self, name: str) -> User:
        if name == self.inner.name:
            raise AccessError(f"The user {name!r} is the broker's own; its configuration says what he is.")
        known = self._users.get(name)
        if known is None:
            raise UserNotFound(f"There is no user {name!r}.")
        return known

    def _save(self, users: dict[str, User], policies: dict[str, Policies]) -> None:
        value = {
            "users": {user.name: user.to_row() for user in users.values()},
            "acls": {
                name: {str(type_): [each.to_json() for each in entries] for type_, entries in of_user.items()}
                for name, of_user in policies.items()
            },
        }
        self._files.make_directory(directory_of(self._path))
        save_file(self._files, self._path, json_file.dump(value))
        self._users, self._policies = users, policies


def _is_less(changed: User, known: User) -> bool:
    """Tell whether the user may do less than before, or one of the secrets counts no more, or not as long."""
    after = {changed.secret, changed.previous}
    is_shorter = changed.previous == known.previous and changed.previous_until_ms < known.previous_until_ms
    is_gone = not {known.secret, known.previous} <= {*after, ""}
    return is_gone or is_shorter or not changed.is_enabled or known.is_super > changed.is_super


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def _policies_from(value: Mapping[str, Any]) -> Policies:
    return {
        PolicyType(type_): tuple(
            entry(each["resource"], each["actions"], each["decision"], each.get("sourceIps", ())) for each in entries
        )
        for type_, entries in value.items()
    }


# The requests about users and policies.

#: of a moment in ms
_MOST_DIGITS = 15
#: Answers with names and policies stay below what Java clients read in one frame.
MOST_LISTED = 10_000


class UserBody(msgspec.Struct, rename="camel"):
    """A user as RocketMQ describes one (UserInfo); the name stands in the header."""

    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class EntryBody(msgspec.Struct, rename="camel"):
    """An entry of a policy (AclInfo.PolicyEntryInfo)."""

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

    def __init__(self, table: AccountTable) -> None:
        self._table = table

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
        self._table.create_user(User(name, body.password or "", is_super=is_super, is_enabled=is_enabled))
        return request.answer()

    def _update_user(self, connection: Connection, request: Command) -> Command:
        name, body = _name(request), body_as(UserBody, request.body)
        is_super = user_type(body.user_type)
        if is_super or self._is_super(name):
            self._require_super(connection, "update")
        self._table.change_user(
            name,
            secret=body.password,
            is_super=is_super,
            is_enabled=user_status(body.user_status),
            keep_until_ms=_moment(request),
        )
        return request.answer()

    def _delete_user(self, connection: Connection, request: Command) -> Command:
        name = _name(request)
        if self._is_super(name):
            self._require_super(connection, "delete")
        self._table.delete_user(name)
        return request.answer()

    def _get_user(self, connection: Connection, request: Command) -> Command:
        user = self._table.user(_name(request))
        return request.answer(body=json_body(self._shown(connection, user)) if user is not None else b"")

    def _list_users(self, connection: Connection, request: Command) -> Command:
        users = self._table.users(request.ext.get("filter") or "")[:MOST_LISTED]
        rows = [self._shown(connection, user) for user in users]
        return request.answer(body=json_body(rows) if rows else b"")

    def _shown(self, connection: Connection, user: User) -> dict[str, object]:
        """Return a user as he is shown; secrets only to who may set them, and that of the broker's own user to
        nobody."""
        is_told = self._is_super(connection.user) and user.name != self._table.inner.name
        return user.to_json(with_secret=is_told)

    def _is_super(self, name: str) -> bool:
        user = self._table.user(name)
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
        self._table.add_policies(name, added)
        return request.answer()

    def _delete_acl(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        resource = ext.get("resource")
        self._table.delete_policies(
            user_of(text(ext, "subject")),
            policy_type(ext.get("policyType")),
            parse_resource(resource) if resource else None,
        )
        return request.answer()

    def _get_acl(self, _: Connection, request: Command) -> Command:
        name = user_of(text(request.ext, "subject"))
        if self._table.user(name) is None:
            raise InvalidAccess("The subject is not exist.")
        policies = self._table.policies(name)
        return request.answer(body=json_body(_acl(name, policies)) if policies else b"")

    def _list_acls(self, _: Connection, request: Command) -> Command:
        of_subject, of_resource = request.ext.get("subjectFilter") or "", request.ext.get("resourceFilter") or ""
        rows = []
        for name, policies in self._table.all_policies():
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


def _moment(request: Command) -> int | None:
    """Return until when a secret that is replaced counts; None: nothing is said about it."""
    given = request.ext.get(PREVIOUS_UNTIL)
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > _MOST_DIGITS:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"{PREVIOUS_UNTIL} is epoch milliseconds, not {given[:40]!r}.")
    return int(given)


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
