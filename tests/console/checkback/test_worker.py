"""The worker: answers for what is registered, follows changes, and asks nobody without the database's word."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from broker.client import AsyncAdmin, AsyncProducer, as_half, prepare
from broker.client.transactions import TransactionTarget
from broker.server.broker import BrokerService
from console.features.checkback import registry, worker
from console.features.checkback.models import CheckAddress
from console.features.checkback.request import Asker, Resolver
from console.features.checkback.worker import Answerer, Contact
from console.operations.actor import Actor
from console.rest.operations import in_thread
from tests.console.checkback.server import Question, Server, decided
from tests.house.sources import ROOT
from tests.waiting import until_true

ANNA = Actor("anna", frozenset())


class Shop(Server):
    """Agrees, with the secrets that it knows."""

    def __init__(self) -> None:
        super().__init__(self.agree)
        self.secrets: dict[str, str] = {}

    async def agree(self, asked: Question) -> bytes:
        return decided(asked, self.secrets[asked.asked["producer_group"]], "COMMIT")

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/checks"

    async def register(self, *groups: str) -> None:
        for group in groups:
            _, self.secrets[group] = await in_thread(
                lambda group=group: registry.register(group, self.url, ANNA, reason="test")
            )


@pytest.fixture
async def shop(transactional_db: None, settings: Any) -> AsyncIterator[Shop]:
    async with Shop() as running:
        settings.CHECKBACK_ORIGINS = [f"http://{running.host}:{running.port}"]
        settings.CHECKBACK_NETWORKS = ["127.0.0.2/32"]
        yield running


@asynccontextmanager
async def working(
    service: BrokerService, monkeypatch: pytest.MonkeyPatch, make: Callable[[Contact], Answerer] | None = None
) -> AsyncIterator[list[str]]:
    """The groups that it answers for now; it looks more often than in life."""
    monkeypatch.setattr(worker, "LOOK_S", 0.05)
    monkeypatch.setattr(worker, "IDLE_LOOK_S", 0.05)
    groups: list[str] = []

    def told(now: Any) -> None:
        groups[:] = now

    running = asyncio.create_task(worker.Worker(service.namesrv_address, make=make).run(told))
    yield groups
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def send(rest: AsyncProducer, group: str) -> str:
    half = as_half(prepare("4711"), group)
    (sent,) = await rest.send_each("orders", [half])
    assert not isinstance(sent, Exception), sent
    return half.message_id


def state_of(admin: AsyncAdmin, transaction_id: str, state: str) -> Callable[[], Awaitable[bool]]:
    """Whether it is in that state, by now; asked about at once if it is open."""

    async def holds() -> bool:
        found = await admin.transaction(transaction_id)
        if found.state == "open":
            assert found.position is not None
            target = TransactionTarget(found.offset, found.position)
            await admin.steer_transactions("check", [target], who="test")
        return found.state == state

    return holds


def are(groups: list[str], *wanted: str) -> Callable[[], Awaitable[bool]]:
    async def hold() -> bool:
        return groups == list(wanted)

    return hold


async def test_what_is_registered_is_answered_for_and_its_standing_written(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(service, monkeypatch) as groups:
        await shop.register("shop", "shop-2")
        await until_true(are(groups, "shop", "shop-2"))
        for group in ("shop", "shop-2"):
            await until_true(state_of(admin, await send(rest, group), "committed"))

        async def is_written() -> bool:
            rows = await in_thread(lambda: list(CheckAddress.objects.values_list("outcome", "failures")))
            return rows == [("COMMIT", 0), ("COMMIT", 0)]

        await until_true(is_written)
        # off, another secret, gone
        await in_thread(lambda: registry.change("shop", ANNA, reason="test", is_enabled=False))
        await until_true(are(groups, "shop-2"))
        shop.secrets["shop-2"] = (
            await in_thread(lambda: registry.change("shop-2", ANNA, reason="test", is_new_secret_wanted=True))
        )[1] or ""
        await until_true(state_of(admin, await send(rest, "shop-2"), "committed"))
        await in_thread(lambda: registry.remove("shop-2", ANNA, reason="test"))
        await until_true(are(groups))
    assert (await admin.transaction_status()).open == 0


@pytest.mark.parametrize("change", ["SECRET_KEY", "CHECKBACK_ORIGINS"])
async def test_what_may_not_be_asked_any_more_says_why(
    service: BrokerService, shop: Shop, monkeypatch: pytest.MonkeyPatch, settings: Any, change: str
) -> None:
    await shop.register("shop")
    setattr(settings, change, "another one" if change == "SECRET_KEY" else [])
    async with working(service, monkeypatch) as groups:

        async def is_said() -> bool:
            row = await in_thread(CheckAddress.objects.get)
            return change in row.outcome

        await until_true(is_said)
        assert groups == []


async def test_without_the_database_nobody_is_asked_after_a_while(
    service: BrokerService, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses may have been taken back meanwhile. With the database they are there again."""
    await shop.register("shop")
    monkeypatch.setattr(worker, "BLIND_S", 0.2)
    async with working(service, monkeypatch) as groups:
        await until_true(are(groups, "shop"))
        try:
            await in_thread(lambda: _rename("console_checkaddress", "away"))
            await until_true(are(groups))
        finally:
            await in_thread(lambda: _rename("away", "console_checkaddress"))
        await until_true(are(groups, "shop"))


def _rename(table: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")


async def test_an_answerer_that_fails_is_begun_anew(
    service: BrokerService, shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = 0

    def make(contact: Contact) -> Answerer:
        """The first one is told an address that is none."""
        nonlocal made
        made += 1
        namesrv = "no address" if made == 1 else service.namesrv_address
        return Answerer(contact, namesrv, Asker(registry.allow_list(), Resolver(), registry.http_limits()))

    await shop.register("shop")
    async with working(service, monkeypatch, make) as groups:
        await until_true(are(groups, "shop"))

        async def is_anew() -> bool:
            return made == 2

        await until_true(is_anew)
    assert "answering for group shop failed" in caplog.text


@pytest.fixture
def process(service: BrokerService, shop: Shop, database_url: str, var_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """`manage.py checkback_http` as it is started in life."""
    environment = os.environ | {
        "DATABASE_URL": database_url, "REDIS_URL": "redis://127.0.0.1:1/0", "ESCAPEMENT_VAR": str(var_dir),
        "SECRET_KEY": "of this test", "ESCAPEMENT_NAMESRV": service.namesrv_address,
        "ESCAPEMENT_CHECKBACK_ORIGINS": f"http://{shop.host}:{shop.port}",
        "ESCAPEMENT_CHECKBACK_NETWORKS": "127.0.0.2/32",
    }  # fmt: skip
    command = [sys.executable, str(ROOT / "manage.py"), "checkback_http"]
    started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    yield started
    started.kill()
    started.wait()
    if started.stdout is not None:
        started.stdout.close()


async def test_the_command_asks_until_it_is_stopped(
    process: subprocess.Popen[str], admin: AsyncAdmin, rest: AsyncProducer, shop: Shop, settings: Any
) -> None:
    settings.SECRET_KEY = "of this test"
    await shop.register("shop")
    await until_true(state_of(admin, await send(rest, "shop"), "committed"))
    process.send_signal(signal.SIGTERM)
    out, _ = await asyncio.to_thread(process.communicate, timeout=15)
    assert process.returncode == 0
    assert out.splitlines() == ["asking for no group yet", "asking for shop"]
    assert (await admin.transaction_status()).groups == []


def test_a_setting_that_cannot_be_read_is_said_in_a_sentence() -> None:
    environment = os.environ | {"ESCAPEMENT_CHECKBACK_NETWORKS": "10.1.2.3/16"}
    command = [sys.executable, str(ROOT / "manage.py"), "checkback_http"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "ESCAPEMENT_CHECKBACK_NETWORKS" in ended.stderr
    assert "Traceback" not in ended.stderr
