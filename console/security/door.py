"""The door by which somebody came in: a request of the console, or a command. The audit tells who changed what by it.

What the program does by itself (migrations, jobs, what a new database gets) goes through no door.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Door:
    """A request of the console, or a command of an account of this machine."""

    request: HttpRequest | None = None
    command: str = ""

    @property
    def who(self) -> tuple[str, int | None]:
        """The name for the audit, and the number of the account if there is one."""
        if self.request is None:
            return f"{self.command} by {_account()}", None
        user = getattr(self.request, "user", None)
        if user is None or not user.is_authenticated:
            return "", None
        return user.get_username(), user.pk

    @property
    def address(self) -> str:
        """The address that the request came from; empty for a command."""
        return "" if self.request is None else str(self.request.META.get("REMOTE_ADDR", ""))


_open: ContextVar[Door | None] = ContextVar("door", default=None)


def door() -> Door | None:
    """Return the door by which whoever acts here and now came in; None: the program acts by itself."""
    return _open.get()


@contextmanager
def through(opened: Door) -> Iterator[None]:
    """Act through this door within."""
    token = _open.set(opened)
    try:
        yield
    finally:
        _open.reset(token)


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an account without a name"
