"""Requests and answers in one piece, and answers in parts that leave together. A real server, real sockets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from console.site.exchange import Exchange, exchange_of
from tests.console.site.listening import serving

POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
#: what the application saw of each request: its body, and whether that was whole
Seen = list[tuple[bytes, bool]]


def echo(seen: Seen) -> Any:
    """An application that answers with the body that it was sent, in one piece if it can, else in parts."""

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        assert exchange is not None
        body = exchange.body()
        is_whole, more = body is not None, body is None
        while more:
            message = await receive()
            body, more = (body or b"") + message["body"], message["more_body"]
        assert body is not None
        seen.append((body, is_whole))
        headers = [(b"content-length", b"%d" % len(body))]
        if exchange.answer(200, b"content-length: %d\r\n" % len(body), body):
            return
        await send({"type": "http.response.start", "status": 203, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def test_what_has_come_whole_is_answered_in_one_piece() -> None:
    seen: Seen = []
    async with serving(echo(seen)) as site:
        line = await site.connect(POST + b"\r\none")
        head = await line.head()
        assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ") and head.endswith(b"\r\ncontent-length: 3\r\n\r\n")
        line.send(POST + b"Connection: close\r\n\r\ntwo")
        rest = await line.rest()
        assert rest.startswith(b"oneHTTP/1.1 200 OK\r\n") and rest.endswith(b"connection: close\r\n\r\ntwo")
    assert seen == [(b"one", True), (b"two", True)]


async def test_requests_that_come_together_are_answered_in_turn() -> None:
    seen: Seen = []
    async with serving(echo(seen)) as site:
        answers = await site.ask(POST + b"\r\none" + POST + b"\r\ntwo" + POST + b"Connection: close\r\n\r\nend")
        assert [each[-3:] for each in answers.split(b"HTTP/1.1 200 OK")[1:]] == [b"one", b"two", b"end"]
    assert [body for body, _ in seen] == [b"one", b"two", b"end"]


async def test_a_body_that_is_under_way_is_received() -> None:
    seen: Seen = []
    async with serving(echo(seen)) as site:
        line = await site.connect(POST + b"\r\no")
        await site.until(lambda: site.under_way == 1)
        line.send(b"ne")
        assert (await line.head()).startswith(b"HTTP/1.1 200 ")
    assert seen == [(b"one", False)]


async def test_who_asks_first_whether_to_send_a_body_is_told() -> None:
    seen: Seen = []
    async with serving(echo(seen)) as site:
        line = await site.connect(POST + b"Expect: 100-continue\r\n\r\n")
        assert await line.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.send(b"one")
        assert (await line.head()).startswith(b"HTTP/1.1 200 ")
        line.send(POST + b"Expect: 100-continue\r\nConnection: close\r\n\r\ntwo")
        assert b"100 Continue" not in await line.rest()
    assert seen == [(b"one", False), (b"two", True)]


async def test_an_answer_without_its_body_goes_in_parts() -> None:
    seen: Seen = []
    async with serving(echo(seen)) as site:
        answer = await site.ask(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 203 ")
    assert seen == [(b"", True)]


async def test_the_body_of_who_has_gone_is_not_there() -> None:
    kept: list[Exchange | None] = []
    may_end = asyncio.Event()

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        kept.append(exchange_of(scope))
        await may_end.wait()

    async with serving(application) as site:
        line = await site.connect(POST + b"\r\none")
        await site.until(lambda: kept != [])
        await line.close()
        (exchange,) = kept
        assert exchange is not None
        await site.until(lambda: not site.server.server_state.connections)
        assert exchange.body() is None
        assert exchange.answer(200, b"content-length: 0\r\n", b"")  # there is nobody to tell
        may_end.set()


async def test_who_does_not_take_what_was_sent_gets_the_next_answer_in_parts() -> None:
    loop = asyncio.get_running_loop()
    flow = SimpleNamespace(write_paused=True)
    cycle: Any = SimpleNamespace(
        flow=flow, on_response=lambda: None, response_started=False, disconnected=False, scope={"method": "GET"}
    )
    written = Written()
    exchange = Exchange(cycle, written, loop)  # type: ignore[arg-type]  # as much of one as is used
    assert not exchange.answer(200, b"content-length: 0\r\n", b"")
    assert (written.pieces, exchange.status) == ([], 0)


# --- in parts ---


class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.pieces.append(data)

    def close(self) -> None:
        self.is_closed = True


def in_parts(written: Written) -> Exchange:
    """An exchange that writes there; of its cycle nothing is used."""
    cycle: Any = SimpleNamespace(on_response=lambda: None)
    return Exchange(cycle, written, asyncio.get_running_loop())  # type: ignore[arg-type]  # as much of one as is used


async def turn() -> None:
    """The loop has done what was to be done in its next turn."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_an_answer_leaves_in_one_write() -> None:
    written = Written()
    answer = in_parts(written)
    answer.write(b"head")
    answer.write(b"body")
    answer.write(b"more")
    await turn()
    assert written.pieces == [b"headbody", b"more"]


async def test_a_head_with_nothing_behind_it_leaves_too() -> None:
    written, ended = Written(), Written()
    waits = in_parts(written)
    ends = in_parts(ended)
    waits.write(b"head")
    ends.write(b"head")
    ends.close()
    await turn()
    waits.write(b"later")
    assert written.pieces == [b"head", b"later"] and not written.is_closed
    assert ended.pieces == [b"head"] and ended.is_closed


async def test_a_head_comes_before_a_body_that_takes_its_time() -> None:
    go_on = asyncio.Event()

    async def slow(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"yes"})

    async with serving(slow) as site:
        line = await site.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await line.head()).startswith(b"HTTP/1.1 200 ")
        go_on.set()
        assert await line.rest() == b"yes"
