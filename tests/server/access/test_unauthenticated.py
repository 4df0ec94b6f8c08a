"""Who has shown no signature yet is few and short of time; who has, notices nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.engine.config import EngineConfig
from broker.rocketmq.acl import ACCESS_KEY, SIGNATURE, content, sign
from broker.rocketmq.codes import PROTOCOL_VERSION, Request
from broker.rocketmq.frame import Command, encode
from broker.server.access.gate import Unauthenticated
from broker.server.broker import BrokerService, Protection
from broker.server.clock import Clocks
from tests.server.access.clients import ACCESS, ROOT, People
from tests.server.peer import send_ext
from tests.server.stranger import stranger_at
from tests.server.test_server import Clock
from tests.waiting import until_true


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def service(config: EngineConfig, clock: Clock) -> AsyncIterator[BrokerService]:
    running = BrokerService(
        config, broker_port=0, namesrv_port=0, protection=Protection(access=ACCESS), clocks=Clocks(broker=clock)
    )
    await running.start()
    yield running
    await running.stop()


def strangers(service: BrokerService) -> Unauthenticated:
    assert service._gate is not None
    return service._gate.unauthenticated


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
    await until_true(lambda: len(strangers(service)) == 3)
    async with stranger_at(service.address) as one_more:
        assert await one_more.is_closed()
    assert (await people.root.send("a")).code == 0
    for _, writer in crowd:
        writer.close()
    await until_true(lambda: not len(strangers(service)))
    late = people.signed(*ROOT)
    assert (await late.send("a")).code == 0
    assert len(strangers(service)) == 0


def signed_send(name: str, secret: str, body: bytes, topic: str = "big") -> bytes:
    """A send as its client's very first frame."""
    ext = send_ext(topic, "UNIQ_KEY\x01A\x02") | {ACCESS_KEY: name}
    ext[SIGNATURE] = sign(secret.encode(), content(ext, body, PROTOCOL_VERSION)).decode()
    return encode(Command(Request.SEND_MESSAGE_V2, ext, body, opaque=5))


async def test_a_long_message_may_be_the_first_that_a_client_says(service: BrokerService) -> None:
    async with stranger_at(service.address) as producer:
        for _ in range(2):
            await producer.say(signed_send(*ROOT, b"x" * (3 << 20)))
            answer = await producer.hear()
            assert answer is not None
            assert answer.code == 0, answer.remark


@pytest.mark.parametrize("size", [100_000, 3 << 20])
async def test_what_nobody_has_signed_is_refused_without_being_held(service: BrokerService, size: int) -> None:
    budget = service.servers[0].budget
    async with stranger_at(service.address) as wrong:
        frame = signed_send("mallory", "guessed", b"x" * size)
        await wrong.say(frame[:-10])
        await until_true(lambda: budget.held_bytes >= size)
        (connection,) = service.servers[0].connections
        assert connection._frames.held_bytes < 100_000
        await wrong.say(frame[-10:])
        answer = await wrong.hear()
        assert answer is not None
        assert (answer.code, answer.opaque) == (16, 5)
    assert budget.held_bytes == 0


@pytest.mark.parametrize("size", [100_000, 3 << 20])
async def test_nobody_learns_by_a_long_frame_which_users_there_are(service: BrokerService, size: int) -> None:
    """One after another: what is counted of each before it is whole, and what each is told then."""
    budget = service.servers[0].budget
    seen = []
    for name in (ROOT[0], "mallory"[: len(ROOT[0])]):
        frame = signed_send(name, "guessed", b"x" * size)
        async with stranger_at(service.address) as stranger:
            await stranger.say(frame[:-10])
            await until_true(lambda: budget.held_bytes >= size)
            (connection,) = service.servers[0].connections
            assert not connection.is_noted, "nothing is refused before it is whole"
            before = budget.held_bytes, connection._frames.is_partial
            await stranger.say(frame[-10:])
            answer = await stranger.hear()
            assert answer
            seen.append((before, answer.code, answer.opaque, answer.remark))
        await until_true(lambda: budget.held_bytes == 0 and not service.servers[0].connections)
    assert seen[0] == seen[1]
    assert seen[0][1:3] == (16, 5)


@pytest.mark.parametrize("door", ["address", "namesrv_address"])
async def test_a_long_frame_without_a_signature_closes_its_connection_at_once(
    service: BrokerService, people: People, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with stranger_at(getattr(service, door)) as rude:
        await rude.say(encode(Command(Request.SEND_MESSAGE_V2, send_ext("T"), b"x" * (15 << 20)))[:70_000])
        assert await rude.is_closed()
    assert "a long frame without a signature" in caplog.text
    async with stranger_at(getattr(service, door)) as rude:
        header = (15 << 20) - 4
        await rude.say((15 << 20).to_bytes(4, "big") + (header | 1 << 24).to_bytes(4, "big"))
        assert await rude.is_closed()
    assert "before the first valid signature" in caplog.text
    assert (await people.root.send("a")).code == 0
