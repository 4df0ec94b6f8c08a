"""Declarations of routes: what they leave open fails at import, and what a handler forgets is never told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from starlette.responses import Response

from broker.server.broker import BrokerService
from console.rest import route as routes
from console.rest.access import Everywhere, Group, InBody, InRecord, InRows, Overview, OwnOperation, Place, Topic
from console.rest.app import create_application
from console.rest.responses import json_answer
from console.rest.route import Call, Handler, RouteIncomplete, route
from console.security.tokens import PUBLISH, READ

SECRET = "payroll"


class Told(msgspec.Struct):
    """An answer."""

    text: str


class Said(msgspec.Struct):
    """A body."""

    text: str


@pytest.fixture
def declared() -> Iterator[list[routes.Route]]:
    """The routes that a test declares, and no others."""
    ours = routes.declared.copy()
    routes.declared.clear()
    yield routes.declared
    routes.declared[:] = ours


def told(path: str, on: Place | tuple[Place, ...], **more: Any) -> Callable[[Handler], Handler]:
    return route("GET", path, "Look", action=READ, on=on, answers=((200, "It.", Told),), **more)


async def plain(call: Call) -> Response:
    return json_answer(Told(SECRET))


def test_without_an_action_it_is_no_route(declared: list[routes.Route]) -> None:
    with pytest.raises(TypeError, match="action"):
        route("GET", "/x", "Look", on=Overview(), answers=())  # type: ignore[call-arg]  # what is tried
    with pytest.raises(TypeError, match="on"):
        route("GET", "/x", "Look", action=READ, answers=())  # type: ignore[call-arg]  # what is tried
    for action in ("", (), "look"):
        with pytest.raises(RouteIncomplete, match="action"):
            route("GET", "/x", "Look", action=action, on=Overview(), answers=())
    with pytest.raises(RouteIncomplete, match="action"):
        route("GET", "/x", "Look", action=READ, on=Overview("look"), answers=())
    with pytest.raises(RouteIncomplete, match="is on"):
        route("GET", "/x", "Look", action=READ, on=(), answers=())
    with pytest.raises(RouteIncomplete, match="permission"):
        route("POST", "/x", "Do", action=READ, on=Overview(), answers=())
    assert declared == []


@pytest.mark.parametrize(
    ("path", "on"),
    [
        ("/topics/{topic}", InRows()),
        ("/topics/{topic}/groups/{group}", Topic()),
        ("/groups/{group}", Topic()),
        ("/queues/{queue}", Everywhere()),
        ("/messages/{id}", InBody()),
        ("/topics", Topic()),
        ("/topics/{topic}", (Topic(), Group())),
    ],
)
def test_each_name_in_the_address_is_accounted_for(
    path: str, on: Place | tuple[Place, ...], declared: list[routes.Route]
) -> None:
    with pytest.raises(RouteIncomplete):
        told(path, on)
    assert declared == []


def test_a_handler_takes_a_call_a_query_and_a_body(declared: list[routes.Route]) -> None:
    async def request(request: Any) -> Response:
        raise AssertionError

    async def more(call: Call, room: Any) -> Response:
        raise AssertionError

    async def untyped(call: Call, body: dict[str, Any]) -> Response:
        raise AssertionError

    for handler in (request, more, untyped):
        with pytest.raises(RouteIncomplete):
            told("/x", Overview())(handler)
    assert declared == []


@pytest.fixture
async def asked(declared: list[routes.Route], service: BrokerService, token: str) -> AsyncIterator[Callable[..., Any]]:
    """Asks for an address of the routes that the test declared, with a token that allows everything."""
    made: list[Any] = []

    async def ask(path: str, **more: Any) -> httpx.Response:
        application = create_application(service.namesrv_address, declared)
        made.append(application)
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            headers = {"authorization": f"Bearer {token}", **more.pop("headers", {})}
            return await client.request(declared[0].method, f"/api/v1{path}", headers=headers, **more)

    yield ask
    for application in made:
        await application.state.holder.close()


@pytest.mark.parametrize(
    ("path", "on"),
    [
        ("/messages/{id}", InRecord()),
        ("/messages", InRows()),
        ("/messages", InBody()),
        ("/operations/{id}", OwnOperation()),
        ("/topics/{topic}", (Topic(), InRows())),
        ("/messages", (InRows(), InBody(PUBLISH))),
    ],
)
async def test_an_answer_without_its_check_is_not_told(
    path: str, on: Place | tuple[Place, ...], declared: list[routes.Route], asked: Callable[..., Any]
) -> None:
    told(path, on)(plain)
    answer = await asked(path.replace("{", "").replace("}", ""))
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert SECRET not in answer.text


async def test_only_the_check_of_each_action_lets_it_out(
    declared: list[routes.Route], asked: Callable[..., Any]
) -> None:
    async def half(call: Call) -> Response:
        call.require("orders", action=PUBLISH)
        return json_answer(Told(SECRET))

    told("/messages", (InBody(), InBody(PUBLISH)))(half)
    assert (await asked("/messages")).status_code == 500
    declared.clear()

    async def whole(call: Call) -> Response:
        call.require("orders", action=PUBLISH)
        call.require("orders")
        return json_answer(Told(SECRET))

    told("/messages", (InBody(), InBody(PUBLISH)))(whole)
    assert (await asked("/messages")).json() == {"text": SECRET}


@pytest.fixture
def reader(make_token: Callable[..., str]) -> str:
    """A token that may read one topic."""
    return make_token(read=("orders",))


async def test_a_refusal_that_is_passed_over_is_not_told(
    declared: list[routes.Route], reader: str, asked: Callable[..., Any]
) -> None:
    async def deaf(call: Call) -> Response:
        call.require("orders")
        call.allows(SECRET)
        return json_answer(Told(SECRET))

    told("/messages/{id}", InRecord())(deaf)
    assert (await asked("/messages/x")).json() == {"text": SECRET}
    answer = await asked("/messages/x", headers={"authorization": f"Bearer {reader}"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")


async def test_what_the_address_names_needs_no_further_check(
    declared: list[routes.Route], asked: Callable[..., Any]
) -> None:
    told("/topics/{topic}", Topic())(plain)
    assert (await asked("/topics/orders")).json() == {"text": SECRET}


async def test_a_body_may_be_left_out_where_its_type_says_so(
    declared: list[routes.Route], asked: Callable[..., Any]
) -> None:
    async def echo(call: Call, body: Said | None) -> Response:
        return json_answer(Told(body.text if body is not None else "nothing"))

    route("POST", "/echo", "Say", action=READ, permission="x.say", on=Overview(), answers=((200, "It.", Told),))(echo)
    assert (await asked("/echo")).json() == {"text": "nothing"}
    assert (await asked("/echo", json={"text": "x"})).json() == {"text": "x"}
    assert (await asked("/echo", json={})).json()["code"] == "invalid_request"


async def test_an_address_has_no_parameters_that_are_not_declared(
    declared: list[routes.Route], asked: Callable[..., Any]
) -> None:
    told("/plain", Overview())(plain)
    assert (await asked("/plain?x=1")).json()["code"] == "invalid_parameter"
    assert (await asked("/plain")).status_code == 200
