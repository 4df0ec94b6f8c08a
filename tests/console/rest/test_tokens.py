"""Tokens: who may do what, until when, and what the database holds."""

from __future__ import annotations

import asyncio
import io
import time
from datetime import timedelta

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

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


async def test_a_scope_is_a_beginning_of_topic_names(anonymous: httpx.AsyncClient, narrow: str) -> None:
    assert (await anonymous.post(ORDERS, json={"body": "x"}, headers=bearer(narrow))).status_code == 201
    refused = await anonymous.post(INVOICES, json={"body": "x"}, headers=bearer(narrow))
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    for path in ("/api/v1/topics", "/api/v1/groups", "/api/v1/schedule/levels"):
        assert (await anonymous.get(path, headers=bearer(narrow))).status_code == 403


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
