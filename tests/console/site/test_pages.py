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

from console.site import asgi
from console.site.bounds import BodyBounds, WholeBodies
from tests.console.people import person
from tests.console.site.listening import Line, Serving, serving

#: a page thread that served a test before may still hold a connection, which its next request looks at
pytestmark = pytest.mark.django_db(transaction=True)

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
    head = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/x-www-form-urlencoded\r\n"
    return head + COOKIE + b"Content-Length: %d\r\n\r\n" % length + sent


async def crowd(site: Serving, sent: bytes) -> list[Line]:
    lines = [await site.connect(sent) for _ in range(CROWD)]
    await site.until(lambda: site.under_way == CROWD)
    return lines


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
    async with serving(WholeBodies(echo, BodyBounds(100, 30))) as site:
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
    async with serving(WholeBodies(echo, BodyBounds(100, 0.2))) as site:
        assert (await site.ask(sent)).startswith(b"HTTP/1.1 " + status)


SIGNED_IN = b"Cookie: other=1; sessionid=made-up"


async def begun(site: Serving, front: WholeBodies, length: int, *headers: bytes) -> Line:
    """A body of which all but a byte has come."""
    before = front.budget.held_bytes
    line = await site.connect(posted(b"Content-Length: %d" % length, *headers) + b"x" * (length - 1))
    await site.until(lambda: front.budget.held_bytes == before + length - 1)
    return line


async def test_what_is_whole_takes_the_place_of_the_oldest_that_is_not() -> None:
    front = WholeBodies(echo, BodyBounds(100, 30, together_bytes=150))
    async with serving(front) as site:
        oldest = await begun(site, front, 71)
        younger = await begun(site, front, 71)
        assert (await site.ask(posted(b"Content-Length: 60") + b"x" * 60)).startswith(b"HTTP/1.1 200 ")
        refused = await oldest.rest()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in refused
        younger.send(b"x")
        assert (await younger.rest()).startswith(b"HTTP/1.1 200 ")
        await site.until(lambda: front.budget.held_bytes == 0)


async def test_strangers_give_up_before_those_who_show_a_session() -> None:
    front = WholeBodies(echo, BodyBounds(100, 30, together_bytes=150, session_cookie="sessionid"))
    async with serving(front) as site:
        known = await begun(site, front, 71, SIGNED_IN)
        stranger = await begun(site, front, 71)
        another = await site.connect(posted(b"Content-Length: 31", SIGNED_IN) + b"x" * 30)
        assert (await stranger.rest()).startswith(b"HTTP/1.1 503 ")
        for line in (known, another):
            line.send(b"x")
            assert (await line.rest()).startswith(b"HTTP/1.1 200 ")


async def test_one_that_is_too_much_by_itself_gives_up_alone() -> None:
    may_end = asyncio.Event()

    async def busy(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        await may_end.wait()
        await echo(scope, receive, send)

    front = WholeBodies(busy, BodyBounds(100, 30, together_bytes=150))
    async with serving(front) as site:
        whole = await site.connect(posted(b"Content-Length: 100") + b"x" * 100)
        await site.until(lambda: front.budget.held_bytes == 100)
        for sent in (b"x" * 60, b"x" * 59):
            assert (await site.ask(posted(b"Content-Length: 60") + sent)).startswith(b"HTTP/1.1 503 ")
        assert front.budget.held_bytes == 100
        may_end.set()
        assert (await whole.rest()).startswith(b"HTTP/1.1 200 ")
        await site.until(lambda: front.budget.held_bytes == 0)


async def test_a_body_of_a_stranger_is_small() -> None:
    front = WholeBodies(echo, BodyBounds(100, 30, session_cookie="sessionid", small_bytes=50))
    chunks = b"33\r\n" + b"x" * 51 + b"\r\n0\r\n\r\n"
    async with serving(front) as site:
        for headers, status in (((), b"413"), ((b"Cookie: sessionid=",), b"413"), ((SIGNED_IN,), b"200")):
            sent = posted(b"Content-Length: 51", *headers) + b"x" * 51
            assert (await site.ask(sent)).startswith(b"HTTP/1.1 " + status)
            sent = posted(b"Transfer-Encoding: chunked", *headers) + chunks
            assert (await site.ask(sent)).startswith(b"HTTP/1.1 " + status)
        assert (await site.ask(posted(b"Content-Length: 50") + b"x" * 50)).startswith(b"HTTP/1.1 200 ")


async def test_a_body_of_a_stranger_has_to_keep_coming() -> None:
    """Each byte that comes is worth a second; who has a session, or sends on, outlasts the grace."""
    bounds = BodyBounds(100, 30, session_cookie="sessionid", grace_s=0.2, least_bytes_s=1)
    front = WholeBodies(echo, bounds)
    async with serving(front) as site:
        known = await begun(site, front, 2, SIGNED_IN)
        steady = await begun(site, front, 50)
        stuck = await site.connect(posted(b"Content-Length: 50"))
        assert (await stuck.rest()).startswith(b"HTTP/1.1 408 ")
        for line in (known, steady):
            line.send(b"x")
            assert (await line.rest()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("path", "front", "are_held"), [(b"/topics/", asgi.pages, True), (b"/login/", asgi.sign_ins, False)]
)
async def test_bodies_that_are_never_whole_keep_no_form_from_anybody(
    path: bytes, front: WholeBodies, are_held: bool
) -> None:
    """All that the budget holds but 50 bytes, of somebody who makes up a session; to sign in, bodies are small."""
    largest = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    count, rest = divmod(asgi.TOGETHER_BYTES - 50, largest - 1)
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % path
    session = b"Cookie: %s=made-up\r\n" % django_settings.SESSION_COOKIE_NAME.encode()
    form = b"Content-Length: 100\r\nConnection: close\r\n\r\n" + b"x" * 100
    async with serving(asgi.application) as site:
        for size in (*[largest - 1] * count, rest):
            line = await site.connect(head + session + b"Content-Length: %d\r\n\r\n" % (size + 1) + b"x" * size)
            if not are_held:
                assert (await line.head()).startswith(b"HTTP/1.1 413 ")
        await site.until(lambda: front.budget.held_bytes == (asgi.TOGETHER_BYTES - 50 if are_held else 0))
        for _ in range(3):
            assert (await site.ask(head + form)).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("size", [0, 60 << 10])
async def test_what_a_page_is_sent_is_what_it_reads(size: int) -> None:
    """The login page reads its form in a thread: without the right token it says so."""
    async with serving(asgi.application) as site:
        assert (await site.ask(login_of(size, b"x" * size))).startswith(b"HTTP/1.1 403 ")


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
