"""A page that is opened without filters opens with the view that its reader wants to see there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.ui.saved_views.addresses import PAGES, Address, address_here
from console.ui.saved_views.store import default_of


class OpensWith:
    """Middleware behind the gate: whoever comes here may see the console."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Nothing before the page is known."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """To the view; the page itself has a link back to the list without it."""
        match = request.resolver_match
        if request.method not in ("GET", "HEAD") or request.META.get("QUERY_STRING") or match is None:
            return None
        here = address_here(request) if match.url_name in PAGES and request.user.is_authenticated else None
        row = default_of(request.user, here.path) if here else None
        return redirect(Address(row.page, row.path, row.query).text) if row and row.query else None
