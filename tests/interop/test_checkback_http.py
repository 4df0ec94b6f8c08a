"""Check-back by HTTP on real brokers: a half that was sent by REST's kind of producer is decided by its address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker.client import Admin, AsyncProducer, as_half, prepare
from console.features.checkback.allowed import AllowList, read_address
from console.features.checkback.request import Asker, Resolver
from console.features.checkback.worker import Answerer, Contact
from tests.console.checkback.answers import SECRET
from tests.console.checkback.server import Question, decided
from tests.console.checkback.server import Server as Address
from tests.interop.conftest import running
from tests.interop.servers import Server
from tests.interop.transactional_project import DECIDED_S, QUICK, bodies
from tests.interop.waiting import wait_until


@pytest.fixture(scope="module", params=["apache", "escapement"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker of either kind that asks soon."""
    with running(request.param, tmp_path_factory.mktemp("asked"), QUICK) as one:
        yield one


async def agree(asked: Question) -> bytes:
    return decided(asked, SECRET, {"yes": "COMMIT", "no": "ROLLBACK"}[asked.asked["keys"][0]])


async def test_the_address_of_a_group_decides_its_halves(server: Server, topic: str, group: str) -> None:
    producer = AsyncProducer("rest", server.namesrv)
    with Admin(server.namesrv) as admin:
        await asyncio.to_thread(admin.create_topic, topic)
    async with Address(agree) as address:
        origin = f"http://{address.host}:{address.port}"
        asker = Asker(AllowList([origin], [f"{address.host}/32"]), Resolver())
        contact = Contact(group, read_address(origin + "/checks"), SECRET)
        asking = asyncio.create_task(Answerer(contact, server.namesrv, asker).run())
        ids = {}
        for key in ("yes", "no"):
            half = as_half(prepare(key, keys=[key]), group)
            (sent,) = await producer.send_each(topic, [half])
            assert not isinstance(sent, Exception), sent
            ids[key] = half.message_id
        assert await asyncio.to_thread(
            wait_until, lambda: set(bodies(server, topic)) == {"yes"} and len(address.questions) >= 2, DECIDED_S
        ), address.questions
        found = await asyncio.to_thread(bodies, server, topic)
        # Apache RocketMQ asks again while an answer is on its way, and keeps a copy for each commit
        assert found == {"yes": 1} or (set(found) == {"yes"} and server.name == "apache")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await producer.close()
    assert {question.asked["transaction_id"] for question in address.questions} == set(ids.values())
    assert {question.asked["topic"] for question in address.questions} == {topic}
