"""Nothing passes without a valid signature, and then only what is allowed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from broker.client.credentials import Signer
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import ConnectionLost
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService, Protection
from tests.server.access.clients import ACCESS, ROOT, People, policy
from tests.server.peer import heartbeat_body, pull_ext, records, send_ext
from tests.server.transacting import COMMIT, asked, begin, end, live, steer
from tests.waiting import until_true

REFUSED = Answer.NO_PERMISSION
ORDERS = policy("Topic:order*", "Pub")
READER = (policy("Topic:order*", "Sub"), policy("Group:billing", "Sub"))


async def codes(*asked: Any) -> list[int]:
    return [(await each).code for each in asked]


async def test_what_is_not_signed_is_refused_at_both_doors(people: People) -> None:
    nobody = people.nobody()
    answer = await nobody.send("order-a")
    assert answer.code == REFUSED
    assert "signed" in (answer.remark or "")
    assert (await people.ask_namesrv(nobody, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})).code == REFUSED
    assert (await nobody.ask(9999)).code == REFUSED


async def test_strangers_may_be_told_where_a_topic_is_and_nothing_else(config: EngineConfig) -> None:
    access = replace(ACCESS, are_routes_open=True)
    running = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(access=access))
    await running.start()
    people = People(running.address, running.namesrv_address)
    try:
        await people.root.send("order-a")
        nobody, guest = people.nobody(), people.signed("nobody", "guess")
        route = {"topic": "order-a"}
        assert (await people.ask_namesrv(nobody, Request.GET_ROUTEINFO_BY_TOPIC, route)).code == 0
        assert (await people.ask_namesrv(guest, Request.GET_ROUTEINFO_BY_TOPIC, route)).code == REFUSED
        assert (await people.ask_namesrv(nobody, Request.GET_BROKER_CLUSTER_INFO)).code == REFUSED
        assert await codes(nobody.send("order-a"), nobody.ask(Request.GET_MAX_OFFSET, {"topic": "order-a"})) == [16, 16]
    finally:
        await people.close()
        await running.stop()


@pytest.mark.parametrize("binary", [0, 1])
async def test_the_inner_user_may_do_everything(people: People, binary: int) -> None:
    root = people.signed(*ROOT, serialization=binary)
    assert (await root.send("order-a")).code == 0
    assert (await root.ask(Request.GET_BROKER_RUNTIME_INFO)).code == 0
    assert (await people.ask_namesrv(root, Request.GET_BROKER_CLUSTER_INFO)).code == 0


async def test_a_stranger_is_not_told_whether_there_is_such_a_user(people: People) -> None:
    await people.create("alice")
    wrong = await people.signed("alice", "guess").send("order-a")
    unknown = await people.signed("alicia", "guess").send("order-a")
    assert (wrong.code, wrong.remark) == (unknown.code, unknown.remark) == (REFUSED, "check signature failed.")


async def test_a_signature_is_of_these_fields_this_body_and_this_user(people: People) -> None:
    alice = await people.normal("alice", ORDERS)
    assert (await alice.send("order-a", b"one")).code == 0
    signed = Signer("alice", "alice-secret").sign(send_ext("order-a"), b"one")
    thief = people.nobody()
    assert (await thief.ask(Request.SEND_MESSAGE_V2, signed | {"b": "order-b"}, b"one")).code == REFUSED
    assert (await thief.ask(Request.SEND_MESSAGE_V2, signed, b"two")).code == REFUSED
    assert (await thief.ask(Request.SEND_MESSAGE_V2, signed | {"AccessKey": "root"}, b"one")).code == REFUSED


async def test_a_signature_says_neither_which_request_it_is_of_nor_when(people: People) -> None:
    """RocketMQ's protocol: who hears it can say it again, as a deletion too. TLS alone keeps it from being heard."""
    alice = await people.normal("alice", policy("Topic:order*", "All"))
    assert (await alice.send("order-a", b"one")).code == 0
    thief = people.nobody()
    again = Signer("alice", "alice-secret").sign(send_ext("order-a"), b"one")
    assert [(await thief.ask(Request.SEND_MESSAGE_V2, again, b"one")).code for _ in range(2)] == [0, 0]
    asked = Signer("alice", "alice-secret").sign({"topic": "order-a"}, b"")
    assert (await thief.ask(Request.GET_TOPIC_STATS_INFO, asked)).code == 0
    assert (await thief.ask(Request.DELETE_TOPIC_IN_BROKER, asked)).code == 0


async def test_a_user_does_what_the_policies_say_and_no_more(people: People) -> None:
    alice = await people.normal("alice", policy("Topic:order*", "Pub", "Sub"), policy("Group:billing", "Sub"))
    assert await codes(alice.send("order-a"), alice.pull("order-a", group="billing")) == [0, 0]
    assert (
        await codes(
            alice.send("salaries"),
            alice.send("xorder-a"),
            alice.pull("order-a", group="payroll"),
            alice.pull("salaries", group="billing"),
            alice.create_topic("order-new"),
            alice.ask(Request.GET_TOPIC_STATS_INFO, {"topic": "order-a"}),
            alice.ask(Request.GET_BROKER_CONFIG),
            alice.ask(Request.AUTH_LIST_USER),
            alice.ask(Request.GET_CHANGES),
            alice.ask(9999),
        )
        == [REFUSED] * 10
    )


async def test_a_deny_of_one_topic_stands_in_a_prefix_that_is_allowed(people: People) -> None:
    alice = await people.normal("alice", ORDERS, policy("Topic:order-secret", "All", decision="Deny"))
    assert await codes(alice.send("order-a"), alice.send("order-secret")) == [0, REFUSED]


async def test_a_policy_for_other_addresses_does_not_count(people: People) -> None:
    elsewhere = await people.normal("elsewhere", policy("*", "All", sources=("10.0.0.0/8",)))
    here = await people.normal("here", policy("*", "All", sources=("127.0.0.0/8",)))
    assert await codes(elsewhere.send("order-a"), here.send("order-a")) == [REFUSED, 0]


async def test_a_batch_of_demands_is_met_as_a_whole(people: People) -> None:
    alice = await people.normal("alice", *READER)
    beat = heartbeat_body("c1", "billing", topic="order-a")
    other = heartbeat_body("c1", "billing", topic="salaries")
    foreign = heartbeat_body("c1", "payroll", topic="order-a")
    beats = [alice.ask(Request.HEART_BEAT, body=body) for body in (beat, other, foreign)]
    assert await codes(*beats) == [0, REFUSED, REFUSED]
    lock = {"consumerGroup": "billing", "clientId": "c1", "mqSet": [{"topic": "salaries", "queueId": 0}]}
    assert (await alice.ask(Request.LOCK_BATCH_MQ, body=json.dumps(lock).encode())).code == REFUSED
    lock["mqSet"] = [{"topic": "order-a", "queueId": 0}]
    assert (await alice.ask(Request.LOCK_BATCH_MQ, body=json.dumps(lock).encode())).code == 0


async def test_a_retry_topic_is_its_group_s(people: People) -> None:
    alice = await people.normal("alice", *READER)
    await people.root.heartbeat("c0", "payroll")
    await alice.ask(Request.HEART_BEAT, body=heartbeat_body("c1", "billing", topic="order-a"))
    assert await codes(
        alice.pull("%RETRY%billing", group="billing"),
        alice.send("%RETRY%billing"),
        alice.pull("%RETRY%payroll", group="billing"),
        alice.send("%RETRY%payroll", a="billing"),
    ) == [Answer.PULL_NOT_FOUND, 0, REFUSED, REFUSED]


async def test_a_record_is_asked_for_by_its_own_topic_wherever_it_stands(people: People) -> None:
    """A position names any record; what the client says of its topic is not believed."""
    alice = await people.normal("alice", *READER)
    own, foreign = [int((await people.root.send(topic)).ext["msgId"][16:], 16) for topic in ("order-a", "salaries")]
    await alice.ask(Request.HEART_BEAT, body=heartbeat_body("c1", "billing", topic="order-a"))

    def view(position: int) -> dict[str, str]:
        return {"offset": str(position), "topic": "order-a"}

    def back(position: int) -> dict[str, str]:
        return {"offset": str(position), "group": "billing", "delayLevel": "1", "originTopic": "order-a"}

    assert await codes(
        alice.ask(Request.VIEW_MESSAGE_BY_ID, view(own)),
        alice.ask(Request.VIEW_MESSAGE_BY_ID, view(foreign)),
        alice.ask(Request.VIEW_MESSAGE_BY_ID, view(foreign + 1)),
        alice.ask(Request.CONSUMER_SEND_MSG_BACK, back(own)),
        alice.ask(Request.CONSUMER_SEND_MSG_BACK, back(foreign)),
    ) == [0, REFUSED, REFUSED, 0, REFUSED]


async def test_a_half_message_is_decided_by_who_may_send_to_its_topic(people: People) -> None:
    alice = await people.normal("alice", ORDERS)
    bob = await people.normal("bob", policy("Topic:public", "Pub"))
    half = await begin(alice)
    claims = {"topic": "public"}
    assert await codes(end(bob, half, COMMIT, **claims), end(bob, half, COMMIT), end(alice, half, COMMIT)) == [
        REFUSED,
        REFUSED,
        0,
    ]


async def test_timers_are_steered_by_who_may_send_if_named_by_the_topic(people: People) -> None:
    alice = await people.normal("alice", ORDERS)

    def cancel(target: dict[str, Any]) -> Any:
        return alice.ask(Request.STEER_TIMERS, body=json.dumps({"action": "cancel", "targets": [target]}).encode())

    assert await codes(
        cancel({"topic": "order-a", "scheduleKey": "k"}),
        cancel({"topic": "salaries", "scheduleKey": "k"}),
        cancel({"position": 0}),
        cancel({"topic": "order-a", "position": 0}),
    ) == [0, REFUSED, REFUSED, REFUSED]


async def test_a_changed_secret_a_disabled_user_and_a_smaller_policy_count_at_once(people: People) -> None:
    await people.normal("alice", ORDERS)

    async def sends(secret: str) -> int:
        return int((await people.signed("alice", secret).send("order-a")).code)

    assert await sends("alice-secret") == 0
    await people.update("alice", password="new")
    assert [await sends("alice-secret"), await sends("new")] == [REFUSED, 0]
    await people.update("alice", userStatus="disable")
    assert await sends("new") == REFUSED
    await people.update("alice", userStatus="enable")
    assert await sends("new") == 0
    await people.root.ask(Request.AUTH_DELETE_ACL, {"subject": "User:alice", "resource": "Topic:order*"})
    assert await sends("new") == REFUSED


async def test_a_pull_that_waits_ends_when_its_user_may_not_read_any_more(
    service: BrokerService, people: People
) -> None:
    alice = await people.normal("alice", *READER)
    bob = await people.normal("bob", *READER)
    await people.root.send("order-a", b"before")
    wait = pull_ext("billing", "order-a", 1, sysFlag="6", suspendTimeoutMillis="15000")
    waiting, bystander = (
        asyncio.ensure_future(who.ask(Request.PULL_MESSAGE, wait, timeout_ms=20_000)) for who in (alice, bob)
    )
    await until_true(lambda: service.waiting_pulls == 2)
    await people.update("alice", userStatus="disable")
    with pytest.raises(ConnectionLost):
        await waiting
    await people.root.send("order-a", b"secret")
    assert [message.body for message in records((await bystander).body)] == [b"secret"]


async def test_a_producer_is_asked_only_about_halves_that_he_may_send(people: People) -> None:
    """Who joins a foreign producer group would be shown its messages."""
    alice = await people.normal("alice", ORDERS)
    spy = await people.normal("spy", policy("Topic:public", "Pub"))
    shown, heard = asked(spy), asked(alice)
    await live(spy)
    half = await begin(alice, b"secret")
    await steer(people.root, "check", half)
    await live(alice)
    question = await asyncio.wait_for(heard.get(), 10)
    # what is answered after it has been sent after it
    await spy.ask(Request.GET_ALL_TOPIC_CONFIG)
    assert records(question.body)[0].body == b"secret"
    assert shown.empty()


async def test_a_name_service_answers_routes_to_every_user_and_names_to_few(people: People) -> None:
    await people.root.send("order-a")
    alice = await people.normal("alice", ORDERS)
    lister = await people.normal("lister", policy("Cluster:*", "List"))
    route = (Request.GET_ROUTEINFO_BY_TOPIC, {"topic": "order-a"})
    listing = (Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
    asked = [people.ask_namesrv(who, *what) for what in (route, listing) for who in (alice, lister)]
    assert await codes(*asked) == [0, 0, REFUSED, 0]


async def test_a_request_that_is_handed_on_to_a_client_carries_nobody_s_signature(people: People) -> None:
    alice = await people.normal("alice", *READER)
    heard: asyncio.Queue[Command] = asyncio.Queue()
    alice.client.register(Request.GET_CONSUMER_RUNNING_INFO, lambda _, request: heard.put_nowait(request))
    await alice.ask(Request.HEART_BEAT, body=heartbeat_body("c1", "billing", topic="order-a"))
    asking = asyncio.ensure_future(
        people.root.ask(Request.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "billing", "clientId": "c1"})
    )
    question = await asyncio.wait_for(heard.get(), 10)
    assert set(question.ext) & {"AccessKey", "Signature", "SecurityToken"} == set()
    asking.cancel()


async def test_who_may_not_see_a_group_makes_none_by_asking_for_it(service: BrokerService, people: People) -> None:
    reader = await people.normal("reader", *READER)
    ask = Request.GET_SUBSCRIPTIONGROUP_CONFIG
    await people.root.create_topic("order-a")
    assert await codes(
        reader.ask(ask, {"group": "others"}), reader.ask(Request.PULL_MESSAGE, pull_ext("others", "order-a"))
    ) == [REFUSED, REFUSED]
    assert service.engine.groups.get("others") is None
    assert await codes(reader.ask(Request.PULL_MESSAGE, pull_ext("billing", "order-a"))) == [Answer.PULL_NOT_FOUND]
    assert service.engine.groups.get("billing") is not None
