"""A message by REST where there are several brokers: each answer names the broker of the record, and asks that one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from broker.client import Producer, SendResult
from tests.console.several import A, B, Several
from tests.waiting import until

HOUR_MS = 3_600_000


@pytest.fixture
def namesrv(brokers: Several) -> str:
    return brokers.cluster.namesrv


async def send(brokers: Several, broker: str, **options: Any) -> SendResult:
    """Send with a producer that knows the whole cluster: its ids have the broker's own address."""

    def sent() -> SendResult:
        with Producer("tests", brokers.cluster.namesrv) as producer:
            return producer.send("orders", "x", broker=broker, **options)

    return await asyncio.to_thread(sent)


async def told(api: httpx.AsyncClient, address: str) -> dict[str, Any]:
    answer = await api.get(f"/api/v1/messages/{address}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_is_sent_is_found_at_its_broker_by_any_id(api: httpx.AsyncClient) -> None:
    for name in (A, B):
        answer = await api.post("/api/v1/topics/orders/messages", json={"body": "x", "broker": name})
        sent = answer.json()
        assert (answer.status_code, sent["broker"]) == (201, name)
        by_id = await told(api, sent["id"])
        by_unique = await told(api, f"{sent['message_id']}?topic=orders")
        by_offset = await told(api, by_id["offset_message_id"])
        assert [each["broker"] for each in (by_id, by_unique, by_offset)] == [name] * 3
        assert {each["id"] for each in (by_id, by_unique, by_offset)} == {sent["id"]}
    items = [{"body": "x", "broker": name} for name in (A, B, "broker-z")]
    batch = (await api.post("/api/v1/topics/orders/messages:batch", json={"messages": items})).json()
    assert [each["sent"]["broker"] for each in batch["results"][:2]] == [A, B]
    assert (batch["results"][2]["problem"]["code"], batch["refused"]) == ("queue_not_found", 1)


async def test_what_waits_in_a_lane_of_another_broker_is_told_by_that_broker(
    api: httpx.AsyncClient, brokers: Several
) -> None:
    """The lanes of the first broker are further: by its word what waits at the second would be delivered."""
    for _ in range(3):
        await send(brokers, A, delay_level=1)
    await asyncio.to_thread(until, lambda: brokers.admins[A].delay_offsets().get(1, 0) >= 3)
    parked = await send(brokers, B, delay_level=1)
    refused = await api.post(f"/api/v1/messages/{parked.message_id}:resend?topic=orders", json={"reason": "tried"})
    first = refused.json()
    found = await told(api, f"{parked.message_id}?topic=orders")
    assert found["broker"] == B
    if found["state"] == "waiting":
        assert (refused.status_code, first["code"]) == (409, "not_resendable"), first
        assert found["due_ms"] == parked.due_ms
    await asyncio.to_thread(until, lambda: brokers.admins[B].delay_offsets().get(1, 0) >= 1)
    done = await api.post(f"/api/v1/messages/{parked.message_id}:resend?topic=orders", json={"reason": "tried"})
    assert done.status_code == 201, done.text


async def test_a_timer_of_another_broker_has_its_history(api: httpx.AsyncClient, brokers: Several) -> None:
    for name in (A, B):
        timer = await send(brokers, name, delay_ms=HOUR_MS, keys=[name])
        found = await told(api, f"{timer.message_id}?topic=orders")
        assert (found["broker"], found["state"], found["due_ms"]) == (name, "waiting", timer.due_ms)
        answer = await api.request("DELETE", f"/api/v1/messages/{found['offset_message_id']}/schedule")
        assert answer.json()["outcome"] == "cancelled", answer.text
        assert (await told(api, found["id"]))["state"] == "cancelled"


async def test_a_schedule_key_is_one_of_its_topic(api: httpx.AsyncClient) -> None:
    wanted = {"body": "x", "delay_ms": HOUR_MS, "schedule_key": "s"}
    first = await api.post("/api/v1/topics/orders/messages", json=wanted)
    for _ in range(4):
        answer = await api.post("/api/v1/topics/orders/messages", json=wanted)
        assert (answer.status_code, answer.json()["code"]) == (409, "schedule_key_taken")
    replaced = (await api.post("/api/v1/topics/orders/messages", json={**wanted, "on_conflict": "replace"})).json()
    assert (replaced["conflict"], replaced["broker"]) == ("replaced", first.json()["broker"])


async def test_a_broker_that_is_away_takes_no_message_of_others_with_it(
    api: httpx.AsyncClient, brokers: Several
) -> None:
    here, there = await send(brokers, A), await send(brokers, B)
    assert (await told(api, f"{there.message_id}?topic=orders"))["broker"] == B
    await asyncio.to_thread(brokers[B].stop)
    found = await told(api, f"{here.message_id}?topic=orders")
    assert (found["broker"], found["trace"]) == (A, [])
    missing = await api.get(f"/api/v1/messages/{there.message_id}?topic=orders")
    assert (missing.status_code, missing.json()["code"]) == (503, "broker_unreachable")
    assert "broker-b" in missing.json()["detail"]
