"""A real broker, and TASKS pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.outbox.transaction_block import close_all
from broker.tasks import EscapementBackend, sending
from broker.tasks.framework import task_backends
from broker.testing import BrokerThread
from tests.tasks import shop


@pytest.fixture
def broker(settings: Any) -> Iterator[BrokerThread]:
    """The broker that tasks go to."""
    with BrokerThread() as running:
        settings.ESCAPEMENT_NAMESRV = running.namesrv
        settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
        settings.TASKS = tasks()
        sending.broker_is_back()
        shop.forget()
        yield running
        close_all()


@pytest.fixture
def backend(broker: BrokerThread) -> EscapementBackend:
    """What TASKS names."""
    found = task_backends["default"]
    assert isinstance(found, EscapementBackend)
    return found


def tasks(**options: Any) -> dict[str, Any]:
    """The setting TASKS."""
    return {
        "default": {
            "BACKEND": "broker.tasks.EscapementBackend", "QUEUES": ["default", "mails"], "OPTIONS": options,
        }
    }  # fmt: skip
