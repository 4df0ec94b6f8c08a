"""What tests of pages share: a stage (broker, mirror, messages) and somebody who is signed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from broker.client import Admin, Producer
from console.queries.asking import hang_up
from tests.console.stage import Stage
from tests.mirror.running import running_broker


@pytest.fixture
def stage(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Stage]:
    with running_broker(tmp_path / "store") as broker:
        settings.ESCAPEMENT_NAMESRV = broker.namesrv
        with Admin(broker.namesrv) as admin, Producer(group="tests", namesrv=broker.namesrv) as producer:
            made = Stage(broker, admin, producer)
            yield made
            made.close()
        hang_up()


@pytest.fixture
def operator(transactional_db: None) -> Client:
    user = get_user_model().objects.create_superuser("operator", password="a long secret")
    browser = Client()
    browser.force_login(user)
    return browser
