"""A broker with a simulated clock: what is stored and due goes by it, what lives goes by the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.engine.errors import StoreUnsupported
from broker.engine.log.checkpoint import reached_ms
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from broker.server.clock import Clocks, SimulatedClock, Simulation
from tests.server.peer import Peer, records
from tests.server.popper import TOPIC, Popper, bodies

START_MS = 1_767_225_600_000
HOUR_MS = 3_600_000
SECOND_NS = 1_000_000_000


class Steady:
    """Monotonic time moved by hand."""

    def __init__(self) -> None:
        self.ns = 7 * SECOND_NS

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def steady() -> Steady:
    return Steady()


def broker_of(
    config: EngineConfig, steady: Steady, *, start_ms: int | None = START_MS, speed: float = 60
) -> BrokerService:
    return BrokerService(
        config,
        broker_port=0,
        namesrv_port=0,
        clocks=Clocks(simulation=Simulation(speed, start_ms, steady), live=lambda: 5_000_000),
    )


@pytest.fixture
async def simulated(config: EngineConfig, steady: Steady) -> AsyncIterator[BrokerService]:
    service = broker_of(config, steady)
    await service.start()
    yield service
    await service.stop()


@pytest.fixture(params=["json", "binary"])
async def peer(request: pytest.FixtureRequest, simulated: BrokerService) -> AsyncIterator[Peer]:
    client = RemotingClient(serialization=int(request.param == "binary"))
    yield Peer(client, simulated.address)
    await client.close()


@pytest.mark.parametrize(
    ("text", "speed", "start_ms"),
    [("60", 60.0, None), (" 0.5", 0.5, None), ("2026-01-01T00:00:00Z@60", 60.0, START_MS),
     ("2026-01-01T08:00:00+08:00@3600", 3600.0, START_MS)],
)  # fmt: skip
def test_a_simulation_is_read(text: str, speed: float, start_ms: int | None) -> None:
    found = Simulation.read(text)
    assert (found.speed, found.start_ms) == (speed, start_ms)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "0", "-1", "3601", "nan", "inf", "60x", "2026-01-01T00:00:00@60", "yesterday@60", "60@2026-01-01"],
)
def test_what_is_no_simulation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"simulated clock|zone"):
        Simulation.read(text)


def test_the_clock_runs_so_many_times_as_fast(steady: Steady) -> None:
    clock = SimulatedClock(START_MS, 3600, steady)
    assert clock() == START_MS
    steady.ns += SECOND_NS
    assert clock() == START_MS + HOUR_MS


async def test_an_hour_of_a_level_is_over_in_a_minute(simulated: BrokerService, steady: Steady, peer: Peer) -> None:
    await peer.create_topic("T")
    waiting = asyncio.create_task(peer.pull("T", sysFlag="6", suspendTimeoutMillis="15000"))
    await peer.send("T", b"due", "DELAY\x012\x02UNIQ_KEY\x01K\x02")
    assert simulated.engine.schedule.status(START_MS)[1].max_offset == 1
    steady.ns += 59 * SECOND_NS
    assert (await peer.ask(Request.GET_SCHEDULE_STATUS)).code == Answer.SUCCESS
    assert simulated.engine.queue_bounds("T", 0) == (0, 0)
    steady.ns += SECOND_NS
    [message] = records((await waiting).body)
    assert (message.body, message.store_ms) == (b"due", START_MS + HOUR_MS)


async def test_who_is_alive_is_judged_by_the_real_clock(simulated: BrokerService, steady: Steady, peer: Peer) -> None:
    await peer.heartbeat("one", "G")
    queue = [{"topic": "T", "queueId": 0, "brokerName": "broker-a"}]
    await peer.create_topic("T")
    for client, granted in (("one", 1), ("two", 0)):
        body = json.dumps({"consumerGroup": "G", "clientId": client, "mqSet": queue}).encode()
        answer = json.loads((await peer.ask(Request.LOCK_BATCH_MQ, body=body)).body)
        assert len(answer["lockOKMQSet"]) == granted
        steady.ns += 3600 * SECOND_NS
    simulated._sweep()
    assert len(simulated.servers[0].connections) == 1
    waiting = asyncio.create_task(peer.pull("T", sysFlag="6", suspendTimeoutMillis="15000"))
    await peer.heartbeat("one", "G")
    steady.ns += 3600 * SECOND_NS
    await peer.send("T", b"news")
    assert [message.body for message in records((await waiting).body)] == [b"news"]


async def test_it_says_how_its_clock_runs(simulated: BrokerService, steady: Steady, peer: Peer) -> None:
    steady.ns += SECOND_NS
    changes = json.loads((await peer.ask(Request.GET_CHANGES)).body)
    assert changes["nowMs"] == START_MS + 60_000
    assert changes["broker"]["simulatedClock"] == {"speed": 60.0, "simulatedMs": START_MS + 60_000, "realMs": 5_000_000}
    table = json.loads((await peer.ask(Request.GET_BROKER_RUNTIME_INFO)).body)["table"]
    assert (table["simulatedClockSpeed"], table["bootTimestamp"]) == ("60", str(START_MS))


async def test_a_real_broker_says_nothing_of_it(service: BrokerService, json_peer: Peer) -> None:
    changes = json.loads((await json_peer.ask(Request.GET_CHANGES)).body)
    assert "simulatedClock" not in changes["broker"]
    assert "simulatedClockSpeed" not in json.loads((await json_peer.ask(Request.GET_BROKER_RUNTIME_INFO)).body)["table"]


async def test_what_is_popped_in_order_is_free_again_by_its_clock(
    simulated: BrokerService, steady: Steady, json_popper: Popper
) -> None:
    await json_popper.peer.send(TOPIC, b"first")
    assert bodies(await json_popper.pop(order="true", invisibleTime="600000", attemptId="a")) == [b"first"]
    waiting = asyncio.create_task(json_popper.pop(order="true", pollTime="15000", attemptId="b"))
    async with asyncio.timeout(5):
        while not simulated.waiting_pops:
            await asyncio.to_thread(lambda: None)
    assert simulated._waiting_pops is not None
    [look] = [each for each in simulated._waiting_pops._by_moment if each[0] < 5_015_000]
    assert look[0] == 5_010_000, "ten minutes of the broker's clock are ten real seconds"
    await json_popper.peer.client.close()
    waiting.cancel()


@pytest.fixture
async def json_popper(simulated: BrokerService) -> AsyncIterator[Popper]:
    client = RemotingClient()
    there = Peer(client, simulated.address)
    await there.create_topic(TOPIC)
    yield Popper(there)
    await client.close()


async def test_it_goes_on_where_it_was_left_and_never_back(
    config: EngineConfig, steady: Steady, tmp_path: Path
) -> None:
    first = broker_of(config, steady)
    await first.start()
    steady.ns += 3600 * SECOND_NS
    await first.stop()
    left_ms = START_MS + 60 * HOUR_MS
    assert reached_ms(OsFiles(), config.root) == left_ms
    for start_ms, shown_ms in ((None, left_ms), (START_MS, left_ms), (left_ms + HOUR_MS, left_ms + HOUR_MS)):
        again = broker_of(config, steady, start_ms=start_ms)
        await again.start()
        assert again._clock() == shown_ms
        # as much ahead as may pass until it is written down again: a kill loses that, and nothing comes twice
        assert reached_ms(OsFiles(), config.root) == shown_ms + 120_000
        await again.stop()
    with pytest.raises(StoreUnsupported, match="was written by a simulated clock"):
        await BrokerService(replace(config), broker_port=0, namesrv_port=0).start()
