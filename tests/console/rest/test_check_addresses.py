"""Check-back addresses by REST: who may register which, the secret once, the audit always, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.client import AsyncAdmin
from console.features.checkback import registry
from console.features.checkback.models import CheckAddress, make_secret
from console.operations.models import AuditEntry
from console.rest.operations import in_thread
from console.security import tokens as security_tokens
from tests.console.checkback.tricks import UNREADABLE

PATH = "/api/v1/check-addresses"
NEW = {"producer_group": "shop", "url": "https://hooks.example/checks", "reason": "orders are made there"}


@pytest.fixture(autouse=True)
def listed(settings: Any) -> None:
    """What operators allow."""
    settings.CHECKBACK_ORIGINS = ["https://hooks.example", "https://other.example:8443"]
    settings.ESCAPEMENT_PRODUCER_GROUPS = ["own"]


@pytest.fixture
def admin_token(transactional_db: None) -> str:
    """A token that administers shop and shop-2, and may do nothing else."""
    return security_tokens.create("ops", security_tokens.scope_rows((), (), ("shop*",)))[1]


@pytest.fixture
def ops(anonymous: httpx.AsyncClient, admin_token: str) -> httpx.AsyncClient:
    anonymous.headers["authorization"] = f"Bearer {admin_token}"
    return anonymous


async def audited() -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.order_by("pk").values_list("kind", "actor", "reason")
    return await in_thread(lambda: list(rows))


async def stored() -> list[dict[str, Any]]:
    return await in_thread(lambda: list(CheckAddress.objects.values()))


async def test_an_address_is_registered_shown_changed_and_removed(ops: httpx.AsyncClient) -> None:
    made = await ops.post(PATH, json=NEW)
    assert made.status_code == 201, made.text
    secret = made.json()["secret"]
    assert secret.startswith("chk_")
    shown = {"producer_group": "shop", "url": NEW["url"], "enabled": True, "created_by": "token ops", "secret": None}
    assert shown.items() <= (await ops.get(PATH)).json()["check_addresses"][0].items()
    assert shown.items() <= (await ops.get(f"{PATH}/shop")).json().items()
    changed = await ops.request(
        "PATCH", f"{PATH}/shop", json={"url": "https://other.example:8443/c", "enabled": False, "reason": "moved"}
    )
    assert (changed.status_code, changed.json()["secret"]) == (200, None)
    assert (changed.json()["url"], changed.json()["enabled"]) == ("https://other.example:8443/c", False)
    renewed = (await ops.request("PATCH", f"{PATH}/shop", json={"new_secret": True, "reason": "it leaked"})).json()[
        "secret"
    ]
    assert renewed.startswith("chk_")
    assert renewed != secret
    assert (await ops.delete(f"{PATH}/shop", params={"reason": "not used"})).status_code == 200
    assert (await ops.get(PATH)).json()["check_addresses"] == []
    assert await audited() == [
        ("check_addresses.register", "token ops", "orders are made there"),
        ("check_addresses.change", "token ops", "moved"),
        ("check_addresses.change", "token ops", "it leaked"),
        ("check_addresses.remove", "token ops", "not used"),
    ]


async def test_the_database_holds_nothing_that_signs(ops: httpx.AsyncClient, settings: Any) -> None:
    secret = (await ops.post(PATH, json=NEW)).json()["secret"]
    (row,) = await stored()
    assert secret not in repr(row)
    kept = CheckAddress(group=row["group"], salt=row["salt"], digest=row["digest"])
    assert registry.secret_of(kept) == secret
    settings.SECRET_KEY = "another one"
    assert registry.secret_of(kept) is None
    assert make_secret("shop", row["salt"]) != secret


async def test_a_group_has_one_address(ops: httpx.AsyncClient) -> None:
    assert (await ops.post(PATH, json=NEW)).status_code == 201
    again = await ops.post(PATH, json=NEW | {"url": "https://other.example:8443/"})
    assert (again.status_code, again.json()["code"]) == (409, "check_address_taken")
    assert [row["url"] for row in await stored()] == [NEW["url"]]
    assert len(await audited()) == 1


async def test_there_are_not_more_than_are_kept(ops: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_ADDRESSES", 1)
    assert (await ops.post(PATH, json=NEW)).status_code == 201
    refused = await ops.post(PATH, json=NEW | {"producer_group": "shop-2"})
    assert (refused.status_code, refused.json()["code"]) == (422, "operation_refused")


async def test_a_token_administers_its_groups_and_no_others(ops: httpx.AsyncClient, api: httpx.AsyncClient) -> None:
    # `api` and `ops` are one client; its token is now the one for all topics, which administers nothing
    for answer in (
        await api.post(PATH, json=NEW), await api.get(PATH), await api.get(f"{PATH}/shop"),
        await api.request("PATCH", f"{PATH}/shop", json={"reason": "x"}), await api.delete(f"{PATH}/shop?reason=x"),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_another_group_is_neither_told_nor_touched(ops: httpx.AsyncClient, make_admin: str) -> None:
    mine = ops.headers["authorization"]
    ops.headers["authorization"] = f"Bearer {make_admin}"
    assert (await ops.post(PATH, json=NEW | {"producer_group": "billing"})).status_code == 201
    ops.headers["authorization"] = mine
    assert (await ops.get(PATH)).json()["check_addresses"] == []
    off = {"enabled": False, "reason": "x"}
    for answer in (
        await ops.get(f"{PATH}/billing"), await ops.request("PATCH", f"{PATH}/billing", json=off),
        await ops.delete(f"{PATH}/billing?reason=x"), await ops.post(PATH, json=NEW | {"producer_group": "billing"}),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    assert [row["is_enabled"] for row in await stored()] == [True]
    assert (await ops.post("/api/v1/topics/orders/messages", json={"body": "x"})).status_code == 403


@pytest.fixture
def make_admin(transactional_db: None) -> str:
    """A token that administers every group."""
    return security_tokens.create("all", security_tokens.scope_rows((), (), ("*",)))[1]


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"url": "https://evil.example/"}, 422, "operation_refused"),
        ({"url": ""}, 400, "invalid_request"),
        ({"url": "https://hooks.example/" + "a" * 500}, 400, "invalid_request"),
        ({"producer_group": "shop\u00e9"}, 422, "operation_refused"),
        ({"producer_group": "shop group"}, 422, "operation_refused"),
        ({"producer_group": ""}, 400, "invalid_request"),
        ({"reason": ""}, 400, "invalid_request"),
        ({"reason": "   "}, 422, "operation_refused"),
        ({"secret": "mine"}, 400, "invalid_request"),
        ({"enabled": "yes"}, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_registered_is_named(
    ops: httpx.AsyncClient, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = await ops.post(PATH, json=NEW | changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await stored() == []
    assert await audited() == []


async def test_no_trick_is_registered(ops: httpx.AsyncClient) -> None:
    for text in UNREADABLE:
        answer = await ops.post(PATH, json=NEW | {"url": text.replace("{port}", "8080")})
        assert answer.status_code in (400, 422), text
    assert await stored() == []


async def test_a_group_that_the_database_answers_for_has_no_address(ops: httpx.AsyncClient, make_admin: str) -> None:
    ops.headers["authorization"] = f"Bearer {make_admin}"
    answer = await ops.post(PATH, json=NEW | {"producer_group": "own"})
    assert (answer.status_code, answer.json()["field"]) == (422, "producer_group")


async def test_what_is_not_there_is_said(ops: httpx.AsyncClient) -> None:
    for answer in (
        await ops.get(f"{PATH}/shop"), await ops.request("PATCH", f"{PATH}/shop", json={"reason": "x"}),
        await ops.delete(f"{PATH}/shop?reason=x"),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (404, "check_address_unknown")
    assert (await ops.post(PATH, json=NEW)).status_code == 201
    without = await ops.delete(f"{PATH}/shop")
    assert (without.status_code, without.json()["field"]) == (422, "reason")
    refused = await ops.request("PATCH", f"{PATH}/shop", json={"url": "https://evil.example/", "reason": "x"})
    assert (refused.status_code, refused.json()["field"]) == (422, "url")
    assert [row["url"] for row in await stored()] == [NEW["url"]]


async def test_no_request_about_messages_carries_an_address(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    half = {"topic": "orders", "message": {"body": "x"}, "producer_group": "shop"}
    for more in ({"check_address": "https://hooks.example/"}, {"url": "https://hooks.example/"}):
        answer = await api.post("/api/v1/transactions", json=half | more)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert (await admin.transaction_status()).half_total == 0
