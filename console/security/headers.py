"""Headers of every page: what a browser is to leave alone, who may take the page into one of theirs, and what is not to
be kept on a disk."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

_NOT_USED = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
#: names of addresses whose pages show bodies, keys or properties of messages, or what was typed to find them
WITH_CONTENT = frozenset(
    {"archive", "dead_letters_of", "delayed_queue", "find", "find_key", "message", "message_body", "message_unmask",
     "messages", "queue", "tail", "timer", "timer_list", "transaction", "transaction_list", "transaction_unmask"}
)  # fmt: skip


class Headers:
    """Middleware that adds them to what has none of its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer with these headers added."""
        response = self.get_response(request)
        response.headers.setdefault("Permissions-Policy", _NOT_USED)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        match = request.resolver_match
        if match is not None and match.url_name in WITH_CONTENT:
            response.headers.setdefault("Cache-Control", "no-store")
        return response
