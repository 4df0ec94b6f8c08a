"""What falls due by REST: kinds, windows, and what is not known."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import redis

from broker.redisson import DelayedQueue
from broker.server.broker import BrokerService
from console.rest.operations import in_thread
from tests.console.rest.sending_timers import HOUR_MS


@pytest.mark.usefixtures("transactional_db")
async def test_what_falls_due_is_counted_by_kind(api: httpx.AsyncClient, service: BrokerService, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV, settings.REDISSON_URL = service.namesrv_address, "redis://127.0.0.1:1/0"
    sent = await api.post("/api/v1/topics/orders/messages", json={"body": "x", "delay_ms": HOUR_MS // 2})
    assert sent.status_code == 201
    answer = await api.get("/api/v1/due")
    found = answer.json()
    assert answer.status_code == 200, found
    bands = {band["kind"]: band for band in found["bands"]}
    assert list(bands) == ["lanes", "timers", "retries", "redisson", "checks"]
    assert (bands["timers"]["total"], len(bands["timers"]["counts"])) == (1, found["slots"])
    assert bands["redisson"]["counts"] is None
    assert bands["redisson"]["not_known"][0]["why"] == "redis-unreachable"
    # nothing is mirrored here: lanes and checks are not known, which is not 0
    assert (bands["lanes"]["total"], bands["checks"]["total"]) == (None, None)
    assert found["verdict"] == "unknown"
    assert (await api.get("/api/v1/due?window=10m")).json()["bands"][1]["total"] == 0
    assert (await api.get("/api/v1/due?window=5y")).status_code == 400
    assert (await api.get("/api/v1/due?broker=nobody")).status_code == 404


@pytest.mark.usefixtures("transactional_db")
async def test_a_token_of_some_topics_is_told_no_sum_of_its_own_and_of_everybodys(
    api: httpx.AsyncClient,
    anonymous: httpx.AsyncClient,
    service: BrokerService,
    make_token: Any,
    valkey: str,
    settings: Any,
) -> None:
    settings.ESCAPEMENT_NAMESRV, settings.REDISSON_URL, settings.REDISSON_QUEUES = (
        service.namesrv_address,
        valkey,
        ["*"],
    )
    sent = await api.post("/api/v1/topics/orders/messages", json={"body": "x", "delay_ms": HOUR_MS // 2})
    assert sent.status_code == 201
    with redis.Redis.from_url(valkey) as server:
        server.flushall()
        DelayedQueue("orders", server).offer("x", delay=HOUR_MS // 2)
    token = await in_thread(lambda: make_token(read=("orders",)))
    limited = {"authorization": f"Bearer {token}"}
    of_all = (await api.get("/api/v1/due")).json()
    of_some = (await anonymous.get("/api/v1/due", headers=limited)).json()
    assert [band["total"] for band in of_all["bands"]] == [band["total"] for band in of_some["bands"]]
    assert (of_all["total"], of_some["total"]) == (2, 1)
