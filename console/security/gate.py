"""The gate of the console: every page but the few named here needs the permission VIEW.

A page that is added later is closed until somebody may see it; what a page lets one do, its handler asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.security.roles import VIEW
from console.security.topic_scope import NOTHING, look_as, looking, visible_topics

#: names of addresses that decide for themselves, or are for everybody
OPEN = frozenset(
    {
        "login", "logout", "sign_on", "sign_on_back", "healthz", "readyz", "metrics", "set_language", "set_theme",
        "favicon",
    }
)  # fmt: skip
#: Django's own admin has its own door: staff only
OPEN_SPACES = frozenset({"admin"})
#: what it has for who sees some topics only: it shows rows as they are, of all topics
_LIMITED_ADMIN = frozenset({"index", "login", "logout", "password_change", "password_change_done", "jsi18n"})


class Gate:
    """Middleware that stands behind authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request within a scope of its own; process_view says who looks."""
        with looking(NOTHING):
            return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Send whoever is not signed in to the login page, and refuse (403) whoever may not see the console."""
        match = request.resolver_match
        visible = visible_topics(request.user) if request.user.is_authenticated else NOTHING
        look_as(visible)
        if match is not None and OPEN_SPACES & set(match.namespaces):
            if request.user.is_authenticated and not visible.is_all and match.url_name not in _LIMITED_ADMIN:
                raise PermissionDenied("topics")
            return None
        if match is None or match.url_name in OPEN:
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not request.user.has_perm(VIEW):
            raise PermissionDenied(VIEW)
        return None
