"""One timer by REST: send for a moment, look, move, cancel, deliver now; every outcome has its code."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin, AsyncProducer
from broker.server.broker import BrokerService
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import HOUR_MS, KEYED, ONE, TEN_YEARS_MS, delivered, now_ms, send


async def test_a_moment_with_a_zone_is_kept_to_the_millisecond(api: httpx.AsyncClient) -> None:
    answer = await api.post(ONE, json={"body": "x", "deliver_at": "2027-01-31T08:00:00.123+01:00", "keys": ["k"]})
    assert answer.status_code == 201
    sent = answer.json()
    assert sent["due_ms"] == 1_801_378_800_123
    assert sent["recall_handle"]
    assert sent["conflict"] is None
    found = (await api.get(f"/api/v1/messages/{sent['id']}")).json()
    assert (found["state"], found["topic"], found["due_ms"]) == ("waiting", "orders", sent["due_ms"])
    by_unique_id = await api.get(f"/api/v1/messages/{sent['message_id']}", params={"topic": "orders"})
    assert by_unique_id.json() == found


async def test_epoch_ms_and_a_delay_are_moments_too(api: httpx.AsyncClient) -> None:
    at_ms = now_ms() + HOUR_MS
    assert (await send(api, delay_ms=None, deliver_at=at_ms))["due_ms"] == at_ms
    before_ms = now_ms()
    assert before_ms + HOUR_MS <= (await send(api))["due_ms"] <= now_ms() + HOUR_MS


async def test_a_message_arrives_at_its_moment(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = await send(api, delay_ms=200)
    assert await delivered(admin, sent["message_id"])
    arrived = await admin.message_by_id("orders", sent["message_id"])
    assert arrived is not None
    assert arrived.store_ms >= sent["due_ms"]
    found = (await api.get(f"/api/v1/messages/{sent['id']}")).json()
    assert (found["state"], len(found["records"])) == ("delivered", 2)


async def test_a_moment_in_the_past_is_now_or_refused(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    past = {"body": "x", "deliver_at": "2020-01-01T00:00:00Z"}
    sent = (await api.post(ONE, json=past)).json()
    assert await admin.message_by_id("orders", sent["message_id"]) is not None
    refused = await api.post(ONE, json=past | {"reject_past": True})
    assert (refused.status_code, refused.json()["code"]) == (422, "moment_past")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"deliver_at": "2027-01-31T08:00:00"}, 422, "zone_missing"),
        ({"deliver_at": "soon"}, 422, "invalid_moment"),
        ({"deliver_at": -1}, 422, "invalid_moment"),
        ({"deliver_at": 2**63}, 422, "invalid_moment"),
        ({"deliver_at": 1.5}, 400, "invalid_request"),
        ({"deliver_at": True}, 400, "invalid_request"),
        ({"delay_ms": -1}, 400, "invalid_request"),
        ({"delay_ms": 2**63}, 400, "invalid_request"),
        ({"delay_ms": "5"}, 400, "invalid_request"),
        ({"delay_ms": TEN_YEARS_MS + HOUR_MS}, 422, "too_far"),
        ({"delay_ms": 2**63 - 1}, 422, "too_far"),
        ({"delay_ms": 5, "deliver_at": 5}, 400, "invalid_message"),
        ({"delay_ms": 5, "delay_level": 1}, 400, "invalid_message"),
        ({"schedule_key": "k"}, 400, "invalid_message"),
        ({"schedule_key": "", "delay_ms": 5}, 400, "invalid_request"),
        ({"schedule_key": "x" * 201, "delay_ms": 5}, 400, "invalid_request"),
        ({"schedule_key": "a\u0002b", "delay_ms": 5}, 400, "invalid_message"),
        ({"on_conflict": "merge", "schedule_key": "k", "delay_ms": 5}, 400, "invalid_request"),
        ({"on_conflict": "keep", "delay_ms": 5}, 400, "invalid_message"),
    ],
)
async def test_moments_that_cannot_be_are_named_and_nothing_is_written(
    api: httpx.AsyncClient, admin: AsyncAdmin, fields: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.post(ONE, json={"body": "x"} | fields)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["detail"]
    assert (await admin.runtime())["commitLogMaxOffset"] == "0"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"delay_ms": 5, "deliver_at": 5}, "delay_ms"), ({"delay_level": 1, "deliver_at": 5}, "deliver_at"),
        ({"delay_level": 1, "deliver_at": 5, "delay_ms": 5}, "delay_ms"), ({"schedule_key": "k"}, "schedule_key"),
        ({"reject_past": True}, "reject_past"),
    ],
)  # fmt: skip
async def test_what_does_not_go_together_is_named_as_it_was_given(
    api: httpx.AsyncClient, fields: dict[str, Any], field: str
) -> None:
    problem = (await api.post(ONE, json={"body": "x"} | fields)).json()
    assert (problem["code"], problem["field"]) == ("invalid_message", field)
    assert "deliver_at" in problem["detail"]
    assert "deliver_at_ms" not in problem["detail"]


@pytest.mark.parametrize("raw", [b'{"body":"x","deliver_at":NaN}', b'{"body":"x","delay_ms":Infinity}'])
async def test_numbers_that_json_does_not_know_are_refused(api: httpx.AsyncClient, raw: bytes) -> None:
    answer = await api.post(ONE, content=raw, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "not_json")


async def test_a_schedule_key_is_taken_once_replaced_or_kept(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    first = await send(api, schedule_key="order-4711")
    taken = await api.post(ONE, json={"body": "y", "delay_ms": 5, "schedule_key": "order-4711"})
    assert (taken.status_code, taken.json()["code"], taken.json()["due_ms"]) == (
        409, "schedule_key_taken", first["due_ms"]
    )  # fmt: skip
    kept = await api.post(ONE, json={"body": "y", "delay_ms": 5, "schedule_key": "order-4711", "on_conflict": "keep"})
    assert (kept.status_code, kept.json()["conflict"]) == (200, "kept")
    assert {name: kept.json()[name] for name in ("id", "message_id", "due_ms")} == {
        name: first[name] for name in ("id", "message_id", "due_ms")
    }
    second = await send(api, delay_ms=2 * HOUR_MS, schedule_key="order-4711", on_conflict="replace")
    assert second["conflict"] == "replaced"
    waiting = (await api.get("/api/v1/timers")).json()["timers"]
    assert [(each["message_id"], each["schedule_key"]) for each in waiting] == [(second["message_id"], "order-4711")]
    other = await api.post(
        "/api/v1/topics/other/messages", json={"body": "", "delay_ms": 5, "schedule_key": "order-4711"}
    )
    assert other.status_code == 201


async def names_of(sent: dict[str, Any], admin: AsyncAdmin) -> list[tuple[str, dict[str, str]]]:
    """Every name of one waiting message: path and parameters."""
    page = await admin.timers(0, 2**62, key=sent["message_id"])
    paths = [sent["id"], sent["recall_handle"], page.items[0].offset_message_id]
    return [
        *((f"/api/v1/messages/{path}/schedule", {}) for path in paths),
        (f"/api/v1/messages/{sent['message_id']}/schedule", {"topic": "orders"}),
        (KEYED + "a%2Fb%20%C3%A9", {}),
    ]


async def test_a_message_that_another_replaced_does_not_wait(api: httpx.AsyncClient) -> None:
    first = await send(api, schedule_key="order-1")
    second = await send(api, schedule_key="order-1", on_conflict="replace")
    states = [(await api.get(f"/api/v1/messages/{each['id']}")).json()["state"] for each in (first, second)]
    assert states == ["cancelled", "waiting"]


async def test_a_past_moment_replaces_or_keeps_what_waits(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    first = await send(api, schedule_key="order-1")
    past = {"body": "y", "deliver_at": 1_000_000_000_000, "schedule_key": "order-1"}
    kept = await api.post(ONE, json=past | {"on_conflict": "keep"})
    assert (kept.status_code, kept.json()["id"], kept.json()["conflict"]) == (200, first["id"], "kept")
    assert (await api.post(ONE, json=past)).json()["code"] == "schedule_key_taken"
    replaced = await api.post(ONE, json=past | {"on_conflict": "replace"})
    assert (replaced.status_code, replaced.json()["conflict"]) == (201, "replaced")
    assert await delivered(admin, replaced.json()["message_id"])
    assert (await api.get("/api/v1/timers")).json()["timers"] == []


@pytest.mark.parametrize("nth", range(5))
async def test_each_name_of_a_timer_moves_and_cancels_it(api: httpx.AsyncClient, admin: AsyncAdmin, nth: int) -> None:
    sent = await send(api, schedule_key="a/b \u00e9")
    path, params = (await names_of(sent, admin))[nth]
    later_ms = sent["due_ms"] + 5
    moved = await api.request("PATCH", path, params=params, json={"deliver_at": later_ms, "reason": "late"})
    assert moved.status_code == 200, moved.text
    told = moved.json()
    assert (told["outcome"], told["due_ms"], told["previous_due_ms"]) == ("rescheduled", later_ms, sent["due_ms"])
    assert (told["message_id"], told["schedule_key"]) == (sent["message_id"], "a/b \u00e9")
    newest = f"/api/v1/messages/{told['id']}/schedule"
    cancelled = await api.delete(newest)
    assert (cancelled.status_code, cancelled.json()["outcome"]) == (200, "cancelled")
    again = await api.delete(newest)
    assert (again.status_code, again.json()["outcome"]) == (200, "already_cancelled")
    too_late = await api.request("PATCH", newest, json={"delay_ms": 5})
    assert (too_late.status_code, too_late.json()["code"]) == (409, "already_cancelled")
    assert (await api.get(f"/api/v1/messages/{sent['id']}")).json()["state"] == "cancelled"


async def test_what_was_delivered_says_when(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = await send(api, delay_ms=50)
    await delivered(admin, sent["message_id"])
    for answer in (
        await api.delete(f"/api/v1/messages/{sent['id']}/schedule"),
        await api.request("PATCH", f"/api/v1/messages/{sent['id']}/schedule", json={"delay_ms": 5}),
        await api.post(f"/api/v1/messages/{sent['id']}:deliver-now"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "already_delivered")
        assert sent["due_ms"] <= answer.json()["delivered_ms"] <= now_ms()


async def test_deliver_now_is_now(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = await send(api)
    told = await api.post(f"/api/v1/messages/{sent['id']}:deliver-now", params={"reason": "the customer called"})
    assert (told.status_code, told.json()["outcome"]) == (200, "delivered_now")
    assert await delivered(admin, sent["message_id"])


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (KEYED + "nothing", 404, "timer_unknown"),
        ("/api/v1/messages/" + "0" * 32 + "/schedule?topic=orders", 404, "timer_unknown"),
        ("/api/v1/messages/nonsense/schedule", 400, "invalid_id"),
        ("/api/v1/messages/m1AAAA/schedule", 400, "invalid_id"),
        ("/api/v1/messages/" + "0" * 32 + "/schedule?topic=a/b", 400, "invalid_message"),
        (KEYED + "k?what=1", 400, "invalid_parameter"),
        (KEYED + "x" * 201, 400, "invalid_message"),
        (KEYED + "k?reason=" + "x" * 501, 400, "invalid_parameter"),
    ],
)
async def test_names_of_nothing_are_refused(api: httpx.AsyncClient, path: str, status: int, code: str) -> None:
    await api.post(ONE, json={"body": "x"})
    answer = await api.delete(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_moment"),
        ({"delay_ms": 5, "deliver_at": 5}, 422, "invalid_moment"),
        ({"deliver_at": "2027-01-31T08:00:00"}, 422, "zone_missing"),
        ({"deliver_at": "2020-01-31T08:00:00Z", "reject_past": True}, 422, "moment_past"),
        ({"delay_ms": TEN_YEARS_MS + HOUR_MS}, 422, "timer_refused"),
        ({"delay_ms": 5, "what": 1}, 400, "invalid_request"),
        ({"delay_ms": 5, "reason": "x" * 501}, 400, "invalid_request"),
    ],
)
async def test_moves_to_moments_that_cannot_be_change_nothing(
    api: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    sent = await send(api, schedule_key="k")
    answer = await api.request("PATCH", KEYED + "k", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await api.get(f"/api/v1/messages/{sent['id']}")).json()["due_ms"] == sent["due_ms"]


async def test_a_token_sees_and_steers_its_own_topics_only(
    anonymous: httpx.AsyncClient, token: str, invoices_only: str
) -> None:
    everything = {"authorization": f"Bearer {token}"}
    mine = {"authorization": f"Bearer {invoices_only}"}
    body = {"body": "x", "delay_ms": HOUR_MS, "schedule_key": "k"}
    sent = (await anonymous.post(ONE, json=body, headers=everything)).json()
    own = await anonymous.post("/api/v1/topics/invoices/messages", json=body, headers=mine)
    assert own.status_code == 201
    rows = (await anonymous.get("/api/v1/timers", headers=mine)).json()["timers"]
    assert [each["topic"] for each in rows] == ["invoices"]
    for path in (
        f"messages/{sent['id']}/schedule", f"messages/{sent['recall_handle']}/schedule", "topics/orders/schedule/k",
        f"messages/{sent['message_id']}/schedule?topic=orders",
    ):  # fmt: skip
        assert (await anonymous.delete(f"/api/v1/{path}", headers=mine)).status_code == 403, path
    many = {"filter": {}, "all": True, "reason": "mine"}
    for verb in ("cancel", "deliver-now"):
        assert (await anonymous.post(f"/api/v1/timers:{verb}", json=many, headers=mine)).status_code == 403
    assert (await anonymous.post("/api/v1/timers:pause", json={"reason": "x"}, headers=mine)).status_code == 403
    assert (await anonymous.delete("/api/v1/topics/invoices/schedule/k", headers=mine)).status_code == 200


@pytest.fixture
def invoices_only(make_token: MakeToken) -> str:
    """A token for invoices alone."""
    return make_token(publish=("invoice*",), read=("invoice*",))


async def test_a_handle_of_a_send_by_a_client_of_rocketmq_is_good_here(
    api: httpx.AsyncClient, service: BrokerService
) -> None:
    async with AsyncProducer("other", service.namesrv_address) as producer:
        sent = await producer.send("orders", b"x", delay_ms=HOUR_MS)
    answer = await api.delete(f"/api/v1/messages/{sent.recall_handle}/schedule")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "cancelled")
