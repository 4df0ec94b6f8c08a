"""Many timers at once by REST, and all of them paused: operations with their audit."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from django.db import connection

from broker.client import AsyncAdmin
from broker.server.broker import BrokerService
from console.operations.models import AuditEntry
from console.site.broker import hang_up
from tests.console.rest.sending_timers import HOUR_MS, delivered, now_ms, send


@pytest.fixture
def operations(service: BrokerService, settings: Any) -> Any:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    yield
    hang_up()


def confirmed() -> list[tuple[str, str, str]]:
    """Kind, reason and actor of every operation that was confirmed, as the audit has them."""
    try:
        rows = AuditEntry.objects.filter(what=AuditEntry.What.CONFIRMED).order_by("id")
        return [(each.kind, each.reason, each.actor) for each in rows]
    finally:
        connection.close()


@pytest.mark.usefixtures("operations")
async def test_many_are_cancelled_moved_and_delivered_by_a_filter(api: httpx.AsyncClient) -> None:
    for number in range(30):
        await send(api, delay_ms=HOUR_MS + number * 1000, keys=["even" if number % 2 == 0 else "odd"])
    cancelled = await api.post(
        "/api/v1/timers:cancel", json={"filter": {"topic": "orders", "key": "odd"}, "reason": "no"}
    )
    assert cancelled.status_code == 202, cancelled.text
    told = cancelled.json()
    assert (told["state"], told["total"], told["results"]) == ("done", 15, {"cancelled": 15})
    assert (await api.get(cancelled.headers["location"])).json() == told
    shifted = {"filter": {"topic": "orders"}, "shift_ms": HOUR_MS, "reason": "later"}
    assert (await api.post("/api/v1/timers:reschedule", json=shifted)).json()["results"] == {"rescheduled": 15}
    rows = (await api.get("/api/v1/timers")).json()["timers"]
    assert len(rows) == 15
    assert min(each["due_ms"] for each in rows) >= now_ms() + 2 * HOUR_MS - 60_000
    now = {"filter": {}, "all": True, "reason": "now"}
    assert (await api.post("/api/v1/timers:deliver-now", json=now)).json()["results"] == {"delivered_now": 15}
    assert (await api.get("/api/v1/timers")).json()["timers"] == []
    assert await asyncio.to_thread(confirmed) == [
        ("timers.cancel", "no", "token test"), ("timers.reschedule", "later", "token test"),
        ("timers.deliver_now", "now", "token test"),
    ]  # fmt: skip


@pytest.mark.usefixtures("operations")
@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("timers:cancel", {"filter": {}, "reason": "x"}, 422, "operation_refused"),
        ("timers:cancel", {"filter": {"topic": "orders"}}, 400, "invalid_request"),
        ("timers:cancel", {"filter": {"topic": "orders"}, "reason": ""}, 400, "invalid_request"),
        ("timers:cancel", {"filter": {"topic": "none"}, "reason": "x"}, 422, "operation_refused"),
        ("timers:cancel", {"filter": {"due_from": "2027-01-31"}, "reason": "x"}, 422, "invalid_moment"),
        ("timers:reschedule", {"filter": {"topic": "orders"}, "reason": "x"}, 422, "invalid_moment"),
        ("timers:pause", {}, 400, "invalid_request"),
        ("timers:cancel", {"filter": {"topic": "orders", "key": ""}, "reason": "x"}, 400, "invalid_request"),
        ("timers:cancel", {"filter": {"due_from": 5, "due_before": 5}, "reason": "x"}, 422, "invalid_moment"),
    ],
)
async def test_operations_that_cannot_be_are_refused(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    await send(api)
    answer = await api.post(f"/api/v1/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert len((await api.get("/api/v1/timers")).json()["timers"]) == 1


@pytest.mark.usefixtures("operations")
async def test_while_paused_nothing_leaves_and_then_all_does(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    paused = await api.post("/api/v1/timers:pause", json={"reason": "inventory"})
    assert (paused.status_code, paused.json()["results"]) == (202, {"paused": 1})
    sent = await send(api, delay_ms=20)
    last = await send(api, delay_level=1, delay_ms=None)
    await delivered(admin, last["message_id"])
    assert await admin.message_by_id("orders", sent["message_id"]) is None
    assert (await api.get("/api/v1/timers/status")).json()["paused"] is True
    await api.post("/api/v1/timers:resume", json={"reason": "over"})
    assert await delivered(admin, sent["message_id"])


async def test_an_operation_of_another_is_unknown(api: httpx.AsyncClient) -> None:
    for number in ("nonsense", "00000000-0000-0000-0000-000000000000"):
        answer = await api.get(f"/api/v1/operations/{number}")
        assert (answer.status_code, answer.json()["code"]) == (404, "operation_unknown")


@pytest.mark.usefixtures("operations")
async def test_above_the_limit_it_waits_for_a_second_person(api: httpx.AsyncClient, settings: Any) -> None:
    settings.SECOND_PERSON_ABOVE = 1
    for _ in range(2):
        await send(api, delay_ms=HOUR_MS)
    answer = await api.post("/api/v1/timers:cancel", json={"filter": {"topic": "orders"}, "reason": "all of it"})
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    told = (await api.get(answer.headers["location"])).json()
    assert (told["state"], told["total"], told["preview"]["count"]) == ("waiting", None, 2)
    assert len((await api.get("/api/v1/timers")).json()["timers"]) == 2
    assert (await api.post(answer.headers["location"] + ":abort")).json()["state"] == "aborted"


@pytest.mark.usefixtures("operations")
async def test_what_was_cancelled_is_taken_back(api: httpx.AsyncClient) -> None:
    for _ in range(2):
        await send(api, delay_ms=HOUR_MS)
    before = [each["due_ms"] for each in (await api.get("/api/v1/timers")).json()["timers"]]
    cancelled = await api.post("/api/v1/timers:cancel", json={"filter": {"topic": "orders"}, "reason": "a mistake"})
    address = cancelled.headers["location"] + ":take-back"
    assert (await api.post(address, json={"reason": ""})).status_code == 400
    one = await api.post(address, json={"reason": "it was one", "items": [1]})
    assert (one.status_code, one.json()["results"]) == (202, {"taken_back": 1})
    rest = await api.post(address, json={"reason": "it was one"})
    assert rest.json()["results"] == {"taken_back": 1, "already_taken_back": 1}
    assert [each["due_ms"] for each in (await api.get("/api/v1/timers")).json()["timers"]] == before
    assert (await api.post(one.headers["location"] + ":take-back", json={"reason": "x"})).status_code == 422
