"""A message that is given back to a group (36) reaches whoever consumes for it: who pops, or who pulls."""

from __future__ import annotations

import asyncio
import json

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer, heartbeat_body, records
from tests.server.popper import GROUP, TOPIC, Got, Popper, bodies, changed, got_of
from tests.waiting import until_true

GIVEN_BACK = f"%RETRY%{GROUP}"


async def dead_letter(peer: Peer, popper: Popper) -> str:
    """The position of the dead letter of a message that was popped once, which is as often as it may be."""
    group = {"groupName": GROUP, "retryMaxTimes": 0, "consumeEnable": True}
    answer = await peer.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(group).encode())
    assert answer.code == Answer.SUCCESS, answer.remark
    await peer.send(TOPIC, b"pay", "UNIQ_KEY\x01A1\x02")
    (got,) = got_of(await popper.pop())
    await popper.change(got, 0)
    letters = await peer.pull(f"%DLQ%{GROUP}", sysFlag="6", suspendTimeoutMillis="15000")
    return str(records(letters.body)[0].position)


async def give_back(peer: Peer, position: str) -> None:
    """What the console's "send back" asks for."""
    ext = {"group": GROUP, "offset": position, "delayLevel": "1", "maxReconsumeTimes": "100", "originTopic": TOPIC}
    assert (await peer.ask(Request.CONSUMER_SEND_MSG_BACK, ext)).code == Answer.SUCCESS


async def pull_given_back(peer: Peer) -> list[bytes]:
    """What a consumer that pulls gets, which waits for it."""
    answer = await peer.pull(GIVEN_BACK, sysFlag="6", suspendTimeoutMillis="15000")
    return [message.body for message in records(answer.body)]


async def progress(peer: Peer, topic: str) -> tuple[int, int]:
    """What the group has done and what there is, on a topic of one queue."""
    ext = {"consumerGroup": GROUP, "topic": topic, "queueId": "0"}
    done = await peer.ask(Request.QUERY_CONSUMER_OFFSET, ext)
    there = await peer.ask(Request.GET_MAX_OFFSET, ext)
    return int(done.ext["offset"]), int(there.ext["offset"])


async def one(popper: Popper) -> Got:
    (got,) = got_of(await popper.pop(pollTime="15000"))
    return got


async def test_a_dead_letter_sent_back_is_popped_acknowledged_and_gone(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    position = await dead_letter(json_peer, popper)
    waiting = asyncio.create_task(one(popper))
    await until_true(lambda: service.waiting_pops == 1)
    await give_back(json_peer, position)
    got = await waiting
    message = got.message
    assert (message.topic, message.body, message.properties["UNIQ_KEY"]) == (TOPIC, b"pay", "A1")
    assert (message.reconsume_times, got.handle.split(" ")[4]) == (2, "1")
    assert await progress(json_peer, GIVEN_BACK) == (1, 1), "it does not wait there any more"
    assert await progress(json_peer, got.topic) == (0, 1)
    longer = changed(got, await popper.change(got, 60_000))
    assert (await popper.ack(got)).code == Answer.NO_MESSAGE
    assert (await popper.ack(longer)).code == Answer.SUCCESS
    assert await progress(json_peer, got.topic) == (1, 1)
    assert (await popper.pop(pollTime="300")).code == Answer.POLLING_TIMEOUT


async def test_one_that_fails_again_is_a_dead_letter_again(json_peer: Peer, popper: Popper) -> None:
    position = await dead_letter(json_peer, popper)
    await give_back(json_peer, position)
    assert (await popper.change(await one(popper), 0)).code == Answer.SUCCESS
    answer = await json_peer.pull(f"%DLQ%{GROUP}", 1, sysFlag="6", suspendTimeoutMillis="15000")
    (again,) = records(answer.body)
    assert (again.body, again.properties["RETRY_TOPIC"]) == (b"pay", TOPIC)
    await give_back(json_peer, str(again.position))
    assert (await popper.ack(await one(popper))).code == Answer.SUCCESS


async def test_it_comes_in_order_to_who_pops_in_order(json_peer: Peer, popper: Popper) -> None:
    position = await dead_letter(json_peer, popper)
    await give_back(json_peer, position)
    answer = await popper.pop(order="true", pollTime="15000")
    assert bodies(answer) == [b"pay"]
    assert answer.ext["orderCountInfo"] == "1 0 0"
    assert (await popper.ack_together(*got_of(answer))).code == Answer.SUCCESS
    assert (await popper.pop(order="true")).code == Answer.POLLING_TIMEOUT


async def test_a_notification_tells_of_it(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    position = await dead_letter(json_peer, popper)
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": "15000", "bornTime": "0"}
    waiting = asyncio.create_task(json_peer.ask(Request.NOTIFICATION, ext, timeout_ms=20_000))
    await until_true(lambda: service.waiting_pops == 1)
    await give_back(json_peer, position)
    assert (await waiting).ext["hasMsg"] == "true"
    assert (await one(popper)).message.body == b"pay"


async def test_who_pulls_gets_it_though_others_pop(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    position = await dead_letter(json_peer, popper)
    client = RemotingClient()
    puller = Peer(client, service.address)
    body = json.loads(heartbeat_body("c1", GROUP, TOPIC))
    retry = {"topic": GIVEN_BACK, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    body["consumerDataSet"][0]["subscriptionDataSet"].append(retry)
    await puller.ask(Request.HEART_BEAT, body=json.dumps(body).encode())
    await give_back(json_peer, position)
    assert await pull_given_back(puller) == [b"pay"]
    assert (await popper.pop(pollTime="200")).code == Answer.POLLING_TIMEOUT, "it is not given to both"
    await client.close()
    # he left without having said that it is done: it is for those who are there
    async with asyncio.timeout(10):
        while service._state.clients.consumers(GROUP) is not None:
            await asyncio.to_thread(lambda: None)
    assert (await popper.ack(await one(popper))).code == Answer.SUCCESS


async def test_who_pulls_only_gets_it_as_ever(json_peer: Peer) -> None:
    await json_peer.heartbeat("c1", GROUP, topic=TOPIC)
    await json_peer.send(TOPIC, b"pay")
    (message,) = records((await json_peer.pull(TOPIC)).body)
    await give_back(json_peer, str(message.position))
    assert await pull_given_back(json_peer) == [b"pay"]
