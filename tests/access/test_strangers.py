"""Who has shown no signature yet is few and short of time; who has, notices nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.engine.config import EngineConfig
from broker.remoting.access.strangers import Strangers
from broker.remoting.codec import Command, encode
from broker.remoting.codes import Request
from broker.remoting.service import BrokerService
from tests.access.clients import ACCESS, ROOT, People
from tests.remoting.stranger import stranger_at
from tests.remoting.test_server import Clock
from tests.remoting.transacting import until


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def service(config: EngineConfig, clock: Clock) -> AsyncIterator[BrokerService]:
    running = BrokerService(config, broker_port=0, namesrv_port=0, access=ACCESS, clock=clock)
    await running.start()
    yield running
    await running.stop()


def strangers(service: BrokerService) -> Strangers:
    assert service._gate is not None
    return service._gate.strangers


async def test_a_connection_without_a_signature_is_closed_after_a_while(
    service: BrokerService, people: People, clock: Clock
) -> None:
    assert (await people.root.send("a")).code == 0
    async with stranger_at(service.address) as rude:
        await rude.say(encode(Command(Request.GET_BROKER_RUNTIME_INFO)))
        answer = await rude.hear()
        assert answer is not None
        assert answer.code == 16
        clock.now_ms += 29_999
        strangers(service).sweep(clock.now_ms)
        assert len(strangers(service)) == 1
        clock.now_ms += 1
        strangers(service).sweep(clock.now_ms)
        assert await rude.is_closed()
    assert (await people.root.send("a")).code == 0


async def test_strangers_of_one_address_do_not_take_all_places(service: BrokerService, people: People) -> None:
    assert (await people.root.send("a")).code == 0
    strangers(service)._most = 3
    host, _, port = service.address.rpartition(":")
    crowd = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    await until(lambda: len(strangers(service)) == 3)
    async with stranger_at(service.address) as one_more:
        assert await one_more.is_closed()
    assert (await people.root.send("a")).code == 0
    for _, writer in crowd:
        writer.close()
    await until(lambda: not len(strangers(service)))
    late = people.signed(*ROOT)
    assert (await late.send("a")).code == 0
    assert len(strangers(service)) == 0
