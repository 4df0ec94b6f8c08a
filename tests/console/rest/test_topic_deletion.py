"""Deleting a topic for which something waits, by REST: counted, asked about, and done as it was said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin
from broker.server.broker import BrokerService
from broker.server.clock import Clocks
from broker.testing import small_store
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.rest.sending_timers import HOUR_MS
from tests.console.rest.test_transactions import begin
from tests.waiting import until_true

ORDERS = "/api/v1/topics/orders"
WAITING = {"timers": 2, "delayed": 1, "halves": 1, "parked_halves": 0}


class Clock:
    """The machine's, moved on by hand."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def service(tmp_path: Path, clock: Clock, settings: Any) -> AsyncIterator[BrokerService]:
    """A broker whose clock can be moved on."""
    running = BrokerService(small_store(tmp_path), broker_port=0, namesrv_port=0, clocks=Clocks(broker=clock))
    await running.start()
    settings.ESCAPEMENT_NAMESRV = running.namesrv_address
    for topic in ("orders", "marker"):
        running.engine.topics.ensure(topic, 3 if topic == "orders" else 1)
    yield running
    await asyncio.to_thread(hang_up)
    await running.stop()


@pytest.fixture
def token(transactional_db: None) -> str:
    """May do everything, settings too."""
    return security_tokens.create("test", security_tokens.scope_rows(["*"], ["*"], settings=["*"]))[1]


async def sent(api: httpx.AsyncClient, topic: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post(f"/api/v1/topics/{topic}/messages", json={"body": "x"} | fields)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def with_something(api: httpx.AsyncClient) -> dict[str, Any]:
    """Two timers, a delayed message and a half wait for it; one message lies in it."""
    await sent(api, "orders", delay_ms=HOUR_MS)
    await sent(api, "orders", delay_ms=2 * HOUR_MS)
    await sent(api, "orders", delay_level=18)
    await sent(api, "orders")
    return await begin(api)


async def past_all(api: httpx.AsyncClient, admin: AsyncAdmin, clock: Clock) -> None:
    """Comes back when all that waited is over: what is due behind it has come out."""
    marker = await sent(api, "marker", delay_ms=3 * HOUR_MS)
    level = await sent(api, "marker", delay_level=18)
    clock.ahead_ms = 4 * HOUR_MS
    await sent(api, "marker")
    for each in (marker, level):
        await until_true(partial(admin.message_by_id, "marker", each["message_id"]))


async def delete(api: httpx.AsyncClient, **parameters: str) -> httpx.Response:
    return await api.delete(ORDERS, params={"reason": "over"} | parameters)


async def test_without_a_word_it_stays_and_the_counts_are_told(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    await with_something(api)
    look = (await delete(api, preview="true")).json()
    assert look["waiting"] == WAITING | {"complete": True}
    answer = await delete(api)
    assert (answer.status_code, answer.json()["code"], answer.json()["waiting"]) == (409, "topic_has_waiting", WAITING)
    assert "For orders 4 messages wait" in answer.json()["detail"]
    assert "timers 2" in answer.json()["detail"]
    assert await admin.topic_settings("orders") is not None
    assert (await admin.topic_waiting("orders")).total == 4


async def test_what_is_cancelled_never_comes_out(
    api: httpx.AsyncClient, admin: AsyncAdmin, clock: Clock, service: BrokerService
) -> None:
    half = await with_something(api)
    answer = await delete(api, pending="cancel")
    assert (answer.status_code, answer.json()["results"]) == (202, {"deleted": 1}), answer.text
    assert answer.json()["told"] == {"pending": "cancel"} | WAITING
    assert (await api.get(answer.headers["location"])).json()["told"] == {"pending": "cancel"} | WAITING
    assert await admin.topic_settings("orders") is None
    committed = await api.post(f"/api/v1/transactions/{half['id']}:commit", json={})
    assert committed.status_code in (404, 409), committed.text
    await past_all(api, admin, clock)
    assert await admin.topic_settings("orders") is None
    assert (await admin.topic_waiting("orders")).total == 0


async def test_what_is_kept_comes_out_and_makes_the_topic_again_as_it_was(
    api: httpx.AsyncClient, admin: AsyncAdmin, clock: Clock
) -> None:
    await with_something(api)
    answer = await delete(api, pending="keep")
    assert answer.json()["told"] == {"pending": "keep"} | WAITING
    assert await admin.topic_settings("orders") is None
    await past_all(api, admin, clock)
    made = await admin.topic_settings("orders")
    assert made is not None
    assert (made["readQueueNums"], made["writeQueueNums"]) == (3, 3)
    assert sum(each.max_offset for each in (await admin.topic_stats("orders")).queues) == 3


async def test_a_topic_for_which_nothing_waits_is_asked_nothing(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    await sent(api, "orders")
    answer = await delete(api)
    assert (answer.json()["results"], answer.json()["told"]) == ({"deleted": 1}, None)
    assert await admin.topic_settings("orders") is None


async def test_another_word_is_refused(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    answer = await delete(api, pending="drop")
    assert (answer.status_code, answer.json()["field"]) == (422, "pending")
    assert (await api.delete("/api/v1/groups/g", params={"pending": "keep"})).json()["code"] == "invalid_parameter"
    assert await admin.topic_settings("orders") is not None
