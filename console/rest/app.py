"""The REST application: Starlette with one route per address, one place for tokens and for errors.

Requests to other host names than ours are refused, as Django refuses them for the pages: a page on a stranger's name
that leads here would have a browser send what is meant for it alone.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.client import ClientError
from broker.hosting import is_loopback
from console.rest import documentation
from console.rest.errors import AddressNotFound, HostUnknown, MethodNotAllowed, NotSecured, RequestError
from console.rest.responses import problem_answer
from console.rest.route import Route
from console.rest.routes import ROUTES
from console.rest.state import ApiState

logger = logging.getLogger(__name__)

ROOT = "/api/v1"
GC_THRESHOLDS = (50_000, 20, 50)


class StateHolder:
    """The one ApiState of this application, made when the first request needs it (in the loop that serves it)."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._state: ApiState | None = None

    def get(self) -> ApiState:
        """Return the state, which is made if there is none."""
        if self._state is None:
            self._state = ApiState(self._namesrv)
        return self._state

    async def close(self) -> None:
        """Close the state, if there is one; idempotent."""
        state, self._state = self._state, None
        if state is not None:
            await state.close()


class Address:
    """The routes of one address as an ASGI application: it checks the token, picks the method, and answers errors."""

    def __init__(self, holder: StateHolder, routes: Iterable[Route]) -> None:
        self._holder = holder
        self._by_method = {each.method: each.answer for each in routes}
        self._allow = ", ".join(sorted(self._by_method))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            state = self._holder.get()
            grant = await state.grants.of(request)
            answer = self._by_method.get(request.method)
            if answer is None:
                return problem_answer(MethodNotAllowed(), allow=self._allow)
            return await answer(request, grant, state)
        except (RequestError, ClientError) as error:
            return problem_answer(error)
        except Exception as error:  # the last line: whatever failed, the answer is a problem, the log has the rest
            logger.exception("%s %s failed", request.method, request.url.path)
            return problem_answer(error)


def create_application(namesrv: str, routes: Sequence[Route] = ROUTES) -> Starlette:
    """Return the REST application for the brokers of one name server."""
    holder = StateHolder(namesrv)
    # a schedule key and the name of a delayed queue are the caller's own words: they may hold a slash
    addresses: list[BaseRoute] = [
        StarletteRoute(
            ROOT + path.replace("{schedule_key}", "{schedule_key:path}").replace("{queue}", "{queue:path}"),
            Address(holder, (each for each in routes if each.path == path)),
        )
        for path in dict.fromkeys(each.path for each in routes)
    ]
    addresses += documentation.addresses(holder.get)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # requests make many objects and no circles: the collector would look in vain, and at all of Django each time
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        yield
        await holder.close()

    application = Starlette(
        routes=addresses,
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_such_address},
        middleware=[Middleware(OwnHosts)],
    )
    application.router.redirect_slashes = False
    application.state.holder = holder
    return application


async def _no_such_address(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        return problem_answer(MethodNotAllowed(), allow=(error.headers or {}).get("Allow"))
    return problem_answer(AddressNotFound())


class OwnHosts:
    """ASGI middleware: only what is addressed to a name of ESCAPEMENT_HOSTS gets through.

    Where the console is one of HTTPS, nothing comes from another machine without it: a proxy that is trusted says by
    what it was asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, as ASGI has it, or refuse it."""
        if scope["type"] == "http":
            named = [value for name, value in scope["headers"] if name == b"host"]
            if len(named) != 1 or not _is_own(named[0], tuple(settings.ALLOWED_HOSTS)):
                await problem_answer(HostUnknown())(scope, receive, send)
                return
            if settings.HTTPS and scope["scheme"] == "http" and not _is_here(scope):
                await problem_answer(NotSecured())(scope, receive, send)
                return
        await self.app(scope, receive, send)


application = create_application(settings.ESCAPEMENT_NAMESRV)


def _is_here(scope: Scope) -> bool:
    return scope["client"] is not None and is_loopback(scope["client"][0])


@lru_cache(maxsize=1_024)
def _is_own(host: bytes, allowed: tuple[str, ...]) -> bool:
    name, _port = split_domain_port(host.decode("latin-1"))
    return bool(name) and validate_host(name, allowed)
