"""What a connection may cost before it has said who it is. A real server, real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import websockets

from console.site.bounds import Bounds
from console.site.web import SOCKET_MESSAGE_BYTES
from tests.console.site.listening import Line, serving
from tests.waiting import until_true

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LAST = GET + b"Connection: close\r\n\r\n"
QUICK = Bounds(head_s=0.3, rest_s=0.3, taking_s=0.3)
#: more than all buffers between the application and a client that does not read
MUCH = 32 << 20


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers at once, whatever may still come; /much with much, /echo by websocket with what it is sent."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    body = b" " * MUCH if scope["path"] == "/much" else b"yes"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET / HT", GET, GET + b"X-Y: z"], ids=["nothing", *"abcd"])
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect(sent)
        answer = await line.rest()
        assert answer.startswith(b"HTTP/1.1 408 ") if sent.startswith(b"GET") else answer == b""


async def dripped(line: Line) -> bytes:
    """What comes while an empty line is sent again and again."""
    ended = asyncio.ensure_future(line.rest())

    def has_ended() -> bool:
        line.send(b"\r\n")
        return ended.done()

    await until_true(has_ended)
    return await ended


async def test_empty_lines_are_no_head() -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect()
        assert await dripped(line) == b""


@pytest.mark.parametrize("next_head", [b"GET / HT", b"\r\n"])
async def test_the_head_of_a_later_request_is_timed_as_the_first_was(next_head: bytes) -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect(GET + b"\r\n")
        assert b" 200 " in await line.head()
        line.send(next_head)
        await line.rest()


async def test_a_body_that_nobody_waits_for_ends_the_connection() -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 200 " in await line.head()
        await dripped(line)


async def test_a_late_body_ends_and_its_connection_goes_on_to_be_timed() -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n")
        assert b" 200 " in await line.head()
        line.send(b"abc" + GET + b"\r\n")
        assert b" 200 " in await line.head()
        line.send(b"\r\n")
        await line.rest()


@pytest.mark.parametrize(
    "headers",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(101)),
        b"X-Long: " + b"y" * (70 << 10) + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1_000) for number in range(80)),
    ],
    ids=["many", "one that is long", "together"],
)
async def test_headers_beyond_their_bounds_are_refused(headers: bytes) -> None:
    async with serving(application) as site:
        assert (await site.ask(GET + headers + b"\r\n")).startswith(b"HTTP/1.1 431 ")
        assert (await site.ask(LAST)).startswith(b"HTTP/1.1 200 ")


async def test_a_head_behind_another_one_has_the_same_bounds() -> None:
    # both in one read, which is larger than a head may be
    async with serving(application) as site:
        told = await site.ask(GET + b"\r\n" + GET + b"X-Long: " + b"y" * (70 << 10) + b"\r\n\r\n")
        assert b"HTTP/1.1 431 " in told


async def test_a_head_may_have_a_large_body_behind_it() -> None:
    async with serving(application) as site:
        large = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (100 << 10, b"y" * (100 << 10))
        line = await site.connect(large + LAST)
        assert (await line.rest()).count(b"HTTP/1.1 200 ") == 2


CHUNKED = b"POST /kept HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"


@pytest.mark.parametrize(
    "around",
    [b"0\r\nX-Long: " + b"y" * (500 << 10), b"0\r\n" + b"X: y\r\n" * (100 << 10), b"3;" + b"y" * (500 << 10)],
    ids=["a trailer", "many trailers", "a chunk's extension"],
)
async def test_what_comes_around_a_body_is_bounded(around: bytes) -> None:
    kept = Kept()
    async with serving(kept) as site:
        # an answer is lost where not all was read that came; that it ends is what counts
        assert b" 200 " not in await site.ask(CHUNKED + around)
        assert kept.bodies == []
        assert b" 200 " in await site.ask(CHUNKED + b"3;x=y\r\ntwo\r\n0\r\nX-Last: z\r\nHost: evil\r\n\r\n" + LAST)
    assert kept.bodies == [b"onetwo", b""]
    told = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
    assert kept.headers == [told, [(b"host", b"localhost"), (b"connection", b"close")]]


class Kept:
    """An application that keeps what it is sent, once it is whole."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Read the whole body, and answer."""
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        self.headers.append(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def test_a_head_without_an_end_is_refused_when_it_is_too_long() -> None:
    async with serving(application) as site:
        assert (await site.ask(b"GET /" + b"x" * (70 << 10))).startswith(b"HTTP/1.1 431 ")


async def test_as_many_headers_as_browsers_send_are_taken() -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 500) for number in range(90))
    async with serving(application) as site:
        assert (await site.ask(GET + headers + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_who_says_nothing_for_longest_makes_room() -> None:
    async with serving(application, Bounds(connections=4)) as site:
        silent = [await site.connect() for _ in range(10)]
        assert (await site.ask(LAST)).startswith(b"HTTP/1.1 200 ")
        assert [await line.rest() for line in silent[:6]] == [b""] * 6


async def test_one_address_has_its_share() -> None:
    async with serving(application, Bounds(connections_each=3, uncounted=())) as site:
        held = [await site.connect(GET) for _ in range(3)]
        await site.until(lambda: len(site.server.server_state.connections) == 3)
        assert (await site.ask(b"")).startswith(b"HTTP/1.1 429 ")
        await held[0].close()
        await site.until(lambda: len(site.server.server_state.connections) == 2)
        assert (await site.ask(LAST)).startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_is_not_taken_ends_the_connection() -> None:
    async with serving(application, QUICK) as site:
        line = await site.connect(b"GET /much HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        line._reader._transport.pause_reading()  # type: ignore[attr-defined]  # the stream would read by itself
        await site.until(lambda: bool(site.server.server_state.connections))
        await site.until(lambda: not site.server.server_state.connections)


async def test_a_websocket_outlives_the_time_of_its_head() -> None:
    async with serving(application, QUICK) as site, websockets.connect(f"ws://127.0.0.1:{site.port}/echo") as page:
        for _ in range(3):
            later = await site.connect()
            assert await later.rest() == b""  # whose head did not come in that time
            await page.send("x")
            assert await page.recv() == "x"


async def test_a_websocket_says_little_at_once() -> None:
    async with serving(application) as site, websockets.connect(f"ws://127.0.0.1:{site.port}/echo") as page:
        await page.send("x" * SOCKET_MESSAGE_BYTES)
        assert len(await page.recv()) == SOCKET_MESSAGE_BYTES
        await page.send("x" * (SOCKET_MESSAGE_BYTES + 1))
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await page.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
