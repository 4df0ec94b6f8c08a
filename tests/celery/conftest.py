"""A broker and connections of kombu to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kombu import Connection

import broker.celery as transport
from broker.celery.link import links
from broker.testing import BrokerThread, small_store
from tests.celery.connecting import Connect


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """What connections share is closed at the end."""
    yield
    links.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A running broker in a thread of its own."""
    with BrokerThread(small_store(tmp_path)) as running:
        yield running


@pytest.fixture
def connect(broker: BrokerThread) -> Iterator[Connect]:
    """Makes connections to the broker; all are closed at the end."""
    with ExitStack() as stack:

        def made(**options: object) -> Connection:
            address = f"{transport.SCHEME}://{broker.namesrv}"
            return stack.enter_context(Connection(address, transport_options=options))

        yield made
