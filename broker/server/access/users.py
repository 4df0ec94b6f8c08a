"""Users: a name (the access key), a secret that signs, Super or Normal, enabled or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import InvalidAccess

SUBJECT_PREFIX = "User:"
_TYPES = {"super": True, "normal": False}
_STATUSES = {"enable": True, "disable": False}


@dataclass(frozen=True, slots=True)
class User:
    """One user. The secret is kept as it is: without it a signature cannot be checked."""

    name: str
    secret: str = field(repr=False)
    is_super: bool = False
    is_enabled: bool = True

    def to_json(self, *, with_secret: bool) -> dict[str, Any]:
        """RocketMQ's form (UserInfo)."""
        info = {
            "userStatus": "enable" if self.is_enabled else "disable",
            "userType": "Super" if self.is_super else "Normal",
            "username": self.name,
        }
        return info | ({"password": self.secret} if with_secret else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> User:
        """Read RocketMQ's form; raises InvalidAccess, KeyError."""
        check_name(value["username"])
        secret = value["password"]
        if not isinstance(secret, str) or not secret:
            raise InvalidAccess("The user has no password.")
        return cls(
            value["username"],
            secret,
            is_super=user_type(value.get("userType")) or False,
            is_enabled=user_status(value.get("userStatus")) is not False,
        )


def check_name(name: object) -> None:
    """Raise InvalidAccess unless a user may be called so."""
    if not isinstance(name, str) or not 1 <= len(name) <= 128 or not name.isprintable() or set(name) & set(" :*#,"):
        raise InvalidAccess("A user's name has 1 to 128 printable characters, none of them a blank or one of : * # ,")


def user_type(word: str | None) -> bool | None:
    """True for Super, False for Normal, None if nothing is said; raises InvalidAccess."""
    return _said(_TYPES, "user type", word)


def user_status(word: str | None) -> bool | None:
    """True for enable, False for disable, None if nothing is said; raises InvalidAccess."""
    return _said(_STATUSES, "user status", word)


def _said(words: Mapping[str, bool], what: str, word: str | None) -> bool | None:
    if not word:
        return None
    found = words.get(word.lower())
    if found is None:
        raise InvalidAccess(f"The {what} {word[:40]!r} is neither {' nor '.join(words)}.")
    return found


def subject_of(name: str) -> str:
    """How policies name a user."""
    return SUBJECT_PREFIX + name


def user_of(subject: str) -> str:
    """The user's name in a subject such as ``User:alice``; raises InvalidAccess."""
    kind, _, name = subject.partition(":")
    if kind.lower() != "user" or not name:
        raise InvalidAccess(f"{subject[:80]!r} is no subject; write User:name.")
    return name
