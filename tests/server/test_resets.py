"""Groups set back and forward: what is stored, and how consumers at work are told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer, records
from tests.server.test_administration import lenient_json
from tests.server.test_pulling import waiting

WAITS = {"sysFlag": "6", "suspendTimeoutMillis": "10000"}


async def reset(peer: Peer, group: str = "G", topic: str = "T", **ext: str) -> Any:
    """The offsets set, by queue id."""
    asked = {"topic": topic, "group": group, "timestamp": "-1", "isForce": "true"} | ext
    answer = await peer.ask(Request.INVOKE_BROKER_TO_RESET_OFFSET, asked)
    if answer.code != Answer.SUCCESS:
        return answer.code
    table = lenient_json(answer.body)["offsetTable"]
    return {lenient_json(queue.encode())["queueId"]: offset for queue, offset in table.items()}


async def offset_of(peer: Peer, group: str = "G") -> int:
    asked = {"consumerGroup": group, "topic": "T", "queueId": "0"}
    return int((await peer.ask(Request.QUERY_CONSUMER_OFFSET, asked)).ext["offset"])


async def commit(peer: Peer, offset: int) -> str | None:
    asked = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    answer = await peer.ask(Request.UPDATE_CONSUMER_OFFSET, asked)
    assert answer.code == Answer.SUCCESS
    return answer.remark


@pytest.fixture
async def four(service: BrokerService, peer: Peer) -> Peer:
    """Topic T of two queues, four messages in the first, and the group G, of which nobody is there."""
    await peer.create_topic("T", 2)
    for number in range(4):
        await peer.send("T", b"%d" % number)
    service.engine.groups.ensure("G")
    return peer


async def test_a_group_is_set_to_the_end_the_beginning_and_a_moment(four: Peer) -> None:
    assert await reset(four) == {0: 4, 1: 0}
    assert await reset(four, timestamp="0") == {0: 0, 1: 0}
    third = records((await four.pull("T", 2)).body)[0]
    expected = next(n for n, one in enumerate(records((await four.pull("T")).body)) if one.store_ms >= third.store_ms)
    assert (await reset(four, timestamp=str(third.store_ms)))[0] == expected
    assert await offset_of(four) == expected


async def test_one_queue_is_set_to_an_offset_that_it_has(four: Peer) -> None:
    assert await reset(four, queueId="0", offset="3") == {0: 3}
    assert await offset_of(four) == 3
    assert await reset(four, queueId="0", offset="4") == {0: 4}
    assert await reset(four, queueId="0", offset="5") == Answer.SYSTEM_ERROR
    assert await reset(four, queueId="2") == Answer.INVALID_PARAMETER
    assert await offset_of(four) == 4


async def test_what_does_not_exist_is_not_set(four: Peer) -> None:
    assert await reset(four, group="nobody") == Answer.SUBSCRIPTION_GROUP_NOT_EXIST
    assert await reset(four, topic="nowhere") == Answer.TOPIC_NOT_EXIST


async def test_a_consumer_at_work_is_told_with_its_next_pull_and_once(four: Peer) -> None:
    await four.heartbeat("c1", "G")
    await reset(four, timestamp="0")
    told = await four.pull("T", 4, commitOffset="4", sysFlag="5")
    assert (told.code, told.remark) == (Answer.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert told.ext["nextBeginOffset"] == "0"
    assert await offset_of(four) == 0
    assert (await four.pull("T", 0)).code == Answer.SUCCESS


async def test_what_is_committed_before_it_was_told_is_not_taken(four: Peer) -> None:
    await four.heartbeat("c1", "G")
    await reset(four, timestamp="0")
    assert await commit(four, 4) == "Offset has been previously reset"
    assert await offset_of(four) == 0
    await four.pull("T", 4)
    assert await commit(four, 1) is None
    assert await offset_of(four) == 1


async def test_a_pull_that_waits_is_told_at_once(service: BrokerService, four: Peer) -> None:
    await four.heartbeat("c1", "G")
    pull = asyncio.ensure_future(four.pull("T", 4, **WAITS))
    other = asyncio.ensure_future(four.pull("T", 4, group="other", **WAITS))
    await waiting(service, 2)
    await reset(four, timestamp="0")
    told = await pull
    assert (told.code, told.ext["nextBeginOffset"]) == (Answer.PULL_OFFSET_MOVED, "0")
    assert service.waiting_pulls == 1
    await four.send("T", b"new")
    assert (await other).code == Answer.SUCCESS


async def test_nobody_is_told_what_was_set_before_he_came(four: Peer) -> None:
    await reset(four, timestamp="0")
    await four.heartbeat("c1", "G")
    assert (await four.pull("T", 4)).code == Answer.PULL_NOT_FOUND
    await reset(four, timestamp="0")
    await four.ask(Request.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "G"})
    await four.heartbeat("c2", "G")
    assert (await four.pull("T", 4)).code == Answer.PULL_NOT_FOUND
    assert await commit(four, 2) is None


async def test_a_group_begins_where_another_is(service: BrokerService, four: Peer) -> None:
    service.engine.offsets.commit("G", "T", 0, 3)
    service.engine.offsets.commit("G", "U", 0, 7)
    clone = {"srcGroup": "G", "destGroup": "H", "topic": "T"}
    assert (await four.ask(Request.CLONE_GROUP_OFFSET, clone)).code == Answer.SUCCESS
    assert service.engine.offsets.of_group("H") == {"T": {0: 3}}
    await four.create_topic("U")
    assert (await four.ask(Request.CLONE_GROUP_OFFSET, clone | {"topic": ""})).code == Answer.SUCCESS
    assert service.engine.offsets.of_group("H") == {"T": {0: 3}, "U": {0: 7}}


async def test_what_a_groups_consumers_gave_up_is_cloned_only_where_that_is_meant(
    service: BrokerService, four: Peer
) -> None:
    await four.create_topic("U")
    service.engine.offsets.commit("G", "U", 0, 7)
    await four.heartbeat("c1", "G", topic="T")
    clone = {"srcGroup": "G", "destGroup": "H", "topic": "U"}
    await four.ask(Request.CLONE_GROUP_OFFSET, clone)
    assert service.engine.offsets.of_group("H") == {}
    await four.ask(Request.CLONE_GROUP_OFFSET, clone | {"offline": "true"})
    assert service.engine.offsets.of_group("H") == {"U": {0: 7}}
