"""The fixture of the kit itself, which other projects have by the plug-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.client import Producer
from broker.testing import Escapement


@pytest.fixture
def escapement() -> Iterator[Escapement]:
    with Escapement() as running:
        yield running


@pytest.fixture
def producer(escapement: Escapement) -> Iterator[Producer]:
    with Producer("shop", escapement.namesrv) as made:
        yield made
