"""One public port, three rooms.

    websocket ................. Channels, for pages that change in place
    /api/ ..................... console.api: a small ASGI application of its own, for speed
    everything else ........... Django by WSGI on a thread pool, for the console pages

Django's own ASGI handler starts a thread per synchronous request and reaches a fifth of what this does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from console.wsgi import application as django_wsgi  # first: it sets Django up for the imports below

from channels.auth import AuthMiddlewareStack  # isort: skip
from channels.routing import URLRouter  # isort: skip
from channels.security.websocket import AllowedHostsOriginValidator  # isort: skip
from django.conf import settings  # isort: skip
from django.urls import path  # isort: skip

from console.api.app import application as api  # isort: skip
from console.sockets import LiveConsumer  # isort: skip

Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

pages: Any = WSGIMiddleware(cast(Any, django_wsgi), workers=settings.PAGE_THREADS)
sockets: Application = AllowedHostsOriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/live/<path:page>", LiveConsumer.as_asgi())]))
)


def room(scope: dict[str, Any]) -> Application:
    """The application that answers this scope; start and stop (lifespan) belong to the REST room, which has state."""
    if scope["type"] == "websocket":
        return sockets
    if scope["type"] == "lifespan" or scope["path"].startswith("/api/"):
        return api
    return pages


async def application(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """The ASGI application that the web server runs."""
    await room(scope)(scope, receive, send)
