"""Slow requests to pages and REST are logged: how long until an answer began, and what was waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from broker.client import Admin
from console.site import broker as site_broker
from console.site.asgi import pages_on
from console.site.slow_requests import BURST, SlowRequests
from tests.console.site.listening import serving
from tests.hosting.test_log_lines import HOSTILE

TOLD = "console.site.slow_requests"
LIMIT_MS = 40


def in_database(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.05)")
    connection.close()  # the thread is not ours to end
    return HttpResponse("late")


def at_broker(request: HttpRequest) -> HttpResponse:
    def question(admin: Admin) -> int:
        with connection.cursor() as cursor:  # it takes its time, whatever it is
            cursor.execute("SELECT pg_sleep(0.05)")
        return 1

    site_broker.ask(question, source="", requests=())
    connection.close()
    return HttpResponse("late")


def quick(request: HttpRequest) -> HttpResponse:
    return HttpResponse("soon")


urlpatterns = [path("database/", in_database), path("broker/", at_broker), path("quick/", quick)]


def said(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.name == TOLD]


@pytest.fixture
def pages(transactional_db: None) -> Iterator[None]:
    """Pages that ask only what the views here ask."""
    from console.site import wsgi

    with override_settings(ROOT_URLCONF=__name__, SLOW_MS=LIMIT_MS, MIDDLEWARE=["console.site.slow_requests.InThread"]):
        wsgi.application.load_middleware()
        yield
    # all tests of this process have the one application
    wsgi.application.load_middleware()


async def get(port: int, address: str) -> str:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"http://127.0.0.1:{port}{address}", timeout=30)).text


async def test_a_page_tells_what_it_waited_for(pages: None, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(SlowRequests(pages_on(1))) as server:
        assert await get(server.port, "/database/?secret=1") == "late"
        (record,) = said(caplog)
        assert (record["request"], record["path"], record["status"]) == ("GET", "/database/", 200)
        assert record["took_ms"] >= record["database_ms"] >= 50 > record["broker_ms"] == 0
        assert record["queries"] == 1
        assert record["peer"] == "127.0.0.1"
        assert "secret" not in str(record)
        caplog.clear()
        # two at once on one thread: the second waited for it
        await asyncio.gather(get(server.port, "/database/"), get(server.port, "/database/"))
        first, second = sorted(said(caplog), key=lambda each: each["took_ms"])
        assert first["thread_ms"] < second["thread_ms"] >= 50
        caplog.clear()
        assert await get(server.port, "/broker/") == "late"
        assert said(caplog)[0]["broker_ms"] >= 50


async def test_what_is_quick_or_held_by_design_is_not_told(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.SLOW_MS = LIMIT_MS
    scopes = [{"path": "/api/v1/groups/g:receive"}, {"path": "/quick/"}]

    async def quickly(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def nothing(message: Any) -> None:
        return None

    watching = SlowRequests(quickly)
    for scope in scopes:
        await watching({"type": "http", "method": "GET"} | scope, nothing, nothing)
    assert said(caplog) == []
    settings.SLOW_MS = 0
    assert SlowRequests(quickly)._limit_s == float("inf")


def test_few_lines_when_all_is_slow_and_a_hostile_path(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    from console.site.slow_requests import Waits

    seconds = [0.0]
    watching = SlowRequests(pages_on(1), clock=lambda: seconds[0])
    for _ in range(int(BURST) + 7):
        watching._tell({"method": "GET", "path": HOSTILE}, 200, 2.0, Waits(0.0))
    seconds[0] += 1
    watching._tell({"method": "GET", "path": HOSTILE}, 200, 2.0, Waits(0.0))
    assert len(said(caplog)) == BURST + 1
    assert said(caplog)[-1]["left_out"] == 7
    assert caplog.records[-1].levelno == logging.WARNING
