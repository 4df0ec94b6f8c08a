"""A group that nobody made: made when somebody comes as it, unless the setting says that only administrators do."""

from __future__ import annotations

import json

import pytest

from broker.client import AsyncAdmin
from broker.engine.tables.groups import Group
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from tests.server.peer import Peer, pull_ext, send_ext
from tests.server.popper import TOPIC, Popper
from tests.server.test_settings import change

NEW = "CID_new-1"


async def look(peer: Peer) -> Command:
    return await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": NEW})


async def pull(peer: Peer) -> Command:
    return await peer.ask(Request.PULL_MESSAGE, pull_ext(NEW, TOPIC))


async def lite_pull(peer: Peer) -> Command:
    return await peer.ask(Request.LITE_PULL_MESSAGE, pull_ext(NEW, TOPIC))


async def give_back(peer: Peer) -> Command:
    position = (await peer.send(TOPIC)).ext["msgId"][-16:]
    ext = {"group": NEW, "offset": str(int(position, 16)), "delayLevel": "0", "originTopic": TOPIC}
    return await peer.ask(Request.CONSUMER_SEND_MSG_BACK, ext)


async def send_to_retry(peer: Peer) -> Command:
    return await peer.ask(Request.SEND_MESSAGE_V2, send_ext(f"%RETRY%{NEW}"), b"again")


WAYS = [look, pull, lite_pull, give_back, send_to_retry]
TAKEN = {Answer.SUCCESS, Answer.PULL_NOT_FOUND, Answer.POLLING_TIMEOUT}


@pytest.mark.parametrize("way", WAYS)
async def test_a_new_group_is_made_with_the_defaults(service: BrokerService, peer: Peer, way) -> None:
    await peer.create_topic(TOPIC)
    assert (await way(peer)).code in TAKEN
    assert service.engine.groups.get(NEW) == Group(NEW)


async def test_who_asks_for_a_new_group_is_told_what_it_is(peer: Peer) -> None:
    for _ in range(2):
        answer = await look(peer)
        assert answer.code == Answer.SUCCESS
        assert json.loads(answer.body) == Group(NEW).to_json()


@pytest.mark.parametrize("way", WAYS)
async def test_with_the_setting_off_a_new_group_is_refused(service: BrokerService, peer: Peer, way) -> None:
    await peer.create_topic(TOPIC)
    assert (await change(peer, "autoCreateSubscriptionGroup=false")).code == Answer.SUCCESS
    answer = await way(peer)
    assert (answer.code, bool(answer.remark)) == (Answer.SUBSCRIPTION_GROUP_NOT_EXIST, True)
    assert service.engine.groups.get(NEW) is None
    assert service.engine.topics.get(f"%RETRY%{NEW}") is None
    service.engine.groups.put(Group(NEW))
    assert (await way(peer)).code in TAKEN


async def test_a_pop_makes_a_new_group_or_is_refused(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    await change(json_peer, "autoCreateSubscriptionGroup=false")
    asked = {"consumerGroup": NEW, "pollTime": "0"}
    assert (await popper.pop(**asked)).code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST
    await change(json_peer, "autoCreateSubscriptionGroup=true")
    assert (await popper.pop(**asked)).code in TAKEN
    assert service.engine.groups.get(NEW) == Group(NEW)


async def test_a_heartbeat_leaves_new_groups_out_with_the_setting_off(service: BrokerService, peer: Peer) -> None:
    await peer.heartbeat("c1", "known")
    await change(peer, "autoCreateSubscriptionGroup=false")
    for group in (NEW, "known"):
        assert (await peer.heartbeat("c1", group)).code == Answer.SUCCESS
    assert [group.name for group in service.engine.groups.all()] == ["known"]
    assert service.engine.topics.get(f"%RETRY%{NEW}") is None
    listed = await peer.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": NEW})
    assert listed.code == Answer.SYSTEM_ERROR


async def test_who_only_looks_makes_nothing(service: BrokerService, peer: Peer) -> None:
    answer = await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": NEW, "escLook": "true"})
    assert answer.code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST
    assert service.engine.groups.all() == []


async def test_groups_of_tools_are_there_and_not_kept(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    await change(peer, "autoCreateSubscriptionGroup=false")
    for name in ("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"):
        assert (await peer.pull("T", group=name)).code == Answer.PULL_NOT_FOUND
        assert (await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": name})).code == Answer.SUCCESS
    assert service.engine.groups.all() == []


@pytest.mark.parametrize("name", ["", "my group", "g" * 256, "CID_RMQ_SYS_ x", "../x"])
async def test_a_name_that_no_group_may_have_is_refused(service: BrokerService, peer: Peer, name: str) -> None:
    answer = await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": name})
    assert answer.code == Answer.INVALID_PARAMETER
    assert service.engine.groups.all() == []


async def test_this_projects_own_admin_makes_no_group_by_looking(service: BrokerService) -> None:
    async with AsyncAdmin(service.namesrv_address) as admin:
        assert await admin.group_settings(NEW) is None
    assert service.engine.groups.all() == []
