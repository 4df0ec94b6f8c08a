"""The description, the page to try it, and what is planned."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from console.api.openapi import description
from console.api.operations import OPERATIONS, Operation

PLANNED = [operation for operation in OPERATIONS if operation.handler is None]


def path_of(operation: Operation) -> str:
    return "/api/v1" + re.sub(r"{\w+}", "x", operation.path)


def test_every_operation_is_described() -> None:
    paths = description()["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (operation.method, "/api/v1" + operation.path) for operation in OPERATIONS
    }


def test_every_reference_leads_somewhere() -> None:
    told = description()
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert references <= set(told["components"]["schemas"])
    assert {"NewMessage", "NewMessages", "Sent", "Problem"} <= references
    assert told["components"]["schemas"]["NewMessage"]["additionalProperties"] is False


@pytest.mark.parametrize("operation", PLANNED, ids=lambda each: f"{each.method} {each.path}")
async def test_what_is_planned_says_that_it_is_not_built(api: httpx.AsyncClient, operation: Operation) -> None:
    answer = await api.request(operation.method, path_of(operation), json={})
    assert (answer.status_code, answer.json()["code"]) == (501, "not_built")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
async def test_every_operation_needs_a_token(anonymous: httpx.AsyncClient, operation: Operation) -> None:
    assert (await anonymous.request(operation.method, path_of(operation))).status_code == 401


async def test_other_methods_and_addresses_are_told_apart(api: httpx.AsyncClient) -> None:
    wrong = await api.put("/api/v1/topics")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    for path in ("/api/v1", "/api/v1/", "/api/v1/nowhere", "/api/v2/topics", "/api/", "/api/v1/topics/"):
        answer = await api.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_the_page_is_for_people_who_signed_in(anonymous: httpx.AsyncClient, session_cookie: str) -> None:
    outside = await anonymous.get("/api/docs")
    assert (outside.status_code, outside.headers["location"]) == (302, "/login/?next=/api/docs")
    assert (await anonymous.get("/api/openapi.json")).status_code == 401
    anonymous.cookies.set("sessionid", session_cookie)
    inside = await anonymous.get("/api/docs")
    assert inside.status_code == 200
    assert (await anonymous.get("/api/openapi.json")).json()["openapi"] == "3.1.0"
    assert "unsafe" not in inside.headers["content-security-policy"]
    assert "http" not in inside.headers["content-security-policy"]
    assert not re.search(r"<script[^>]*>[^<]|\son\w+=|style=", inside.text)


async def test_a_session_that_ended_opens_nothing(anonymous: httpx.AsyncClient) -> None:
    for cookie in ("x", "x" * 1000, "0123456789abcdef0123456789abcdef"):
        anonymous.cookies.set("sessionid", cookie)
        assert (await anonymous.get("/api/docs")).status_code == 302


async def test_a_program_reads_the_description_with_its_token(api: httpx.AsyncClient) -> None:
    assert (await api.get("/api/openapi.json")).status_code == 200


@pytest.fixture
def session_cookie(transactional_db: None) -> str:
    """The cookie of somebody who signed in."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("anna"))
    return client.cookies["sessionid"].value
