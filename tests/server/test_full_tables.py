"""Tables that are full, over the wire: who asks for more is told what to do, everybody else goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.client.remoting import MAX_ANSWER_BYTES
from broker.engine.errors import InvalidValue
from broker.engine.tables.groups import Group
from broker.engine.tables.topics import MOST_QUEUES, MOST_QUEUES_TOGETHER, Topic
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.processors.topics import MOST_TOPICS_AT_ONCE
from tests.server.peer import Peer, heartbeat_body
from tests.server.popper import TOPIC, Popper
from tests.waiting import until_true


def fill(service: BrokerService, *, reserve: bool = False) -> None:
    """Give topics all the queues they may have; with the reserve of groups."""
    topics = service.engine.topics
    most, prefix = MOST_QUEUES_TOGETHER, "filler"
    for _ in range(1 + reserve):
        while (left := most - sum(max(one.read_queues, one.write_queues) for one in topics.all())) > 0:
            name = f"{prefix}-{len(topics.all())}"
            topics.put(Topic(name, 1, min(left, MOST_QUEUES)))
        most, prefix = most + most // 4, "%RETRY%filler"


async def listed(peer: Peer) -> int:
    answer = await peer.ask(Request.GET_ALL_TOPIC_CONFIG)
    return len(json.loads(answer.body)["topicConfigTable"])


async def test_one_list_of_topics_asks_for_more_queues_than_all_may_have(peer: Peer) -> None:
    before = await listed(peer)
    names = [f"a-{number}" for number in range(MOST_TOPICS_AT_ONCE)]
    body = {
        "topicConfigList": [
            {"topicName": name, "readQueueNums": MOST_QUEUES, "writeQueueNums": MOST_QUEUES} for name in names
        ]
    }
    answer = await peer.ask(Request.UPDATE_AND_CREATE_TOPIC_LIST, body=json.dumps(body).encode())
    assert answer.code == Answer.INVALID_PARAMETER
    assert f"allowed are {MOST_QUEUES_TOGETHER:,}" in (answer.remark or "")
    assert await listed(peer) == before


async def test_topics_made_one_by_one_come_to_an_end(peer: Peer) -> None:
    codes = [(await peer.create_topic(f"a-{number}", MOST_QUEUES)).code for number in range(5)]
    assert codes == [Answer.SUCCESS] * 3 + [Answer.INVALID_PARAMETER] * 2
    assert (await peer.create_topic("small")).code == Answer.SUCCESS
    assert (await peer.send("small")).code == Answer.SUCCESS


async def test_a_first_message_makes_no_topic_where_there_is_no_room(service: BrokerService, peer: Peer) -> None:
    fill(service)
    answer = await peer.send("fresh")
    assert answer.code == Answer.INVALID_PARAMETER
    assert "delete topics" in (answer.remark or "")
    assert service.engine.topics.get("fresh") is None


def both_groups(client_id: str) -> bytes:
    """A heartbeat of one client that consumes as two groups."""
    one, other = (json.loads(heartbeat_body(client_id, group)) for group in ("fresh", "known"))
    one["consumerDataSet"] += other["consumerDataSet"]
    return json.dumps(one).encode()


async def test_a_heartbeat_of_a_new_group_is_refused_and_the_groups_that_are_there_stay(
    service: BrokerService, peer: Peer
) -> None:
    await peer.heartbeat("c1", "known")
    fill(service, reserve=True)
    assert (await peer.heartbeat("c2", "known")).code == Answer.SUCCESS
    answer = await peer.ask(Request.HEART_BEAT, body=both_groups("c3"))
    assert answer.code == Answer.INVALID_PARAMETER
    assert "queues" in (answer.remark or "")
    assert [group.name for group in service.engine.groups.all()] == ["known"]
    assert service.engine.topics.get("%RETRY%fresh") is None
    asked = {"consumerGroup": "known"}
    members = json.loads((await peer.ask(Request.GET_CONSUMER_LIST_BY_GROUP, asked)).body)["consumerIdList"]
    assert members == ["c3"], "the connection is one"
    fresh = await peer.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "fresh"})
    assert fresh.code == Answer.SYSTEM_ERROR


@pytest.mark.parametrize("group", ["G", "fresh"])
async def test_a_pop_that_would_need_a_retry_topic_is_refused(
    service: BrokerService, json_peer: Peer, popper: Popper, group: str
) -> None:
    service.engine.groups.put(Group("G"))
    await json_peer.send(TOPIC)
    fill(service, reserve=True)
    answer: Command = await popper.pop(consumerGroup=group)
    assert (answer.code, "queues" in (answer.remark or "")) == (Answer.INVALID_PARAMETER, True)
    assert service.engine.pops.table.queues == {}


LARGEST = {f"a{number}": "x" * 1_022 for number in range(8)}
"""Attributes of a topic, as many as it may have."""
JAVA_READS = 16 << 20
"""Bytes of a frame that official clients take."""


async def size_of(peer: Peer, code: int, **ext: str) -> int:
    answer = await peer.ask(code, ext, timeout_ms=60_000)
    assert answer.code == Answer.SUCCESS, answer.remark
    return len(answer.body) + 4_096


async def test_full_tables_can_be_read(service: BrokerService, json_peer: Peer) -> None:
    """With rows that take much: attributes, fields of groups, names as long as may be."""
    engine = service.engine
    fat = [Topic(f"a-{number:04}", 16, 16, attributes=LARGEST) for number in range(2_000)]
    small = [Topic(f"{number:0127}", 4, 4) for number in range(20_000)]
    groups = [Group(f"a-{number:04}", extra={"x": ["y" * 4_000] * 16}) for number in range(1_000)]
    taken = [
        fill_up(engine.topics.put_many, [Topic(f"%RETRY%{number:0247}", 1, 1) for number in range(2_000)]),
        fill_up(engine.topics.put_many, fat),
        fill_up(engine.topics.put_many, small),
        fill_up(engine.groups.put_many, groups),
        fill_up(engine.topics.put_many, [Topic(f"%DLQ%{number:0250}", 1, 1) for number in range(10_000)]),
    ]
    assert all(taken)
    assert taken[1] < len(fat)
    rows = [(f"{number:0255}", "t" * 127, 0, 1 << 62) for number in range(100_000)]
    assert 20_000 < fill_up(lambda some: [engine.offsets.commit(*row) for row in some], rows) < len(rows)
    for code in (
        Request.GET_ALL_TOPIC_CONFIG,
        Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Request.GET_ALL_CONSUMER_OFFSET,
    ):
        assert 1 << 20 < await size_of(json_peer, code) < JAVA_READS, code
    everything = await size_of(json_peer, Request.GET_CHANGES, token="")
    # beside what is there now: a row of each queue, with the longest of names
    rows = (MOST_QUEUES_TOGETHER + MOST_QUEUES_TOGETHER // 4) * (
        len('{"topic":"","queueId":,"min":,"max":,"lastMs":},') + 255 + 4 * 19
    )
    assert everything + rows < MAX_ANSWER_BYTES


def fill_up(put: Callable[[list[Any]], object], rows: list[Any]) -> int:
    """As many of these as go, in ever smaller portions; how many went."""
    done, portion = 0, len(rows)
    while portion and done < len(rows):
        try:
            put(rows[done : done + portion])
        except InvalidValue:
            portion //= 2
        else:
            done += portion
    return done


async def test_an_offset_for_which_there_is_no_room_is_refused_and_a_pull_goes_on(
    service: BrokerService, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.engine.groups.put_many([Group("known"), Group("fresh")])
    await peer.create_topic("T", 2)
    await peer.send("T", b"one")
    ext = {"topic": "T", "queueId": "0", "commitOffset": "1"}
    known, fresh = (ext | {"consumerGroup": group} for group in ("known", "fresh"))
    assert (await peer.ask(Request.UPDATE_CONSUMER_OFFSET, known)).code == Answer.SUCCESS
    monkeypatch.setattr("broker.engine.tables.groups.MOST_OFFSETS_BYTES", 1)
    answer = await peer.ask(Request.UPDATE_CONSUMER_OFFSET, fresh)
    assert (answer.code, "delete groups" in (answer.remark or "")) == (Answer.INVALID_PARAMETER, True)
    assert (await peer.ask(Request.UPDATE_CONSUMER_OFFSET, known | {"commitOffset": "0"})).code == Answer.SUCCESS
    pulled = await peer.pull("T", group="fresh", sysFlag="5", commitOffset="1")
    assert pulled.code == Answer.SUCCESS, "it is told with the next commit, and has its message"
    reset = {"topic": "T", "group": "fresh", "timestamp": "-1", "isForce": "true"}
    assert (await peer.ask(Request.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == Answer.INVALID_PARAMETER
    clone = {"srcGroup": "known", "destGroup": "fresh", "offline": "true"}
    assert (await peer.ask(Request.CLONE_GROUP_OFFSET, clone)).code == Answer.INVALID_PARAMETER
    assert service.engine.offsets.of_group("fresh") == {}


async def test_a_heartbeat_makes_no_groups_without_room(
    service: BrokerService, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await peer.heartbeat("c1", "known")
    monkeypatch.setattr("broker.rocketmq.values.MOST_TABLE_BYTES", 600)
    answer = await peer.ask(Request.HEART_BEAT, body=both_groups("c2"))
    assert (answer.code, "bytes" in (answer.remark or "")) == (Answer.INVALID_PARAMETER, True)
    assert [group.name for group in service.engine.groups.all()] == ["known"]
    assert service.engine.topics.get("%RETRY%fresh") is None
    assert (await peer.heartbeat("c2", "known")).code == Answer.SUCCESS
    for way in (
        peer.pull("T", group="fresh"),
        peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "fresh"}),
    ):
        await peer.create_topic("T")
        assert (await way).code in (Answer.INVALID_PARAMETER, Answer.TOPIC_NOT_EXIST)
    assert service.engine.groups.get("fresh") is None


async def test_cancelling_what_does_not_wait_writes_nothing_down(service: BrokerService, peer: Peer) -> None:
    before = service.engine.topics.data_version
    for name in ("never-there", "x" * 50_000):
        answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": name, "escPending": "cancel"})
        assert answer.code == Answer.SUCCESS
    assert service.engine.topics.data_version == before
    await peer.create_topic("orders")
    await peer.send("orders", properties="TIMER_DELAY_SEC\x011000\x02")
    for choice in ("keep", "cancel"):
        ext = {"topic": "orders", "escPending": choice}
        assert (await peer.ask(Request.DELETE_TOPIC_IN_BROKER, ext)).code == Answer.SUCCESS
    assert service.engine.topics.is_cancelled("orders", 0)


async def test_who_asks_whether_a_pop_would_get_something_is_told_what_the_pop_would_be(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    await json_peer.send(TOPIC)
    service.engine.groups.put(Group("known"))
    fill(service, reserve=True)
    ext = {"consumerGroup": "known", "topic": TOPIC, "queueId": "-1", "pollTime": "0", "bornTime": "0"}
    popped = await popper.pop(consumerGroup="known")
    told = await json_peer.ask(Request.NOTIFICATION, ext)
    assert popped.code == Answer.INVALID_PARAMETER
    assert (told.code, told.remark) == (popped.code, popped.remark)


async def test_who_waits_to_be_told_is_told_when_there_is_no_room_any_more(
    service: BrokerService, json_peer: Peer
) -> None:
    service.engine.groups.put(Group("known"))
    ext = {"consumerGroup": "known", "topic": TOPIC, "queueId": "-1", "pollTime": "15000", "bornTime": "0"}
    waiting = asyncio.create_task(json_peer.ask(Request.NOTIFICATION, ext, timeout_ms=20_000))
    await until_true(lambda: service.waiting_pops == 1)
    fill(service, reserve=True)
    assert (await json_peer.send(TOPIC)).code == Answer.SUCCESS
    told = await waiting
    assert told.code == Answer.INVALID_PARAMETER
    assert "delete topics" in (told.remark or "")
