"""What rules of masks hide is in no answer of REST that is read, but for a token that says so, nor in /admin/."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import pytest
import redis
from django.contrib.auth import get_user_model
from django.db import connection

from broker.client import AsyncAdmin, AsyncProducer
from broker.mirror.models import Broker, HalfMessage
from broker.redisson import DelayedQueue
from broker.server.broker import BrokerService
from console.features.redisson import read as redisson_server
from console.operations.models import AuditEntry
from console.rest.routes import ROUTES
from console.security import tokens as security_tokens
from console.security.models import MaskRule
from console.site.broker import hang_up
from tests.console.people import browser_of
from tests.console.rest.sending_timers import HOUR_MS

BODY, CARD, KEY, TAG, SCHEDULED = "s3cret-body", "s3cret-card", "s3cret-key", "s3cret-tag", "s3cret-schedule"
WHY = "holds card numbers"
HIDDEN = "body\ncard\nKEYS\nTAGS\nESC_SCHEDULE_KEY\nUNIQ_KEY"
#: reads that are about no message
PLAIN = {
    "/topics", "/groups", "/schedule/levels", "/due", "/timers/status", "/timers/wheel", "/timers/forecast",
    "/topics/{topic}/settings", "/groups/{group}/settings", "/check-addresses", "/redisson/queues",
    "/redisson/queues/{queue}", "/check-addresses/{group}", "/alert-rules", "/alert-rules/{rule}", "/alert-silences",
    "/findings", "/topics/{topic}/descriptor",
    "/broker-users", "/broker-users/{user}", "/people", "/people/{person}", "/roles", "/tokens", "/tokens/{token}",
    "/brokers", "/brokers/{broker}/settings",
}  # fmt: skip
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Secrets:
    """Addresses of the reads that are about messages, and what must not be in their answers."""

    paths: dict[str, list[str]]
    unique_ids: list[str]


@pytest.fixture
def token(transactional_db: None) -> str:
    """May do everything, but sees no more than the masks leave."""
    scopes = security_tokens.scope_rows(["*"], ["*"], ["*"], consume=["*"], settings=["*"])
    return security_tokens.create("test", scopes)[1]


@pytest.fixture
def server(valkey: str, settings: Any, service: BrokerService) -> Iterator[redis.Redis]:
    """An empty server of Redisson's queues; operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    client.flushall()
    yield client
    redisson_server.hang_up()
    hang_up()
    client.flushall()
    client.close()


async def in_database(work: Callable[[], Result]) -> Result:
    def done() -> Result:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(done)


async def planted(api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, server: redis.Redis) -> Secrets:
    """Messages of every kind that hold secrets, and where they can be read."""
    more: dict[str, Any] = {"body": BODY, "keys": [KEY], "tag": TAG, "properties": {"card": CARD}}
    root = "/api/v1/topics/orders/messages"
    sent = [
        (await api.post(root, json={**more, **kind})).json()
        for kind in ({}, {"delay_level": 16}, {"delay_ms": HOUR_MS, "schedule_key": SCHEDULED})
    ]
    half = (
        await api.post("/api/v1/transactions", json={"topic": "orders", "producer_group": "shop", "message": more})
    ).json()
    await api.post("/api/v1/groups", json={"name": "billing", "settings": {}, "reason": "x"})
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        dead = await producer.send("orders", BODY, keys=[KEY], tag=TAG, properties={"card": CARD})
    record = await admin.message_by_offset_id(dead.offset_message_id)
    await admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    DelayedQueue("orders", server).offer(BODY, delay=HOUR_MS / 1000)
    moved = await api.request("PATCH", f"/api/v1/topics/orders/schedule/{SCHEDULED}", json={"delay_ms": HOUR_MS})
    chosen = {"timers": [{"topic": "orders", "schedule_key": SCHEDULED}], "shift_ms": 1, "reason": "x"}
    many = await api.post("/api/v1/timers:reschedule", json=chosen)
    paths = {
        "/messages/{id}": [f"messages/{each['id']}" for each in sent], "/timers": ["timers"],
        "/transactions": ["transactions"], "/transactions/{id}": [f"transactions/{half['id']}"],
        "/groups/{group}/dead-letters": ["groups/billing/dead-letters"],
        "/redisson/queues/{queue}/values": ["redisson/queues/orders/values"],
        "/operations/{id}": [moved.json()["operation"], many.headers["location"]],
    }  # fmt: skip
    return Secrets(paths, [*(each["message_id"] for each in sent), half["transaction_id"], dead.message_id])


def told(answer: httpx.Response) -> str:
    """All that it says, also in what is base64."""
    text = answer.text
    coded = [each.removeprefix("m1") for each in re.findall(r"[A-Za-z0-9_-]{20,}", text)]
    opened = [base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)) for each in coded if len(each) % 4 != 1]
    return text + "".join(each.decode("latin-1") + each.hex().upper() for each in opened)


async def test_no_read_tells_what_a_rule_hides(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, server: redis.Redis
) -> None:
    secrets = await planted(api, admin, service, server)
    reads = {each.path for each in ROUTES if each.method == "GET"}
    assert reads == PLAIN | set(secrets.paths)
    await in_database(lambda: MaskRule.objects.create(prefix="ord", fields=HIDDEN, why=WHY))
    await let_go(api)
    for paths in secrets.paths.values():
        for path in paths:
            answer = await api.get("/api/v1/" + path.removeprefix("/api/v1/"))
            assert answer.status_code == 200, answer.text
            assert WHY in answer.text, path
            said = told(answer)
            assert "s3cret" not in said, path
            assert not [each for each in secrets.unique_ids if each in said], path


async def let_go(api: httpx.AsyncClient) -> None:
    """Nothing that was read before the rule is known any more."""
    holder = api._transport.app.state.holder  # type: ignore[attr-defined]  # the application under test
    holder.get().grants._masks = None


async def test_what_is_masked_is_still_found_by_the_id_that_is_told(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, server: redis.Redis
) -> None:
    secrets = await planted(api, admin, service, server)
    await in_database(lambda: MaskRule.objects.create(prefix="", fields="UNIQ_KEY", why=WHY))
    await let_go(api)
    for path in secrets.paths["/messages/{id}"]:
        found = (await api.get(f"/api/v1/{path}")).json()
        assert (await api.get(f"/api/v1/messages/{found['id']}")).json() == found
    (half,) = (await api.get("/api/v1/transactions")).json()["transactions"]
    assert (await api.get(f"/api/v1/transactions/{half['id']}")).json()["transaction"]["id"] == half["id"]
    assert (await api.post(f"/api/v1/transactions/{half['id']}:commit")).json()["outcome"] == "committed"
    (timer,) = (await api.get("/api/v1/timers")).json()["timers"]
    assert (await api.delete(f"/api/v1/messages/{timer['id']}/schedule")).json()["outcome"] == "cancelled"


async def test_a_token_that_says_so_sees_what_it_may_read(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, server: redis.Redis
) -> None:
    secrets = await planted(api, admin, service, server)

    def made() -> list[str]:
        MaskRule.objects.create(prefix="", fields=HIDDEN, why=WHY)
        return [
            security_tokens.create(f"boss {prefix}", security_tokens.scope_rows([], ["*"], unmask=[prefix]))[1]
            for prefix in ("orders", "pay")
        ]

    boss, other = await in_database(made)
    await let_go(api)
    kinds = (
        "/messages/{id}", "/timers", "/transactions", "/transactions/{id}", "/groups/{group}/dead-letters",
        "/redisson/queues/{queue}/values",
    )  # fmt: skip
    for kind in kinds:
        for path in secrets.paths[kind]:
            seen = await api.get(f"/api/v1/{path}", headers={"authorization": f"Bearer {boss}"})
            assert "s3cret" in seen.text, path
            assert WHY not in seen.text, path
            hidden = await api.get(f"/api/v1/{path}", headers={"authorization": f"Bearer {other}"})
            assert "s3cret" not in hidden.text, path


def test_admin_tells_no_more_than_the_console(db: None) -> None:
    MaskRule.objects.create(prefix="ord", fields=HIDDEN, why=WHY)
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a", state="ok")])
    half = HalfMessage(
        broker=broker, offset=7, position=9, state="open", topic="orders", group="shop", transaction_id="s3cret-unique",
        keys=[KEY], tag=TAG,
    )  # fmt: skip
    HalfMessage.mirror_writer.bulk_create([half])
    targets = [{"topic": "orders", "scheduleKey": SCHEDULED}, {"topic": "orders", "uniqueKey": "s3cret-unique"}]
    entry = AuditEntry.objects.create(
        actor="anna", what="confirmed", kind="timers.cancel", result={"parameters": {"targets": targets}, "count": 2}
    )
    AuditEntry.objects.create(
        actor="anna", what="confirmed", kind="timers.cancel",
        result={"parameters": {"filter": {"topic": "orders", "key": KEY}}, "count": 2},
    )  # fmt: skip
    browser = browser_of(get_user_model().objects.create_superuser("root"))
    for path in (
        "/admin/broker/halfmessage/", f"/admin/broker/halfmessage/{half.pk}/change/",
        f"/admin/console/auditentry/{entry.pk}/change/", "/admin/console/auditentry/", "/audit/",
    ):  # fmt: skip
        page = browser.get(path)
        assert page.status_code == 200, path
        assert "s3cret" not in page.content.decode(), path
    for form in ("csv", "json"):
        answer = browser.get(f"/audit/data.{form}")
        said = b"".join(answer.streaming_content).decode()
        assert "s3cret" not in said
        assert WHY in said
    half.refresh_from_db()
    assert half.keys == [KEY]
