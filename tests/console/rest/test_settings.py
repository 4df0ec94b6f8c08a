"""Settings of topics and groups by REST: looked at, previewed, changed, made, deleted; who may, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from django.db import connection

from broker.client import AsyncAdmin
from broker.client.admin import Broker, UserAccess
from broker.rocketmq.acl import Action, PolicyType, entry
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from broker.server.access.demands import Demands
from broker.server.broker import BrokerService
from console.features.topics.rest import GroupSettings, TopicSettings
from console.operations.models import AuditEntry
from console.operations.setting_fields import GROUP, TOPIC
from console.security import tokens as security_tokens
from console.security.tokens import PoliciesOfUser
from console.site.broker import hang_up
from tests.console.rest.conftest import MakeToken

ORDERS = "/api/v1/topics/orders"
SETTINGS = f"{ORDERS}/settings"
BILLING = "/api/v1/groups/billing"
NOW = {"read_queues": 2, "write_queues": 2, "permission": 6, "message_type": "", "order": False}


@pytest.fixture
def token(transactional_db: None) -> str:
    """May look at everything, and change what is called so."""
    scopes = security_tokens.scope_rows(["*"], ["*"], settings=["order*", "billing*"])
    return security_tokens.create("test", scopes)[1]


@pytest.fixture(autouse=True)
async def operations(service: BrokerService, settings: Any) -> AsyncIterator[None]:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    service.engine.topics.ensure("orders", 2)
    yield
    hang_up()


def audited() -> list[tuple[str, str, str, str]]:
    try:
        rows = AuditEntry.objects.order_by("id")
        return [(each.what, each.kind, each.reason, each.actor) for each in rows]
    finally:
        connection.close()


def test_the_settings_are_those_of_the_console_s_forms() -> None:
    assert list(TopicSettings.__struct_fields__) == [each.name for each in TOPIC]
    assert list(GroupSettings.__struct_fields__) == [each.name for each in GROUP]


async def test_a_topic_is_looked_at_and_changed_as_an_operation(api: httpx.AsyncClient) -> None:
    assert (await api.get(SETTINGS)).json() == {
        "name": "orders", "settings": NOW, "broker": "broker-a", "by_broker": [],
    }  # fmt: skip
    wanted = {"settings": {"write_queues": 6, "message_type": "FIFO"}, "reason": "more"}
    answer = await api.request("PATCH", SETTINGS, json=wanted)
    assert answer.status_code == 202, answer.text
    assert (answer.json()["kind"], answer.json()["results"]) == ("topics.change", {"changed": 1})
    assert (await api.get(answer.headers["location"])).json() == answer.json()
    assert (await api.get(SETTINGS)).json()["settings"] == NOW | {"write_queues": 6, "message_type": "FIFO"}
    again = await api.request("PATCH", SETTINGS, json=wanted)
    assert (again.status_code, again.json()["settings"]["write_queues"]) == (200, 6)
    assert await asyncio.to_thread(audited) == [
        ("confirmed", "topics.change", "more", "token test"), ("finished", "topics.change", "more", "token test"),
    ]  # fmt: skip


async def test_a_preview_says_what_would_come_of_it_and_does_nothing(api: httpx.AsyncClient) -> None:
    for _ in range(4):
        assert (await api.post(f"{ORDERS}/messages", json={"body": "x"})).status_code == 201
    look = {"settings": {"read_queues": 1, "order": False}, "reason": "less", "preview": True}
    told = (await api.request("PATCH", SETTINGS, json=look)).json()
    assert (told["changes"], told["unread"] > 0) == ([["read_queues", 2, 1]], True)
    lost = (await api.delete(ORDERS, params={"preview": "true"})).json()
    assert (lost["name"], lost["changes"]) == ("orders", [])
    assert (await api.get(SETTINGS)).json()["settings"] == NOW
    assert await asyncio.to_thread(audited) == []


async def test_a_preview_of_a_deleted_group_counts_its_tries_that_wait(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService
) -> None:
    service.engine.groups.ensure("billing")
    sent = (await api.post(f"{ORDERS}/messages", json={"body": "x"})).json()
    (record,) = await admin.pull("orders", sent["queue"], sent["queue_offset"], 1)
    await admin.send_back("billing", record, delay_level=18, max_reconsume_times=16)
    told = (await api.delete(BILLING, params={"preview": "true"})).json()
    assert told["lost_messages"] == 1
    assert told["waiting"] == {"timers": 0, "delayed": 1, "halves": 0, "parked_halves": 0, "complete": True}
    assert (await api.delete(BILLING, params={"reason": "x"})).json()["results"] == {"deleted": 1}


async def test_a_change_of_what_was_expected_to_be_otherwise_is_refused(api: httpx.AsyncClient) -> None:
    wanted = {"settings": {"write_queues": 6}, "expected": {"write_queues": 3}, "reason": "more"}
    answer = await api.request("PATCH", SETTINGS, json=wanted)
    assert (answer.status_code, answer.json()["code"]) == (422, "operation_refused")
    assert "write_queues is 2 now, not 3" in answer.json()["detail"]
    assert (await api.request("PATCH", SETTINGS, json=wanted | {"expected": {"write_queues": 2}})).status_code == 202


async def test_a_topic_and_a_group_are_made_and_deleted(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    made = await api.post("/api/v1/topics", json={"name": "order-paid", "settings": {"read_queues": 3}, "reason": "x"})
    assert (made.status_code, made.json()["results"]) == (202, {"made": 1})
    assert (await api.get("/api/v1/topics/order-paid/settings")).json()["settings"]["read_queues"] == 3
    again = await api.post("/api/v1/topics", json={"name": "order-paid", "reason": "x"})
    assert (again.status_code, "already exists" in again.json()["detail"]) == (422, True)
    assert (await api.delete("/api/v1/topics/order-paid", params={"reason": "x"})).json()["results"] == {"deleted": 1}
    assert await admin.topic_settings("order-paid") is None
    group = {"name": "billing", "settings": {"retry_max_times": 3}, "reason": "x"}
    assert (await api.post("/api/v1/groups", json=group)).json()["results"] == {"made": 1}
    slower = {"settings": {"retry_policy": "EXPONENTIAL"}, "reason": "x"}
    assert (await api.request("PATCH", f"{BILLING}/settings", json=slower)).json()["results"] == {"changed": 1}
    shown = (await api.get(f"{BILLING}/settings")).json()["settings"]
    assert (shown["retry_max_times"], shown["retry_policy"], shown["consume_enabled"]) == (3, "EXPONENTIAL", True)
    own = {"settings": {"retry_policy": "CUSTOMIZED", "retry_delays": "700ms 10s"}, "reason": "x"}
    assert (await api.request("PATCH", f"{BILLING}/settings", json=own)).json()["results"] == {"changed": 1}
    assert (await api.get(f"{BILLING}/settings")).json()["settings"]["retry_delays"] == "700ms 10s"
    assert (await api.delete(BILLING, params={"reason": "x"})).json()["results"] == {"deleted": 1}
    assert (await api.get(f"{BILLING}/settings")).json()["code"] == "group_not_found"


SOON = {"name": "billing", "settings": {"retry_delays": "soon"}, "reason": "x"}


@pytest.mark.parametrize(
    ("method", "path", "said", "status", "code"),
    [
        ("PATCH", SETTINGS, {"settings": {"write_queues": 0}, "reason": "x"}, 400, "invalid_request"),
        ("PATCH", SETTINGS, {"settings": {"permission": 7}, "reason": "x"}, 400, "invalid_request"),
        ("PATCH", SETTINGS, {"settings": {"size": 1}, "reason": "x"}, 400, "invalid_request"),
        ("POST", "/api/v1/groups", SOON, 422, "operation_refused"),
        ("PATCH", SETTINGS, {"settings": {"order": True}}, 400, "invalid_request"),
        ("PATCH", "/api/v1/topics/order-x/settings", {"settings": {}, "reason": "x"}, 404, "topic_not_found"),
        ("PATCH", "/api/v1/topics/invoice/settings", {"settings": {}, "reason": "x"}, 403, "scope_missing"),
        ("POST", "/api/v1/topics", {"name": "invoice", "reason": "x"}, 403, "scope_missing"),
        ("POST", "/api/v1/topics", {"name": "order x", "reason": "x"}, 400, "invalid_message"),
        ("POST", "/api/v1/groups", {"name": "payroll", "reason": "x"}, 403, "scope_missing"),
        ("DELETE", "/api/v1/groups/payroll", None, 403, "scope_missing"),
        ("DELETE", ORDERS, None, 422, "operation_refused"),
        ("DELETE", f"{ORDERS}?reason=x&preview=yes", None, 422, "operation_refused"),
    ],
)
async def test_what_is_wrong_is_refused_and_changes_nothing(
    api: httpx.AsyncClient, method: str, path: str, said: dict[str, Any] | None, status: int, code: str
) -> None:
    answer = await api.request(method, path, json=said)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert (await api.get(SETTINGS)).json()["settings"] == NOW


@pytest.mark.parametrize(
    ("code", "body", "action", "kind"),
    [
        (Request.UPDATE_AND_CREATE_TOPIC, b"", security_tokens.SETTINGS, "topic"),
        (Request.DELETE_TOPIC_IN_BROKER, b"", security_tokens.DELETE, "topic"),
        (Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName": "x"}', security_tokens.SETTINGS, "group"),
        (Request.DELETE_SUBSCRIPTIONGROUP, b"", security_tokens.DELETE, "group"),
    ],
)
def test_policies_are_asked_for_what_the_broker_asks_for(code: int, body: bytes, action: str, kind: str) -> None:
    (demand,) = Demands("c", lambda _: None).of(Command(code, {"topic": "x", "groupName": "x"}, body))
    for each in set(Action) - {Action.ALL}:
        policies = {PolicyType.CUSTOM: (entry(f"{kind}:x", [each], "Allow"),)}
        access = UserAccess(
            "alice", Broker("b", "c", "x:1"), is_known=True, is_super=False, is_enabled=True, policies=policies
        )
        assert PoliciesOfUser("alice", (access,), None).allows(action, "x", kind) is (each in demand.actions)


@pytest.fixture
def other(make_token: MakeToken) -> str:
    """May do everything but change settings."""
    return make_token()


async def test_a_token_without_settings_changes_none(anonymous: httpx.AsyncClient, other: str) -> None:
    headers = {"authorization": f"Bearer {other}"}
    assert (await anonymous.get(SETTINGS, headers=headers)).status_code == 200
    body = {"settings": {"order": True}, "reason": "x"}
    assert (await anonymous.request("PATCH", SETTINGS, headers=headers, json=body)).json()["code"] == "scope_missing"
    assert (await anonymous.delete(ORDERS, headers=headers, params={"reason": "x"})).status_code == 403
