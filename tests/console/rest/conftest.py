"""The REST application over a real broker and a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from broker.client import AsyncAdmin
from broker.server.broker import BrokerService
from broker.testing import small_store
from console.rest.app import RestApplication, StateHolder, create_application
from console.security import tokens as security_tokens
from console.security.models import ApiToken
from tests.client.leftovers import no_client_left
from tests.console.kept import hang_up

MakeToken = Callable[..., str]


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """No client is left open."""
    yield from no_client_left()


@pytest.fixture
def make_token(transactional_db: None) -> MakeToken:
    """Makes a token for topic prefixes; all topics by default."""

    def make(
        publish: tuple[str, ...] = ("*",), read: tuple[str, ...] = ("*",), lasts: timedelta | None = None,
        consume: tuple[str, ...] = ("*",),
    ) -> str:  # fmt: skip
        count = ApiToken.objects.filter(name__startswith="test").count()
        name = f"test-{count}" if count else "test"
        return security_tokens.create(name, security_tokens.scope_rows(publish, read, (), consume), lasts=lasts)[1]

    return make


@pytest.fixture
def token(make_token: MakeToken) -> str:
    """A token that allows everything."""
    return make_token()


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BrokerService]:
    """A running broker."""
    running = BrokerService(small_store(tmp_path), broker_port=0, namesrv_port=0)
    await running.start()
    yield running
    await asyncio.to_thread(hang_up)
    await running.stop()


@pytest.fixture
def namesrv(service: BrokerService) -> str:
    """The name service that the application is given; tests of several brokers have another."""
    return service.namesrv_address


@pytest.fixture
async def application(namesrv: str, transactional_db: None) -> AsyncIterator[RestApplication]:
    """The REST application."""
    made = create_application(namesrv)
    yield made
    await made.state.holder.close()


@pytest.fixture
def holder(application: Starlette) -> StateHolder:
    """What the application keeps."""
    kept: StateHolder = application.state.holder
    return kept


@pytest.fixture
async def anonymous(application: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the REST application without a token."""
    transport = httpx.ASGITransport(application, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


@pytest.fixture
def api(anonymous: httpx.AsyncClient, token: str) -> httpx.AsyncClient:
    """A client that may do everything."""
    anonymous.headers["authorization"] = f"Bearer {token}"
    return anonymous


@pytest.fixture
async def admin(service: BrokerService) -> AsyncIterator[AsyncAdmin]:
    """What the broker has."""
    made = AsyncAdmin(service.namesrv_address)
    yield made
    await made.close()
