"""Nothing is shown to anybody who may not see the console: every page but the few named here asks for VIEW.

A page that is added later is closed until somebody may see it; what a page lets one do, its handler asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.access.roles import VIEW

#: names of addresses that decide for themselves, or are for everybody
OPEN = frozenset({"login", "logout", "healthz", "readyz", "metrics", "set_language"})
#: Django's own admin has its own door: staff only
OPEN_SPACES = frozenset({"admin"})


class Gate:
    """Middleware behind authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Nothing but what process_view does."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """To the login page who is not signed in; 403 for who may not see the console."""
        match = request.resolver_match
        if match is None or match.url_name in OPEN or OPEN_SPACES & set(match.namespaces):
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not request.user.has_perm(VIEW):
            raise PermissionDenied(VIEW)
        return None
