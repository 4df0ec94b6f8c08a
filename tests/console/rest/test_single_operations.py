"""What is cancelled, moved, delivered or decided on its own by REST is an operation, too."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import httpx
import pytest
from django.db import connection

from broker.server.broker import BrokerService
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import AuditEntry, Operation
from console.rest.identifiers import parse, written
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.people import browser_of, person
from tests.console.rest.sending_timers import HOUR_MS, KEYED, send
from tests.console.rest.test_transactions import begin
from tests.console.ui.test_pages import words

Result = TypeVar("Result")


@pytest.fixture(autouse=True)
def operations(service: BrokerService, settings: Any) -> Any:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    yield
    hang_up()


async def in_database(work: Callable[[], Result]) -> Result:
    def done() -> Result:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(done)


def rename(table: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")


def number_of(answer: httpx.Response) -> uuid.UUID:
    return uuid.UUID(answer.json()["operation"].removeprefix("/api/v1/operations/"))


async def waiting(api: httpx.AsyncClient) -> list[tuple[str, int]]:
    return [(each["schedule_key"], each["due_ms"]) for each in (await api.get("/api/v1/timers")).json()["timers"]]


async def test_each_is_an_operation_with_its_audit_and_page(api: httpx.AsyncClient) -> None:
    sent = [await send(api, schedule_key=f"order-{nth}") for nth in range(3)]
    moved_ms = sent[1]["due_ms"] + HOUR_MS
    answers = [
        await api.delete(f"/api/v1/messages/{sent[0]['id']}/schedule", params={"reason": "paid"}),
        await api.request("PATCH", KEYED + "order-1", json={"deliver_at": moved_ms, "reason": "paid"}),
        await api.post(f"/api/v1/messages/{sent[2]['recall_handle']}:deliver-now", params={"reason": "paid"}),
    ]
    kinds = ("timers.cancel", "timers.reschedule", "timers.deliver_now")
    for nth, (answer, kind) in enumerate(zip(answers, kinds, strict=True)):
        assert answer.status_code == 200, answer.text
        shown = (await api.get(answer.json()["operation"])).json()
        assert (shown["kind"], shown["state"], shown["reason"]) == (kind, "done", "paid")
        assert shown["results"] == {answer.json()["outcome"]: 1}
        assert (shown["preview"]["count"], shown["preview"]["topics"]) == (1, [["orders", 1]])
        assert await in_database(partial(kept_of, number_of(answer))) == (
            ["confirmed", "finished"], (f"order-{nth}", "orders", sent[nth]["due_ms"]),
        )  # fmt: skip
        page = await in_database(partial(page_of, number_of(answer)))
        assert f"order-{nth}" in page
        assert "token test" in page


def kept_of(number: uuid.UUID) -> tuple[list[str], tuple[str, str, int | None]]:
    """Steps of the audit, and the item: by itself what the other columns say is tested with the operation's page."""
    item = Operation.objects.get(pk=number).items.get()
    audit = AuditEntry.objects.filter(operation=number).order_by("id").values_list("what", flat=True)
    return list(audit), (item.name, item.topic, item.due_ms)


def page_of(number: uuid.UUID) -> str:
    browser = browser_of(person(f"reader-{number}"))
    assert str(number) in browser.get("/operations/").content.decode()
    return words(browser.get(f"/operations/{number}/"))


async def test_what_changed_nothing_leaves_no_operation(api: httpx.AsyncClient) -> None:
    await send(api, schedule_key="order-1")
    first, again = [await api.delete(KEYED + "order-1") for _ in range(2)]
    assert first.json()["operation"] is not None
    assert (again.json()["outcome"], again.json()["operation"]) == ("already_cancelled", None)
    assert (await api.request("PATCH", KEYED + "order-1", json={"delay_ms": 1})).status_code == 409
    assert await in_database(Operation.objects.count) == 1


async def test_a_cancel_and_a_move_are_taken_back(api: httpx.AsyncClient) -> None:
    await send(api, schedule_key="order-1")
    before = await waiting(api)
    moved = await api.request("PATCH", KEYED + "order-1", json={"delay_ms": 2 * HOUR_MS})
    assert await waiting(api) != before
    back = await api.post(moved.json()["operation"] + ":take-back", json={"reason": "a mistake"})
    assert (back.status_code, back.json()["results"]) == (202, {"moved_back": 1})
    cancelled = await api.delete(KEYED + "order-1")
    assert await waiting(api) == []
    back = await api.post(cancelled.json()["operation"] + ":take-back", json={"reason": "a mistake"})
    assert back.json()["results"] == {"taken_back": 1}
    assert await waiting(api) == before


async def test_an_id_that_somebody_wrote_reaches_no_topic_but_its_own(api: httpx.AsyncClient) -> None:
    sent = await send(api, schedule_key="order-1")
    real = parse(sent["id"])
    scopes = security_tokens.scope_rows(["pay"], [])
    own = (await in_database(lambda: security_tokens.create("pay", scopes)))[1]
    forged = written(real.broker, "pay", real.position, "")
    for method, tail in (("DELETE", "/schedule"), ("PATCH", "/schedule"), ("POST", ":deliver-now")):
        answer = await api.request(
            method, f"/api/v1/messages/{forged}{tail}", headers={"authorization": f"Bearer {own}"},
            json={"delay_ms": 5} if method == "PATCH" else None,
        )  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (404, "timer_unknown"), answer.text
    assert await waiting(api) == [("order-1", sent["due_ms"])]
    right = written(real.broker, "orders", real.position, "")
    assert (await api.delete(f"/api/v1/messages/{right}/schedule")).json()["outcome"] == "cancelled"


@pytest.mark.parametrize(("action", "outcome"), [("commit", "committed"), ("rollback", "rolled_back")])
async def test_a_decision_is_an_operation_once(api: httpx.AsyncClient, action: str, outcome: str) -> None:
    taken = await begin(api)
    address = f"/api/v1/transactions/{taken['id']}:{action}"
    first, again = [await api.post(address, json={"reason": "paid"}) for _ in range(2)]
    assert again.json() == {**first.json(), "repeated": True, "operation": None}
    shown = (await api.get(first.json()["operation"])).json()
    assert (shown["kind"], shown["results"], shown["reason"]) == (f"transactions.{action}", {outcome: 1}, "paid")
    assert taken["transaction_id"] in await in_database(partial(page_of, number_of(first)))


async def test_where_the_limit_is_none_each_waits_for_a_second_person(api: httpx.AsyncClient, settings: Any) -> None:
    settings.SECOND_PERSON_KINDS = {"timers.cancel": 0, "transactions.commit": 0}
    sent, taken = await send(api, schedule_key="order-1"), await begin(api)
    without = await api.delete(KEYED + "order-1")
    assert (without.status_code, without.json()["code"], without.json()["field"]) == (
        422,
        "operation_refused",
        "reason",
    )
    asked = await api.delete(f"/api/v1/messages/{sent['id']}/schedule", params={"reason": "paid"})
    decided = await api.post(f"/api/v1/transactions/{taken['id']}:commit", json={"reason": "paid"})
    for answer in (asked, decided):
        assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    assert await waiting(api) == [("order-1", sent["due_ms"])]
    assert len((await api.get("/api/v1/transactions")).json()["transactions"]) == 1

    def approved() -> None:
        second = Actor.of(person("ben", "steer_timers", "steer_transactions"))
        for answer in (asked, decided):
            workflow.approve(uuid.UUID(answer.json()["id"]), second, reason="so it is")

    await in_database(approved)
    assert (await api.get(asked.headers["location"])).json()["results"] == {"cancelled": 1}
    assert (await api.get(decided.headers["location"])).json()["results"] == {"committed": 1}


def transactions_that_wrote() -> int:
    """As PostgreSQL notes with each row."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM console_operation")
        return int(cursor.fetchone()[0])


async def test_those_of_a_moment_are_written_together_each_once(api: httpx.AsyncClient) -> None:
    sent = [await send(api) for _ in range(30)]
    answers = await asyncio.gather(*(api.delete(f"/api/v1/messages/{each['id']}/schedule") for each in sent))
    assert len({number_of(answer) for answer in answers}) == 30
    assert await in_database(Operation.objects.count) == 30
    assert 0 < await in_database(transactions_that_wrote) < 30


async def test_without_the_database_it_is_done_and_says_that_nothing_is_kept(
    api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    table = Operation._meta.db_table
    await send(api, schedule_key="order-1")
    await in_database(lambda: rename(table, "away"))
    try:
        answer = await api.delete(KEYED + "order-1")
    finally:
        await in_database(lambda: rename("away", table))
    assert (answer.status_code, answer.json()["outcome"], answer.json()["operation"]) == (200, "cancelled", None)
    assert "order-1" in caplog.text
