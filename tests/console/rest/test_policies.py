"""Tokens that are bound to users of access control: REST lets them do what the broker would, and no more."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from broker.client import AsyncAdmin, BrokerRefused, TimerTarget
from broker.client import credentials as client_credentials
from broker.client.admin import Broker
from broker.rocketmq.acl import Action, Kind
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService, Protection
from broker.testing import small_store
from console.rest.app import create_application
from console.security import tokens as security_tokens
from console.security.tokens import PoliciesOfUser
from tests.server.access.clients import ACCESS, ROOT, People, policy
from tests.server.peer import Peer

MESSAGES = "/api/v1/topics/orders/messages"
GROUP = "/api/v1/topics/orders/groups/billing"
KEY = "/api/v1/topics/orders/schedule/k1"
EVERYTHING = policy("*", "All")
USERS: dict[str, tuple[dict[str, Any], ...]] = {
    "publisher": (policy("Topic:order*", "Pub"),),
    "reader": (policy("Topic:order*", "Sub"), policy("Group:billing", "Sub")),
    "looker": (policy("Topic:orders", "Get"), policy("Cluster:*", "Get")),
    "stranger": (policy("Topic:invoice", "All"), policy("Group:billing", "All")),
    "denied": (EVERYTHING, policy("Topic:orders", "Pub", "Sub", decision="Deny")),
    "elsewhere": (policy("*", "All", sources=("10.0.0.0/8",)),),
    "here": (policy("*", "All", sources=("127.0.0.0/8",)),),
    "nobody": (),
    "disabled": (EVERYTHING,),
    "gone": (),
}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BrokerService]:
    """A broker with access control; the application speaks to it as its own user."""
    running = BrokerService(small_store(tmp_path), broker_port=0, namesrv_port=0, protection=Protection(access=ACCESS))
    await running.start()
    client_credentials.remember(running.namesrv_address, {"access_key": ROOT[0], "secret_key": ROOT[1]})
    yield running
    client_credentials.remember(running.namesrv_address, {})
    await running.stop()


@pytest.fixture
async def people(service: BrokerService) -> AsyncIterator[People]:
    """Its users and their clients."""
    everybody = People(service.address, service.namesrv_address)
    service.engine.topics.ensure("orders", 1)
    yield everybody
    await everybody.close()


@pytest.fixture
def tokens(transactional_db: None) -> dict[str, str]:
    """A token for each user, whose own prefixes allow everything; `bare ...` ones have none."""
    every = security_tokens.scope_rows("*", "*", "*", "*")
    made = {user: security_tokens.create(f"test-{user}", every, access_user=user)[1] for user in (*USERS, "root")}
    made |= {
        f"bare {user}": security_tokens.create(f"bare-{user}", [], access_user=user)[1]
        for user in ("publisher", "gone", "boss")
    }
    narrow = security_tokens.scope_rows(["invoice"], ["invoice"])
    return made | {
        "narrow": security_tokens.create("narrow", narrow, access_user="publisher")[1],
        "unbound": security_tokens.create("unbound", every)[1],
    }


@dataclass
class Web:
    """Asks by REST with one of the tokens."""

    client: httpx.AsyncClient
    tokens: dict[str, str]

    async def ask(self, token: str, method: str, path: str, **said: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.tokens[token]}"}
        return await self.client.request(method, path, headers=headers, timeout=20, **said)

    async def is_denied(self, token: str, method: str, path: str, **said: Any) -> bool:
        """Whether it is the policies that deny it."""
        answer = await self.ask(token, method, path, **said)
        assert answer.status_code != 503, answer.text
        return bool(answer.status_code == 403 and answer.json()["code"] == "policy_denies")


@pytest.fixture
def web(anonymous: httpx.AsyncClient, tokens: dict[str, str]) -> Web:
    return Web(anonymous, tokens)


async def make(people: People, name: str) -> Peer:
    """The user, as USERS has it."""
    if name == "gone":
        return people.signed(name, "never")
    peer = await people.normal(name, *USERS[name])
    if name == "disabled":
        await people.update(name, userStatus="disable")
    return peer


async def refused(asked: Awaitable[Any]) -> bool:
    """Whether the broker says that this is not allowed."""
    try:
        answer = await asked
    except BrokerRefused as refusal:
        return refusal.code == Answer.NO_PERMISSION
    return bool(getattr(answer, "code", None) == Answer.NO_PERMISSION)  # the admin raises


@pytest.mark.parametrize("name", USERS)
async def test_rest_allows_a_user_what_the_broker_allows(
    web: Web, people: People, service: BrokerService, name: str
) -> None:
    peer = await make(people, name)
    sent = (await web.ask("unbound", "POST", MESSAGES, json={"body": "x"})).json()
    position = {"offset": str(int((await people.root.send("orders")).ext["msgId"][-16:], 16))}
    admin = AsyncAdmin(service.namesrv_address, access_key=name, secret_key=f"{name}-secret")
    pop = {"consumerGroup": "billing", "topic": "orders"}
    key = TimerTarget(topic="orders", schedule_key="k1")
    receipts = {"receipts": ["x"]}
    pairs: dict[str, tuple[Awaitable[bool], Awaitable[Any]]] = {
        "send": (web.is_denied(name, "POST", MESSAGES, json={"body": "x"}), peer.send("orders")),
        "begin": (
            web.is_denied(name, "POST", "/api/v1/transactions", json={
                "topic": "orders", "message": {"body": "x"}, "producer_group": "shop",
            }),
            peer.send("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01shop\x02", f="4"),
        ),
        "receive": (
            web.is_denied(name, "POST", f"{GROUP}:receive", json={"wait_ms": 0}),
            peer.ask(Request.POP_MESSAGE, pop),
        ),
        "ack": (web.is_denied(name, "POST", f"{GROUP}:ack", json=receipts), peer.ask(Request.ACK_MESSAGE, pop)),
        "nack": (
            web.is_denied(name, "POST", f"{GROUP}:nack", json=receipts),
            peer.ask(Request.CHANGE_MESSAGE_INVISIBLETIME, pop),
        ),
        "look": (
            web.is_denied(name, "GET", f"/api/v1/messages/{sent['id']}"),
            peer.ask(Request.VIEW_MESSAGE_BY_ID, position),
        ),
        "cancel": (
            web.is_denied(name, "DELETE", KEY), admin.steer_timers("cancel", [key], address=service.address),
        ),
        "levels": (web.is_denied(name, "GET", "/api/v1/schedule/levels"), peer.ask(Request.GET_ALL_DELAY_OFFSET)),
    }  # fmt: skip
    outcomes = {what: (await by_rest, await refused(at_broker)) for what, (by_rest, at_broker) in pairs.items()}
    await admin.close()
    assert {what: by_rest for what, (by_rest, _) in outcomes.items()} == {
        what: at_broker for what, (_, at_broker) in outcomes.items()
    }


async def test_what_is_denied_is_not_written_and_says_why(web: Web, people: People, service: BrokerService) -> None:
    for name in ("reader", "disabled"):
        await make(people, name)
    end = service.engine.queue_bounds("orders", 0)
    for name, why in (
        ("reader", "The policies of the user 'reader' do not allow 'publish' on topic 'orders' from 127.0.0.1."),
        ("disabled", "The user 'disabled', to whom the token is bound, is disabled at broker-a."),
        ("gone", "Access control of broker-a has no user 'gone', to whom the token is bound."),
    ):
        for path, body in ((MESSAGES, {"body": "x"}), (f"{MESSAGES}:batch", {"messages": [{"body": "x"}]})):
            answer = await web.ask(name, "POST", path, json=body)
            assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (403, "policy_denies", why)
    assert service.engine.queue_bounds("orders", 0) == end


async def test_prefixes_and_policies_both_have_to_allow(web: Web, people: People) -> None:
    await make(people, "publisher")
    assert (await web.ask("publisher", "POST", MESSAGES, json={"body": "x"})).status_code == 201
    assert (await web.ask("bare publisher", "POST", MESSAGES, json={"body": "x"})).status_code == 201
    assert (await web.ask("narrow", "POST", MESSAGES, json={"body": "x"})).json()["code"] == "scope_missing"
    elsewhere = "/api/v1/topics/invoice/messages"
    assert (await web.ask("narrow", "POST", elsewhere, json={"body": "x"})).json()["code"] == "policy_denies"
    assert (await web.ask("bare gone", "GET", "/api/v1/groups")).json()["groups"] == []


async def test_lists_name_what_the_policies_let_read(web: Web, people: People, service: BrokerService) -> None:
    await make(people, "reader")
    for topic in ("invoice", "order-paid"):
        service.engine.topics.ensure(topic, 1)
    for group in ("billing", "payroll"):
        await people.root.heartbeat("c1", group)
    topics = (await web.ask("reader", "GET", "/api/v1/topics")).json()["topics"]
    assert [each["name"] for each in topics] == ["%RETRY%billing", "order-paid", "orders"]
    groups = (await web.ask("reader", "GET", "/api/v1/groups")).json()["groups"]
    assert [each["name"] for each in groups] == ["billing"]


async def test_what_names_no_topic_needs_the_cluster(web: Web, people: People) -> None:
    for name in ("reader", "looker"):
        await make(people, name)
    for path in ("timers/status", "timers/wheel", "timers/forecast", "schedule/levels"):
        assert await web.is_denied("reader", "GET", f"/api/v1/{path}")
        assert (await web.ask("looker", "GET", f"/api/v1/{path}")).status_code == 200
    assert await web.is_denied("looker", "POST", "/api/v1/timers:pause", json={"reason": "test"})
    for path in ("timers:cancel", "transactions:commit"):
        assert await web.is_denied("looker", "POST", f"/api/v1/{path}", json={"filter": {}, "all": True, "reason": "x"})


async def test_policies_give_no_right_to_administer_users(web: Web, people: People) -> None:
    """Who may change the cluster may make no Super user at the broker: nor by a token that leaves all to policies."""
    await people.normal("boss", policy("*", "All"))
    assert (await web.ask("bare boss", "GET", "/api/v1/timers/status")).status_code == 200
    super_user = {"name": "mallory", "is_super": True, "reason": "test"}
    for method, path, said in (("GET", "", None), ("GET", "/boss", None), ("POST", "", super_user)):
        answer = await web.ask("bare boss", method, f"/api/v1/broker-users{path}", json=said)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), (method, answer.text)


async def test_a_change_of_policies_counts_within_a_second(web: Web, people: People) -> None:
    await make(people, "publisher")
    assert not await web.is_denied("publisher", "POST", MESSAGES, json={"body": "x"})
    assert (await people.allow("publisher", policy("Topic:orders", "Pub", decision="Deny"))).code == 0
    denied_from = time.monotonic()
    while not await web.is_denied("publisher", "POST", MESSAGES, json={"body": "x"}):
        assert time.monotonic() - denied_from < 1.0


async def test_a_super_user_may_do_everything_and_a_token_of_nobody_what_it_says(web: Web, people: People) -> None:
    for name in ("root", "unbound"):
        assert (await web.ask(name, "POST", MESSAGES, json={"body": "x"})).status_code == 201
        assert (await web.ask(name, "GET", "/api/v1/timers/status")).status_code == 200


async def test_policies_that_cannot_be_read_allow_nothing(
    web: Web, people: People, application: Starlette, service: BrokerService
) -> None:
    await make(people, "publisher")
    assert (await web.ask("publisher", "GET", "/api/openapi.json")).status_code == 200
    await service.stop()
    answer = await web.ask("publisher", "POST", MESSAGES, json={"body": "x"})
    assert (answer.status_code, answer.json()["code"]) == (503, "policies_unreadable")
    assert (await web.ask("publisher", "GET", "/api/openapi.json")).status_code == 200


async def test_an_address_that_is_not_known_is_not_taken_for_any(people: People, service: BrokerService) -> None:
    policies = policy("Topic:*", "Pub"), policy("Topic:orders", "Pub", decision="Deny", sources=("10.0.0.0/8",))
    await people.normal("careful", *policies)
    await make(people, "publisher")
    admin = AsyncAdmin(service.namesrv_address)
    for name, source, allowed in (
        ("careful", "127.0.0.1", True), ("careful", "10.1.2.3", False), ("careful", None, False),
        ("careful", "::ffff:10.1.2.3", False), ("publisher", None, True),
    ):  # fmt: skip
        user = PoliciesOfUser(name, await admin.access_of(name), source)
        assert user.allows("publish", "orders") is allowed
    await admin.close()


async def test_a_retry_topic_is_its_group_s(people: People, service: BrokerService) -> None:
    await make(people, "reader")
    admin = AsyncAdmin(service.namesrv_address)
    (access,) = await admin.access_of("reader")
    assert access.allows(Kind.TOPIC, "%RETRY%billing", (Action.SUB,), "127.0.0.1")
    assert not access.allows(Kind.TOPIC, "%RETRY%payroll", (Action.SUB,), "127.0.0.1")
    await admin.close()


class Told(AsyncAdmin):
    """A broker that answers as it is told to here."""

    def __init__(self, *, refused: int, config: bytes) -> None:
        self._refused, self._config = refused, config

    async def _chosen(self) -> tuple[Broker, ...]:
        return (Broker("broker-a", "DefaultCluster", "127.0.0.1:10911"),)

    async def _ask(self, code: int, *_: Any, **__: Any) -> Command:
        if code != Request.GET_BROKER_CONFIG:
            raise BrokerRefused(self._refused, "The authenticationMetadataProvider is not configured")
        return Command(code, body=self._config)

    async def close(self) -> None: ...


async def test_apache_rocketmq_without_access_control_is_known_by_its_configuration() -> None:
    """It answers the question for a user with SYSTEM_ERROR then; where it has access control that is a failure."""
    assert await Told(refused=Answer.SYSTEM_ERROR, config=b"a=1\nauthorizationEnabled=false\n").access_of("alice") == ()
    for config in (b"a=1\nauthorizationEnabled=true\n", b""):
        with pytest.raises(BrokerRefused):
            await Told(refused=Answer.SYSTEM_ERROR, config=config).access_of("alice")


async def test_without_access_control_the_prefixes_decide(tmp_path: Path, tokens: dict[str, str]) -> None:
    service = BrokerService(small_store(tmp_path), broker_port=0, namesrv_port=0)
    await service.start()
    application = create_application(service.namesrv_address)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://testserver") as client:
        web = Web(client, tokens)
        assert (await web.ask("gone", "POST", MESSAGES, json={"body": "x"})).status_code == 201
        assert (await web.ask("narrow", "POST", MESSAGES, json={"body": "x"})).json()["code"] == "scope_missing"
        assert (await web.ask("bare gone", "POST", MESSAGES, json={"body": "x"})).json()["code"] == "scope_missing"
        assert (await web.ask("bare gone", "GET", "/api/v1/topics")).status_code == 403
    await application.state.holder.close()
    await service.stop()
