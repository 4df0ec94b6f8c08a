"""What one must be allowed to see a page, said where its address is; `console.security.gate` sees to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path

from console.security.roles import VIEW

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True)
class Access:
    """Who gets a page: whoever is signed in, may see the console, and has these permissions as well."""

    permissions: tuple[str, ...] = ()
    #: asked for only where a form is sent: whoever comes to its address otherwise is led elsewhere
    to_send: tuple[str, ...] = ()
    is_for_staff: bool = False
    #: for strangers, too; the page itself may ask for something
    is_open: bool = False

    def missing(self, user: Any, method: str | None) -> str | None:
        """Return a permission that this user lacks to get the page by this method; None: there is none."""
        wanted = (VIEW, *self.permissions, *(self.to_send if method == "POST" else ()))
        lacking = next((permission for permission in wanted if not user.has_perm(permission)), None)
        return "staff" if lacking is None and self.is_for_staff and not user.is_staff else lacking


SIGNED_IN, STAFF, EVERYBODY = Access(), Access(is_for_staff=True), Access(is_open=True)


def page(route: str, view: View, name: str, access: Access = SIGNED_IN) -> URLPattern:
    """Return the address of a page, with who gets it; a page that says nothing is for those who are signed in."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return view(request, *args, **kwargs)

    setattr(guarded, _ACCESS, access)
    return path(route, guarded, name=name)


def access_of(view: Any) -> Access:
    """Return who gets what this view answers."""
    found: Access = getattr(view, _ACCESS, SIGNED_IN)
    return found


_ACCESS = "access"
