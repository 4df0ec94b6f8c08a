"""The one public port, shared by three applications.

    websocket ................. Channels, for pages that change in place
    /api/ ..................... console.rest: a small ASGI application of its own, for speed
    /api/docs ................. its reference: pages of the console, as everything else
    /healthz, /readyz ......... Django by WSGI, a thread for each: they answer however busy the pages are
    sign-in ................... the same, two threads of its own: a password costs a second of a core, strangers may try
    everything else ........... Django by WSGI on a thread pool, for the console pages

Django's own ASGI handler starts a thread per synchronous request and reaches a fifth of what this does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from console.site.wsgi import application as django_wsgi  # first: it sets Django up for the imports below

from channels.routing import URLRouter  # isort: skip
from channels.security.websocket import AllowedHostsOriginValidator  # isort: skip
from channels.sessions import SessionMiddlewareStack  # isort: skip
from django.conf import settings  # isort: skip
from django.urls import path, reverse  # isort: skip

from console.rest.app import application as api  # isort: skip
from console.site.bounds import BodyBounds, WholeBodies  # isort: skip
from console.site.chosen import split  # isort: skip
from console.site.slow_requests import SlowRequests  # isort: skip
from console.ui.sockets import LiveConsumer  # isort: skip

Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

#: pieces of an answer that wait for a slow reader outside of the thread that made them; a file has one each 8 KiB
ANSWER_PIECES = 256
SIGN_IN_THREADS = 2
#: a whole body of a page must arrive within this time
BODY_S = 30.0
#: bodies of one room that are not answered yet; signing in has a room of its own, where each is small
TOGETHER_BYTES = 64 << 20


def pages_on(threads: int, *, session_cookie: str = "", together_bytes: int = TOGETHER_BYTES) -> Application:
    """Return Django on so many threads, none waiting for a client; without `session_cookie` everybody is a stranger."""
    django = WSGIMiddleware(cast(Any, django_wsgi), workers=threads, send_queue_size=ANSWER_PIECES)
    bounds = BodyBounds(
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE, BODY_S, together_bytes=together_bytes, session_cookie=session_cookie
    )
    return WholeBodies(cast(Any, django), bounds)


pages = pages_on(settings.PAGE_THREADS, session_cookie=settings.SESSION_COOKIE_NAME)
sign_ins = pages_on(SIGN_IN_THREADS)
_SIGN_IN = frozenset({reverse("login"), reverse("admin:login")})
_REFERENCE = "/api/docs"
signs_of_life = {path: pages_on(1, together_bytes=1 << 20) for path in ("/healthz", "/readyz")}
# without the middleware for users of channels: it ends sessions that an older SECRET_KEY has signed
sockets: Application = AllowedHostsOriginValidator(
    SessionMiddlewareStack(URLRouter([path("ws/live/<path:page>", LiveConsumer.as_asgi())]))
)


def application_for(scope: dict[str, Any]) -> Application:
    """Return the application for this scope; start and stop (lifespan) belong to the REST one, which has state."""
    if scope["type"] == "websocket":
        return sockets
    if scope["type"] == "lifespan" or (scope["path"].startswith("/api/") and not _is_reference(scope["path"])):
        return api
    if scope["method"] == "POST" and split(scope["path"])[1] in _SIGN_IN:
        return sign_ins
    return signs_of_life.get(scope["path"], pages)


def _is_reference(path: str) -> bool:
    """Tell whether a page of the console is asked for, which says what there is below /api/."""
    return path == _REFERENCE or path.startswith(f"{_REFERENCE}/")


def _any_application(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> Awaitable[None]:
    return application_for(scope)(scope, receive, send)


#: what the web server runs
application = SlowRequests(_any_application)
