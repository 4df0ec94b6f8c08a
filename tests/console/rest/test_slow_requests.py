"""Of a slow request of REST is told apart what it waited for: a thread, the database, brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from console.security import tokens as security_tokens
from console.site.slow_requests import SlowRequests, Waits


class Noting(SlowRequests):
    """Finds each request slow, and keeps what would be told."""

    def __init__(self, application: Any) -> None:
        super().__init__(application)
        self._limit_s = 0.0
        self.noted: dict[str, tuple[float, Waits]] = {}

    def _tell(self, scope: dict[str, Any], status: int, took_s: float, waits: Waits) -> None:
        assert status < 300, scope["path"]
        self.noted[scope["path"]] = took_s, waits


@pytest.fixture
def token(transactional_db: None) -> str:
    """May send everything, and change the settings of everything."""
    return security_tokens.create("test", security_tokens.scope_rows(["*"], ["*"], settings=["*"]))[1]


@pytest.fixture
def watching(application: Starlette) -> Noting:
    return Noting(application)


@pytest.fixture
async def client(watching: Noting, token: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {token}"}
    application: Any = watching
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
        yield client


ONE, RULES = "/api/v1/topics/orders/messages", "/api/v1/alert-rules"


async def test_what_it_waited_for_is_told_apart(client: httpx.AsyncClient, watching: Noting) -> None:
    await client.post(ONE, json={"body": "a body"})
    took_s, waits = watching.noted[ONE]
    # who asks is looked up in the database, in a thread; the message goes to a broker
    assert waits.thread_s is not None
    assert waits.queries > 0
    assert min(waits.thread_s, waits.database_s, waits.broker_s) > 0
    assert waits.thread_s + waits.database_s + waits.broker_s <= took_s


async def test_a_request_that_asks_no_database_says_nothing_of_threads(
    client: httpx.AsyncClient, watching: Noting
) -> None:
    await client.post(ONE, json={"body": "a body"})
    await client.get("/api/v1/timers/status")  # its token was looked up just before
    took_s, waits = watching.noted["/api/v1/timers/status"]
    assert (waits.thread_s, waits.queries, waits.database_s) == (None, 0, 0)
    assert 0 < waits.broker_s <= took_s


async def test_what_the_console_keeps_is_of_the_database(client: httpx.AsyncClient, watching: Noting) -> None:
    await client.post(ONE, json={"body": "a body"})
    assert watching.noted.pop(ONE)[1].queries > 0
    await client.get(RULES)  # its token was looked up just before
    _, waits = watching.noted[RULES]
    assert waits.queries > 0
    assert waits.broker_s == 0
