"""People, roles and tokens by REST: in the name of the token's person, who may do no more by it than on the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection

from console.operations.models import AuditEntry, Operation, OperationItem
from console.rest.app import create_application
from console.security import tokens
from console.security.models import ApiToken, PasswordDue
from tests.console.people import person
from tests.console.security.test_limited import limited_person

WHY = {"reason": "a test"}
Ask = Callable[..., httpx.Response]


def asking(user: Any, *, right: str = "people") -> Ask:
    """Ask REST by a token of this person with this right."""
    name = f"of {user} {ApiToken.objects.count()}"
    _row, token = tokens.create(name, [{"pattern": "*", "actions": [right]}], created_by=user)

    async def asked(method: str, path: str, body: Any) -> httpx.Response:
        application = create_application("127.0.0.1:1")
        headers = {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(application)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
                return await client.request(method, f"/api/v1{path}", json=body)
        finally:
            await application.state.holder.close()

    def ask(method: str, path: str, **body: Any) -> httpx.Response:
        return asyncio.run(asked(method, path, {**body, **WHY} if method != "GET" else None))

    return ask


@pytest.fixture
def boss(transactional_db: None) -> Any:
    return get_user_model().objects.create_superuser("boss", password="a long secret")


@pytest.fixture
def ask(boss: Any) -> Ask:
    return asking(boss)


def secret_of(answer: httpx.Response) -> str:
    assert answer.status_code == 202, answer.text
    (secret,) = answer.json()["secrets"].values()
    return str(secret)


def refusal(answer: httpx.Response) -> str:
    """Why the only item of an operation was refused."""
    assert answer.status_code == 202, answer.text
    assert answer.json()["results"] == {"refused": 1}
    item = OperationItem.objects.order_by("-pk").first()
    assert item is not None
    return str(item.result["error"])


def test_a_person_is_added_changed_closed_and_told(ask: Ask, boss: Any) -> None:
    password = secret_of(ask("POST", "/people", name="anna", roles=["operator"]))
    anna = get_user_model().objects.get(username="anna")
    assert anna.check_password(password)
    assert PasswordDue.objects.filter(user=anna).exists()
    assert ask("GET", "/people/anna").json() == {
        "name": "anna", "is_active": True, "is_superuser": False, "roles": ["operator"], "topics": [],
        "is_password_due": True,
        "has_second_factor": False, "last_signed_in_ms": None,
    }  # fmt: skip
    assert ask("PATCH", "/people/anna", roles=["viewer"]).status_code == 202
    assert ask("PATCH", "/people/anna", is_active=False).status_code == 202
    told = ask("GET", "/people/anna").json()
    assert (told["roles"], told["is_active"]) == (["viewer"], False)
    assert secret_of(ask("POST", "/people/anna:reset-password")) != password
    listed = ask("GET", "/people?limit=1&offset=1").json()
    assert ([each["name"] for each in listed["people"]], listed["total"]) == (["boss"], 2)
    assert ask("GET", "/people/nobody").json()["code"] == "person_unknown"
    assert ask("PATCH", "/people/nobody", is_active=False).json()["code"] == "person_unknown"
    rows: tuple[Any, ...] = (Operation, OperationItem, AuditEntry)
    assert password not in str([list(model.objects.values()) for model in rows])
    kept = AuditEntry.objects.filter(kind="people.add", result__token=ApiToken.objects.get().prefix)
    assert {(row.actor, row.user_id) for row in kept} == {("boss", boss.pk)}
    assert AuditEntry.objects.filter(kind="people.add", what="finished", actor="boss").exists()


def test_a_look_changes_nothing(ask: Ask) -> None:
    answer = ask("POST", "/people", name="anna", preview=True)
    assert answer.status_code == 200
    assert not get_user_model().objects.filter(username="anna").exists()


def test_a_role_is_limited_to_topics(ask: Ask) -> None:
    Group.objects.create(name="tenants")
    assert ask("PATCH", "/roles/tenants", topics=["b-*", "a"]).status_code == 202
    (told,) = [each for each in ask("GET", "/roles").json()["roles"] if each["name"] == "tenants"]
    assert told == {"name": "tenants", "permissions": [], "topics": ["a", "b-*"]}
    assert ask("PATCH", "/roles/none", topics=[]).json()["code"] == "role_unknown"


def test_a_role_is_made_and_a_user_is_limited(ask: Ask) -> None:
    person("anna", role="viewer")
    permissions = ["console.steer_timers", "console.view_console"]
    answer = ask("POST", "/roles", name="shop", permissions=permissions, topics=["order-*"])
    assert answer.json()["results"] == {"made": 1}
    (told,) = [each for each in ask("GET", "/roles").json()["roles"] if each["name"] == "shop"]
    assert told == {"name": "shop", "permissions": permissions, "topics": ["order-*"]}
    assert ask("POST", "/roles", name="shop", permissions=permissions).status_code != 202
    assert ask("POST", "/people/anna:limit", topics=["a-"]).json()["results"] == {"changed": 1}
    told = ask("GET", "/people/anna").json()
    assert (told["roles"], told["topics"]) == (["viewer"], ["a-"])
    assert "@anna" not in [each["name"] for each in ask("GET", "/roles").json()["roles"]]
    assert ask("PATCH", "/people/anna", roles=["operator"]).status_code == 202
    assert ask("GET", "/people/anna").json()["topics"] == ["a-"]


def test_a_token_is_made_rotated_and_revoked_and_shown_once(ask: Ask, boss: Any) -> None:
    first = secret_of(ask("POST", "/tokens", name="billing", publish=["orders"], days=5))
    grant = tokens.grant_of(first)
    assert grant is not None
    assert (grant.user_id, grant.allows("publish", "orders"), grant.allows("read", "orders")) == (
        boss.pk, True, False,
    )  # fmt: skip
    assert not grant.allows("publish", "orders-new")
    told = ask("GET", f"/tokens/{grant.prefix}").json()
    assert told["scopes"] == [{"pattern": "orders", "actions": ["publish"]}]
    assert round((told["expires_ms"] - told["created_ms"]) / 86_400_000) == 5
    second = secret_of(ask("POST", f"/tokens/{grant.prefix}:rotate", overlap_hours=0.5))
    assert tokens.grant_of(first) is not None
    assert ask("GET", f"/tokens/{grant.prefix}").json()["is_replaced"]
    prefix = tokens.prefix_of(second)
    assert ask("POST", f"/tokens/{prefix}:revoke").status_code == 202
    assert tokens.grant_of(second) is None
    everything = ask("GET", "/tokens")
    assert everything.json()["total"] == 3
    assert ask("GET", "/tokens/aaaaaaaaaa").json()["code"] == "token_unknown"
    rows: tuple[Any, ...] = (Operation, OperationItem, AuditEntry, ApiToken)
    kept = everything.text + str([list(model.objects.values()) for model in rows])
    assert first not in kept
    assert second not in kept


def test_a_token_does_no_more_than_its_person_may(boss: Any) -> None:
    ben = person("ben", role="viewer")
    for method, path, body in (
        ("GET", "/people", {}), ("GET", "/people/boss", {}), ("GET", "/roles", {}), ("GET", "/tokens", {}),
        ("POST", "/people", {"name": "x"}), ("PATCH", "/people/boss", {"is_active": False}),
        ("POST", "/people", {"name": "x", "preview": True}), ("POST", "/tokens", {"name": "t", "read": ["*"]}),
    ):  # fmt: skip
        answer = asking(ben)(method, path, **body)
        assert (answer.status_code, answer.json()["code"]) == (422, "operation_refused"), (path, answer.text)
        assert "needs the permission" in answer.json()["detail"]
    assert AuditEntry.objects.filter(what="denied", actor="ben", result__permission="auth.add_user").exists()
    # and so may nobody by a token that only reads
    assert asking(boss, right="read")("GET", "/people").json()["code"] == "scope_missing"


def test_nobody_gives_away_what_is_not_ones_own_or_changes_the_own_account(boss: Any) -> None:
    cleo = person("cleo", "add_apitoken", "change_apitoken", role="viewer")
    cleo.user_permissions.add(*_permissions("add_user", "change_user"))
    ask = asking(cleo)
    assert "permissions that you do not have" in refusal(ask("POST", "/people", name="x", roles=["administrator"]))
    assert "that you do not have" in refusal(ask("PATCH", "/people/boss", is_active=False))
    assert "your own account" in refusal(ask("PATCH", "/people/cleo", is_active=False))
    assert "scopes that you do not have: access" in refusal(ask("POST", "/tokens", name="t", access=["*"]))


def test_who_sees_some_topics_only_reads_no_people(transactional_db: None) -> None:
    dora = limited_person("dora", "a-", role="administrator")
    answer = asking(dora)("GET", "/people")
    assert answer.status_code == 422
    assert "You see some topics only" in answer.json()["detail"]


def test_a_token_of_nobody_or_of_a_closed_account_changes_nobody(boss: Any) -> None:
    assert "belongs to no user" in asking(None)("GET", "/people").json()["detail"]
    ask = asking(boss)
    get_user_model().objects.update(is_active=False)
    connection.close()
    assert ask("GET", "/people").status_code == 401


def _permissions(*names: str) -> Any:
    return Permission.objects.filter(content_type__app_label="auth", codename__in=names)
