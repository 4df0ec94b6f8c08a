"""Requests to other names than ours are refused, as Django refuses them for the pages: a page that a stranger's name
leads here from has a browser send what is meant for it alone."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import HostUnknown
from .responses import problem_answer


class OwnHosts:
    """ASGI middleware: only what is addressed to a name of ESCAPEMENT_HOSTS gets through."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: one request."""
        if scope["type"] == "http":
            named = [value for name, value in scope["headers"] if name == b"host"]
            if len(named) != 1 or not _is_own(named[0], tuple(settings.ALLOWED_HOSTS)):
                await problem_answer(HostUnknown())(scope, receive, send)
                return
        await self.app(scope, receive, send)


@lru_cache(maxsize=1_024)
def _is_own(host: bytes, allowed: tuple[str, ...]) -> bool:
    name, _port = split_domain_port(host.decode("latin-1"))
    return bool(name) and validate_host(name, allowed)
