"""The description of the interface."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import msgspec
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from console.rest import errors
from console.rest.documentation import description, example_of
from console.rest.route import Route
from console.rest.routes import MODULES, ROUTES


def path_of(route: Route) -> str:
    return "/api/v1" + re.sub(r"{\w+}", "x", route.path)


def test_every_route_is_described() -> None:
    paths = description()["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (route.method, "/api/v1" + route.path) for route in ROUTES
    }


def test_every_reference_leads_somewhere() -> None:
    told = description()
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert references <= set(told["components"]["schemas"])
    assert {"NewMessage", "NewMessages", "Sent", "Problem"} <= references
    assert told["components"]["schemas"]["NewMessage"]["additionalProperties"] is False


def test_generators_of_clients_can_read_it() -> None:
    told = description()
    assert '"items":false' not in json.dumps(told, separators=(",", ":"))
    changes = told["components"]["schemas"]["SettingsPreview"]["properties"]["changes"]["items"]
    assert (changes["minItems"], changes["maxItems"]) == (3, 3)
    assert {"type": "string"} in changes["items"]["anyOf"]
    assert told["servers"][0]["url"] == "/"
    calls = [call for path in told["paths"].values() for call in path.values()]
    assert len({call["operationId"] for call in calls}) == len(calls)
    assert all(call["tags"] and call["operationId"].isidentifier() for call in calls)
    assert told["paths"]["/api/v1/topics/{topic}/messages"]["post"]["operationId"] == "messages_send_one"
    assert told["paths"]["/api/v1/groups/{group}/dead-letters"]["get"]["operationId"] == "get_dead_letters"
    assert {tag for call in calls for tag in call["tags"]} == {tag["name"] for tag in told["tags"]}


def test_what_a_change_is_answered_with_is_said_of_its_preview_too() -> None:
    """It was found by calls made from the description: the answer to a preview was not the one described."""
    for path in ("/api/v1/topics/{topic}/settings", "/api/v1/groups/{group}/settings"):
        answer = description()["paths"][path]["patch"]["responses"]["200"]
        kinds = {each["$ref"].rpartition("/")[2] for each in answer["content"]["application/json"]["schema"]["anyOf"]}
        assert "SettingsPreview" in kinds and len(kinds) == 2


def test_nothing_is_said_to_be_built_later() -> None:
    root = Path(__file__).resolve().parents[3]
    said = [json.dumps(description())]
    said += [(root / "docs" / "REST.md").read_text(), *(rule.title for rule in errors.RULES.values())]
    assert not [text for text in said if "not built" in text.lower()]


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
async def test_every_route_needs_a_token(anonymous: httpx.AsyncClient, route: Route) -> None:
    assert (await anonymous.request(route.method, path_of(route))).status_code == 401


async def test_other_methods_and_addresses_are_told_apart(api: httpx.AsyncClient) -> None:
    wrong = await api.put("/api/v1/topics")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    for path in ("/api/v1", "/api/v1/", "/api/v1/nowhere", "/api/v2/topics", "/api/", "/api/v1/topics/"):
        answer = await api.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_the_description_is_for_people_who_signed_in(anonymous: httpx.AsyncClient, session_cookie: str) -> None:
    assert (await anonymous.get("/api/openapi.json")).status_code == 401
    anonymous.cookies.set("sessionid", session_cookie)
    assert (await anonymous.get("/api/openapi.json")).json()["openapi"] == "3.1.0"


async def test_an_error_says_where_it_is_described(anonymous: httpx.AsyncClient) -> None:
    refused = (await anonymous.get("/api/v1/topics")).json()
    assert refused["type"] == "/api/docs#token_missing"


async def test_a_session_that_ended_opens_nothing(anonymous: httpx.AsyncClient) -> None:
    for cookie in ("x", "x" * 1000, "0123456789abcdef0123456789abcdef"):
        anonymous.cookies.set("sessionid", cookie)
        assert (await anonymous.get("/api/openapi.json")).status_code == 401


async def test_a_program_reads_the_description_with_its_token(api: httpx.AsyncClient) -> None:
    assert (await api.get("/api/openapi.json")).status_code == 200


@pytest.fixture
def session_cookie(transactional_db: None) -> str:
    """The cookie of somebody who signed in."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("anna"))
    return client.cookies["sessionid"].value


@pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.body is not None], ids=lambda each: f"{each.method} {each.path}"
)
def test_every_example_is_a_body_that_is_taken(route: Route) -> None:
    assert route.body is not None
    msgspec.json.decode(msgspec.json.encode(example_of(route)), type=route.body)


def test_every_module_with_routes_is_brought_in() -> None:
    root = Path(__file__).resolve().parents[3]
    files = (root / "console" / "features").rglob("*.py")
    found = {path.relative_to(root) for path in files if "\n@route(" in path.read_text()}
    assert {".".join(path.with_suffix("").parts) for path in found} <= set(MODULES)
