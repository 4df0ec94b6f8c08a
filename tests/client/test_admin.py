"""What the admin says about a real broker."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncProducer,
    BrokerRefused,
    InvalidArgument,
    MessageQueue,
    NotSupported,
    RouteNotFound,
)
from broker.client.admin import Broker
from broker.server.broker import BrokerService


async def test_the_broker_and_a_topic_are_described(service: BrokerService, admin: AsyncAdmin) -> None:
    await admin.create_topic("t", queues=3, attributes={"message.type": "DELAY"})
    assert await admin.brokers() == (Broker("broker-a", "DefaultCluster", service.address),)
    topic = next(each for each in await admin.topics() if each.name == "t")
    assert (topic.read_queues, topic.write_queues, topic.permission, topic.broker) == (3, 3, 6, "broker-a")
    route = await admin.route("t")
    assert route.writable() == tuple(MessageQueue("t", "broker-a", number) for number in range(3))


async def test_bounds_list_queues_that_hold_nothing(admin: AsyncAdmin, producer: AsyncProducer) -> None:
    await admin.create_topic("t", queues=2)
    await producer.send("t", b"", queue_id=1)
    stats = await admin.topic_stats("t")
    assert [(each.queue.queue_id, each.min_offset, each.max_offset) for each in stats.queues] == [(0, 0, 0), (1, 0, 1)]


async def test_levels_and_their_progress(admin: AsyncAdmin, producer: AsyncProducer) -> None:
    await producer.send("t", b"", delay_level=2)
    assert await admin.delay_levels() == [1_000, 3_600_000]
    assert (await admin.delay_offsets()).get(2, 0) == 0
    lanes = {each.queue.queue_id: each.max_offset for each in (await admin.topic_stats("SCHEDULE_TOPIC_XXXX")).queues}
    assert lanes[1] == 1
    assert len(await admin.schedule_status()) == 2


async def test_messages_are_found_by_every_id(admin: AsyncAdmin, producer: AsyncProducer) -> None:
    sent = await producer.send("t", b"x", keys=["k"])
    assert (await admin.message_by_offset_id(sent.offset_message_id)).unique_key == sent.message_id
    found = await admin.message_by_id("t", sent.message_id)
    assert found is not None
    assert found.body == b"x"
    assert [each.body for each in await admin.messages_by_key("t", "k")] == [b"x"]
    both = await admin.records_of_ids([("t", sent.message_id), ("t", "0" * 32), ("not-there", sent.message_id)])
    assert {pair: [each.body for each in records] for pair, records in both.items()} == {
        ("t", sent.message_id): [b"x"], ("t", "0" * 32): [], ("not-there", sent.message_id): [],
    }  # fmt: skip
    assert await admin.messages_by_key("t", "other") == []


async def test_an_offset_id_cannot_make_us_ask_a_stranger(admin: AsyncAdmin) -> None:
    with pytest.raises(InvalidArgument, match="does not list"):
        await admin.message_by_offset_id("7F000001000000010000000000000000")
    with pytest.raises(InvalidArgument):
        await admin.message_by_offset_id("no id")


async def test_a_position_between_records_is_refused(admin: AsyncAdmin, producer: AsyncProducer) -> None:
    await producer.send("t", b"x")
    with pytest.raises(BrokerRefused):
        await admin.message_at(1)


async def test_changes_have_a_token_and_say_everything_at_first(admin: AsyncAdmin) -> None:
    changes = await admin.changes("")
    assert changes["full"] is True
    assert (await admin.changes(changes["token"]))["full"] is False


async def test_who_waits_for_changes_is_told_when_there_is_one(admin: AsyncAdmin, producer: AsyncProducer) -> None:
    await producer.send("t", b"")
    token = (await admin.changes(""))["token"]
    waiting = asyncio.ensure_future(admin.changes(token, wait_ms=5_000))
    assert await admin.delay_levels()  # asked behind it on the same connection, answered before it
    assert not waiting.done()
    await producer.send("t", b"")
    told = await waiting
    assert [(each["topic"], each["max"]) for each in told["queues"]] != []
    assert told["token"] != token


async def test_who_waits_for_changes_in_vain_is_told_that_there_are_none(admin: AsyncAdmin) -> None:
    token = (await admin.changes(""))["token"]
    told = await admin.changes(token, wait_ms=150)
    assert (told["token"], told["full"], told["topics"]) == (token, False, [])
    with pytest.raises(BrokerRefused, match="waitMs"):
        await admin.changes(token, wait_ms=5_001)


async def test_a_deleted_topic_has_no_route(admin: AsyncAdmin) -> None:
    await admin.create_topic("gone")
    await admin.delete_topic("gone")
    with pytest.raises(RouteNotFound):
        await admin.route("gone")


async def test_requests_that_a_broker_does_not_know_are_not_supported(service: BrokerService) -> None:
    admin = AsyncAdmin(service.namesrv_address)
    with pytest.raises(NotSupported):
        await admin._session.ask(service.address, 14_999)
    await admin.close()


async def test_a_group_is_made_and_changed(service: BrokerService, admin: AsyncAdmin) -> None:
    await admin.create_group("billing", retry_max_times=3)
    await admin.create_group("shipping", in_order=True)
    await admin.create_group("billing", retry_max_times=5)
    made = {each.name: each for each in await admin.groups()}
    assert (made["billing"].retry_max_times, made["shipping"].retry_max_times) == (5, 16)
    assert service.engine.groups.get("shipping").to_json()["consumeMessageOrderly"] is True


async def test_bad_queries_are_refused(admin: AsyncAdmin) -> None:
    for name, times in (("no blanks", 16), ("g", -1), ("g", 10_001)):
        with pytest.raises(InvalidArgument):
            await admin.create_group(name, retry_max_times=times)
    with pytest.raises(InvalidArgument):
        await admin.create_topic("SCHEDULE_TOPIC_XXXX")
    for queues in (0, 1025):
        with pytest.raises(InvalidArgument):
            await admin.create_topic("t", queues=queues)
    for address in ("", "nowhere", "host:0", "host:99999"):
        with pytest.raises(InvalidArgument):
            AsyncAdmin(address)
