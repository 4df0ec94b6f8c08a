"""A real PostgreSQL, a scripted broker, and Django's settings pointed at both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.outbox.transaction_block import close_all
from tests.client.halfbroker import HalfBroker


@pytest.fixture
def broker(settings: Any) -> Iterator[HalfBroker]:
    """The broker that the outbox talks to; this process answers for the groups shop and billing."""
    with HalfBroker() as running:
        settings.ESCAPEMENT_NAMESRV = running.namesrv
        settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop", "billing"]
        yield running
        close_all()
