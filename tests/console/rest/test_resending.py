"""A stored message sent again by REST: as a new one, or back to one group; what cannot be is named."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin
from broker.mirror.models import Broker, MirrorState
from broker.server.broker import BrokerService
from console.operations.models import AuditEntry, Operation
from console.rest.identifiers import parse, written
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.people import browser_of, person
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import KEYED, ONE, delivered, send
from tests.console.rest.test_single_operations import in_database
from tests.console.rest.test_transactions import begin
from tests.console.ui.test_pages import words

WHY = {"reason": "the shop was down"}


@pytest.fixture(autouse=True)
def operations(service: BrokerService, settings: Any) -> Any:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    service.engine.topics.ensure("orders", 4)
    yield
    hang_up()


async def again(api: httpx.AsyncClient, identifier: str, **fields: Any) -> httpx.Response:
    return await api.post(f"/api/v1/messages/{identifier}:resend", json=WHY | fields)


async def count(admin: AsyncAdmin, topic: str = "orders") -> int:
    return sum(each.max_offset for each in (await admin.topic_stats(topic)).queues)


async def test_it_comes_again_as_a_new_message(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    said = {"body": "pay", "tag": "new", "keys": ["k1"], "properties": {"color": "red"}, "sharding_key": "4711"}
    sent = (await api.post(ONE, json=said)).json()
    answer = await again(api, sent["id"])
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["outcome"], told["topic"], told["group"], told["repeated"]) == ("sent_as_new", "orders", None, False)
    assert told["message_id"] != sent["message_id"]
    one, two = [(await api.get(f"/api/v1/messages/{each['id']}")).json() for each in (sent, told)]
    assert [two[name] for name in ("body", "tag", "keys", "topic")] == ["pay", "new", ["k1"], "orders"]
    assert two["properties"]["color"] == "red"
    assert two["properties"]["RESENT_FROM"] == one["offset_message_id"]
    assert [each["records"][0]["queue"] for each in (one, two)] == [sent["queue"], sent["queue"]]
    assert await count(admin) == 2


async def test_every_id_of_it_will_do(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    stored = (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0]
    assert (await again(api, stored.offset_message_id)).status_code == 201
    by_unique = await api.post(f"/api/v1/messages/{sent['message_id']}:resend?topic=orders", json=WHY)
    assert by_unique.status_code == 201, by_unique.text
    assert await count(admin) == 3


async def test_it_is_an_operation_with_reason_audit_and_page(api: httpx.AsyncClient) -> None:
    sent = (await api.post(ONE, json={"body": "x", "keys": ["k1"]})).json()
    answer = await again(api, sent["id"])
    shown = (await api.get(answer.json()["operation"])).json()
    assert (shown["kind"], shown["state"], shown["reason"]) == ("messages.resend", "done", "the shop was down")
    assert (shown["results"], shown["preview"]["topics"]) == ({"sent_as_new": 1}, [["orders", 1]])

    def kept() -> tuple[list[str], str]:
        audit = AuditEntry.objects.filter(operation=shown["id"]).order_by("id").values_list("what", flat=True)
        return list(audit), words(browser_of(person("reader")).get(f"/operations/{shown['id']}/"))

    steps, page = await in_database(kept)
    assert steps == ["confirmed", "finished"]
    assert "Resend a message" in page
    assert "k1" in page
    assert (await api.post(f"/api/v1/messages/{sent['id']}:resend", json={})).json()["code"] == "invalid_request"


async def test_a_preview_sends_nothing(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    answer = await again(api, sent["id"], preview=True)
    assert answer.status_code == 200, answer.text
    assert answer.json()["preview"]["count"] == 1
    assert answer.json()["preview"]["met_count"] == 0
    assert await count(admin) == 1
    await again(api, sent["id"])
    assert (await again(api, sent["id"], preview=True)).json()["preview"]["met_count"] == 1
    assert await in_database(Operation.objects.count) == 1


async def test_the_same_call_sends_nothing_a_second_time(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    answers = await asyncio.gather(*(again(api, sent["id"], idempotency_key="call-1") for _ in range(4)))
    assert {each.status_code for each in answers} <= {200, 201, 202}
    last = await again(api, sent["id"], idempotency_key="call-1")
    assert (last.status_code, last.json()["repeated"]) == (200, True)
    assert await count(admin) == 2
    assert last.json()["id"] in {each.json()["id"] for each in answers if each.status_code == 201}
    other = (await api.post(ONE, json={"body": "y"})).json()
    assert (await again(api, other["id"], idempotency_key="call-1")).json()["code"] == "idempotency_key_used"
    assert (await again(api, sent["id"], idempotency_key="call-2")).status_code == 201
    assert await count(admin) == 4


async def test_keys_of_tokens_do_not_meet(
    api: httpx.AsyncClient, admin: AsyncAdmin, transactional_db: None
) -> None:  # fmt: skip
    sent = (await api.post(ONE, json={"body": "x"})).json()
    assert (await again(api, sent["id"], idempotency_key="1")).status_code == 201
    every = security_tokens.scope_rows(["*"], ["*"])
    api.headers["authorization"] = f"Bearer {(await in_database(lambda: security_tokens.create('second', every)))[1]}"
    assert (await again(api, sent["id"], idempotency_key="1")).status_code == 201
    assert await count(admin) == 3


async def test_one_group_alone_gets_it_back(api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    service.engine.groups.ensure("billing")
    answer = await again(api, sent["id"], group="billing")
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["outcome"], told["group"], told["id"]) == ("sent_back", "billing", None)
    assert await count(admin) == 1
    (parked,) = await admin.pull("SCHEDULE_TOPIC_XXXX", 0, 0, 1)
    assert parked.properties["REAL_TOPIC"].startswith("%RETRY%billing")
    assert parked.body == b"x"


async def test_a_group_that_it_would_never_reach_gets_nothing(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService
) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    service.engine.groups.ensure("billing")
    service.engine.topics.ensure("%RETRY%billing_orders", 1)

    def mirror() -> None:
        """So it says of Apache RocketMQ."""
        broker = Broker(name=service.config.broker_name)
        Broker.mirror_writer.bulk_create([broker])
        MirrorState.mirror_writer.bulk_create([MirrorState(broker=broker, polling=True)])

    await in_database(mirror)
    answer = await again(api, sent["id"], group="billing")
    assert (answer.status_code, answer.json()["code"]) == (422, "operation_refused"), answer.text
    assert "it would not arrive" in answer.json()["detail"]
    assert (await in_database(Operation.objects.get)).results == {"refused": 1}
    assert await admin.pull("SCHEDULE_TOPIC_XXXX", 0, 0, 1) == []
    assert (await again(api, sent["id"])).status_code == 201


async def test_who_may(api: httpx.AsyncClient, admin: AsyncAdmin, make_token: MakeToken) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    stored = (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0]

    async def as_token(identifier: str, token: str, **fields: Any) -> tuple[int, str]:
        api.headers["authorization"] = f"Bearer {token}"
        answer = await again(api, identifier, **fields)
        return answer.status_code, answer.json().get("code", "")

    reader = await in_database(lambda: make_token(("other",), ("*",), None, ("orders",)))
    assert await as_token(sent["id"], reader) == (403, "scope_missing")
    assert await as_token(stored.offset_message_id, reader) == (404, "message_not_found")
    forged = written(parse(sent["id"]).broker, "other", parse(sent["id"]).position, "")
    assert await as_token(forged, reader) == (404, "message_not_found")
    sender = await in_database(lambda: make_token(("orders",), ("orders",), None, ("orders",)))
    assert await as_token(sent["id"], sender, group="billing") == (403, "scope_missing")
    assert await count(admin) == 1
    assert (await as_token(sent["id"], sender))[0] == 201


async def test_what_waits_or_was_cancelled_is_not_sent_again(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    timer = await send(api, schedule_key="k")
    level = (await api.post(ONE, json={"body": "x", "delay_level": 9})).json()
    for each in (timer, level):
        answer = await again(api, each["id"])
        assert (answer.status_code, answer.json()["code"]) == (409, "not_resendable"), answer.text
        assert "waits" in answer.json()["detail"]
    await api.delete(KEYED + "k")
    assert "cancelled" in (await again(api, timer["id"])).json()["detail"]
    assert await count(admin) == 0


async def test_what_waited_is_sent_again_once_it_was_delivered(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    timer = await send(api, schedule_key="k", body="later")
    await api.post(f"/api/v1/messages/{timer['id']}:deliver-now")
    await delivered(admin, timer["message_id"])
    told = (await again(api, timer["id"])).json()
    found = (await api.get(f"/api/v1/messages/{told['id']}")).json()
    assert (found["body"], found["state"], found["due_ms"]) == ("later", "stored", None)
    assert await count(admin) == 2


async def test_halves_and_messages_of_the_broker_are_not_sent_again(
    api: httpx.AsyncClient, service: BrokerService, admin: AsyncAdmin
) -> None:
    half = await begin(api)
    for path in (half["id"], f"{half['transaction_id']}"):
        query = "" if path.startswith("m1") else "?topic=orders"
        answer = await api.post(f"/api/v1/messages/{path}:resend{query}", json=WHY)
        assert (answer.status_code, answer.json()["code"]) == (409, "not_resendable"), answer.text
        assert "transaction" in answer.json()["detail"]
    sent = (await api.post(ONE, json={"body": "x"})).json()
    service.engine.groups.ensure("billing")
    await again(api, sent["id"], group="billing")
    (parked,) = await admin.pull("SCHEDULE_TOPIC_XXXX", 0, 0, 1)
    answer = await again(api, parked.offset_message_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_resendable"), answer.text
    assert "dead-letters" in answer.json()["detail"]


async def test_what_is_not_there_is_not_sent_again(api: httpx.AsyncClient, service: BrokerService) -> None:
    unknown = written(service.config.broker_name, "orders", 99_999_999, "")
    for identifier, status in ((unknown, 404), ("nothing", 400)):
        assert (await again(api, identifier)).status_code == status


async def test_where_a_second_person_is_asked_it_waits(
    api: httpx.AsyncClient, admin: AsyncAdmin, settings: Any
) -> None:  # fmt: skip
    settings.SECOND_PERSON_KINDS = {"messages.resend": 0}
    sent = (await api.post(ONE, json={"body": "x"})).json()
    answer = await again(api, sent["id"])
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    assert answer.headers["location"].endswith(answer.json()["id"])
    assert await count(admin) == 1
