"""REST over two real brokers: lists of both, each row with its broker, and what is done at the broker of an id."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from broker.client import Decision, TransactionProducer, prepare
from console.operations.models import Operation
from console.site.clock import now_ms
from tests.console.several import A, B, Several

HOUR_MS = 3_600_000


@pytest.fixture
def namesrv(brokers: Several) -> str:
    return brokers.cluster.namesrv


@pytest.fixture
async def sent(brokers: Several) -> list[tuple[int, str, str]]:
    """Nine timers, one of three at broker-b; as (due, broker, key) in due order."""

    def send() -> list[tuple[int, str, str]]:
        base_ms, found = now_ms() + HOUR_MS, []
        for number in range(9):
            name, due_ms, key = (B if number % 3 == 1 else A), base_ms + number * 1_000, f"k{number}"
            brokers.producers[name].send("orders", "x", keys=[key], deliver_at_ms=due_ms, schedule_key=f"s{number}")
            found.append((due_ms, name, key))
        return found

    return await asyncio.to_thread(send)


async def listed(api: httpx.AsyncClient, what: str, **params: Any) -> list[dict[str, Any]]:
    """All pages of a list."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        answer = await api.get(f"/api/v1/{what}", params={**params, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        rows += page[what]
        cursor = page["cursor"]
        if cursor is None:
            return rows


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_timers_are_merged_by_due_time(
    api: httpx.AsyncClient, sent: list[tuple[int, str, str]], limit: int
) -> None:
    rows = await listed(api, "timers", limit=limit)
    assert [(row["due_ms"], row["broker"], *row["keys"]) for row in rows] == sent
    assert {row["broker"] for row in await listed(api, "timers", broker=B, limit=limit)} == {B}


async def test_a_broker_that_is_not_there_and_a_cursor_of_another_list_are_refused(api: httpx.AsyncClient) -> None:
    refusals = {"broker=broker-c": (404, "broker_not_found"), "cursor=5-1": (400, "invalid_parameter")}
    for query, refusal in refusals.items():
        answer = await api.get(f"/api/v1/timers?{query}")
        assert (answer.status_code, answer.json()["code"]) == refusal, query


async def test_figures_are_added_up(api: httpx.AsyncClient, sent: list[tuple[int, str, str]]) -> None:
    totals = (await api.get("/api/v1/timers/status")).json()
    assert (totals["pending"], totals["next_due_ms"], totals["brokers_missing"]) == (9, sent[0][0], [])
    assert (await api.get(f"/api/v1/timers/status?broker={B}")).json()["pending"] == 3
    span = {"from": sent[0][0] - 5_000, "to": sent[-1][0] + 5_000, "step_ms": 1_000}
    for what in ("wheel", "forecast"):
        found = (await api.get(f"/api/v1/timers/{what}", params=span)).json()
        assert sum(step["count"] for step in found["buckets"]) == 9, what
    levels = (await api.get("/api/v1/schedule/levels")).json()["levels"]
    assert [(row["level"], row["broker"]) for row in levels] == [(1, A), (2, A), (1, B), (2, B)]


async def test_one_that_is_dead_is_named(
    api: httpx.AsyncClient, brokers: Several, sent: list[tuple[int, str, str]]
) -> None:
    assert len(await listed(api, "timers")) == 9
    await asyncio.to_thread(brokers[B].stop)
    page = (await api.get("/api/v1/timers")).json()
    assert {row["broker"] for row in page["timers"]} == {A}
    assert (page["brokers_missing"], page["cursor"]) == ([B], None)
    assert (await api.get("/api/v1/timers/status")).json()["brokers_missing"] == [B]


async def test_what_is_done_to_an_id_or_key_is_done_at_its_broker_and_kept(
    api: httpx.AsyncClient, sent: list[tuple[int, str, str]]
) -> None:
    rows = {row["keys"][0]: row for row in await listed(api, "timers")}
    for address in (
        f"messages/{rows['k1']['id']}/schedule",
        "topics/orders/schedule/s4",
        f"messages/{rows['k7']['message_id']}/schedule?topic=orders",
    ):
        answer = (await api.delete(f"/api/v1/{address}")).json()
        assert answer["outcome"] == "cancelled", address
        row = await Operation.objects.aget(pk=answer["operation"].rsplit("/", 1)[1])
        assert row.broker == B
    assert {row["broker"] for row in await listed(api, "timers")} == {A}
    assert (await api.delete("/api/v1/topics/orders/schedule/s99")).json()["code"] == "timer_unknown"


async def test_many_are_of_one_broker(api: httpx.AsyncClient, sent: list[tuple[int, str, str]]) -> None:
    rows = {row["keys"][0]: row["id"] for row in await listed(api, "timers")}
    wanted = {"filter": {"topic": "orders"}, "reason": "tried"}
    refused = await api.post("/api/v1/timers:cancel", json=wanted)
    assert refused.status_code == 422
    assert "several brokers" in refused.text
    mixed = {"timers": [{"id": rows["k0"]}, {"id": rows["k1"]}], "reason": "tried"}
    assert (await api.post("/api/v1/timers:cancel", json=mixed)).status_code == 400
    assert len(await listed(api, "timers")) == 9
    chosen = await api.post("/api/v1/timers:cancel", json={"timers": [{"id": rows["k1"]}], "reason": "tried"})
    assert chosen.json()["results"] == {"cancelled": 1}
    done = await api.post("/api/v1/timers:cancel", json={**wanted, "broker": B})
    assert done.json()["results"] == {"cancelled": 2}
    back = await api.post(f"/api/v1/operations/{done.json()['id']}:take-back", json={"reason": "tried"})
    assert back.json()["results"] == {"taken_back": 2}
    assert len(await listed(api, "timers", broker=B)) == 2


async def test_many_are_of_several_where_each_says_which(
    api: httpx.AsyncClient, brokers: Several, sent: list[tuple[int, str, str]]
) -> None:
    rows = {row["keys"][0]: row for row in await listed(api, "timers")}
    two = [rows["k0"], rows["k1"]]
    chosen = [{"topic": "orders", "message_id": row["message_id"], "broker": row["broker"]} for row in two]
    assert {each["broker"] for each in chosen} == {A, B}
    both = {"timers": chosen, "reason": "tried"}
    assert (await api.post("/api/v1/timers:cancel", json={**both, "broker": A})).status_code == 400
    done = (await api.post("/api/v1/timers:cancel", json=both)).json()
    assert (done["results"], done["preview"]["brokers"]) == ({"cancelled": 2}, [[A, 1, ""], [B, 1, ""]])
    back = (await api.post(f"/api/v1/operations/{done['id']}:take-back", json={"reason": "tried"})).json()
    assert back["results"] == {"taken_back": 2}
    wanted = {"filter": {"topic": "orders"}, "brokers": [A, B], "shift_ms": HOUR_MS, "reason": "tried"}
    moved = (await api.post("/api/v1/timers:reschedule", json=wanted)).json()
    assert moved["results"] == {"rescheduled": 9}
    unknown = await api.post("/api/v1/timers:reschedule", json={**wanted, "brokers": [A, "broker-z"]})
    assert (unknown.status_code, "broker-z" in unknown.text) == (422, True)
    move = {"filter": {"topic": "orders"}, "brokers": [A], "to": B, "reason": "tried"}
    assert (await api.post("/api/v1/timers:move-to-broker", json=move)).status_code == 422


async def test_timers_are_moved_from_one_to_the_other(api: httpx.AsyncClient, sent: list[tuple[int, str, str]]) -> None:
    wanted = {"filter": {"topic": "orders"}, "reason": "tried", "broker": A}
    refused = await api.post("/api/v1/timers:move-to-broker", json={**wanted, "to": A})
    assert (refused.status_code, refused.json()["code"]) == (422, "operation_refused")
    assert (await api.post("/api/v1/timers:move-to-broker", json=wanted)).status_code == 400
    look = await api.post("/api/v1/timers:move-to-broker", json={**wanted, "to": B, "preview": True})
    assert (look.json()["preview"]["count"], look.json()["preview"]["to"]) == (6, B)
    done = (await api.post("/api/v1/timers:move-to-broker", json={**wanted, "to": B})).json()
    assert (done["state"], done["results"]) == ("done", {"moved": 6})
    told = done["told"]
    assert (told.pop("chosen"), told.pop("moved"), set(told.values())) == (6, 6, {0})
    rows = await listed(api, "timers")
    assert [(row["due_ms"], row["broker"], row["keys"][0]) for row in rows] == [(due, B, key) for due, _, key in sent]


async def test_all_timers_are_paused_at_one_or_at_all(api: httpx.AsyncClient, brokers: Several) -> None:
    one = await api.post("/api/v1/timers:pause", json={"reason": "tried", "broker": B})
    assert one.json()["results"] == {"paused": 1}
    totals = (await api.get("/api/v1/timers/status")).json()
    assert (totals["paused"], totals["brokers_paused"]) == (False, [B])
    assert (await api.post("/api/v1/timers:resume", json={"reason": "tried"})).json()["results"] == {"resumed": 2}


async def test_transactions_are_merged_and_decided_at_their_broker(api: httpx.AsyncClient, brokers: Several) -> None:
    def begin() -> None:
        for name, keys in ((A, ("a0", "a1")), (B, ("b0",))):
            with TransactionProducer("payers", brokers[name].namesrv, check=lambda _: Decision.UNKNOWN) as producer:
                for key in keys:
                    producer.send_half("orders", prepare(key, keys=[key]))

    await asyncio.to_thread(begin)
    rows = await listed(api, "transactions", limit=1)
    assert [(row["broker"], *row["keys"]) for row in rows] == [(A, "a0"), (A, "a1"), (B, "b0")]
    half = rows[2]
    shown = (await api.get(f"/api/v1/transactions/{half['transaction_id']}")).json()
    assert shown["transaction"]["broker"] == B
    done = (await api.post(f"/api/v1/transactions/{half['transaction_id']}:commit")).json()
    assert done["outcome"] == "committed"
    assert (await Operation.objects.aget(pk=done["operation"].rsplit("/", 1)[1])).broker == B
    rolled = (await api.post(f"/api/v1/transactions/{rows[0]['id']}:rollback")).json()
    assert rolled["outcome"] == "rolled_back"
    decided = await listed(api, "transactions", state="decided", limit=1)
    assert sorted((row["broker"], row["state"]) for row in decided) == [(A, "rolled back"), (B, "committed")]
    assert [row["keys"] for row in await listed(api, "transactions")] == [["a1"]]
    left = (await listed(api, "transactions"))[0]
    chosen = {"transactions": [{"id": left["id"], "broker": A}], "reason": "tried"}
    many = await api.post("/api/v1/transactions:commit", json=chosen)
    assert many.json()["results"] == {"committed": 1}
    none = {"filter": {"state": "open"}, "all": True, "brokers": [A, B], "reason": "tried", "preview": True}
    look = (await api.post("/api/v1/transactions:rollback", json=none)).json()
    assert look["preview"]["brokers"] == [[A, 0, ""], [B, 0, ""]]


async def test_messages_with_one_schedule_key_at_two_brokers_are_both_cancelled(
    api: httpx.AsyncClient, brokers: Several
) -> None:
    def send() -> None:
        for name in (A, B):
            brokers.producers[name].send("orders", "x", delay_ms=HOUR_MS, schedule_key="twice")

    await asyncio.to_thread(send)
    answer = (await api.delete("/api/v1/topics/orders/schedule/twice")).json()
    assert answer["outcome"] == "cancelled"
    assert await listed(api, "timers") == []
    rows = Operation.objects.filter(kind="timers.cancel").values_list("broker", flat=True)
    assert sorted([broker async for broker in rows]) == [A, B]
