"""Bodies that other clients compressed: Java's from 4 KiB on, Go's too."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from broker.client import AsyncAdmin, AsyncConsumer, AsyncSimpleConsumer, Message
from broker.client._reader import MOST_INFLATED_BYTES, inflated
from broker.client.remoting import RemotingClient
from broker.server.broker import BrokerService
from tests.server.peer import Peer

COMPRESSED, ZLIB = 1, 3 << 8


async def test_a_consumer_gets_the_body_as_its_sender_had_it(service: BrokerService, admin: AsyncAdmin) -> None:
    body = b"large " * 1000
    stored = zlib.compress(body)
    client = RemotingClient()
    try:
        await Peer(client, service.address).send("t", stored, f=str(COMPRESSED))
    finally:
        await client.close()
    got: asyncio.Queue[Message] = asyncio.Queue()
    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")
    consumer.subscribe("t", "*", got.put)
    await consumer.start()
    try:
        message = await asyncio.wait_for(got.get(), 20)
    finally:
        await consumer.stop()
    assert (message.body, message.sys_flag & COMPRESSED) == (body, 0)
    assert (await admin.pull("t", 0, 0, 1))[0].body == stored


async def test_a_simple_consumer_gets_it_too(service: BrokerService) -> None:
    client = RemotingClient()
    try:
        await Peer(client, service.address).send("t", zlib.compress(b"body"), f=str(COMPRESSED))
    finally:
        await client.close()
    async with AsyncSimpleConsumer("g", service.namesrv_address) as consumer:
        received = await consumer.receive("t", wait_ms=10_000)
    assert [each.body for each in received] == [b"body"]


@pytest.mark.parametrize("kind", [0, ZLIB])
def test_what_zlib_wrote_is_inflated(kind: int) -> None:
    assert inflated(zlib.compress(b"body"), COMPRESSED | kind | 16) == (b"body", 16)


@pytest.mark.parametrize(
    ("body", "sys_flag"),
    [
        (zlib.compress(b"body"), 0),
        (b"no such stream", COMPRESSED),
        (zlib.compress(b"body")[:-4], COMPRESSED),
        (zlib.compress(b"body"), COMPRESSED | 1 << 8),
        (zlib.compress(b"body"), COMPRESSED | 2 << 8),
        (zlib.compress(b"\0" * (MOST_INFLATED_BYTES + 1)), COMPRESSED),
    ],
    ids=["not compressed", "not zlib", "cut off", "lz4", "zstd", "too much"],
)
def test_what_cannot_be_inflated_stays_as_it_is(body: bytes, sys_flag: int) -> None:
    assert inflated(body, sys_flag) == (body, sys_flag)
