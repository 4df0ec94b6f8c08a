"""The Transactions pages and REST on an Apache RocketMQ broker: both topics by pulling, 37, and 323."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from broker.client import Admin, Decision, Half, TransactionProducer, prepare
from broker.mirror.follower import Mirror
from broker.mirror.halves import HalfFollower
from broker.mirror.models import HalfMessage
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionEvent, TransactionFilter, TransactionRow
from console.operations.models import Operation, OperationItem
from console.rest.app import create_application
from console.rest.identifiers import written
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from console.site.clock import now_ms
from tests.interop.conftest import running
from tests.interop.servers import Server, StoreShape
from tests.interop.waiting import wait_until

TOPIC = "TransactionsPageTopic"
#: long enough that nothing is asked about while it is looked at
PATIENT = StoreShape(transaction_timeout_ms=60_000, transaction_interval_ms=60_000, transaction_checks=3)
HASTY = StoreShape(transaction_timeout_ms=500, transaction_interval_ms=1_000, transaction_checks=1)
PATIENCE_S = 40
FIRST_OP_S = 120


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running("apache", tmp_path_factory.mktemp("patient"), PATIENT) as one:
        yield one


def follow(server: Server, settings: Any) -> Iterator[Admin]:
    """The console of this server, its rows mirrored."""
    settings.ESCAPEMENT_NAMESRV = server.namesrv
    with Admin(server.namesrv) as admin:
        admin.create_topic(TOPIC, queues=1)
        mirror = Mirror(admin)
        mirror.run_once()
        yield admin
        mirror.close()
    hang_up()


@pytest.fixture
def hasty(
    transactional_db: None, settings: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Admin]]:
    """A broker of the test's own that asks once, soon."""
    with running("apache", tmp_path_factory.mktemp("hasty"), HASTY) as server:
        for admin in follow(server, settings):
            yield server, admin


@pytest.fixture
def admin(patient: Server, transactional_db: None, settings: Any) -> Iterator[Admin]:
    yield from follow(patient, settings)


@pytest.fixture
def shop(patient: Server, admin: Admin) -> Iterator[TransactionProducer]:
    with TransactionProducer("shop", patient.namesrv, check=lambda message: Decision.UNKNOWN) as producer:
        yield producer


@pytest.fixture
def operator(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long secret"))
    return browser


def words(page: bytes) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page.decode())))


def begin(producer: TransactionProducer, key: str) -> Half:
    return producer.send_half(TOPIC, prepare(key, keys=[key]))


def listed(state: str, key: str) -> list[TransactionRow]:
    rows = transactions_pages.read_transaction_list(TransactionFilter(state, topic=TOPIC)).rows
    return [row for row in rows if row.name == key]


def act(operator: Client, kind: str, row: TransactionRow, reason: str = "by hand") -> Operation:
    form = {"kind": f"transactions.{kind}", "scope": "selected", "half": row.choice}
    drafted = operator.post("/operations/draft/", form)
    assert drafted.status_code == 303
    assert operator.post(drafted.headers["Location"] + "confirm/", {"reason": reason}).status_code == 303
    return Operation.objects.latest("created_at")


def arrived(admin: Admin, half: Half) -> bool:
    return admin.message_by_id(TOPIC, half.transaction_id) is not None


def test_what_is_undecided_is_pulled_and_decided_by_37(
    admin: Admin, shop: TransactionProducer, operator: Client
) -> None:
    paid, dropped, left = (begin(shop, key) for key in ("paid", "dropped", "left"))
    assert wait_until(lambda: bool(listed("open", "left")))
    (row,) = listed("open", "paid")
    assert (row.position, row.offset, row.group, row.producers) == (paid.position, paid.queue_offset, "shop", None)
    assert act(operator, "commit", row).results == {"committed": 1}
    assert act(operator, "rollback", listed("open", "dropped")[0]).results == {"rolled_back": 1}
    assert wait_until(lambda: arrived(admin, paid))
    # op records are written together, some seconds late; the first one after a start took half a minute
    assert wait_until(lambda: bool(listed("decided", "paid") and listed("decided", "dropped")), FIRST_OP_S)
    assert not arrived(admin, dropped)
    assert [row.position for row in listed("open", "left")] == [left.position]
    assert act(operator, "commit", listed("decided", "paid")[0]).results == {"already_decided": 1}
    follower, name = HalfFollower(admin), admin.brokers()[0].name
    assert not follower.look(name, now_ms())
    assert follower.look(name, now_ms() + 1)
    rows = {row.keys[0]: row for row in HalfMessage.objects.filter(topic=TOPIC)}
    assert {key: rows[key].state for key in ("paid", "dropped", "left")} == {
        "paid": "decided", "dropped": "decided", "left": "open",
    }  # fmt: skip
    assert (rows["paid"].position, rows["paid"].op is not None) == (paid.position, True)


def test_the_page_says_what_is_there_and_what_is_not(admin: Admin, shop: TransactionProducer, operator: Client) -> None:
    half, waiting = begin(shop, "shown"), begin(shop, "waiting")
    shop.commit(half)
    assert wait_until(lambda: bool(listed("decided", "shown") and listed("open", "waiting")), FIRST_OP_S)
    data = transactions_pages.read_transactions()
    assert data.polled
    assert (data.groups, data.figures.commit_total, data.figures.next_check_ms) == ((), None, None)
    assert data.board is not None
    joined = {offset for op in data.board.ops for offset in op.halves}
    assert half.queue_offset in joined
    assert waiting.queue_offset not in joined
    text = words(operator.get("/transactions/").content)
    for said in (
        "Apache RocketMQ broker",
        "not reported by this broker",
        "requests 202, 11",
        "waiting",
        "of the newest",
    ):
        assert said in text, said
    assert "Decided; the op record of this broker does not contain the decision." in words(
        operator.get(f"/transactions/{half.position}/").content
    )
    assert "reports neither who decided nor the decision" in words(
        operator.get(f"/transactions/{waiting.position}/").content
    )
    page = operator.get("/transactions/list/").content.decode()
    assert re.search(r"<button[^>]*disabled[^>]*>\s*Check now", page)
    refused = act(operator, "check", listed("open", "waiting")[0])
    assert refused.results == {"refused": 1}
    assert OperationItem.objects.get(operation=refused).result["error"] == "not-supported"


def test_a_parked_half_is_resumed_by_323(hasty: tuple[Server, Admin], operator: Client, token: str) -> None:
    server, admin = hasty
    said = [Decision.UNKNOWN]
    with TransactionProducer("undecided", server.namesrv, check=lambda message: said[0]) as producer:
        half = begin(producer, "stuck")
        assert wait_until(lambda: bool(listed("parked", "stuck")), PATIENCE_S)
        (row,) = listed("parked", "stuck")
        kinds = [event.kind for event in transactions_pages.read_transaction_life(row.position or 0).events]
        assert (kinds[0], kinds[-1]) == (TransactionEvent.HALF, TransactionEvent.PARKED)
        said[0] = Decision.COMMIT
        assert act(operator, "resume", row).results == {"checks_resumed": 1}
        assert wait_until(lambda: arrived(admin, half), PATIENCE_S)
        assert wait_until(lambda: not listed("parked", "stuck"), PATIENCE_S)
        said[0] = Decision.UNKNOWN
        begin(producer, "again")
        assert wait_until(lambda: bool(listed("parked", "again")), PATIENCE_S)
        (row,) = listed("parked", "again")
        name = written(admin.brokers()[0].name, TOPIC, row.position or 0, row.transaction_id)
        assert asyncio.run(resumed_by_rest(server, name, token)) == ["parked", 200, "checks_resumed"]
        said[0] = Decision.ROLLBACK
        assert wait_until(lambda: not listed("parked", "again"), PATIENCE_S)


async def resumed_by_rest(server: Server, name: str, token: str) -> list[object]:
    """Its state before, then how resume was answered."""
    application = create_application(server.namesrv)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="http://testserver", headers=headers
    ) as api:
        shown = await api.get(f"/api/v1/transactions/{name}")
        answer = await api.post(f"/api/v1/transactions/{name}:resume", json={"reason": "by REST"})
    await application.state.holder.close()
    return [shown.json()["transaction"]["state"], answer.status_code, answer.json().get("outcome")]


@pytest.fixture
def token(transactional_db: None) -> str:
    return security_tokens.create("test", security_tokens.scope_rows(("*",), ("*",)), lasts=None)[1]


async def test_rest_sends_and_decides_halves_there(patient: Server, admin: Admin, token: str) -> None:
    application = create_application(patient.namesrv)
    transport = httpx.ASGITransport(application)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as api:
        half = {"topic": TOPIC, "message": {"body": "by REST"}, "producer_group": "shop"}
        taken = (await api.post("/api/v1/transactions", json=half)).json()
        decided = await api.post(f"/api/v1/transactions/{taken['id']}:commit")
        assert (decided.status_code, decided.json()["outcome"]) == (200, "committed")
        shown = (await api.get(f"/api/v1/transactions/{taken['id']}")).json()
        assert shown["transaction"]["transaction_id"] == taken["transaction_id"]
        assert shown["life"][0]["event"] == "half"
        delayed = half | {"message": {"body": "x", "delay_ms": 5_000}}
        for answer in (
            await api.post("/api/v1/transactions", json=delayed),
            await api.post(f"/api/v1/transactions/{taken['id']}:check"),
            await api.get("/api/v1/transactions"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (501, "not_supported")
    await application.state.holder.close()
    assert wait_until(lambda: admin.message_by_id(TOPIC, taken["transaction_id"]) is not None)
