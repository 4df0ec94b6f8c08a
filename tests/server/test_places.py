"""How many connections there may be, also while no descriptor is left to count them with."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.engine.config import EngineConfig
from broker.server.broker import BrokerService, Protection
from broker.server.clock import Clocks
from broker.server.listener import RECOUNT_INTERVAL_MS, Places, open_descriptors
from tests.server.access.clients import ACCESS
from tests.server.stranger import stranger_at
from tests.server.test_server import Clock
from tests.waiting import until_true


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Nothing can be opened: the limit is where the lowest free descriptor is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_cannot_be_counted_is_as_it_was_and_counted_as_soon_as_it_can_be() -> None:
    places = Places()
    before = places.most
    with no_descriptor():
        with pytest.raises(OSError):
            open_descriptors()
        places.recount(RECOUNT_INTERVAL_MS)
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    try:
        places.recount(RECOUNT_INTERVAL_MS + 1)
        assert places.most == Places().most < before
    finally:
        for each in opened:
            os.close(each)


async def test_strangers_are_sent_away_while_there_is_no_descriptor(config: EngineConfig) -> None:
    clock = Clock()
    service = BrokerService(
        config, broker_port=0, namesrv_port=0, protection=Protection(access=ACCESS), clocks=Clocks(broker=clock)
    )
    await service.start()
    try:
        async with stranger_at(service.address) as silent:
            await until_true(lambda: len(service.servers[0].connections) == 1)
            clock.now_ms += RECOUNT_INTERVAL_MS
            with no_descriptor():
                service._sweep()
            assert await silent.is_closed()
    finally:
        await service.stop()
