"""Strangers who are slow, and pages that are busy: everybody else goes on. The console itself, by its own server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.db import connection, connections, transaction
from django.test import Client

from console import asgi
from console.serving.bodies import WholeBodies
from tests.console.people import person
from tests.serving.listening import Line, Serving, serving

#: more than there are page threads
CROWD = 2 * django_settings.PAGE_THREADS
COOKIE = b"Cookie: csrftoken=" + b"a" * 32 + b"\r\n"


@pytest.fixture(autouse=True)
def hosts(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


def get(path: str, *, cookie: bytes = b"") -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n" % (path.encode(), cookie)


def login_of(length: int, sent: bytes) -> bytes:
    """The head of a form for the login page that is `length` long, and a part of it."""
    head = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    return head + COOKIE + b"Content-Length: %d\r\n\r\n" % length + sent


async def crowd(site: Serving, sent: bytes) -> list[Line]:
    lines = [await site.connect(sent) for _ in range(CROWD)]
    await site.until(lambda: site.under_way == CROWD)
    return lines


@pytest.mark.django_db(transaction=True)
async def test_bodies_that_do_not_come_keep_no_page_from_others() -> None:
    async with serving(asgi.application) as site:
        await crowd(site, login_of(1_000, b"x="))
        for path in ("/login/", "/healthz", "/readyz", "/static/css/console.css"):
            assert (await site.ask(get(path))).startswith(b"HTTP/1.1 200 "), path


async def locked(table: str, is_locked: asyncio.Event, may_end: asyncio.Event) -> None:
    """Nothing of the table can be read until `may_end`."""

    loop = asyncio.get_running_loop()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            loop.call_soon_threadsafe(is_locked.set)
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
        connection.close()

    await asyncio.to_thread(lock)


@pytest.mark.django_db(transaction=True)
async def test_signs_of_life_are_told_while_all_page_threads_are_busy() -> None:
    def signed_in() -> bytes:
        browser = Client()
        browser.force_login(person("operator"))
        connection.close()
        name = django_settings.SESSION_COOKIE_NAME
        return f"Cookie: {name}={browser.cookies[name].value}\r\n".encode()

    cookie = await sync_to_async(signed_in)()
    is_locked, may_end = asyncio.Event(), asyncio.Event()
    locking = asyncio.create_task(locked("django_session", is_locked, may_end))
    await is_locked.wait()
    try:
        async with serving(asgi.application) as site:
            waiting = await crowd(site, get("/", cookie=cookie))
            for path in ("/healthz", "/readyz"):
                assert (await site.ask(get(path))).startswith(b"HTTP/1.1 200 "), path
            assert site.under_way >= CROWD
            may_end.set()
            assert {(await line.rest())[:13] for line in waiting} == {b"HTTP/1.1 200 "}
    finally:
        may_end.set()
        await locking


async def echo(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """Answers with the body that it was given, which must be whole."""
    message = await receive()
    assert message["more_body"] is False
    body = message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def posted(*headers: bytes) -> bytes:
    return b"\r\n".join((b"POST / HTTP/1.1", b"Host: localhost", b"Connection: close", *headers, b"", b""))


async def test_a_body_in_parts_is_given_whole() -> None:
    async with serving(WholeBodies(echo, largest_bytes=100, longest_s=30)) as site:
        line = await site.connect(posted(b"Content-Length: 6") + b"abc")
        await site.until(lambda: site.under_way == 1)
        line.send(b"def")
        assert (await line.rest()).endswith(b"\r\n\r\nabcdef")
        chunks = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
        assert (await site.ask(posted(b"Transfer-Encoding: chunked") + chunks)).endswith(b"\r\n\r\nabcdef")
        assert b"content-length: 0\r\n" in await site.ask(posted())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (posted(b"Content-Length: 5") + b"abc", b"408"),
        (posted(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n", b"408"),
        (posted(b"Content-Length: 101"), b"413"),
        (posted(b"Transfer-Encoding: chunked") + b"65\r\n" + b"x" * 101, b"413"),
    ],
    ids=["late", "late in chunks", "large", "large in chunks"],
)
async def test_a_body_is_bounded_in_time_and_size(sent: bytes, status: bytes) -> None:
    async with serving(WholeBodies(echo, largest_bytes=100, longest_s=0.2)) as site:
        assert (await site.ask(sent)).startswith(b"HTTP/1.1 " + status)


async def test_all_bodies_together_are_bounded() -> None:
    front = WholeBodies(echo, largest_bytes=100, longest_s=30, together_bytes=150)
    async with serving(front) as site:
        held = await site.connect(posted(b"Content-Length: 100") + b"x" * 99)
        await site.until(lambda: front.held_bytes == 99)
        refused = await site.ask(posted(b"Content-Length: 60") + b"x" * 60)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in refused
        held.send(b"x")
        assert (await held.rest()).startswith(b"HTTP/1.1 200 ")
        await site.until(lambda: front.held_bytes == 0)
        assert (await site.ask(posted(b"Content-Length: 60") + b"x" * 60)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [0, 100 << 10])
async def test_what_a_page_is_sent_is_what_it_reads(size: int) -> None:
    """The login page reads its form in a thread: without the right token it says so."""
    async with serving(asgi.application) as site:
        assert (await site.ask(login_of(size, b"x" * size))).startswith(b"HTTP/1.1 403 ")


@pytest.mark.django_db(transaction=True)
async def test_passwords_that_are_tried_keep_no_page_from_others() -> None:
    """Nobody can be looked up meanwhile, as if each look took that long."""
    token = b"a" * 32
    form = b"username=anna&password=guess&csrfmiddlewaretoken=" + token
    is_locked, may_end = asyncio.Event(), asyncio.Event()
    locking = asyncio.create_task(locked("auth_user", is_locked, may_end))
    await is_locked.wait()
    try:
        async with serving(asgi.application) as site:
            await crowd(site, login_of(len(form), form))
            assert (await site.ask(get("/login/"))).startswith(b"HTTP/1.1 200 ")
            may_end.set()
    finally:
        may_end.set()
        await locking
