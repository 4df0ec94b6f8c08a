"""The self-test of a real broker: in a process of its own, near what is measured under load, and leaving nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.engine.testing import SimulatedFiles
from broker.engine.timer.pace import SCRATCH
from broker.rocketmq.codes import Answer, Request
from broker.server import measuring, self_test
from broker.server.broker import BrokerService
from broker.server.clock import Clocks, Simulation, wall_clock_ms
from tests.server.peer import Peer
from tests.waiting import until

PATIENCE_S = 20


@pytest.fixture
async def client() -> AsyncIterator[RemotingClient]:
    found = RemotingClient()
    yield found
    await found.close()


async def measured(peer: Peer) -> dict[str, Any]:
    answer = await peer.ask(Request.MEASURE_RELEASES, timeout_ms=30_000)
    assert answer.code == Answer.SUCCESS, answer.remark
    told: dict[str, Any] = json.loads(answer.body)
    return told


def left_in(config: EngineConfig) -> list[str]:
    return [path.name for path in Path(config.root).iterdir() if path.name == SCRATCH]


async def test_whoever_asks_is_told_and_others_are_served_meanwhile(
    config: EngineConfig, client: RemotingClient, service: BrokerService
) -> None:
    peer = Peer(client, service.address)
    await peer.create_topic("T")
    asking = [asyncio.create_task(measured(peer)) for _ in range(2)]
    sent = 0
    while not all(task.done() for task in asking):
        assert (await peer.send("T", b"x")).code == Answer.SUCCESS
        sent += 1
    one, other = [await task for task in asking]
    assert one["capacityPerS"] == other["capacityPerS"] > 1_000
    assert one["capacityHow"] == "self_test"
    assert sent > 20
    # asked again at once it does not measure again
    assert (await measured(peer))["capacityAtMs"] == one["capacityAtMs"]
    status = json.loads((await peer.ask(Request.GET_TIMER_STATUS)).body)
    assert (status["capacityPerS"], status["capacityHow"]) == (one["capacityPerS"], "self_test")
    assert left_in(config) == []
    # nothing of it is among what the broker has
    assert not service.engine.topics.get(measuring.TOPIC)


async def test_a_broker_that_was_never_measured_measures_itself(config: EngineConfig) -> None:
    clock = FastClock()
    service = BrokerService(config, broker_port=0, namesrv_port=0, clocks=Clocks(broker=clock), self_test=True)
    await service.start()
    pace = service.engine.timers.pace
    await asyncio.to_thread(until, lambda: pace.measured, PATIENCE_S)
    assert pace.measured is not None
    assert pace.measured.how == "self_test"
    await service.stop()
    assert left_in(config) == []
    again = BrokerService(config, broker_port=0, namesrv_port=0, clocks=Clocks(broker=clock), self_test=True)
    await again.start()
    assert again.engine.timers.pace.measured == pace.measured
    await again.stop()


class FastClock:
    """A clock on which five quiet seconds are over at the second look."""

    def __init__(self) -> None:
        self._began_ms = wall_clock_ms()

    def __call__(self) -> int:
        return self._began_ms + 10 * (wall_clock_ms() - self._began_ms)


async def test_a_broker_that_stops_ends_what_it_measures(config: EngineConfig, client: RemotingClient) -> None:
    service = BrokerService(config, broker_port=0, namesrv_port=0)
    await service.start()
    peer = Peer(client, service.address)
    asking = asyncio.create_task(peer.ask(Request.MEASURE_RELEASES))
    await asyncio.to_thread(until, lambda: left_in(config), PATIENCE_S)
    began_s = time.monotonic()
    await service.stop()
    assert time.monotonic() - began_s < 1.5
    assert left_in(config) == []
    answer = await asking
    assert (answer.code, "could not be measured" in (answer.remark or "")) == (Answer.SYSTEM_ERROR, True)


async def test_of_a_simulated_clock_a_second_is_shorter(config: EngineConfig, client: RemotingClient) -> None:
    service = BrokerService(config, broker_port=0, namesrv_port=0, clocks=Clocks(simulation=Simulation(1000.0)))
    await service.start()
    told = await measured(Peer(client, service.address))
    assert 1 < told["capacityPerS"] < 1_000
    await service.stop()


async def test_a_store_in_memory_is_not_measured(config: EngineConfig, client: RemotingClient) -> None:
    config = replace(config, root="/store")
    service = BrokerService(config, broker_port=0, namesrv_port=0, files=SimulatedFiles(), self_test=True)
    await service.start()
    answer = await Peer(client, service.address).ask(Request.MEASURE_RELEASES)
    assert answer.code == Answer.REQUEST_CODE_NOT_SUPPORTED
    await service.stop()


async def test_what_cannot_be_measured_is_said_with_the_reason(
    config: EngineConfig, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    service = BrokerService(config, broker_port=0, namesrv_port=0)
    await service.start()
    (Path(config.root) / SCRATCH).write_text("something of somebody else's")
    with caplog.at_level(logging.WARNING, "broker.server"):
        answer = await Peer(client, service.address).ask(Request.MEASURE_RELEASES)
    assert answer.code == Answer.SYSTEM_ERROR
    assert "File exists" in (answer.remark or "")
    assert "could not be measured" in caplog.text
    assert service.engine.timers.pace.measured is None
    await service.stop()


def test_the_program_measures_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / SCRATCH
    scratch.mkdir()
    (scratch / "left").write_text("by a kill")
    trial = self_test.Trial(str(tmp_path), "async")
    trial.run()
    assert trial.per_s is not None, trial.why
    assert trial.per_s > 1_000
    assert not scratch.exists()


def test_what_is_ended_before_it_began_does_not_begin(tmp_path: Path) -> None:
    trial = self_test.Trial(str(tmp_path), "sync")
    trial.end()
    trial.run()
    assert (trial.per_s, list(tmp_path.iterdir())) == (None, [])
