"""One transaction with what happened to it, parked ones, many at once, and names that are forged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin, AsyncTransactionProducer, Decision, Message
from broker.server.broker import BrokerService
from broker.testing import small_store
from console.rest.identifiers import parse, written
from console.site.broker import hang_up
from tests.console.rest.conftest import MakeToken
from tests.console.rest.sending_timers import delivered
from tests.console.rest.test_timer_operations import confirmed
from tests.console.rest.test_transactions import BEGIN, HALF, begin, listed


@pytest.fixture
async def service(tmp_path: Path, settings: Any) -> AsyncIterator[BrokerService]:
    """A broker that asks at once, once, and then parks; the console's operations ask it too."""
    config = replace(
        small_store(tmp_path), transaction_timeout_ms=50, transaction_interval_ms=100, transaction_checks=1
    )
    running = BrokerService(config, broker_port=0, namesrv_port=0)
    await running.start()
    settings.ESCAPEMENT_NAMESRV = running.namesrv_address
    yield running
    hang_up()
    await running.stop()


async def look(api: httpx.AsyncClient, name: str) -> dict[str, Any]:
    answer = await api.get(f"{BEGIN}/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def park(api: httpx.AsyncClient, service: BrokerService, count: int = 1) -> list[dict[str, Any]]:
    """Halves whose producer did not know."""
    taken = [await begin(api) for _ in range(count)]
    async with AsyncTransactionProducer("shop", service.namesrv_address, check=lambda message: Decision.UNKNOWN):
        async with asyncio.timeout(15):
            while len(await listed(api, "parked")) < count:
                await asyncio.wait([asyncio.ensure_future(api.get("/api/v1/topics"))])
    return taken


async def test_a_transaction_is_shown_with_what_happened_to_it(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    taken = await begin(api, keys=["k"], tag="paid")
    open_one, by_other_name = await look(api, taken["id"]), await look(api, taken["transaction_id"])
    shown = open_one["transaction"]
    # its first check may have become due between the two looks
    assert shown == by_other_name["transaction"] | {"state": shown["state"]}
    assert open_one["life"] == by_other_name["life"]
    assert (shown["id"], shown["transaction_id"]) == (taken["id"], taken["transaction_id"])
    assert (shown["topic"], shown["producer_group"], shown["keys"], shown["tag"]) == ("orders", "shop", ["k"], "paid")
    assert [each["event"] for each in open_one["life"]] == ["half"]
    assert (await api.post(f"{BEGIN}/{taken['id']}:commit", json={"reason": "paid"})).status_code == 200
    assert await delivered(admin, taken["transaction_id"])
    decided = await look(api, taken["id"])
    assert (decided["transaction"]["state"], decided["transaction"]["decided_by"]) == ("committed", "token test")
    assert [each["event"] for each in decided["life"]] == ["half", "committed", "delivered"]
    assert (decided["life"][1]["by"], decided["life"][1]["reason"]) == ("token test", "paid")
    assert decided["life"][2]["queue_offset"] == 0


async def test_a_parked_one_is_asked_about_again(api: httpx.AsyncClient, service: BrokerService) -> None:
    (taken,) = await park(api, service)
    assert [each["event"] for each in (await look(api, taken["id"]))["life"]] == ["half", "check", "parked"]
    answer = await api.post(f"{BEGIN}/{taken['id']}:resume", json={"reason": "it is back"})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "checks_resumed")
    resumed = await look(api, taken["id"])
    assert resumed["transaction"]["state"] in ("open", "due")
    assert (resumed["life"][-1]["event"], resumed["life"][-1]["by"]) == ("resumed", "token test")
    answer = await api.post(f"{BEGIN}/{taken['id']}:rollback")
    assert answer.json()["outcome"] == "rolled_back"
    refused = await api.post(f"{BEGIN}/{taken['id']}:resume")
    assert (refused.status_code, refused.json()["code"]) == (409, "decided_otherwise")


@pytest.mark.parametrize(
    ("action", "outcome", "state"),
    [("commit", "committed", "committed"), ("rollback", "rolled_back", "rolled back")],
)
async def test_many_are_decided_by_a_filter(api: httpx.AsyncClient, action: str, outcome: str, state: str) -> None:
    for number in range(5):
        more = {"topic": "bills"} if number == 4 else {}
        assert (await api.post(BEGIN, json=HALF | more)).status_code == 201
    wanted = {"filter": {"topic": "orders", "producer_group": "shop", "older_than_ms": 0}, "reason": "the shop closed"}
    answer = await api.post(f"{BEGIN}:{action}", json=wanted)
    assert (answer.status_code, answer.json()["state"]) == (202, "done"), answer.text
    assert answer.json()["results"] == {outcome: 4}
    assert (await api.get(answer.headers["location"])).json() == answer.json()
    assert [row["state"] for row in await listed(api, "decided")] == [state] * 4
    assert [row["topic"] for row in await listed(api)] == ["bills"]
    assert {row["decided_by"] for row in await listed(api, "decided")} == {"token test"}
    assert await asyncio.to_thread(confirmed) == [(f"transactions.{action}", "the shop closed", "token test")]


async def test_many_parked_ones_are_resumed_and_checked(api: httpx.AsyncClient, service: BrokerService) -> None:
    await park(api, service, 3)
    everything = {"filter": {"state": "parked"}, "all": True, "reason": "it is back"}
    answer = await api.post(f"{BEGIN}:resume", json=everything)
    assert answer.json()["results"] == {"checks_resumed": 3}
    answer = await api.post(f"{BEGIN}:check", json={"filter": {"topic": "orders"}, "reason": "now"})
    assert answer.json()["results"] == {"check_planned": 3}
    asked: list[Message] = []

    def check(message: Message) -> Decision:
        asked.append(message)
        return Decision.COMMIT

    async with AsyncTransactionProducer("shop", service.namesrv_address, check=check):
        async with asyncio.timeout(15):
            while len(await listed(api, "decided")) < 3:
                await asyncio.wait([asyncio.ensure_future(api.get("/api/v1/topics"))])
    assert len({message.unique_key for message in asked}) == 3


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"filter": {}, "reason": "x"}, 422, "operation_refused"),
        ({"filter": {"state": "open"}, "reason": "x"}, 422, "operation_refused"),
        ({"filter": {"state": "decided"}, "reason": "x", "all": True}, 400, "invalid_request"),
        ({"filter": {"topic": "orders"}}, 400, "invalid_request"),
        ({"filter": {"topic": "orders"}, "reason": "  "}, 422, "operation_refused"),
        ({"filter": {"topic": "or ders"}, "reason": "x"}, 400, "invalid_message"),
        ({"filter": {"topic": "none"}, "reason": "x"}, 422, "operation_refused"),
        ({"filter": {"stored_before": "2027-01-31"}, "reason": "x"}, 422, "invalid_moment"),
        ({"filter": {"older_than_ms": -1}, "reason": "x"}, 400, "invalid_request"),
        ({"filter": {"older_than_ms": 3_600_000}, "reason": "x"}, 422, "operation_refused"),
        ({"ids": ["x"], "reason": "x"}, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_done_to_many_is_refused(
    api: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    await begin(api)
    answer = await api.post(f"{BEGIN}:commit", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert len(await listed(api)) == 1


async def test_open_ones_are_not_resumed_and_parked_ones_not_asked_about(api: httpx.AsyncClient) -> None:
    for action, state in (("check", "parked"), ("resume", "open")):
        answer = await api.post(f"{BEGIN}:{action}", json={"filter": {"state": state}, "all": True, "reason": "x"})
        assert (answer.status_code, answer.json()["code"]) == (422, "operation_refused"), action


@pytest.fixture
def narrow(make_token: MakeToken) -> str:
    """A token for other topics."""
    return make_token(publish=("bills",), read=("bills",))


async def test_a_token_acts_on_many_only_where_it_may_publish(
    api: httpx.AsyncClient, anonymous: httpx.AsyncClient, narrow: str
) -> None:
    taken = await begin(api)
    anonymous.headers["authorization"] = f"Bearer {narrow}"
    for wanted in ({"topic": "orders"}, {"state": "open"}, {"producer_group": "shop"}):
        answer = await anonymous.post(f"{BEGIN}:rollback", json={"filter": wanted, "all": True, "reason": "x"})
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), wanted
    assert (await anonymous.get(f"{BEGIN}/{taken['id']}")).status_code == 403
    hidden = await anonymous.get(f"{BEGIN}/{taken['transaction_id']}")
    assert (hidden.status_code, hidden.json()["code"]) == (404, "message_not_found")


async def test_forged_names_are_told_apart_from_nothing(api: httpx.AsyncClient) -> None:
    """An id whose parts do not belong together names nothing, whatever is done with it."""
    one, two = await begin(api), await begin(api)
    real, other = parse(one["id"]), parse(two["id"])
    key = real.unique_key
    forged = [
        (written(real.broker, real.topic, other.position, key), 404, "message_not_found"),
        (written(real.broker, real.topic, real.position + 1, key), 404, "message_not_found"),
        (written(real.broker, real.topic, 2**62, key), 404, "message_not_found"),
        (written(real.broker, "bills", real.position, key), 404, "message_not_found"),
        (written(real.broker, real.topic, real.position, other.unique_key), 404, "message_not_found"),
        (written("broker-x", real.topic, real.position, key), 404, "topic_not_found"),
        (key[:-1] + ("0" if key[-1] != "0" else "1"), 404, "message_not_found"),
        ("m1" + "A" * 40, 400, "invalid_id"),
        ("m1", 400, "invalid_id"),
        ("%00", 404, "message_not_found"),
    ]
    for name, status, code in forged:
        for answer in (
            await api.get(f"{BEGIN}/{name}"), await api.post(f"{BEGIN}/{name}:commit"),
            await api.post(f"{BEGIN}/{name}:rollback"), await api.post(f"{BEGIN}/{name}:check"),
            await api.post(f"{BEGIN}/{name}:resume"),
        ):  # fmt: skip
            assert (answer.status_code, answer.json()["code"]) == (status, code), (name, answer.text)
    for action in ("commit", "rollback", "check", "resume"):
        wrong = await api.post(f"{BEGIN}/{one['id']}:{action}", json={"producer_group": "thieves"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_parameter")
    assert [row["state"] in ("open", "due") for row in await listed(api)] == [True, True]
