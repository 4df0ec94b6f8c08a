"""What the mirror's tests share: a broker, a client, a mirror."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Admin, Producer
from broker.mirror.follower import Mirror
from tests.mirror.running import RunningBroker, running_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "store") as started:
        yield started


@pytest.fixture
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.namesrv) as client:
        yield client


@pytest.fixture
def producer(broker: RunningBroker) -> Iterator[Producer]:
    with Producer(group="tests", namesrv=broker.namesrv) as client:
        yield client


@pytest.fixture
def mirror(transactional_db: None, admin: Admin) -> Iterator[Mirror]:
    follower = Mirror(admin)
    yield follower
    follower.close()
