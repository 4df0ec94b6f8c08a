"""Tables that are full, over the wire: who asks for more is told what to do, everybody else goes on."""

from __future__ import annotations

import json

import pytest

from broker.engine.store.groups import Group
from broker.engine.store.topics import MOST_QUEUES, MOST_QUEUES_TOGETHER, Topic
from broker.remoting.codec import Command
from broker.remoting.codes import Answer, Request
from broker.remoting.processors.topics import MOST_TOPICS_AT_ONCE
from broker.remoting.service import BrokerService
from tests.remoting.peer import Peer, heartbeat_body
from tests.remoting.popper import TOPIC, Popper


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
    assert service.engine.pops.book.queues == {}
