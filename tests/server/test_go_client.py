"""What Apache's Go client says in its own way: bodies and headers as it was heard to write them (2.1.2)."""

from __future__ import annotations

import json

from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer, records

#: Codes of tags are strings, sets are in order of their text, and every set is there.
HEARTBEAT = (
    b'{"clientID":"192.0.2.2@4711","producerDataSet":[{"groupName":"makers"}],"consumerDataSet":[{"groupName":"billing",'
    b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"topic":"orders","subString":"paid || open","tagsSet":["open",'
    b'"paid"],"codeSet":["3417674","3433164"],"subVersion":1795248900123456789,"expressionType":"TAG"}],'
    b'"unitMode":false}]}'
)


async def test_a_heartbeat_whose_codes_of_tags_are_strings_is_taken(service: BrokerService, peer: Peer) -> None:
    answer = await peer.ask(Request.HEART_BEAT, body=HEARTBEAT)
    assert answer.code == Answer.SUCCESS, answer.remark
    seen = await peer.ask(Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "billing"})
    subscription = json.loads(seen.body)["subscriptionTable"]["orders"]
    assert sorted(subscription["tagsSet"]) == ["open", "paid"]
    assert sorted(subscription["codeSet"]) == [3417674, 3433164]


async def test_a_pull_of_no_messages_brings_one(peer: Peer) -> None:
    """Its pull consumer asks for 0 messages unless its user chose a number."""
    await peer.create_topic("orders")
    for body in (b"first", b"second"):
        await peer.send("orders", body)
    ext = {
        "commitOffset": "0", "consumerGroup": "billing", "expressionType": "TAG", "maxMsgNums": "0", "queueId": "0",
        "queueOffset": "0", "subVersion": "0", "subscription": "*", "suspendTimeoutMillis": "20000", "sysFlag": "6",
        "topic": "orders",
    }  # fmt: skip
    answer = await peer.ask(Request.PULL_MESSAGE, ext)
    assert answer.code == Answer.SUCCESS, answer.remark
    assert [message.body for message in records(answer.body)] == [b"first"]
    assert answer.ext["nextBeginOffset"] == "1"
