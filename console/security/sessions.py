"""Whose a session is, for doors that cannot give its browser another cookie: websockets, and the reference of REST."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest

from console.security import owed, see_as


class _LookedAt(SessionStore):
    """A session that stays as it is. Django gives one that an older SECRET_KEY has signed another key, and ends one
    that belongs to nobody: the browser would keep a cookie of a session that is gone."""

    @property
    def key_salt(self) -> str:
        """What its content is signed with follows from the name of the class that wrote it."""
        return str(SessionStore().key_salt)

    def cycle_key(self) -> None:
        """Do nothing: the next page does it, and tells the browser."""

    def flush(self) -> None:
        """Do nothing, for the same reason."""


def signed_in(session_key: str) -> Any:
    """Return who is signed in by the session and owes nothing (a password, a second factor); None: nobody.

    Who sees as somebody else has the rights of both.
    """
    request: Any = HttpRequest()
    request.session = _LookedAt(session_key)
    user = get_user(request)
    if not user.is_authenticated or owed.of(request.session, user):
        return None
    return see_as.seen(request.session, user) or user
