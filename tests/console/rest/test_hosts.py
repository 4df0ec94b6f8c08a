"""Whom a request is addressed to."""

from __future__ import annotations

import httpx
import pytest

from console.rest.app import RestApplication

NAMES = ("localhost", "127.0.0.1", "[::1]", ".example.com")


@pytest.mark.parametrize("path", ["/api/v1/topics", "/api/v1/nowhere", "/api/openapi.json"])
@pytest.mark.parametrize(
    "host", ["evil.com", "localhost.evil.com", "localhost evil", "", "evil.com:8000", "example.org"]
)
async def test_another_name_is_refused(
    api: httpx.AsyncClient, application: RestApplication, path: str, host: str
) -> None:
    application.own_hosts = NAMES
    refused = await api.get(path, headers={"host": host})
    assert (refused.status_code, refused.json()["code"]) == (400, "host_unknown")


async def test_two_names_are_none(api: httpx.AsyncClient, application: RestApplication) -> None:
    application.own_hosts = NAMES
    refused = await api.get("/api/v1/topics", headers=[("host", "localhost"), ("host", "evil.com")])
    assert (refused.status_code, refused.json()["code"]) == (400, "host_unknown")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "a.example.com"])
async def test_our_own_names_are_taken(api: httpx.AsyncClient, application: RestApplication, host: str) -> None:
    application.own_hosts = NAMES
    assert (await api.get("/api/v1/topics", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    ("scheme", "address", "status"),
    [("http", "10.0.0.7", 403), ("http", "127.0.0.1", 200), ("https", "10.0.0.7", 200)],
)
async def test_where_https_is_spoken_no_token_is_taken_from_elsewhere_in_the_clear(
    application: RestApplication, token: str, scheme: str, address: str, status: int
) -> None:
    application.wants_https = True
    transport = httpx.ASGITransport(application, client=(address, 4711))
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://testserver") as client:
        answer = await client.get("/api/v1/topics", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "https_needed"
