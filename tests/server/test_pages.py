"""Health by HTTP on the port of remoting: answered and closed, nothing written, others unharmed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from broker.server.sniffing import LONGEST_REQUEST_BYTES, Pages
from tests.server.peer import Peer
from tests.server.stranger import stranger_at

PATIENCE_S = 10


@dataclass
class Shown:
    """An answer; it has ended with its connection."""

    status: int
    headers: dict[str, str]
    body: str


def shown(answer: bytes) -> Shown:
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *rows = head.decode().split("\r\n")
    headers = dict(row.lower().split(": ", 1) for row in rows)
    assert int(headers["content-length"]) == len(body)
    return Shown(int(line.split(" ")[1]), headers, body.decode())


async def asked(address: str, *pieces: bytes) -> Shown:
    """Says the pieces one after the other, and reads until the broker closes the connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return shown(await asyncio.wait_for(reader.read(), PATIENCE_S))
    finally:
        writer.close()


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")).encode()


async def test_health_and_readiness_are_told(service: BrokerService) -> None:
    healthy, ready = await asked(service.address, request("/healthz")), await asked(service.address, request("/readyz"))
    assert (healthy.status, healthy.body, ready.status, ready.body) == (200, "ok\n", 200, "OK\n")
    assert healthy.headers["connection"] == "close"
    in_pieces = await asked(service.address, b"G", b"ET /readyz HT", b"TP/1.1\r\n", b"\r\n")
    assert in_pieces.status == 200


@pytest.mark.parametrize(("state", "status"), [("OK", 200), ("DEGRADED", 200), ("FAILED", 503), ("READONLY", 503)])
def test_a_store_that_takes_nothing_is_not_ready(state: str, status: int) -> None:
    answers: list[bytes] = []
    Pages(lambda: state).answer(request("/readyz"), "127.0.0.1", answers.append)
    assert [(shown(answer).status, shown(answer).body) for answer in answers] == [(status, f"{state}\n")]


REFUSED = {
    "no page": (request("/"), 404),
    "a path that climbs": (request("/../../etc/passwd"), 404),
    "metrics for who was led here by a name": (request("/metrics").replace(b"127.0.0.1", b"evil.example"), 403),
    "metrics through a proxy": (request("/metrics", "X-Forwarded-For: 10.0.0.1"), 403),
    "no version": (b"GET /healthz\r\n\r\n", 400),
    "no HTTP": (b"HELLO there WORLD/1.1\r\n\r\n", 400),
    "not a word": (b"G\r\n\r\n", 400),
    "another method that begins like one": (request("/healthz", method="GETTER"), 405),
}


@pytest.mark.parametrize(("said", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_another_request_is_refused_closed_and_logged(
    service: BrokerService, peer: Peer, said: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "broker.server"):
        assert (await asked(service.address, said)).status == status
    assert any(f"answered with {status}" in record.getMessage() for record in caplog.records)
    assert (await peer.ask(Request.GET_BROKER_CONFIG)).code == Answer.SUCCESS
    assert service.engine.health().log_end_position == 0


async def test_a_request_without_end_is_closed_unanswered_and_logged(
    service: BrokerService, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "broker.server"):
        async with stranger_at(service.address) as stranger:
            await stranger.say(b"GET /" + b"x" * LONGEST_REQUEST_BYTES)
            assert await stranger.is_closed()
    assert any("closing the connection of 127.0.0.1" in record.getMessage() for record in caplog.records)
    assert (await peer.ask(Request.GET_BROKER_CONFIG)).code == Answer.SUCCESS


async def test_a_second_request_on_a_connection_is_not_answered(service: BrokerService) -> None:
    both = await asked(service.address, request("/healthz") * 2)
    assert (both.status, both.body) == (200, "ok\n")


async def test_the_name_service_has_no_pages(service: BrokerService, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "broker.server"):
        async with stranger_at(service.namesrv_address) as stranger:
            await stranger.say(request("/healthz"))
            assert await stranger.is_closed()
    assert any("closing the connection of 127.0.0.1" in record.getMessage() for record in caplog.records)
