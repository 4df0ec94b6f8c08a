"""Timers, transactions, dead letters that are chosen one by one, and groups that are moved: one call of REST each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from django.db import connection

from broker.client import AsyncAdmin, AsyncProducer
from broker.server.broker import BrokerService
from console.operations.copies import hang_up as hang_up_copies
from console.operations.models import AuditEntry, Operation
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import HOUR_MS, send
from tests.console.rest.test_transactions import begin, listed

LETTERS = "/api/v1/groups/billing/dead-letters"
RESET = "/api/v1/topics/orders/groups/billing:reset-offsets"
WHY = {"reason": "the bank was down"}


@pytest.fixture
def token(transactional_db: None) -> str:
    """May do everything."""
    scopes = security_tokens.scope_rows(["*"], ["*"], consume=["*"], settings=["*"])
    return security_tokens.create("test", scopes)[1]


@pytest.fixture(autouse=True)
async def operations(service: BrokerService, settings: Any) -> AsyncIterator[None]:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    yield
    hang_up()
    hang_up_copies()


async def bearer(make_token: MakeToken, *scopes: tuple[str, ...], **more: tuple[str, ...]) -> dict[str, str]:
    """The header of a new token."""
    return {"authorization": f"Bearer {await asyncio.to_thread(in_database, lambda: make_token(*scopes, **more))}"}


async def waiting(api: httpx.AsyncClient) -> dict[str, int]:
    return {each["schedule_key"]: each["due_ms"] for each in (await api.get("/api/v1/timers")).json()["timers"]}


async def test_timers_are_chosen_by_any_of_their_names(api: httpx.AsyncClient) -> None:
    sent = [await send(api, schedule_key=f"k-{nth}") for nth in range(6)]
    rows = {each["schedule_key"]: each for each in (await api.get("/api/v1/timers")).json()["timers"]}
    record = (await api.get(f"/api/v1/messages/{sent[2]['id']}")).json()
    chosen = [
        {"id": sent[0]["id"]}, {"id": sent[1]["recall_handle"]}, {"id": record["offset_message_id"]},
        {"topic": "orders", "schedule_key": "k-3"}, {"topic": "orders", "message_id": rows["k-4"]["message_id"]},
    ]  # fmt: skip
    look = await api.post("/api/v1/timers:cancel", json={"timers": chosen, "preview": True, **WHY})
    assert (look.status_code, look.json()["preview"]["count"]) == (200, 5)
    assert look.json()["preview"]["topics"] == [["orders", 5]]
    assert len(await waiting(api)) == 6
    answer = await api.post("/api/v1/timers:cancel", json={"timers": [*chosen, chosen[0]], **WHY})
    assert (answer.status_code, answer.json()["results"]) == (202, {"cancelled": 5}), answer.text
    assert list(await waiting(api)) == ["k-5"]
    back = await api.post(answer.headers["location"] + ":take-back", json=WHY)
    assert back.json()["results"] == {"taken_back": 5}


async def test_chosen_timers_move_each_to_its_own_moment(api: httpx.AsyncClient) -> None:
    due = {key: (await send(api, schedule_key=key))["due_ms"] for key in ("a", "b")}
    timers = [
        {"topic": "orders", "schedule_key": key, "deliver_at": due[key] + nth * HOUR_MS}
        for nth, key in enumerate(due, 1)
    ]
    for wrong in ({"timers": timers, "shift_ms": 5}, {"timers": [timers[0], {"position": 1}]}, {"timers": timers[:0]}):
        refused = await api.post("/api/v1/timers:reschedule", json={**wrong, **WHY})
        assert refused.status_code in (400, 422), refused.text
    moved = await api.post("/api/v1/timers:reschedule", json={"timers": timers, **WHY})
    assert moved.json()["results"] == {"rescheduled": 2}
    assert await waiting(api) == {"a": due["a"] + HOUR_MS, "b": due["b"] + 2 * HOUR_MS}


@pytest.mark.parametrize(
    "chosen",
    [
        {}, {"timers": [{"position": 1}], "filter": {}}, {"timers": [{}]}, {"timers": [{"schedule_key": "k"}]},
        {"timers": [{"topic": "orders", "id": "m1"}]}, {"timers": [{"position": 1, "id": "x"}]},
        {"timers": [{"id": "x"}]}, {"timers": [{"position": 1, "deliver_at": 5}]}, {"timers": [{"position": -1}]},
    ],
)  # fmt: skip
async def test_what_names_no_timer_is_refused(api: httpx.AsyncClient, chosen: dict[str, Any]) -> None:
    answer = await api.post("/api/v1/timers:cancel", json={**chosen, **WHY})
    assert answer.status_code in (400, 422), answer.text


async def test_a_token_chooses_what_it_may_touch_only(api: httpx.AsyncClient, make_token: MakeToken) -> None:
    sent = await send(api, schedule_key="k")
    position = (await api.get(f"/api/v1/messages/{sent['id']}")).json()["records"][0]["position"]
    half = await begin(api)
    row = (await listed(api))[0]
    assert row["id"] == half["id"]
    own, other = [await bearer(make_token, (topic,)) for topic in ("orders", "pay")]
    for timer in ({"id": sent["id"]}, {"topic": "orders", "schedule_key": "k"}, {"position": position}):
        for path in ("cancel", "deliver-now"):
            body = {"timers": [timer], "preview": path == "deliver-now", **WHY}
            answer = await api.post(f"/api/v1/timers:{path}", json=body, headers=other)
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), timer
    answer = await api.post(
        "/api/v1/transactions:commit", json={"transactions": [{"id": half["id"]}], **WHY}, headers=other
    )
    assert answer.status_code == 403
    assert await asyncio.to_thread(in_database, Operation.objects.count) == 0
    gone = {"timers": [{"position": position}, {"position": 2**40}], **WHY}
    assert (await api.post("/api/v1/timers:cancel", json=gone, headers=own)).status_code == 403
    done = await api.post("/api/v1/timers:cancel", json={"timers": [{"position": position}], **WHY}, headers=own)
    assert done.json()["results"] == {"cancelled": 1}


def in_database(work: Any) -> Any:
    try:
        return work()
    finally:
        connection.close()


async def test_chosen_transactions_are_decided_together(api: httpx.AsyncClient) -> None:
    first, second, third = [await begin(api) for _ in range(3)]
    chosen = [{"id": first["id"]}, {"id": second["transaction_id"]}]
    look = await api.post("/api/v1/transactions:rollback", json={"transactions": chosen, "preview": True, **WHY})
    assert (look.status_code, look.json()["kind"]) == (200, "transactions.rollback")
    assert look.json()["preview"]["count"] == 2
    answer = await api.post("/api/v1/transactions:commit", json={"transactions": chosen, **WHY})
    assert (answer.status_code, answer.json()["results"]) == (202, {"committed": 2}), answer.text
    assert [each["id"] for each in await listed(api)] == [third["id"]]
    unknown = await api.post("/api/v1/transactions:commit", json={"transactions": [{"id": "0" * 32}], **WHY})
    assert unknown.status_code == 404
    for wrong in ({"id": "x", "offset": 1}, {"offset": 1}, {}):
        refused = await api.post("/api/v1/transactions:commit", json={"transactions": [wrong], **WHY})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


async def test_dead_letters_are_listed_and_sent_again(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, make_token: MakeToken
) -> None:
    await made(api)
    await buried(admin, service, 4)
    letters = (await api.get(LETTERS, params={"topic": "orders"})).json()["letters"]
    assert [each["keys"] for each in letters] == [["order-3"], ["order-2"], ["order-1"], ["order-0"]]
    assert (await api.get(LETTERS, params={"key": "none"})).json()["letters"] == []
    one = {"queue": letters[0]["queue"], "offset": letters[0]["offset"]}
    stranger = await bearer(make_token, ("pay",), ("pay",), consume=("pay",))
    assert (await api.get(LETTERS, headers=stranger)).status_code == 403
    half = await bearer(make_token, ("pay",), ("*",), consume=("orders", "billing"))
    for path, body in (("send-back", {"filter": {}, "all": True}), ("send-as-new", {"letters": [one]})):
        refused = await api.post(f"{LETTERS}:{path}", json={**body, **WHY}, headers=half)
        assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing"), refused.text
    look = await api.post(f"{LETTERS}:send-back", json={"filter": {"topic": "orders"}, "preview": True, **WHY})
    assert (look.status_code, look.json()["preview"]["count"]) == (200, 4)
    back = await api.post(f"{LETTERS}:send-back", json={"letters": [one], **WHY}, headers=half)
    assert (back.status_code, back.json()["results"]) == (202, {"sent_back": 1}), back.text
    new = await api.post(f"{LETTERS}:send-as-new", json={"filter": {"topic": "orders"}, **WHY})
    assert new.json()["results"] == {"sent_as_new": 3}
    marks = [each["sent_again"] for each in (await api.get(LETTERS)).json()["letters"]]
    assert marks == ["sent_back", "sent_as_new", "sent_as_new", "sent_as_new"]


async def made(api: httpx.AsyncClient) -> None:
    """The group `billing`."""
    answer = await api.post("/api/v1/groups", json={"name": "billing", "settings": {}, **WHY})
    assert answer.status_code == 202, answer.text


async def buried(admin: AsyncAdmin, service: BrokerService, count: int) -> None:
    """So many messages that billing gave up."""
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        for nth in range(count):
            sent = await producer.send("orders", "pay", keys=[f"order-{nth}"])
            record = await admin.message_by_offset_id(sent.offset_message_id)
            await admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)


async def test_a_group_is_moved_after_a_look(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, make_token: MakeToken
) -> None:
    await made(api)
    service.engine.topics.ensure("orders", 1)
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        for nth in range(5):
            await producer.send("orders", f"{nth}")
    await admin.move_group("billing", "orders", 0, 3)
    look = await api.post(RESET, json={"to": "last", "preview": True, **WHY})
    assert look.status_code == 200, look.text
    shown = look.json()["preview"]
    assert (shown["skipped"], shown["lag_before"], shown["lag_after"]) == (2, 2, 0)
    assert await offset(admin) == 3
    own = await bearer(make_token, consume=("orders", "billing"))
    refused = await api.post(RESET, json={"to": "last", **WHY}, headers=own)
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    for body, at in (
        ({"to": "last"}, 5), ({"to": "first"}, 0), ({"to": "offsets", "offsets": [[0, 2]]}, 2),
        ({"to": "time", "at": 1}, 0),
    ):  # fmt: skip
        answer = await api.post(RESET, json={**body, **WHY})
        assert (answer.status_code, answer.json()["results"]) == (202, {"offset_moved": 1}), answer.text
        assert await offset(admin) == at
    for wrong in ({"to": "time"}, {"to": "last", "at": 1}, {"to": "first", "offsets": [[0, 1]]}, {"to": "offsets"}):
        refused = await api.post(RESET, json={**wrong, **WHY})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    moves = AuditEntry.objects.filter(kind="groups.reset_offsets")
    assert await asyncio.to_thread(in_database, moves.count) == 8


async def test_a_group_is_moved_in_all_its_topics_if_the_token_allows_each(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService
) -> None:
    await made(api)
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        for topic in ("orders", "bills"):
            service.engine.topics.ensure(topic, 1)
            await producer.send(topic, "x")
            await admin.move_group("billing", topic, 0, 1)
    path = "/api/v1/groups/billing:reset-offsets"
    scopes = security_tokens.scope_rows((), (), consume=["orders", "billing"], settings=["billing"])
    _row, some = await asyncio.to_thread(in_database, lambda: security_tokens.create("some", scopes))
    refused = await api.post(path, json={"to": "first", **WHY}, headers={"authorization": f"Bearer {some}"})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    looked = await api.post(path, json={"to": "first", "preview": True, **WHY})
    assert (looked.status_code, looked.json()["preview"]["replayed"]) == (200, 2), looked.text
    answer = await api.post(path, json={"to": "first", **WHY})
    assert (answer.status_code, answer.json()["results"]) == (202, {"offset_moved": 2}), answer.text
    stats = await admin.consume_stats("billing")
    assert {each.queue.topic: each.consumer_offset for each in stats.queues} == {"orders": 0, "bills": 0}
    for wrong in ({"to": "time"}, {"to": "last", "at": 1}, {"to": "offsets"}):
        refused = await api.post(path, json={**wrong, **WHY})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


async def offset(admin: AsyncAdmin) -> int:
    (queue,) = [each for each in (await admin.consume_stats("billing")).queues if each.queue.topic == "orders"]
    return queue.consumer_offset
