"""Routes: a method at an address, declared at its handler with what a token has to allow for it.

    @route("GET", "/timers", "List pending timers by due time", action=READ, on=InRows(), answers=(...))
    async def timers(call: Call, query: TimersQuery) -> Response:

The handler's parameter `query` says which parameters the address may have, `body` which JSON the request has (optional
where its type allows None): both are Structs, read before the handler runs. OpenAPI is made from the same declaration.

What a token has to allow is checked in one place, `Route.answer`: before the handler what the address names, and behind
it that the handler asked for what is known only after reading. A declaration that leaves anything open fails at import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.rest.access import (
    OWNER,
    AfterReading,
    Allow,
    Group,
    InRecord,
    Named,
    OwnOperation,
    Place,
    ProducerGroup,
    Queue,
    Topic,
    allowed,
    require,
    require_scope,
    require_where,
)
from console.rest.idempotency import key_of
from console.rest.masking import Hiding
from console.rest.person import PersonGrant
from console.rest.query import Parameter, check_names, parameters_of, read_query
from console.rest.request_body import decode, has_body, read_body
from console.rest.state import ApiState
from console.security.gate import VIEW
from console.security.tokens import ACTIONS, DELETE, Grant

Handler = Callable[..., Awaitable[Response]]
Answers = Sequence[tuple[int, str, type[msgspec.Struct]]]

#: Bodies of a thousand things that are chosen by their ids are smaller.
MOST_BODY_BYTES = 512 * 1024
_PARAMETER = re.compile(r"{(\w+)}")
#: by which places a parameter of the address is accounted for; others are no names that a token allows
_ACCOUNTED: Mapping[str, tuple[type[Place], ...]] = {
    "topic": (Topic,),
    "group": (Group, ProducerGroup),
    "queue": (Queue,),
    "id": (InRecord, OwnOperation),
}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class RouteIncomplete(TypeError):
    """The declaration of a route leaves open what a token has to allow, or what the handler takes."""


class CheckForgotten(Exception):
    """A handler answered without asking whether the token allows what it read: nothing of it is told."""


class Call:
    """A request to a route: its token's grant, the process's shared state, and the checks due before the answer."""

    __slots__ = ("_action", "_open", "body", "body_bytes", "grant", "request", "state")

    def __init__(
        self, request: Request, grant: Grant, state: ApiState, action: str, still_open: frozenset[str]
    ) -> None:
        self.request = request
        self.grant = grant
        self.state = state
        #: the size of the body that was read
        self.body_bytes = 0
        #: the body itself, where an Idempotency-Key may be for it
        self.body = b""
        self._action = action
        self._open = still_open

    @property
    def named(self) -> dict[str, str]:
        """Return the parameters of the address by name."""
        return self.request.path_params

    def require(self, name: str, kind: str = "topic", *, action: str | None = None) -> None:
        """Raise ScopeMissing or PolicyDenies unless the token allows the route's action (or another one) on a name."""
        action = action or self._action
        require(self.grant, action, name, kind)
        self.was_checked(action)

    def require_scope(self, name: str, kind: str) -> None:
        """Raise ScopeMissing unless the token's own scopes allow the route's action on a name."""
        require_scope(self.grant, self._action, name, kind)

    def require_where(self, topic: str | None) -> None:
        """Require the action on a topic, or on every topic if None. Raises InvalidArgument for an invalid name, too."""
        require_where(self.grant, self._action, topic)
        self.was_checked(self._action)

    def allows(self, name: str, kind: str = "topic") -> bool:
        """Return whether the token allows the route's action on a name; if not, no answer leaves but an error."""
        is_allowed = self.grant.allows(self._action, name, kind)
        self._open = self._open - {self._action} if is_allowed else self._open | {self._action}
        return is_allowed

    def row_check(self, kind: str = "topic") -> Callable[[str], bool]:
        """Return the check for each row of a list, by the row's name; it counts for a list without rows, too."""
        self.was_checked(self._action)
        action, grant = self._action, self.grant
        return lambda name: grant.allows(action, name, kind)

    def preview_check(self, *actions: str) -> Allow:
        """Return the check for an operation whose topics its preview finds: it begins only if the token allows them
        all."""
        actions = actions or (self._action,)
        allow = allowed(self.grant, *actions)

        def checked(topics: frozenset[str] | None) -> None:
            allow(topics)
            self.was_checked(*actions)

        return checked

    def was_checked(self, *actions: str) -> None:
        """Note that the token was asked for these actions, by a rule of the handler's own."""
        self._open = self._open.difference(actions)

    @property
    def unchecked(self) -> frozenset[str]:
        """Return the actions that the token was not asked for yet."""
        return self._open

    async def hiding(self) -> Hiding:
        """Return what the rules of masks hide from the token; raises TokensUnreadable where they cannot be read."""
        return await self.state.grants.hiding(self.grant)


@dataclass(frozen=True, slots=True)
class Route:
    """A method at an address. `actions`: of several, the first one counts that the token has at all."""

    method: str
    path: str
    summary: str
    actions: tuple[str, ...]
    on: tuple[Place, ...]
    handler: Handler
    answers: Answers = ()
    errors: tuple[type[Exception], ...] = ()
    query: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    is_body_optional: bool = False
    most_body_bytes: int = MOST_BODY_BYTES
    decoder: msgspec.json.Decoder[Any] | None = None
    still_open: frozenset[str] = frozenset()
    example: Mapping[str, Any] | None = None
    #: whether it may come with an Idempotency-Key
    takes_key: bool = False
    #: Django's, by its full name: what a person needs who asks without a token
    permission: str = VIEW

    @property
    def is_change(self) -> bool:
        """Tell whether it may change anything."""
        return self.method != "GET"

    @property
    def feature(self) -> str:
        """Return the name of the folder of its handler in words, the group that the reference shows it in."""
        *_, folder, module = self.handler.__module__.split(".")
        return (module if folder == "rest" else folder).replace("_", " ").capitalize()

    @property
    def name(self) -> str:
        """Return what generated clients call it: `get_topics`, `timers_cancel_many`."""
        group = "get" if self.method == "GET" else self.feature.lower().replace(" ", "_")
        return f"{group}_{self.handler.__name__}"

    async def answer(self, request: Request, grant: Grant, state: ApiState) -> Response:
        """Return the handler's answer to a token that is allowed all that the route declares.

        Raises ScopeMissing, PolicyDenies or PermissionMissing before the handler runs, and CheckForgotten in place of
        an answer whose handler did not ask for what it read; whatever else reading the request or the handler raises.
        """
        if isinstance(grant, PersonGrant):
            grant.require(self.permission)
        action = self.actions[0]
        if len(self.actions) > 1:
            action = next(filter(grant.scopes_allow_somewhere, self.actions), action)
        for place in self.on:
            place.check(grant, place.action or action, request.path_params)
        call = Call(request, grant, state, action, self.still_open)
        given: dict[str, Any] = {}
        if self.query is not None:
            given["query"] = read_query(request, self.query, self.parameters)
        elif request.scope["query_string"]:
            check_names(request)
        if self.decoder is not None:
            given["body"] = None if self.is_body_optional and not has_body(request) else await self._read(call)
        key = key_of(request) if self.takes_key else None
        if key is None:
            return self._checked(call, await self.handler(call, **given))

        async def handled() -> Response:
            return self._checked(call, await self.handler(call, **given))

        return await state.keys.once(grant.prefix, key, request, call.body, handled)

    def _checked(self, call: Call, answer: Response) -> Response:
        if call.unchecked:
            raise CheckForgotten(f"{self.method} {self.path}: {', '.join(sorted(call.unchecked))}")
        return answer

    async def _read(self, call: Call) -> Any:
        assert self.decoder is not None
        body = await read_body(call.request, self.most_body_bytes)
        call.body_bytes = len(body)
        if self.takes_key:
            call.body = body
        return decode(body, self.decoder)


#: in the order in which modules were imported; `console.rest.routes` brings them in
declared: list[Route] = []


def route(
    method: str,
    path: str,
    summary: str,
    *,
    action: str | tuple[str, ...],
    on: Place | tuple[Place, ...],
    answers: Answers,
    errors: tuple[type[Exception], ...] = (),
    most_body_bytes: int = MOST_BODY_BYTES,
    example: Mapping[str, Any] | None = None,
    takes_key: bool = False,
    permission: str | None = None,
) -> Callable[[Handler], Handler]:
    """Declare the handler to be that of a method at an address below /api/v1.

    `action` on `on` is what a token has to allow, `permission` what a person has to have who asks without one; what
    changes nothing needs none but to see the console. `takes_key`: it is done once for each Idempotency-Key. `errors`
    (those that are particular to the route) and `example` (a body to begin with) are for its description.

    Raises RouteIncomplete for an address with a name that no place of `on` accounts for, for an action that no token
    can have, and for a handler with other parameters than `call`, `query` and `body`.
    """
    actions = (action,) if isinstance(action, str) else action
    places = (on,) if isinstance(on, Place) else on
    _check(method, path, actions, places)
    if permission is None and method != "GET":
        raise RouteIncomplete(f"{method} {path}: the permission that a user needs has to be named.")

    def declare(handler: Handler) -> Handler:
        query, body, is_body_optional = _taken(handler)
        declared.append(
            Route(
                method=method,
                path=path,
                summary=summary,
                actions=actions,
                on=places,
                handler=handler,
                answers=answers,
                errors=errors,
                query=query,
                parameters=parameters_of(query) if query is not None else (),
                body=body,
                is_body_optional=is_body_optional,
                most_body_bytes=most_body_bytes,
                decoder=msgspec.json.Decoder(body) if body is not None else None,
                still_open=_asked_later(actions, places),
                example=example,
                takes_key=takes_key,
                permission=permission or VIEW,
            )
        )
        return handler

    return declare


def _check(method: str, path: str, actions: tuple[str, ...], places: tuple[Place, ...]) -> None:
    where = f"{method} {path}"
    if method not in _METHODS:
        raise RouteIncomplete(f"{where}: no such method.")
    known = {*ACTIONS, DELETE}
    if not actions or not {*actions, *(place.action for place in places if place.action)} <= known:
        raise RouteIncomplete(f"{where}: an action of console.security.tokens has to be named.")
    if not places:
        raise RouteIncomplete(f"{where}: what the action is on has to be named.")
    parameters = _PARAMETER.findall(path)
    for name in parameters:
        if name in _ACCOUNTED and not any(isinstance(place, _ACCOUNTED[name]) for place in places):
            raise RouteIncomplete(f"{where}: nothing says what a token has to allow on {{{name}}}.")
    for place in places:
        if isinstance(place, Named) and place.parameter not in parameters:
            raise RouteIncomplete(f"{where}: the address has no {{{place.parameter}}}.")


def _asked_later(actions: tuple[str, ...], places: tuple[Place, ...]) -> frozenset[str]:
    """Return the actions that a handler has to ask the token for."""
    later = [place for place in places if isinstance(place, AfterReading)]
    return frozenset(OWNER if isinstance(place, OwnOperation) else place.action or actions[0] for place in later)


def _taken(handler: Handler) -> tuple[type[msgspec.Struct] | None, type[msgspec.Struct] | None, bool]:
    """Return the types of a handler's `query` and `body`, and whether the body may be missing."""
    names = list(inspect.signature(handler).parameters)
    if names[:1] != ["call"] or not set(names[1:]) <= {"query", "body"}:
        raise RouteIncomplete(f"{handler.__qualname__}: a handler takes call, query and body, not {', '.join(names)}.")
    hints = get_type_hints(handler)
    body = hints.get("body")
    is_optional = NoneType in get_args(body)
    if is_optional:
        (body,) = (each for each in get_args(body) if each is not NoneType)
    for kind in (hints.get("query"), body):
        if kind is not None and not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise RouteIncomplete(f"{handler.__qualname__}: query and body are Structs, not {kind!r}.")
    return hints.get("query"), body, is_optional
