"""The users and policies of a store: ``config/access.json``, saved atomically in two versions as all small files are.

Shape: ``{"users": {name: UserInfo}, "acls": {name: {"Custom": [PolicyEntryInfo...], "Default": [...]}}}`` in the words
of RocketMQ (which keeps the same in a RocksDB of its own). A change is durable when the call returns.

The inner user is the broker's own house: what its configuration names, always there, Super, in no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine.disk import atomic
from ...engine.disk.files import Files, directory_of
from ...engine.tables import json_file
from ...rocketmq.acl import (
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
)

MOST_USERS = 10_000
MOST_ENTRIES = 10_000
"""Entries of one user."""

FILE_NAME = "access.json"


class AccessBook:
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
        """The user of that name."""
        return self.inner if name == self.inner.name else self._users.get(name)

    def users(self, containing: str = "") -> list[User]:
        """Users whose name contains some text, by name."""
        every = {**self._users, self.inner.name: self.inner}
        return [every[name] for name in sorted(every) if containing in name]

    def policies(self, name: str) -> Policies | None:
        """What is said of a user; None if nothing is."""
        return self._policies.get(name)

    def all_policies(self) -> list[tuple[str, Policies]]:
        """Users of whom something is said, and what, by name."""
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
        self, name: str, *, secret: str | None = None, is_super: bool | None = None, is_enabled: bool | None = None
    ) -> None:
        """Change what is given of a user; raises UserNotFound, AccessError, OSError."""
        known = self._changeable(name)
        changed = User(
            name,
            secret or known.secret,
            is_super=known.is_super if is_super is None else is_super,
            is_enabled=known.is_enabled if is_enabled is None else is_enabled,
        )
        if changed != known:
            self._save({**self._users, name: changed}, self._policies)
            is_less = changed.secret != known.secret or not changed.is_enabled or known.is_super > changed.is_super
            self._changed(name, is_less)

    def delete_user(self, name: str) -> None:
        """Forget a user and his policies; nothing happens if there is none. Raises AccessError, OSError."""
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
        """Forget the entry of a resource, or everything; raises UserNotFound, PolicyNotFound, OSError."""
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
            "users": {user.name: user.to_json(with_secret=True) for user in users.values()},
            "acls": {
                name: {str(type_): [each.to_json() for each in entries] for type_, entries in of_user.items()}
                for name, of_user in policies.items()
            },
        }
        self._files.make_directory(directory_of(self._path))
        atomic.save(self._files, self._path, json_file.dump(value))
        self._users, self._policies = users, policies


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def _policies_from(value: Mapping[str, Any]) -> Policies:
    return {
        PolicyType(type_): tuple(
            entry(each["resource"], each["actions"], each["decision"], each.get("sourceIps", ())) for each in entries
        )
        for type_, entries in value.items()
    }
