"""The REST application: Starlette with one route per address, one place for tokens and for errors."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

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
        request = Request(scope, receive)
        try:
            state = self._holder.get()
            grant = await state.grants.of(request)
            answer = self._by_method.get(request.method)
            if answer is None:
                response = problem_answer(MethodNotAllowed(), allow=self._allow)
            else:
                response = await answer(request, grant, state)
        except (RequestError, ClientError) as error:
            response = problem_answer(error)
        except Exception as error:  # the last line: whatever failed, the answer is a problem, the log has the rest
            logger.exception("%s %s failed", request.method, request.url.path)
            response = problem_answer(error)
        await response(scope, receive, send)


class RestApplication(Starlette):
    """Starlette's application behind a check of the host. Its addresses are found as Starlette finds them, and called
    past its layers, which take a tenth of a send.

    Requests to other host names than ours are refused, as Django refuses them for the pages: a page on a stranger's
    name that leads here would have a browser send what is meant for it alone. Where the console is one of HTTPS,
    nothing comes from another machine without it: a proxy that is trusted says by what it was asked.
    """

    def __init__(self, addresses: Sequence[StarletteRoute], **named: Any) -> None:
        super().__init__(**named)
        self._addresses = addresses
        self.own_hosts = tuple(settings.ALLOWED_HOSTS)
        self.wants_https: bool = settings.HTTPS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if (refused := self._refused(scope)) is not None:
            await problem_answer(refused)(scope, receive, send)
            return
        path: str = scope["path"]
        for route in self._addresses:
            if (found := route.path_regex.match(path)) is not None:
                scope["path_params"] = found.groupdict()
                await route.app(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def _refused(self, scope: Scope) -> RequestError | None:
        """Return why a request is not for us, None if it is."""
        named = [value for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1 or not _is_own(named[0], self.own_hosts):
            return HostUnknown()
        if self.wants_https and scope["scheme"] == "http":
            is_here = scope["client"] is not None and is_loopback(scope["client"][0])
            return None if is_here else NotSecured()
        return None


def create_application(namesrv: str, routes: Sequence[Route] = ROUTES) -> RestApplication:
    """Return the REST application for the brokers of one name server."""
    holder = StateHolder(namesrv)
    # a schedule key and the name of a delayed queue are the caller's own words: they may hold a slash
    addresses = [
        StarletteRoute(
            ROOT + path.replace("{schedule_key}", "{schedule_key:path}").replace("{queue}", "{queue:path}"),
            Address(holder, (each for each in routes if each.path == path)),
        )
        for path in dict.fromkeys(each.path for each in routes)
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # requests make many objects and no circles: the collector would look in vain, and at all of Django each time
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        yield
        await holder.close()

    application = RestApplication(
        addresses,
        routes=[*addresses, *documentation.addresses(holder.get)],
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_such_address},
    )
    application.router.redirect_slashes = False
    application.state.holder = holder
    return application


async def _no_such_address(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        return problem_answer(MethodNotAllowed(), allow=(error.headers or {}).get("Allow"))
    return problem_answer(AddressNotFound())


application = create_application(settings.ESCAPEMENT_NAMESRV)


@lru_cache(maxsize=1_024)
def _is_own(host: bytes, allowed: tuple[str, ...]) -> bool:
    name, _port = split_domain_port(host.decode("latin-1"))
    return bool(name) and validate_host(name, allowed)
