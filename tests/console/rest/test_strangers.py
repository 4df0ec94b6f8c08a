"""What a token of one prefix is told of topics and groups of another: nothing, not even that they are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.db.models import F

from broker.client import Admin, AsyncAdmin
from broker.mirror.follower import Mirror
from broker.server.broker import BrokerService
from console.security import tokens as security_tokens
from console.security.models import ApiToken
from console.site.broker import hang_up
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import send
from tests.console.rest.test_single_operations import in_database
from tests.console.rest.test_transactions import begin

WHY = {"reason": "because"}
#: group -> topics that it reads
READS = {
    "billing": ("orders",), "wages": ("payroll",), "both": ("orders", "payroll"), "order-mail": ("payroll",),
    "idle": (), "retrying": ("orders", "%RETRY%retrying"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def operations(service: BrokerService, settings: Any) -> Iterator[None]:
    """The console's operations ask the broker of this test."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    for topic in ("orders", "payroll", "%RETRY%retrying"):
        service.engine.topics.ensure(topic, 1)
    for group in READS:
        service.engine.groups.ensure(group)
    yield
    hang_up()


def mirrored(namesrv: str) -> None:
    with Admin(namesrv) as admin:
        for group, topics in READS.items():
            for topic in topics:
                admin.move_group(group, topic, 0, 0)
        mirror = Mirror(admin)
        mirror.run_once()
        mirror.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_groups_that_are_listed_are_those_of_the_prefix(
    api: httpx.AsyncClient, service: BrokerService, make_token: MakeToken
) -> None:
    await in_database(lambda: mirrored(service.namesrv_address))

    async def listed(*read: str) -> set[str]:
        token = await in_database(lambda: make_token((), read))
        rows = (await api.get("/api/v1/groups", headers=bearer(token))).json()["groups"]
        return {row["name"] for row in rows}

    assert await listed("order*") == {"billing", "order-mail", "retrying", "both"}
    assert await listed("pay*") == {"wages", "order-mail", "both"}
    assert await listed("order*", "pay*") == {"billing", "order-mail", "retrying", "wages", "both"}
    # a name alone is no beginning; a group is seen by its own name, too
    assert await listed("order") == set()
    assert await listed("billing") == {"billing"}
    assert await listed("nothing") == set()
    assert await listed("*") == set(READS)


async def test_a_record_named_by_its_place_does_not_tell_its_topic(
    api: httpx.AsyncClient, admin: AsyncAdmin, make_token: MakeToken
) -> None:
    sent = await send(api, schedule_key="k")
    shown = (await api.get(f"/api/v1/messages/{sent['id']}")).json()
    half = await begin(api)
    (record,) = await admin.pull("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, 1)
    places = {
        "timers:cancel": [{"position": shown["records"][0]["position"]}, {"id": shown["offset_message_id"]}],
        "transactions:commit": [{"offset": 0, "position": record.position}],
    }  # fmt: skip
    assert half["topic"] == "orders"
    stranger = bearer(await in_database(lambda: make_token(("pay",), ("pay",), None, ("pay",))))
    for path, named in places.items():
        many = path.partition(":")[0]
        for each in named:
            unknown = {name: 7 if isinstance(place, int) else f"{place[:-2]}FF" for name, place in each.items()}
            told = []
            for one in (each, unknown):
                answer = await api.post(f"/api/v1/{path}", json={many: [one], **WHY}, headers=stranger)
                told.append((answer.status_code, answer.json()["code"], answer.json()["detail"]))
                assert "orders" not in answer.text
            assert told[0] == told[1], "what is there and what is not are told apart"
    for method, tail in (
        ("DELETE", "/schedule"),
        ("PATCH", "/schedule"),
        ("POST", ":deliver-now"),
        ("POST", ":resend"),
    ):
        path = f"/api/v1/messages/{shown['offset_message_id']}{tail}"
        said = {"delay_ms": 5} if method == "PATCH" else WHY if tail == ":resend" else None
        answer = await api.request(method, path, json=said, headers=stranger)
        assert (answer.status_code, answer.json()["code"]) == (404, "message_not_found"), answer.text
        assert "orders" not in answer.text


async def test_who_reads_only_begins_no_operations_and_sees_none(api: httpx.AsyncClient, make_token: MakeToken) -> None:
    await send(api, schedule_key="k")
    address = (await api.delete("/api/v1/topics/orders/schedule/k")).json()["operation"]
    reader = bearer(await in_database(lambda: make_token((), ("*",), None, ())))
    for method, tail in (("GET", ""), ("POST", ":abort"), ("POST", ":take-back")):
        answer = await api.request(method, address + tail, json=WHY if tail == ":take-back" else None, headers=reader)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_token_of_the_same_name_that_somebody_else_has_sees_no_operation(
    api: httpx.AsyncClient, django_user_model: Any
) -> None:
    await send(api, schedule_key="k")
    address = (await api.delete("/api/v1/topics/orders/schedule/k")).json()["operation"]

    def of_somebody() -> str:
        user = django_user_model.objects.create_user("mallory")
        # as while a token is rotated: both count, and have the name
        ApiToken.objects.update(replaced_by=F("pk"))
        return security_tokens.create("test", security_tokens.scope_rows(["pay"], []), created_by=user)[1]

    theirs = bearer(await in_database(of_somebody))
    assert (await api.get(address)).status_code == 200
    assert (await api.get(address, headers=theirs)).json()["code"] == "operation_unknown"
