"""Redisson's delayed queues by REST on a real Valkey."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import redis

from broker.redisson import DelayedQueue
from console.features.redisson.read import hang_up

HOUR_MS = 3_600_000
ROOT = "/api/v1/redisson/queues"


@pytest.fixture
def server(valkey: str, settings: Any) -> Iterator[redis.Redis]:
    """An empty server that REST is pointed at."""
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    client.flushall()
    yield client
    hang_up()
    client.flushall()
    client.close()


async def test_a_value_is_offered_listed_moved_and_removed(api: httpx.AsyncClient, server: redis.Redis) -> None:
    offered = await api.post(f"{ROOT}/orders/values", json={"value": "order-1", "delay_ms": HOUR_MS})
    assert offered.status_code == 201, offered.text
    assert DelayedQueue("orders", server).read_all() == ["order-1"]
    listed = (await api.get(ROOT)).json()
    assert [(row["name"], row["waiting"], row["in_list"]) for row in listed["queues"]] == [("orders", 1, 1)]
    (row,) = (await api.get(f"{ROOT}/orders/values")).json()["values"]
    assert (row["value"], row["due_ms"], row["packing"]) == ("order-1", offered.json()["due_ms"], "new")
    chosen = {"handles": [row["handle"]], "reason": "paid"}
    later = await api.post(f"{ROOT}/orders:reschedule", json={**chosen, "shift_ms": HOUR_MS})
    assert (later.status_code, later.json()["results"]) == (202, {"rescheduled": 1})
    assert (await api.get(f"{ROOT}/orders")).json()["next_due_ms"] == row["due_ms"] + HOUR_MS
    gone = await api.post(f"{ROOT}/orders:remove", json=chosen)
    assert gone.json()["results"] == {"gone": 1}, "its handle names the moment at which it was due"
    removed = await api.post(f"{ROOT}/orders:remove", json={"range": {"due_from": 0}, "reason": "paid"})
    assert removed.json()["results"] == {"removed": 1}
    assert (await api.get(removed.headers["location"])).json()["results"] == {"removed": 1}
    assert DelayedQueue("orders", server).size() == 0


async def test_names_may_hold_slashes_and_braces(api: httpx.AsyncClient, server: redis.Redis) -> None:
    name = "{orders}/late:today"
    answer = await api.post(f"{ROOT}/{name}/values", json={"value": "x", "delay_ms": 5})
    assert answer.status_code == 201, answer.text
    assert DelayedQueue(name, server).size() == 1
    assert (await api.get(f"{ROOT}/{name}")).json()["name"] == name


async def test_json_is_written_as_java_writes_it(api: httpx.AsyncClient, server: redis.Redis) -> None:
    given = {"value": '{"id":1,"text":"\U0001f600"}', "codec": "JsonJacksonCodec", "delay_ms": HOUR_MS}
    assert (await api.post(f"{ROOT}/orders/values", json=given)).status_code == 201
    (stored,) = DelayedQueue("orders", server).read_all_bytes()
    assert stored == b'{"@class":"java.util.LinkedHashMap","id":1,"text":"\\uD83D\\uDE00"}'


async def test_a_packing_that_java_does_not_read_is_set_aside(api: httpx.AsyncClient, server: redis.Redis) -> None:
    DelayedQueue("orders", server, packing="old").offer("from before", delay=HOUR_MS)
    DelayedQueue("orders", server, packing="new").offer("newest", delay=HOUR_MS)
    assert sorted((await api.get(f"{ROOT}/orders")).json()["packings"]) == ["new", "old"]
    asked = {"all": True, "packing": "old", "reason": "nobody reads it"}
    answer = await api.post(f"{ROOT}/orders:set-aside", json=asked)
    assert (answer.status_code, answer.json()["results"]) == (202, {"set_aside": 1})
    (aside,) = (await api.get(f"{ROOT}/orders/values?aside=true")).json()["values"]
    assert (aside["value"], aside["packing"]) == ("from before", "old")


async def test_how_far_an_import_is(api: httpx.AsyncClient, server: redis.Redis) -> None:
    DelayedQueue("orders", server).offer("x", delay=HOUR_MS)
    before = (await api.get(f"{ROOT}/orders")).json()
    assert (before["mode"], before["sent"]) == ("plain", None)
    begun = await api.post(f"{ROOT}/orders:import", json={"topic": "bills", "reason": "off Redis"})
    assert begun.status_code == 202, begun.text
    shown = (await api.get(f"{ROOT}/orders")).json()
    assert (shown["mode"], shown["topic"], shown["waiting"]) == ("import", "bills", 1)
    assert (shown["sent"], shown["sending"], shown["refused"], shown["taken_over"]) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/orders/values", {"value": "x"}, 422),
        ("/orders/values", {"value": "x", "delay_ms": 1, "deliver_at": 5}, 422),
        ("/orders/values", {"value": "x", "delay_ms": -1}, 400),
        ("/orders/values", {"value": "x", "delay_ms": 1, "codec": "Kryo5Codec"}, 422),
        ("/orders/values", {"value": "{", "delay_ms": 1, "codec": "JsonJacksonCodec"}, 422),
        ("/orders:remove", {"reason": "because"}, 422),
        ("/orders:remove", {"handles": ["nonsense"], "reason": "because"}, 422),
        ("/orders:remove", {"handles": [], "reason": "because"}, 422),
        ("/orders:remove", {"handles": ["1~00~1"]}, 400),
        ("/orders:move", {"all": True, "reason": "because", "to": "orders"}, 422),
        ("/orders:set-aside", {"all": True, "packing": "odd", "reason": "because"}, 422),
        ("/orders:make-reliable", {"reason": "because", "topic": "no topic!"}, 422),
        ("/orders:explode", {"reason": "because"}, 405),
    ],
)
async def test_bad_input_is_refused_before_anything_is_written(
    api: httpx.AsyncClient, server: redis.Redis, path: str, body: dict[str, Any], status: int
) -> None:
    DelayedQueue("orders", server).offer("order-1", delay=HOUR_MS)
    before = sorted(server.keys())
    answer = await api.post(ROOT + path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    assert (sorted(server.keys()), DelayedQueue("orders", server).size()) == (before, 1)


@pytest.fixture
def narrow(make_token: Any) -> dict[str, str]:
    """A token for queues whose names begin with orders."""
    return {"authorization": f"Bearer {make_token(publish=('orders*',), read=('orders*',))}"}


async def test_a_token_reaches_only_its_queues(
    api: httpx.AsyncClient, server: redis.Redis, narrow: dict[str, str]
) -> None:
    for name in ("orders", "bills"):
        DelayedQueue(name, server).offer("x", delay=HOUR_MS)
    assert [row["name"] for row in (await api.get(ROOT, headers=narrow)).json()["queues"]] == ["orders"]
    for answer in (
        await api.get(f"{ROOT}/bills", headers=narrow),
        await api.post(f"{ROOT}/bills:clear", json={"reason": "because"}, headers=narrow),
        await api.post(f"{ROOT}/orders:move", json={"all": True, "reason": "x", "to": "bills"}, headers=narrow),
    ):
        assert answer.status_code == 403, answer.text
    assert DelayedQueue("bills", server).size() == 1


async def test_read_only_and_an_absent_server_are_said(
    api: httpx.AsyncClient, server: redis.Redis, settings: Any, free_port: int
) -> None:
    settings.REDISSON_READ_ONLY = True
    refused = await api.post(f"{ROOT}/orders/values", json={"value": "x", "delay_ms": 1})
    assert (refused.status_code, refused.json()["code"]) == (422, "operation_refused")
    settings.REDISSON_URL = f"redis://127.0.0.1:{free_port}/0"
    absent = await api.get(ROOT)
    assert (absent.status_code, absent.json()["code"]) == (503, "redis_unavailable")
