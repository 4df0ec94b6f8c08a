"""What can be wrong with users and policies; the message is what an administrator reads."""

from __future__ import annotations


class AccessError(Exception):
    """A change of users or policies is refused; nothing was changed."""


class InvalidAccess(AccessError):
    """A name, resource, action, address or decision is not valid."""


class UserNotFound(AccessError):
    """There is no such user."""


class UserExists(AccessError):
    """There is such a user already."""


class PolicyNotFound(AccessError):
    """The user has no policies."""


class AccessUnreadable(OSError):
    """The file of users and policies cannot be read, nor can the version before."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The users and policies in {path} cannot be read, nor can {path}.bak. Put a copy of the file back;"
            " without both files the broker starts with no user but its own."
        )
