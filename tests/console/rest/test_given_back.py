"""The whole road of a message that is received by REST: given back until it is dead, sent back, received, done."""

from __future__ import annotations

from typing import Any

import httpx

from broker.server.broker import BrokerService
from tests.console.rest.test_chosen import LETTERS, WHY, made, operations, token
from tests.console.rest.test_consuming import MESSAGES, receive, say

__all__ = ["operations", "token"]
"""Fixtures."""


async def letters(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await api.get(LETTERS)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["letters"]
    return found


async def test_a_dead_letter_that_is_sent_back_is_received_again(
    api: httpx.AsyncClient, service: BrokerService
) -> None:
    service.engine.topics.ensure("orders", 1)
    await made(api)
    await api.post(MESSAGES, json={"body": "pay", "keys": ["order-1"]})
    for attempt in range(1, 18):
        (message,) = await receive(api, wait_ms=15_000)
        assert message["attempt"] == attempt
        await say(api, "nack", receipts=[message["receipt"]])
    while not await letters(api):
        assert await receive(api, wait_ms=100) == []
    answer = await api.post(f"{LETTERS}:send-back", json={"filter": {}, "all": True, **WHY})
    assert answer.status_code == 202, answer.text
    assert (answer.status_code, answer.json()["results"]) == (202, {"sent_back": 1}), answer.text
    (again,) = await receive(api, wait_ms=15_000)
    assert (again["body"], again["topic"], again["keys"]) == ("pay", "orders", ["order-1"])
    ((longer,), _) = (await say(api, "extend", receipts=[again["receipt"]], invisible_ms=60_000)).values()
    assert (await say(api, "ack", receipts=[again["receipt"]]))["acknowledged"] == 0, "a newer receipt counts"
    assert (await say(api, "ack", receipts=[longer["receipt"]]))["acknowledged"] == 1
    assert await receive(api, wait_ms=600) == []
    assert len(await letters(api)) == 1


async def test_a_message_that_was_done_with_comes_again_to_the_group_it_is_sent_to(
    api: httpx.AsyncClient, service: BrokerService
) -> None:
    service.engine.topics.ensure("orders", 1)
    sent = (await api.post(f"{MESSAGES}", json={"body": "pay"})).json()
    (message,) = await receive(api, wait_ms=15_000)
    assert (await say(api, "ack", receipts=[message["receipt"]]))["acknowledged"] == 1
    answer = await api.post(f"/api/v1/messages/{sent['id']}:resend", json={"group": "billing", **WHY})
    assert answer.status_code == 201, answer.text
    (again,) = await receive(api, wait_ms=15_000)
    assert (again["body"], again["topic"]) == ("pay", "orders")
    assert (await say(api, "ack", receipts=[again["receipt"]]))["acknowledged"] == 1
    assert await receive(api, wait_ms=600) == []
