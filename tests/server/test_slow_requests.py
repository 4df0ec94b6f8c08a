"""Requests that took long are logged with what they waited for, and nobody else is."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.engine.disk import File, OsFile, OsFiles
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command, encode
from broker.server.broker import BrokerService
from broker.server.clock import Clocks
from broker.server.connection import Connection, Limits
from broker.server.slow_requests import BURST, SLOW_MS, SlowRequests
from tests.hosting.test_log_lines import HOSTILE
from tests.server.peer import Peer
from tests.server.stranger import stranger_at
from tests.server.test_server import ECHO, SLOW, Clock, Doorman, door, greet  # noqa: F401 - a fixture

TOLD = "broker.server.slow_requests"


def said(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.name == TOLD]


class WaitingFile(OsFile):
    """A file of the log whose sync takes until `go` is set, as a disk that hangs has it."""

    __slots__ = ()
    hangs, began, go = threading.Event(), threading.Event(), threading.Event()

    def sync(self) -> None:
        if self.hangs.is_set() and "commitlog" in self.path:
            self.began.set()
            self.go.wait(30)
        super().sync()


class WaitingFiles(OsFiles):
    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        file.__class__ = WaitingFile
        return file


@asynccontextmanager
async def served(config: EngineConfig, clock: Clock, limits: Limits) -> AsyncIterator[Peer]:
    clocks = Clocks(broker=clock, live=clock)
    service = BrokerService(
        config, broker_port=0, namesrv_port=0, files=WaitingFiles(), clocks=clocks, limits=limits, vip_channel=False
    )
    await service.start()
    client = RemotingClient(serialization=1)
    try:
        yield Peer(client, service.address)
    finally:
        WaitingFile.hangs.clear()
        WaitingFile.go.set()
        await client.close()
        await service.stop()


async def hang(peer: Peer, clock: Clock, topic: str, count: int, took_ms: int) -> None:
    """Send so many messages, and have the disk take so long over them."""
    for event in (WaitingFile.began, WaitingFile.go):
        event.clear()
    WaitingFile.hangs.set()
    sends = [asyncio.ensure_future(peer.send(topic, b"secret body")) for _ in range(count)]
    await asyncio.to_thread(WaitingFile.began.wait, 30)
    clock.now_ms += took_ms
    WaitingFile.hangs.clear()
    WaitingFile.go.set()
    await asyncio.gather(*sends)


async def test_sends_that_waited_for_the_disk(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with served(config, clock, Limits()) as peer:
        await peer.create_topic("orders")
        await peer.send("orders")  # a log that has no file yet makes one, which is waited for otherwise
        await hang(peer, clock, "orders", 1, SLOW_MS - 1)
        assert said(caplog) == []
        await hang(peer, clock, "orders", 1, SLOW_MS + 500)
        (record,) = said(caplog)
        assert record["took_ms"] == record["last_sync_ms"] == SLOW_MS + 500
        assert (record["request"], record["waited_for"], record["topics"]) == ("send_message", "the disk", "orders")
        assert record["peer"].startswith("127.0.0.1:")
        assert "secret" not in str(record)


async def test_another_limit_and_none(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with served(config, clock, Limits(slow_ms=50)) as peer:
        await peer.create_topic("orders")
        await peer.send("orders")  # a log that has no file yet makes one, which is waited for otherwise
        await hang(peer, clock, "orders", 3, 60)
        assert sum(record["sends"] for record in said(caplog)) >= 1
    caplog.clear()
    async with served(config, clock, Limits(slow_ms=0)) as peer:
        await peer.send("orders")
        await hang(peer, clock, "orders", 1, 100_000)
    assert said(caplog) == []


async def test_a_request_that_others_kept_waiting_is_told_from_the_one_that_took_long(
    door: Doorman,  # noqa: F811 - the fixture
    caplog: pytest.LogCaptureFixture,
) -> None:
    def slow(_: Connection, request: Command) -> Command:
        door.clock.now_ms += int(request.ext.get("ms", "0"))
        return request.answer()

    door.slow = slow
    async with stranger_at(door.address) as one:
        await greet(one)
        frames = [encode(Command(SLOW, {"ms": str(SLOW_MS)}, opaque=1)), encode(Command(SLOW, opaque=2))]
        await one.say(b"".join(frames))
        assert await one.hear()
        assert await one.hear()
    told = [(record["took_ms"], record["before_ms"], record["waited_for"]) for record in said(caplog)]
    assert told[0] == (SLOW_MS, 0, "its handler")
    # it came by the same read; where it comes to its turn only with the next, its wait is not known
    assert told[1:] in ([], [(SLOW_MS, SLOW_MS, "requests before it")])


async def test_a_pull_that_waits_for_messages_is_not_slow(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with served(config, clock, Limits()) as peer:
        await peer.create_topic("orders")
        pull = asyncio.ensure_future(peer.pull("orders", sysFlag="6", suspendTimeoutMillis="20000"))
        await peer.ask(Request.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
        clock.now_ms += 5_000
        await peer.send("orders")
        await pull
    assert [record for record in said(caplog) if record["request"] == "pull_message"] == []


async def test_a_mirror_that_waits_for_news_is_not_slow(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with served(config, clock, Limits()) as peer:
        token = json.loads((await peer.ask(Request.GET_CHANGES)).body)["token"]
        asked = asyncio.ensure_future(peer.ask(Request.GET_CHANGES, {"token": token, "waitMs": "1000"}))
        await peer.ask(Request.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
        clock.now_ms += 5_000
        await asked
    assert [record for record in said(caplog) if record["request"] == "get_changes"] == []


class Caller:
    """The connection of somebody with a hostile name."""

    address, user, begun_ms = "10.0.0.7:1", HOSTILE, 0


def test_when_all_is_slow_few_lines_are_written_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0]
    slow = SlowRequests(SLOW_MS, clock=lambda: seconds[0])
    for number in range(int(BURST) + 30):
        slow.answered(ECHO, ("echo", "success"), number, SLOW_MS, Caller(), is_later=False)
    assert len(said(caplog)) == BURST
    seconds[0] += 1
    slow.answered(ECHO, ("echo", "success"), 0, SLOW_MS, Caller(), is_later=False)
    assert said(caplog)[-1]["left_out"] == 30
    assert caplog.records[-1].levelno == logging.WARNING
