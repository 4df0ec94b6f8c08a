"""Every list of REST, asked with a token that may read some topics only, whose rows stand behind many of others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest
import redis

from broker.client import Admin, Decision, Producer, TransactionProducer, prepare
from broker.redisson import DelayedQueue
from broker.server.broker import BrokerService
from console.features.checkback.models import CheckAddress
from console.rest.access import InRows
from console.rest.routes import ROUTES
from console.security import tokens as security_tokens
from tests.console.rest.test_delayed_queues import server  # noqa: F401 - a fixture
from tests.console.rest.test_single_operations import in_database

ROOT, OTHERS, HOUR_MS = "/api/v1", 200, 3_600_000
#: each list that leaves out rows: what is asked of it, and what its first page has of who asks
LISTS: dict[str, dict[str, str]] = {
    "/topics": {"": "orders"},
    "/groups": {"": "ord-mill"},
    "/timers": {"": "orders-timer", "?limit=1": "orders-timer", "?key=shared": "orders-timer"},
    "/timers/forecast": {"": "buckets"},
    "/due": {"?window=1d": "bands"},
    "/transactions": {"": "orders-half", "?limit=1": "orders-half", "?state=decided": "orders-decided"},
    "/groups/{group}/dead-letters": {"": "orders-dead", "?key=shared": "orders-dead"},
    "/redisson/queues": {"": "orders"},
    "/check-addresses": {"": "ord-shop"},
}
THEIRS = ("payroll", "wages")


def test_every_list_is_asked() -> None:
    assert {each.path for each in ROUTES if any(isinstance(place, InRows) for place in each.on)} == {*LISTS}


def _fill(namesrv: str, queues: redis.Redis) -> None:
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    with (
        Admin(namesrv) as admin,
        Producer(group="tests", namesrv=namesrv) as producer,
        TransactionProducer("ord-shop", namesrv, check=lambda _: Decision.UNKNOWN) as halves,
    ):
        for topic in (*(f"payroll-{number}" for number in range(OTHERS)), "payroll"):
            admin.create_topic(topic, queues=1)
        for group in (*(f"wages-{number}" for number in range(OTHERS)), "ord-mill"):
            admin.create_group(group)
        halves.commit(halves.send_half("orders", prepare("x", keys=["orders-decided"])))
        sent = [producer.send(topic, "x", keys=["shared", f"{topic}-dead"]) for topic in ("orders", "payroll")]
        mine, other = (admin.message_by_offset_id(each.offset_message_id) for each in sent)
        for record in (mine, *[other] * OTHERS):
            admin.send_back("ord-mill", record, delay_level=-1, max_reconsume_times=0)
        for number in range(OTHERS):
            producer.send("payroll", "x", keys=["shared"], deliver_at_ms=due_ms + number)
            halves.send_half("payroll", prepare("x"))
            halves.commit(halves.send_half("payroll", prepare("x")))
        producer.send("orders", "x", keys=["shared", "orders-timer"], deliver_at_ms=due_ms + HOUR_MS)
        halves.send_half("orders", prepare("x", keys=["orders-half"]))
    for name in (*(f"payroll-{number}" for number in range(OTHERS)), "orders"):
        DelayedQueue(name, queues).offer("x", delay=HOUR_MS)
    CheckAddress.objects.bulk_create(
        CheckAddress(group=group, url="https://example.com/check") for group in ("ord-shop", "wages")
    )


@pytest.mark.usefixtures("transactional_db")
async def test_what_may_be_read_is_found_behind_what_may_not(
    anonymous: httpx.AsyncClient,
    service: BrokerService,
    settings: Any,
    server: redis.Redis,  # noqa: F811 - the fixture
) -> None:
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    async with asyncio.timeout(60):
        await in_database(lambda: _fill(service.namesrv_address, server))
        scopes = security_tokens.scope_rows((), ("ord*",), ("ord*",))
        token = (await in_database(lambda: security_tokens.create("narrow", scopes)))[1]
        anonymous.headers["authorization"] = f"Bearer {token}"
        faults: list[Any] = []
        for path, asked in LISTS.items():
            for query, word in asked.items():
                answer = await anonymous.get(ROOT + path.replace("{group}", "ord-mill") + query)
                assert answer.status_code == 200, (path, answer.text)
                faults += [(path + query, "lacks", word)] * (word not in answer.text)
                faults += [(path + query, "tells", word) for word in THEIRS if word in answer.text]
        assert not faults, faults


async def test_pages_go_on_behind_what_is_shown(
    anonymous: httpx.AsyncClient, service: BrokerService, make_token: Any
) -> None:
    """Of rows that stand between others' none is left out, and none comes twice."""

    def fill() -> None:
        due_ms = time.time_ns() // 1_000_000 + HOUR_MS
        with Admin(service.namesrv_address) as admin, Producer(group="t", namesrv=service.namesrv_address) as producer:
            admin.create_topic("payroll", queues=1)
            for number in range(60):
                topic = "payroll" if number % 3 else "orders"
                producer.send(topic, "x", keys=[f"{topic}-{number}"], deliver_at_ms=due_ms + number)

    await asyncio.to_thread(fill)
    token = await in_database(lambda: make_token((), ("ord*",)))
    anonymous.headers["authorization"] = f"Bearer {token}"
    keys: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await anonymous.get(f"{ROOT}/timers?limit=6" + (f"&cursor={cursor}" if cursor else ""))).json()
        assert len(page["timers"]) <= 6
        keys += [key for row in page["timers"] for key in row["keys"]]
        cursor = page["cursor"]
    assert keys == [f"orders-{number}" for number in range(0, 60, 3)]
