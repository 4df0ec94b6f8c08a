"""Transactions by REST: a half, its decision, its check, the list; who may, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin, AsyncTransactionProducer, Decision
from broker.server.broker import BrokerService
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import delivered

BEGIN = "/api/v1/transactions"
HALF = {"topic": "orders", "message": {"body": "4711", "keys": ["order-4711"], "tag": "paid"}, "producer_group": "shop"}


async def begin(api: httpx.AsyncClient, **message: Any) -> dict[str, Any]:
    answer = await api.post(BEGIN, json=HALF | {"message": {"body": "4711"} | message})
    assert answer.status_code == 201, answer.text
    taken: dict[str, Any] = answer.json()
    return taken


async def listed(api: httpx.AsyncClient, state: str = "open", **wanted: str) -> list[dict[str, Any]]:
    answer = await api.get(BEGIN, params={"state": state, **wanted})
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["transactions"]
    return rows


async def test_a_half_is_taken_and_seen_by_nobody_until_it_is_committed(
    api: httpx.AsyncClient, admin: AsyncAdmin
) -> None:
    answer = await api.post(BEGIN, json=HALF)
    assert answer.status_code == 201
    taken = answer.json()
    assert (taken["topic"], taken["producer_group"], taken["flushed"]) == ("orders", "shop", True)
    assert await admin.message_by_id("orders", taken["transaction_id"]) is None
    (row,) = await listed(api)
    assert (row["id"], row["transaction_id"]) == (taken["id"], taken["transaction_id"])
    assert (row["state"], row["keys"], row["tag"], row["checks"]) == ("open", ["order-4711"], "paid", 0)
    assert row["producers"] == []
    decided = await api.post(f"{BEGIN}/{taken['id']}:commit", json={"reason": "paid"})
    assert (decided.status_code, decided.json()["outcome"], decided.json()["repeated"]) == (200, "committed", False)
    assert await delivered(admin, taken["transaction_id"])
    (row,) = await listed(api, "decided")
    assert (row["state"], row["decided_by"], row["reason"]) == ("committed", "token test", "paid")
    assert await listed(api) == []


async def test_a_decision_may_be_repeated_and_not_contradicted(api: httpx.AsyncClient) -> None:
    for first, other, outcome in (("commit", "rollback", "committed"), ("rollback", "commit", "rolled_back")):
        taken = await begin(api)
        for repeated in (False, True):
            answer = await api.post(f"{BEGIN}/{taken['transaction_id']}:{first}")
            assert (answer.status_code, answer.json()["repeated"]) == (200, repeated)
            assert answer.json()["outcome"] == outcome
        refused = await api.post(f"{BEGIN}/{taken['id']}:{other}")
        assert (refused.status_code, refused.json()["code"]) == (409, "decided_otherwise")
        assert "by token test" in refused.json()["detail"]


async def test_a_check_asks_a_producer_of_the_group(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService
) -> None:
    taken = await begin(api)
    async with AsyncTransactionProducer("shop", service.namesrv_address, check=lambda message: Decision.COMMIT):
        answer = await api.post(f"{BEGIN}/{taken['id']}:check")
        assert (answer.status_code, answer.json()["outcome"]) == (200, "check_planned")
        assert await delivered(admin, taken["transaction_id"])
    (row,) = await listed(api, "decided")
    assert row["decided_by"].startswith("check ")


async def test_a_delay_counts_from_the_commit(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    taken = await begin(api, delay_ms=3_600_000)
    assert (await api.post(f"{BEGIN}/{taken['id']}:commit")).status_code == 200
    found = (await api.get("/api/v1/timers", params={"topic": "orders"})).json()["timers"]
    assert [row["message_id"] for row in found] == [taken["transaction_id"]]


async def test_the_list_goes_on_with_its_cursor_and_filters(api: httpx.AsyncClient) -> None:
    ids = [(await begin(api))["id"] for _ in range(3)]
    other = HALF | {"producer_group": "others"}
    assert (await api.post(BEGIN, json=other)).status_code == 201
    first = (await api.get(BEGIN, params={"limit": "2"})).json()
    rest = (await api.get(BEGIN, params={"limit": "2", "cursor": first["cursor"]})).json()
    assert [row["id"] for row in first["transactions"] + rest["transactions"]][:3] == ids
    assert [row["producer_group"] for row in await listed(api, producer_group="others")] == ["others"]
    assert await listed(api, topic="bills") == await listed(api, "parked") == []
    assert await listed(api, older_than_ms="3600000") == []


@pytest.fixture
def narrow(make_token: MakeToken) -> str:
    """A token for other topics."""
    return make_token(publish=("bills",), read=("bills",))


async def test_a_token_decides_only_where_it_may_publish(
    api: httpx.AsyncClient, anonymous: httpx.AsyncClient, narrow: str
) -> None:
    taken = await begin(api)
    everywhere = anonymous.headers["authorization"]
    anonymous.headers["authorization"] = f"Bearer {narrow}"
    assert (await anonymous.post(BEGIN, json=HALF)).status_code == 403
    # nor may it have another team's producers asked about a half of its own topic
    anothers = await anonymous.post(BEGIN, json=HALF | {"topic": "bills"})
    assert (anothers.status_code, anothers.json()["code"]) == (403, "scope_missing")
    assert (await anonymous.post(f"{BEGIN}/{taken['id']}:commit")).status_code == 403
    # whether there is such a transaction is not told
    hidden = await anonymous.post(f"{BEGIN}/{taken['transaction_id']}:commit")
    assert (hidden.status_code, hidden.json()["code"]) == (404, "message_not_found")
    assert (await anonymous.get(BEGIN)).json()["transactions"] == []
    anonymous.headers["authorization"] = everywhere
    assert [row["state"] for row in await listed(api)] == ["open"]


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"topic": ""}, 400, "invalid_request"),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 400, "invalid_message"),
        ({"topic": "%RETRY%shop"}, 400, "invalid_message"),
        ({"producer_group": ""}, 400, "invalid_request"),
        ({"producer_group": "a group"}, 400, "invalid_message"),
        ({"message": {"body": "x", "schedule_key": "k", "delay_ms": 5}}, 400, "invalid_message"),
        ({"message": {"body": "x", "group": "shop"}}, 400, "invalid_message"),
        ({"message": {}}, 400, "invalid_message"),
        ({"message": {"body": "x", "dedup_key": "k"}}, 400, "invalid_request"),
        ({"more": 1}, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_a_half_is_named_and_nothing_is_written(
    api: httpx.AsyncClient, admin: AsyncAdmin, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.post(BEGIN, json=HALF | changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await admin.transaction_status()).half_total == 0


async def test_a_name_that_is_none_changes_nothing(api: httpx.AsyncClient) -> None:
    taken = await begin(api)
    forged = [
        (f"{taken['transaction_id'][:-1]}X", 404, "message_not_found"),
        ("nobody", 404, "message_not_found"),
        ("m1" + "A" * 40, 400, "invalid_id"),
    ]
    for name, status, code in forged:
        answer = await api.post(f"{BEGIN}/{name}:commit")
        assert (answer.status_code, answer.json()["code"]) == (status, code), name
    wrong = await api.post(f"{BEGIN}/{taken['id']}:commit", json={"producer_group": "thieves"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_parameter")
    for query in ("state=all", "limit=0", "limit=x", "cursor=-1", "nonsense=1", "older_than_ms=soon"):
        answer = await api.get(f"{BEGIN}?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter"), query
    assert [row["state"] for row in await listed(api)] == ["open"]


async def test_the_id_of_a_message_that_is_no_half_is_none(api: httpx.AsyncClient) -> None:
    sent = (await api.post("/api/v1/topics/orders/messages", json={"body": "x"})).json()
    answer = await api.post(f"{BEGIN}/{sent['id']}:commit")
    assert (answer.status_code, answer.json()["code"]) == (404, "message_not_found")
