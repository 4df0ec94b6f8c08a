"""Topics, groups and dead letters of two brokers by REST: each row says whose it is, `broker` asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from console.security import tokens as security_tokens
from tests.console.several import A, B, Several, several

API = "/api/v1"


@pytest.fixture
def both(transactional_db: None, settings: Any) -> Iterator[Several]:
    """`orders` at both, `only-b` at one; `billing` gave up a message at each."""
    with several(settings) as made:
        made.admins[B].create_topic("only-b", queues=1)
        for broker, admin in made.admins.items():
            admin.create_group("billing")
            made.bury(broker, f"of-{broker}")
        made.mirror()
        yield made


@pytest.fixture
def token(transactional_db: None) -> str:
    """A token that allows everything, settings as well."""
    scopes = security_tokens.scope_rows(["*"], ["*"], consume=["*"], settings=["*"])
    return security_tokens.create("test", scopes)[1]


@pytest.fixture
def namesrv(both: Several) -> str:
    return both.cluster.namesrv


async def rows(api: httpx.AsyncClient, name: str, path: str) -> list[tuple[str, str]]:
    answer = await api.get(f"{API}/{path}")
    assert answer.status_code == 200, answer.text
    own = ("orders", "only-b", "billing")
    return sorted((row["name"], row["broker"]) for row in answer.json()[name] if row["name"] in own)


async def test_lists_are_of_all_or_of_one(api: httpx.AsyncClient) -> None:
    assert await rows(api, "topics", "topics") == [("only-b", B), ("orders", A), ("orders", B)]
    assert await rows(api, "topics", "topics?broker=broker-a") == [("orders", A)]
    assert await rows(api, "groups", "groups") == [("billing", A), ("billing", B)]
    assert await rows(api, "groups", "groups?broker=broker-b") == [("billing", B)]
    answer = await api.get(f"{API}/topics?broker=broker-z")
    assert (answer.status_code, answer.json()["code"]) == (404, "broker_not_found")


async def test_settings_are_told_by_broker_and_changed_at_all_or_one(api: httpx.AsyncClient, both: Several) -> None:
    body = {"settings": {"write_queues": 5}, "reason": "because"}
    answer = await api.request("PATCH", f"{API}/topics/orders/settings?broker=broker-b", json=body)
    assert (answer.status_code, answer.json()["results"]) == (202, {"changed": 1})
    told = (await api.get(f"{API}/topics/orders/settings")).json()
    assert {each["broker"]: each["settings"]["write_queues"] for each in told["by_broker"]} == {A: 2, B: 5}
    look = (await api.request("PATCH", f"{API}/topics/orders/settings", json={**body, "preview": True})).json()
    assert [(each["brokers"], each["before"]) for each in look["by_broker"]] == [([A], 2)]
    assert look["apart"] == [{"broker": B, "code": "same", "error": None}]
    at = {B: {"settings": {"write_queues": 3}, "expected": {"write_queues": 5}}}
    answer = await api.request(
        "PATCH", f"{API}/topics/orders/settings", json={"settings": {}, "at": at, "reason": "because"}
    )
    assert answer.json()["results"] == {"changed": 1}
    found = await asyncio.to_thread(both.admins[B].topic_settings, "orders")
    assert found is not None
    assert found["writeQueueNums"] == 3


async def test_dead_letters_of_both_are_one_list_and_sent_back_by_broker(api: httpx.AsyncClient) -> None:
    path = f"{API}/groups/billing/dead-letters"
    found = (await api.get(path)).json()
    assert [(row["broker"], row["keys"]) for row in found["letters"]] == [(B, ["of-broker-b"]), (A, ["of-broker-a"])]
    one = (await api.get(f"{path}?broker=broker-a")).json()
    assert [row["keys"] for row in one["letters"]] == [["of-broker-a"]]
    letter = {"queue": 0, "offset": 0}
    refused = await api.post(f"{path}:send-back", json={"letters": [letter], "reason": "because"})
    assert refused.status_code == 422, refused.text
    for body, query in (({**letter, "broker": B}, ""), (letter, "?broker=broker-a")):
        answer = await api.post(f"{path}:send-back{query}", json={"letters": [body], "reason": "because"})
        assert (answer.status_code, answer.json()["results"]) == (202, {"sent_back": 1}), answer.text


async def test_a_group_is_moved_at_one_broker(api: httpx.AsyncClient) -> None:
    path = f"{API}/topics/orders/groups/billing:reset-offsets"
    body = {"to": "offsets", "offsets": [[0, 0, "broker-b"]], "reason": "because", "preview": True}
    answer = await api.post(path, json=body)
    assert answer.status_code == 200, answer.text
    answer = await api.post(f"{path}?broker=broker-z", json={**body, "offsets": [[0, 0]]})
    assert (answer.status_code, answer.json()["code"]) == (404, "broker_not_found")


async def test_a_dead_broker_is_named_beside_the_rows_of_the_others(api: httpx.AsyncClient, both: Several) -> None:
    await sync_to_async(both.kill)(B)
    found = (await api.get(f"{API}/topics")).json()
    assert (found["brokers_missing"], {row["broker"] for row in found["topics"]}) == ([B], {A})
    letters = (await api.get(f"{API}/groups/billing/dead-letters")).json()
    assert (letters["brokers_missing"], [row["broker"] for row in letters["letters"]]) == ([B], [A])
