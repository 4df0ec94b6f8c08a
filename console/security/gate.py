"""Nothing is shown to anybody who may not see it: what a page asks for is said at its address (security/access.py).

A page that says nothing is for those who may see the console; what a page lets one do, its handler asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.security.access import access_of
from console.security.topic_scope import NOTHING, look_as, looking, visible_topics

#: Django's own admin has its own door: staff only
OPEN_SPACES = frozenset({"admin"})
#: what it has for who sees some topics only: it shows rows as they are, of all topics
_LIMITED_ADMIN = frozenset({"index", "login", "logout", "password_change", "password_change_done", "jsi18n"})


class Gate:
    """Middleware behind authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Who looks is said by process_view, and forgotten with the request."""
        with looking(NOTHING):
            return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Redirect strangers to the login page; raise PermissionDenied for users who may not see the page."""
        match = request.resolver_match
        visible = visible_topics(request.user) if request.user.is_authenticated else NOTHING
        look_as(visible)
        if match is not None and OPEN_SPACES & set(match.namespaces):
            if request.user.is_authenticated and not visible.is_all and match.url_name not in _LIMITED_ADMIN:
                raise PermissionDenied("topics")
            return None
        access = access_of(view)
        if match is None or access.is_open:
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if missing := access.missing(request.user, request.method):
            raise PermissionDenied(missing)
        return None
