"""Limits that only a real server and a real connection show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from broker.client import AsyncAdmin
from broker.server.broker import BrokerService
from console.rest import request_body, state
from console.rest.app import create_application
from console.site.web import configuration
from tests.waiting import until_true


@asynccontextmanager
async def serving(namesrv: str, *, bare: bool = False) -> AsyncIterator[int]:
    """The REST application as the web process serves it, or under `bare` uvicorn; gives its port."""
    make: Any = uvicorn.Config if bare else configuration
    config = make(create_application(namesrv), host="127.0.0.1", port=0, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # the test's loop keeps its own
    task = asyncio.ensure_future(server.serve())
    await until_true(lambda: server.started or task.done())
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


class Connection:
    """Bytes to a port, and the status and body that come back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def head(self, token: str, *lines: str) -> None:
        start = ("POST /api/v1/topics/orders/messages HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}",
                 "Content-Type: application/json", *lines)  # fmt: skip
        self.writer.write("\r\n".join((*start, "", "")).encode())

    async def answer(self) -> tuple[int, dict[str, object]]:
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            return int(head.split()[1]), json.loads(await self.reader.readexactly(length))

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


async def test_a_body_without_length_is_cut_off_at_the_limit(service: BrokerService, token: str) -> None:
    async with serving(service.namesrv_address) as port:
        connection = await Connection.to(port)
        connection.head(token, "Transfer-Encoding: chunked")
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(7):
            connection.writer.write(chunk)
        status, problem = await connection.answer()
        await connection.close()
        assert (status, problem["code"]) == (413, "body_too_large")


async def test_a_body_that_does_not_come_is_given_up(
    service: BrokerService, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_TIMEOUT_S", 0.2)
    async with serving(service.namesrv_address) as port:
        slow = await Connection.to(port)
        slow.head(token, "Content-Length: 12")
        slow.writer.write(b'{"bo')
        quick = await Connection.to(port)
        quick.head(token, "Content-Length: 12")
        quick.writer.write(b'{"body":"x"}')
        assert (await quick.answer())[0] == 201
        assert (await slow.answer())[0] == 408
        await slow.close()
        await quick.close()


async def test_a_client_that_hangs_up_harms_nobody(service: BrokerService, token: str) -> None:
    async with serving(service.namesrv_address) as port:
        gone = await Connection.to(port)
        gone.head(token, "Content-Length: 12")
        gone.writer.write(b'{"bo')
        await gone.close()
        connection = await Connection.to(port)
        connection.head(token, "Content-Length: 12")
        connection.writer.write(b'{"body":"x"}')
        assert (await connection.answer())[0] == 201
        await connection.close()


async def test_a_broker_that_is_away_is_a_clear_error_until_it_is_back(service: BrokerService, token: str) -> None:
    await service.stop()
    async with serving(service.namesrv_address) as port:
        connection = await Connection.to(port)
        connection.head(token, "Content-Length: 12")
        connection.writer.write(b'{"body":"x"}')
        status, problem = await connection.answer()
        await connection.close()
        assert (status, problem["code"]) == (503, "broker_unreachable")


async def test_more_than_is_taken_at_once_is_told_to_wait(
    api: httpx.AsyncClient, admin: AsyncAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_MESSAGES_UNDER_WAY", 2)
    messages = {"messages": [{"body": "x"}] * 3}
    answer = await api.post("/api/v1/topics/orders/messages:batch", json=messages)
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, "too_many_requests", "1")
    assert (await admin.runtime())["commitLogMaxOffset"] == "0"
    assert (await api.post("/api/v1/topics/orders/messages", json={"body": "x"})).status_code == 201


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/topics", 200),
        ("GET", "/api/v1/topics?nothing=1", 400),
        ("POST", "/api/v1/topics/orders/messages", 415),
        ("HEAD", "/api/v1/topics", 405),
        ("DELETE", "/api/v1/nowhere", 404),
    ],
)
async def test_an_answer_is_the_same_behind_any_server(
    service: BrokerService, token: str, method: str, path: str, status: int
) -> None:
    told = []
    async with serving(service.namesrv_address) as ours, serving(service.namesrv_address, bare=True) as theirs:
        for port in (ours, theirs):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                answer = await client.request(method, path, headers={"authorization": f"Bearer {token}"})
            left_out = ("date", "server")
            headers = {name: text for name, text in answer.headers.items() if name not in left_out}
            assert "date" in answer.headers
            told.append((answer.status_code, headers, answer.content))
    assert told[0] == told[1]
    assert told[0][0] == status
