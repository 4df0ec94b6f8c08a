"""Receiving by REST: messages held for a while, acknowledged, given back, kept longer; who may, and who hung up."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from broker.server.broker import BrokerService
from console.rest import state
from console.rest.app import StateHolder
from tests.house.sources import ROOT

MESSAGES = "/api/v1/topics/orders/messages"
GROUP = "/api/v1/topics/orders/groups/billing"


@pytest.fixture(autouse=True)
def topic(service: BrokerService) -> None:
    service.engine.topics.ensure("orders", 1)


async def say(api: httpx.AsyncClient, what: str, **fields: Any) -> Any:
    answer = await api.post(f"{GROUP}:{what}", json=fields, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def receive(api: httpx.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await say(api, "receive", **fields))["messages"]
    return found


async def somebody_waits(service: BrokerService) -> None:
    while not service.waiting_pops:
        await asyncio.to_thread(lambda: None)


async def test_a_message_is_received_and_acknowledged(api: httpx.AsyncClient) -> None:
    sent = {"body": "pay \u4e2d", "tag": "new", "keys": ["k1"], "properties": {"color": "red"}}
    stored = (await api.post(MESSAGES, json=sent)).json()
    (message,) = await receive(api, invisible_ms=300)
    assert {name: message[name] for name in ("body", "tag", "keys", "topic", "queue", "attempt", "body_base64")} == {
        "body": "pay \u4e2d", "tag": "new", "keys": ["k1"], "topic": "orders", "queue": 0, "attempt": 1,
        "body_base64": None,
    }  # fmt: skip
    assert (message["message_id"], message["properties"]["color"]) == (stored["message_id"], "red")
    assert (await api.get(f"/api/v1/messages/{message['id']}")).json()["body"] == "pay \u4e2d"
    assert await say(api, "ack", receipts=[message["receipt"]]) == {"acknowledged": 1, "not_held": []}
    assert await receive(api, wait_ms=600) == []


async def test_bytes_that_are_no_text_come_as_base64(api: httpx.AsyncClient) -> None:
    await api.post(MESSAGES, json={"body_base64": base64.b64encode(b"\xff\x00").decode()})
    (message,) = await receive(api)
    assert (message["body"], message["body_base64"]) == (None, "/wA=")


async def test_what_is_not_acknowledged_comes_again(api: httpx.AsyncClient) -> None:
    await api.post(MESSAGES, json={"body": "pay"})
    (first,) = await receive(api, invisible_ms=30)
    (second,) = await receive(api)
    assert (second["body"], second["attempt"], second["topic"]) == ("pay", 2, "orders")
    told = await say(api, "ack", receipts=[first["receipt"], second["receipt"]])
    assert told == {"acknowledged": 1, "not_held": [first["receipt"]]}
    assert (await say(api, "nack", receipts=[first["receipt"]]))["not_held"] == [first["receipt"]]
    assert (await say(api, "extend", receipts=[first["receipt"]], invisible_ms=5))["not_held"] == [first["receipt"]]


async def test_in_order_a_queue_waits_for_what_is_out(api: httpx.AsyncClient) -> None:
    for body in "abc":
        await api.post(MESSAGES, json={"body": body})
    first = await receive(api, in_order=True, max_messages=2, invisible_ms=60_000)
    assert [each["body"] for each in first] == ["a", "b"]
    assert await receive(api, in_order=True, wait_ms=0) == []
    assert (await say(api, "ack", receipts=[first[0]["receipt"]]))["not_held"] == []
    assert await receive(api, in_order=True, wait_ms=0) == []
    assert (await say(api, "nack", receipts=[first[1]["receipt"]])) == {"given_back": 1, "not_held": []}
    again = await receive(api, in_order=True, invisible_ms=60_000)
    assert [(each["body"], each["attempt"]) for each in again] == [("b", 2), ("c", 1)]
    ((kept, _), none) = (
        await say(api, "extend", receipts=[each["receipt"] for each in again], invisible_ms=50)
    ).values()
    assert (kept["was"], none) == (again[0]["receipt"], [])
    assert [each["body"] for each in await receive(api, in_order=True)] == ["b", "c"]


async def test_kept_longer_and_given_back(api: httpx.AsyncClient) -> None:
    await api.post(MESSAGES, json={"body": "pay"})
    (message,) = await receive(api, invisible_ms=5_000)
    ((kept,), none) = (await say(api, "extend", receipts=[message["receipt"]], invisible_ms=60_000)).values()
    assert (kept["was"], none) == (message["receipt"], [])
    assert kept["invisible_until_ms"] > message["invisible_until_ms"] + 50_000
    assert await receive(api, wait_ms=0) == []
    assert await say(api, "nack", receipts=[kept["receipt"]]) == {"given_back": 1, "not_held": []}
    (again,) = await receive(api)
    assert (again["body"], again["attempt"]) == ("pay", 2)


async def test_who_waits_gets_what_comes(api: httpx.AsyncClient, service: BrokerService) -> None:
    waiting = asyncio.create_task(receive(api, wait_ms=15_000))
    async with asyncio.timeout(10):
        await somebody_waits(service)
        await api.post(MESSAGES, json={"body": "late"})
        assert [message["body"] for message in await waiting] == ["late"]


async def test_tags_and_filters(api: httpx.AsyncClient) -> None:
    for number in range(4):
        await api.post(MESSAGES, json={"body": str(number), "tag": f"t{number}", "properties": {"n": str(number)}})
    large = await receive(api, expression="n >= 2", expression_type="sql92")
    assert [message["body"] for message in large] == ["2", "3"]
    await say(api, "ack", receipts=[message["receipt"] for message in large])
    other = "/api/v1/topics/orders/groups/other:receive"
    tagged = (await api.post(other, json={"expression": "t0 || t3"})).json()["messages"]
    assert [message["body"] for message in tagged] == ["0", "3"]


async def test_who_hangs_up_gives_back_what_still_comes(api: httpx.AsyncClient, service: BrokerService) -> None:
    waiting = asyncio.create_task(receive(api, wait_ms=15_000, invisible_ms=600_000))
    async with asyncio.timeout(10):
        await somebody_waits(service)
        waiting.cancel()
        await asyncio.wait([waiting])
        await api.post(MESSAGES, json={"body": "pay"})
        (message,) = await receive(api, wait_ms=9_000)
    assert message["body"] == "pay"


async def test_only_so_many_wait(
    api: httpx.AsyncClient, service: BrokerService, holder: StateHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MOST_WAITING", 1)
    waiting = asyncio.create_task(receive(api, wait_ms=15_000))
    async with asyncio.timeout(10):
        await somebody_waits(service)
        refused = await api.post(f"{GROUP}:receive", json={})
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        await api.post(MESSAGES, json={"body": "pay"})
        assert len(await waiting) == 1
    assert await receive(api, wait_ms=0) == []


async def test_the_example_in_the_documentation_works(api: httpx.AsyncClient) -> None:
    part = (ROOT / "docs" / "REST.md").read_text().partition("## Receiving")[2]
    (example,) = re.findall(r"```python\nimport httpx\n(.*?)```", part, re.DOTALL)
    loop = asyncio.get_running_loop()

    class Client:
        """httpx.Client whose requests are answered by the application under test."""

        def __init__(self, headers: dict[str, str], timeout: float) -> None:
            self.headers = headers

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *failure: object) -> None:
            pass

        def post(self, url: str, json: object) -> httpx.Response:
            asked = api.post(url.removeprefix("http://x"), json=json, headers=self.headers, timeout=20)
            return asyncio.run_coroutine_threadsafe(asked, loop).result(20)

    names: dict[str, Any] = {"httpx": SimpleNamespace(Client=Client)}
    exec(example, names)  # noqa: S102 - it is our own page
    for body in ("good", "bad"):
        await api.post(MESSAGES, json={"body": body})
    handled: list[str] = []

    def handle(body: str) -> None:
        handled.append(body)
        if body == "bad":
            raise ValueError

    token = api.headers["authorization"].removeprefix("Bearer ")
    await asyncio.to_thread(names["work"], "http://x", token, handle)
    assert handled == ["good", "bad"]
    assert await receive(api, wait_ms=0) == []


WRONG = {
    "no such topic": ("/api/v1/topics/nowhere/groups/billing:receive", {}, 404, "topic_not_found"),
    "a bad topic": ("/api/v1/topics/no blanks/groups/billing:receive", {}, 400, "invalid_parameter"),
    "a bad group": ("/api/v1/topics/orders/groups/no blanks:receive", {}, 400, "invalid_parameter"),
    "too many": (f"{GROUP}:receive", {"max_messages": 33}, 400, "invalid_request"),
    "too long": (f"{GROUP}:receive", {"wait_ms": 30_001}, 400, "invalid_request"),
    "a name that is not there": (f"{GROUP}:receive", {"wait": 5}, 400, "invalid_request"),
    "an empty tag": (f"{GROUP}:receive", {"expression": "a || "}, 400, "invalid_message"),
    "a filter that is none": (
        f"{GROUP}:receive", {"expression": "a >", "expression_type": "sql92"}, 400, "invalid_filter"),
    "no receipt": (f"{GROUP}:ack", {"receipts": []}, 400, "invalid_request"),
    "what is no receipt": (f"{GROUP}:ack", {"receipts": ["abc"]}, 400, "invalid_receipt"),
    "a receipt of another topic": (
        f"{GROUP}:nack", {"receipts": ["MSBvdGhlciAxIDEgMSAxIDAgYnJva2VyLWEgMCAx"]}, 400, "invalid_receipt"),
    "no time": (f"{GROUP}:extend", {"receipts": ["abc"]}, 400, "invalid_request"),
}  # fmt: skip


@pytest.mark.parametrize(("address", "body", "status", "code"), WRONG.values(), ids=WRONG.keys())
async def test_what_is_wrong_is_refused(
    api: httpx.AsyncClient, address: str, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.post(address, json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


#: what a token may consume, and whether that is enough to be group billing of topic orders
ALLOWED = {
    (): 403, ("orders",): 403, ("billing",): 403, ("orders", "billing"): 200, ("ord", "bill"): 403,
    ("ord*", "bill*"): 200,
}  # fmt: skip


@pytest.fixture
def tokens(make_token: Callable[..., str]) -> dict[str, int]:
    """Tokens, and the status that each is answered with."""
    return {make_token(consume=consume): status for consume, status in ALLOWED.items()}


@pytest.mark.parametrize("what", ["receive", "ack", "nack", "extend"])
async def test_a_token_must_allow_topic_and_group(
    anonymous: httpx.AsyncClient, tokens: dict[str, int], what: str
) -> None:
    receipts = {"receipts": ["MSBvcmRlcnMgMSAxIDEgMSAwIGJyb2tlci1hIDAgMQ"]}
    bodies: dict[str, dict[str, Any]] = {"receive": {"wait_ms": 0}, "extend": {**receipts, "invisible_ms": 5}}
    for token, status in tokens.items():
        anonymous.headers["authorization"] = f"Bearer {token}"
        answer = await anonymous.post(f"{GROUP}:{what}", json=bodies.get(what, receipts))
        assert answer.status_code == status
        assert answer.json().get("code") == ("scope_missing" if status == 403 else None)
