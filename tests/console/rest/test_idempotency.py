"""Idempotency-Key: the same request twice is done once, and whatever is not known is said to be."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from broker.client import AsyncAdmin, BrokerUnreachable
from console.rest import idempotency
from console.rest.app import StateHolder
from tests.console.rest.conftest import MakeToken

ONE = "/api/v1/topics/orders/messages"
MANY = "/api/v1/topics/orders/messages:batch"
HALF = "/api/v1/transactions"
BODIES: dict[str, dict[str, Any]] = {
    ONE: {"body": "x", "keys": ["order-1"]},
    MANY: {"messages": [{"body": "a"}, {"body": "b", "tag": "two words"}]},
    HALF: {"topic": "orders", "producer_group": "shop", "message": {"body": "x"}},
}
pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture(autouse=True)
async def _nothing_kept(valkey: str) -> None:
    async with Redis.from_url(valkey) as server:
        await server.flushdb()


async def sent(api: httpx.AsyncClient, key: str, path: str = ONE, **changes: Any) -> httpx.Response:
    return await api.post(path, json=BODIES[path] | changes, headers={"Idempotency-Key": key})


async def stored(admin: AsyncAdmin) -> int:
    return int((await admin.runtime())["commitLogMaxOffset"])


@pytest.mark.parametrize("path", list(BODIES))
async def test_the_same_again_is_answered_as_before_and_done_once(
    api: httpx.AsyncClient, admin: AsyncAdmin, path: str
) -> None:
    first = await sent(api, "one", path)
    assert first.status_code in (201, 207)
    before = await stored(admin)
    again = await sent(api, '"one"', path)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == "application/json"
    assert "idempotency-replayed" not in first.headers
    assert await stored(admin) == before
    assert (await sent(api, "two", path)).content != first.content


async def test_another_request_with_the_key_is_refused(api: httpx.AsyncClient) -> None:
    await sent(api, "one")
    for other in (await sent(api, "one", body="y"), await sent(api, "one", MANY)):
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_mismatch")


@pytest.fixture
def another(token: str, make_token: MakeToken) -> str:
    """A second token that may do the same."""
    return make_token()


async def test_a_key_is_its_token_s(api: httpx.AsyncClient, another: str) -> None:
    first = await sent(api, "one")
    api.headers["authorization"] = f"Bearer {another}"
    assert (await sent(api, "one")).json()["id"] != first.json()["id"]


async def test_of_those_that_come_at_once_one_is_done(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    answers = await asyncio.gather(*(sent(api, "one") for _ in range(8)))
    ids = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(ids) == 1
    assert {answer.json()["code"] for answer in answers if answer.status_code != 201} <= {"idempotency_under_way"}


async def test_what_was_refused_leaves_the_key_free(api: httpx.AsyncClient) -> None:
    refused = await sent(api, "one", tag="two words")
    assert refused.status_code == 400
    assert (await sent(api, "one")).status_code == 201


async def test_an_outcome_that_nobody_knows_is_not_tried_again(
    api: httpx.AsyncClient, holder: StateHolder, admin: AsyncAdmin
) -> None:
    now_ms = 1_000_000
    keys = holder.get().keys = idempotency.Keys(lambda: now_ms)

    async def lost() -> Any:
        raise BrokerUnreachable("127.0.0.1:1", "no answer")

    request: Any = httpx.Request("POST", f"http://testserver{ONE}")
    request.scope = {"path": ONE, "query_string": b""}
    body = api.build_request("POST", ONE, json=BODIES[ONE]).content
    prefix = api.headers["authorization"].removeprefix("Bearer ").split("_")[1]
    with pytest.raises(BrokerUnreachable):
        await keys.once(prefix, "one", request, body, lost)
    before = await stored(admin)
    under_way = await sent(api, "one")
    assert (under_way.status_code, under_way.json()["code"]) == (409, "idempotency_under_way")
    assert under_way.headers["retry-after"] == "1"
    now_ms += 60_000
    unknown = await sent(api, "one")
    assert (unknown.status_code, unknown.json()["code"]) == (409, "idempotency_unknown")
    assert await stored(admin) == before


@pytest.mark.parametrize("key", ["", "a b", "a" * 256, "\u00e9".encode().decode("latin-1"), 'a"b'])
async def test_what_is_no_key_is_refused(api: httpx.AsyncClient, key: str) -> None:
    answer = await api.post(ONE, json=BODIES[ONE], headers={"Idempotency-Key": key.encode("latin-1")})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid")


async def test_a_token_has_so_many_keys_an_hour(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST_AN_HOUR", 2)
    answers = [await sent(api, str(number)) for number in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert (await sent(api, "0")).status_code == 201


async def test_where_keys_cannot_be_kept_nothing_is_done_and_without_one_nothing_is_asked(
    api: httpx.AsyncClient, settings: Any, free_port: int
) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port}/0"
    away = await sent(api, "one")
    assert (away.status_code, away.json()["code"]) == (503, "idempotency_keys_away")
    assert (await api.post(ONE, json=BODIES[ONE])).status_code == 201


async def test_all_of_it_outlives_the_process(api: httpx.AsyncClient, holder: StateHolder, valkey: str) -> None:
    first = await sent(api, "one")
    await holder.close()
    assert (await sent(api, "one")).content == first.content
    async with Redis.from_url(valkey) as server:
        (name,) = [each async for each in server.scan_iter("escapement:idempotency:*")]
        assert 86_000 < await server.ttl(name) <= 86_400
