"""Tokens: who may do what, until when, and what the database holds."""

from __future__ import annotations

import asyncio
import io
import time
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from console.operations.models import AuditEntry
from console.rest.app import StateHolder
from console.rest.database import CACHE_S
from console.security import tokens as security_tokens
from console.security.models import ApiToken
from tests.console.rest.conftest import MakeToken

ORDERS, INVOICES = "/api/v1/topics/order-paid/messages", "/api/v1/topics/invoice/messages"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def narrow(make_token: MakeToken) -> str:
    """May send to order..., and read nothing."""
    return make_token(publish=("order*",), read=())


@pytest.fixture
def expired(make_token: MakeToken) -> str:
    """Was good until a minute ago."""
    return make_token(lasts=timedelta(minutes=-1))


async def test_without_a_token_nothing_is_told(anonymous: httpx.AsyncClient) -> None:
    for headers in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer "}, {"authorization": "Bearer"}):
        answer = await anonymous.get("/api/v1/topics", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "token_missing")


@pytest.mark.parametrize(
    "token", ["x", "esc_", "esc_aaaaaaaaaa_" + "A" * 43, "esc_aaaaaaaaaa_" + "A" * 5000, "esc_\xff", "' OR 1=1 --"]
)
async def test_tokens_that_do_not_exist_are_refused(anonymous: httpx.AsyncClient, token: str) -> None:
    answer = await anonymous.get("/api/v1/topics", headers=[(b"authorization", b"Bearer " + token.encode("latin-1"))])
    assert answer.status_code == 401


async def test_the_right_prefix_with_another_secret_is_refused(anonymous: httpx.AsyncClient, token: str) -> None:
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert (await anonymous.get("/api/v1/topics", headers=bearer(wrong))).status_code == 401


async def test_a_scope_is_a_beginning_of_topic_names_where_a_star_says_so(
    anonymous: httpx.AsyncClient, narrow: str
) -> None:
    assert (await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(narrow))).status_code == 201
    refused = await anonymous.post(INVOICES, json={"body": "x"}, headers=bearer(narrow))
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    for path in ("/api/v1/topics", "/api/v1/groups", "/api/v1/schedule/levels"):
        assert (await anonymous.get(path, headers=bearer(narrow))).status_code == 403


async def test_a_token_for_a_topic_neither_sends_to_nor_makes_one_that_begins_so(
    anonymous: httpx.AsyncClient, make_token: MakeToken
) -> None:
    """`publish: order-paid` once opened order-paid2, too, which a send created."""
    token = await asyncio.to_thread(
        lambda: (make_token(publish=("order-paid",), read=("order-paid",)), connection.close())[0]
    )
    assert (await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(token))).status_code == 201
    longer = ORDERS.replace("order-paid", "order-paid2")
    refused = await anonymous.post(longer, json={"body": "x"}, headers=bearer(token))
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    listed = (await anonymous.get("/api/v1/topics", headers=bearer(token))).json()
    assert [row["name"] for row in listed["topics"]] == ["order-paid"]


async def test_an_expired_token_is_refused(anonymous: httpx.AsyncClient, expired: str) -> None:
    assert (await anonymous.get("/api/v1/topics", headers=bearer(expired))).status_code == 401


def revoke_all() -> None:
    """As an administrator in another process would; leaves no connection in its thread."""
    ApiToken.objects.update(revoked_at=timezone.now())
    connection.close()


async def test_a_revoked_token_is_refused_within_a_second(api: httpx.AsyncClient) -> None:
    assert (await api.get("/api/v1/groups")).status_code == 200
    await asyncio.to_thread(revoke_all)
    revoked = time.monotonic()
    while (await api.get("/api/v1/groups")).status_code == 200:
        assert time.monotonic() - revoked < 1.0
    assert CACHE_S < 1.0


def say_that(person: User, *, is_there: bool) -> None:
    """As an administrator in another process would: closes the account, or deletes it."""
    if is_there:
        User.objects.filter(pk=person.pk).update(is_active=False)
    else:
        User.objects.filter(pk=person.pk).delete()
    connection.close()


@pytest.mark.parametrize("is_there", [True, False], ids=["deactivated", "deleted"])
async def test_a_token_ends_with_the_person_whom_it_was_made_for(
    anonymous: httpx.AsyncClient, is_there: bool, transactional_db: None
) -> None:
    def made() -> tuple[User, str]:
        person = User.objects.create_user("alice")
        token = security_tokens.create("alices", security_tokens.scope_rows(["*"], ["*"]), created_by=person)[1]
        connection.close()
        return person, token

    alice, token = await asyncio.to_thread(made)
    assert (await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(token))).status_code == 201
    await asyncio.to_thread(lambda: say_that(alice, is_there=is_there))
    async with asyncio.timeout(30):
        while (await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(token))).status_code == 201:
            pass
    refused = await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(token))
    assert (refused.status_code, refused.json()["code"]) == (401, "token_invalid")


@pytest.mark.django_db
def test_whose_person_is_not_active_the_list_says() -> None:
    person = User.objects.create_user("alice")
    run("create", "alices", "--read", "*", "--user", "alice")
    assert "valid" in run("list")
    person.is_active = False
    person.save()
    assert "inactive" in run("list")


@pytest.mark.django_db
def test_the_command_gives_the_right_to_settings_by_a_name_of_its_own() -> None:
    grant = security_tokens.grant_of(run("create", "ops", "--configure", "order*"))
    assert grant is not None
    assert grant.allows("settings", "order-paid")
    assert not grant.allows("settings", "invoice")


async def test_a_database_connection_that_broke_is_made_anew(
    anonymous: httpx.AsyncClient, holder: StateHolder, token: str
) -> None:
    assert (await anonymous.get("/api/v1/groups", headers=bearer(token))).status_code == 200
    grants = holder.get().grants
    await grants._in_thread(lambda: connection.connection.close())
    assert await grants._in_thread(lambda: security_tokens.grant_of(token)) is not None


def test_a_dump_of_the_database_holds_no_token(token: str) -> None:
    row = ApiToken.objects.get()
    dump = " ".join(str(value) for value in vars(row).values())
    assert token not in dump
    assert token.split("_", 2)[2] not in dump
    assert security_tokens.grant_of(row.digest) is None
    assert len(token.split("_", 2)[2]) >= 43


def test_use_is_written_down_but_not_every_time(token: str) -> None:
    security_tokens.grant_of(token)
    first = ApiToken.objects.get().last_used_at
    security_tokens.grant_of(token)
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("token", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


@pytest.mark.django_db
def test_the_command_makes_lists_and_revokes() -> None:
    token = run("create", "shop", "--publish", "order*", "--read", "*", "--consume", "bill*", "--days", "30")
    grant = security_tokens.grant_of(token)
    assert grant is not None
    assert grant.allows("publish", "order-paid")
    assert not grant.allows("publish", "invoice")
    assert grant.allows("read", "invoice")
    assert grant.allows("consume", "billing")
    assert not grant.allows("consume", "order-paid")
    listed = run("list")
    assert "shop" in listed
    assert token not in listed
    run("revoke", token.split("_")[1])
    assert security_tokens.grant_of(token) is None
    assert "revoked" in run("list")


@pytest.mark.django_db
def test_the_command_binds_a_token_to_a_user_of_access_control() -> None:
    grant = security_tokens.grant_of(run("create", "shop", "--publish", "order*", "--access-user", "alice"))
    assert grant is not None
    assert (grant.access_user, grant.allows("publish", "order-paid")) == ("alice", True)
    bare = security_tokens.grant_of(run("create", "bare", "--access-user", "bob"))
    assert bare is not None
    assert not bare.allows("publish", "order-paid")
    listed = run("list")
    assert "shop: publish order* that User:alice may" in listed
    assert "bare: all that User:bob may" in listed


@pytest.mark.django_db
@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "useless"],
        ["create", "bad", "--access-user", "a b"],
        ["create", "bad", "--publish", "a b"],
        ["create", "bad", "--publish", "a.*"],
        ["create", "bad", "--publish", "*", "--days", "0"],
        ["create", "bad", "--publish", "*", "--user", "nobody"],
        ["revoke", "unknown"],
    ],
)
def test_the_command_refuses_what_makes_no_sense(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)
    assert not ApiToken.objects.exists()


def valid(token: str) -> bool:
    return security_tokens.grant_of(token) is not None


@pytest.mark.django_db
def test_a_token_expires_by_default_and_not_where_that_is_asked_for() -> None:
    run("create", "default", "--read", "*")
    run("create", "short", "--read", "*", "--days", "7")
    run("create", "endless", "--read", "*", "--never-expires")
    lasts = {
        row.name: row.expires_at and round((row.expires_at - row.created_at) / timedelta(days=1))
        for row in ApiToken.objects.all()
    }
    assert lasts == {"default": 90, "short": 7, "endless": None}
    listed = run("list")
    assert "expires never" in listed
    assert listed.count("used never") == 3


@pytest.mark.django_db
def test_a_name_is_given_once_until_it_is_free_again() -> None:
    token = run("create", "shop", "--read", "*")
    with pytest.raises(CommandError, match="token 'shop' already"):
        run("create", "shop", "--read", "*")
    run("revoke", token)
    assert valid(run("create", "shop", "--read", "*"))
    assert ApiToken.objects.filter(name="shop").count() == 2


@pytest.mark.django_db
def test_rotation_lets_both_count_for_a_stated_time() -> None:
    old = run("create", "shop", "--read", "order*", "--requests-per-s", "7", "--access-user", "alice")
    new = run("rotate", old.split("_")[1], "--overlap-hours", "2", "--days", "30")
    assert valid(old)
    before, after = security_tokens.grant_of(old), security_tokens.grant_of(new)
    assert before is not None
    assert after is not None
    assert (after.name, after.scopes, after.access_user, after.requests_per_s) == (
        before.name, before.scopes, before.access_user, 7,
    )  # fmt: skip
    row = ApiToken.objects.get(prefix=old.split("_")[1])
    assert row.expires_at is not None
    assert timedelta(hours=1.9) < row.expires_at - timezone.now() <= timedelta(hours=2)
    assert row.replaced_by == ApiToken.objects.get(prefix=new.split("_")[1])
    with pytest.raises(CommandError, match="revoked or replaced"):
        run("rotate", old.split("_")[1])
    third = run("rotate", new, "--overlap-hours", "0")
    assert not valid(new)
    assert valid(third)


@pytest.mark.django_db
def test_an_overlap_makes_no_token_last_longer_than_it_would() -> None:
    old = run("create", "shop", "--read", "*", "--days", "1")
    run("rotate", old, "--overlap-hours", "100")
    row = ApiToken.objects.get(prefix=old.split("_")[1])
    assert row.expires_at is not None
    assert row.expires_at - timezone.now() <= timedelta(days=1)


@pytest.mark.django_db
@pytest.mark.parametrize("overlap", ["-1", "nan", "10000"])
def test_an_overlap_that_makes_no_sense_changes_nothing(overlap: str) -> None:
    old = run("create", "shop", "--read", "*")
    with pytest.raises(CommandError):
        run("rotate", old, "--overlap-hours", overlap)
    assert valid(old)
    assert ApiToken.objects.count() == 1


def limited(most: int) -> str:
    token = run("create", "shop", "--read", "*", "--requests-per-s", str(most))
    connection.close()
    return token


async def test_a_token_with_a_limit_is_told_when_to_come_again(
    anonymous: httpx.AsyncClient, holder: StateHolder, token: str
) -> None:
    few = await asyncio.to_thread(limited, 3)
    clock = [100.0]
    holder.get().grants._rates._clock_s = lambda: clock[0]
    answers = [await anonymous.get("/api/v1/groups", headers=bearer(few)) for _ in range(5)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["code"] == "token_limited"
    assert answers[-1].headers["retry-after"] == "1"
    assert (await anonymous.get("/api/v1/groups", headers=bearer(token))).status_code == 200
    clock[0] += 1 / 3 + 0.01
    answers = [await anonymous.get("/api/v1/groups", headers=bearer(few)) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    clock[0] += 60
    answers = [await anonymous.get("/api/v1/groups", headers=bearer(few)) for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]


def test_the_settings_limit_tokens_that_say_nothing_themselves(token: str, settings: Any) -> None:
    settings.TOKEN_REQUESTS_PER_S = 5
    found = security_tokens.grant_of(token)
    assert found is not None
    assert found.requests_per_s == 5


async def test_the_audit_names_the_token_by_its_number(
    api: httpx.AsyncClient, token: str, namesrv: str, settings: Any
) -> None:
    settings.ESCAPEMENT_NAMESRV = namesrv
    sent = await api.post(ORDERS, json={"body": "x", "delay_ms": 3_600_000})
    assert sent.status_code == 201, sent.text
    answer = await api.post("/api/v1/timers:cancel", json={"filter": {"topic": "order-paid"}, "reason": "no"})
    assert answer.status_code == 202, answer.text

    def told() -> set[str]:
        found = {str(entry.result.get("token")) for entry in AuditEntry.objects.filter(what="confirmed")}
        connection.close()
        return found

    assert await asyncio.to_thread(told) == {token.split("_")[1]}
