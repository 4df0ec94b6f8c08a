"""Every request that is served has a rule, and the rules are as strict as Apache RocketMQ's."""

from __future__ import annotations

import pytest

from broker.rocketmq.acl import Action
from broker.rocketmq.codes import Request
from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.frame import Command
from broker.server.access.demands import FIELDS, OPEN_TO_USERS, Demands
from broker.server.broker import BrokerService

EVERYTHING = "Cluster:Home"
CHANGES_THE_BROKER = {
    "ADD", "AUTH", "CLEAN", "DELETE", "MEASURE", "PAUSE", "PUT", "RESUME", "SET", "STEER", "SWITCH", "TRIGGER",
    "UPDATE", "WIPE", "REGISTER", "UNREGISTER", "BROKER",  # who is a broker: 103, 104, 217, and its heartbeat (904)
}  # fmt: skip


def demands() -> Demands:
    return Demands("Home", {0: "parked", 100: "%RETRY%billing"}.get)


def of(code: int, body: bytes = b"", **ext: str) -> list[str]:
    return sorted(f"{demand} {'|'.join(demand.actions)}" for demand in demands().of(Command(code, ext, body)))


async def test_every_request_that_is_served_has_a_rule(service: BrokerService) -> None:
    """What changes the broker itself needs Update on the cluster, as everything does that is in no table."""
    served = {code for server in service._servers for code in server._handlers}
    unruled = {Request(code).name for code in served - demands().codes}
    assert {name for name in unruled if name.partition("_")[0] not in CHANGES_THE_BROKER} == set()


@pytest.mark.parametrize("code", sorted(FIELDS))
def test_a_request_that_names_nothing_is_for_administrators(code: int) -> None:
    assert of(code) == [f"{EVERYTHING} Update"]
    assert of(code, topic="", consumerGroup="") == [f"{EVERYTHING} Update"]


def test_what_is_in_no_table_is_for_administrators() -> None:
    assert of(25) == of(4711) == of(-1) == of(int(Request.STEER_TRANSACTIONS)) == [f"{EVERYTHING} Update"]


def test_routes_are_open_to_every_user_and_nothing_else_is() -> None:
    assert of(105, topic="T") == []
    assert frozenset({105}) == OPEN_TO_USERS


def test_each_kind_of_request_needs_its_own() -> None:
    assert of(310, b="T", a="g") == ["Topic:T Pub"]
    assert of(10, topic="T") == ["Topic:T Pub"]
    assert of(10, topic="T", b="U") == ["Topic:T Pub", "Topic:U Pub"]
    assert of(11, topic="T", consumerGroup="g") == ["Group:g Sub", "Topic:T Sub"]
    assert of(12, topic="T") == ["Topic:T Sub|Get"]
    assert of(14, topic="T", consumerGroup="g") == ["Group:g Sub|Get", "Topic:T Sub|Get"]
    assert of(15, topic="%RETRY%g", consumerGroup="g") == ["Group:g Sub|Update"] * 2
    assert of(17, topic="T") == ["Topic:T Create"]
    assert of(29, topic="T") == of(30, topic="T") == of(31, topic="T") == ["Topic:T Get"]
    assert of(208, consumerGroup="g", topicList="T;U") == ["Group:g Get", "Topic:T Get", "Topic:U Get"]
    assert of(215, topic="T") == ["Topic:T Delete"]
    assert of(3001) == [f"{EVERYTHING} Update"]
    assert of(3004) == [f"{EVERYTHING} Get"]
    assert of(103) == of(104) == of(217) == of(904) == [f"{EVERYTHING} Update"]
    assert of(322) == of(901) == [f"{EVERYTHING} Get"]
    assert of(106) == [f"{EVERYTHING} Get|List"]
    assert of(200050, topic="T", consumerGroup="g") == ["Group:g Sub", "Topic:T Sub"]


def test_bodies_name_what_they_touch() -> None:
    assert of(18, b'{"topicConfigList":[{"topicName":"T"},{"topicName":"U"}]}') == ["Topic:T Create", "Topic:U Create"]
    assert of(200, b'{"groupName":"g"}') == ["Group:g Create|Update"]
    assert of(225, b'{"groupConfigList":[{"groupName":"g"}]}') == ["Group:g Create|Update"]
    assert of(400, b'{"topic":"T","consumerGroup":"g"}') == ["Group:g Sub", "Topic:T Sub"]
    assert of(200151, b'{"acks":[{"c":"g","t":"T"},{"c":"g","t":"U"}]}') == [
        "Group:g Sub",
        "Topic:T Sub",
        "Topic:U Sub",
    ]
    assert of(46, b"") == []
    config = b'{"group":"g","subscriptionData":{"topic":"T","subString":"*"}}'
    assert of(46, config) == ["Group:g Sub", "Topic:T Sub"]


@pytest.mark.parametrize("code", [18, 34, 41, 42, 46, 200, 400, 200151, 14005, 14007])
@pytest.mark.parametrize("body", [b"[", b"{}x", b"[1]", b"\xff\xfe", b'{"acks":[{}]}', b"null"])
def test_a_body_that_cannot_be_read_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(RequestRefused):
        of(code, body)


@pytest.mark.parametrize("position", ["", "-1", "+0", " 0", "0x0", "٣", "9" * 40, "7"])
def test_a_position_without_a_record_is_for_administrators(position: str) -> None:
    assert of(33, offset=position, topic="mine") == [f"{EVERYTHING} Update"]
    assert of(37, commitLogOffset=position, topic="mine") == [f"{EVERYTHING} Update"]
    assert of(36, offset=position, group="g", originTopic="mine") == [f"{EVERYTHING} Update", "Group:g Sub"]


def test_a_position_is_the_topic_that_stands_there() -> None:
    assert of(33, offset="0", topic="mine") == ["Topic:parked Sub|Get"]
    assert of(36, offset="100", group="g") == ["Group:billing Sub", "Group:g Sub"]


def test_a_message_is_shown_to_a_consumer_only_by_who_may_read_it() -> None:
    ids = {"msgId": "7F00000100002A9F0000000000000000", "consumerGroup": "g", "topic": "mine"}
    assert of(309, **ids) == ["Group:g Sub", "Topic:mine Sub", "Topic:parked Sub"]
    assert of(309, **ids | {"msgId": "none"}) == [f"{EVERYTHING} Update"]


def test_sending_to_a_retry_topic_is_consuming_with_its_group() -> None:
    assert of(310, b="%RETRY%g", a="mine") == ["Group:g Sub"]
    assert Action.PUB not in next(iter(demands().of(Command(310, {"b": "%RETRY%g"})))).actions
