"""The environment's simulated clock: what the host makes of it, and which stores it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client import Producer
from broker.hosting import HostingRefused, simulation
from broker.hosting.servers import EngineGuest
from tests.hosting.test_host import two_free_ports

Visit = Callable[[str], None]


@pytest.fixture
def visit(settings: Any, tmp_path: Path) -> Visit:
    """Starts a broker in this process on one store, with this clock, sends a message and stops it."""
    settings.BROKER_STORE = tmp_path / "store"
    settings.BROKER_HOST = settings.BROKER_ADVERTISE = "127.0.0.1"

    def start_and_stop(clock: str) -> None:
        settings.SIMULATED_CLOCK = clock
        settings.BROKER_PORT, settings.NAMESRV_PORT = two_free_ports()
        guest = EngineGuest("broker-test", lambda reason: None)
        assert ("simulated" in guest.start()) is bool(clock)
        with Producer(group="simulated", namesrv=f"127.0.0.1:{settings.NAMESRV_PORT}") as producer:
            producer.send("simulated", b"x")
        guest.stop()

    return start_and_stop


def test_a_store_of_a_simulated_clock_is_no_other_brokers(visit: Visit) -> None:
    visit("3600")
    with pytest.raises(HostingRefused, match="ESCAPEMENT_SIMULATED_CLOCK set, or give this broker another directory"):
        visit("")
    visit("2026-01-01T00:00:00Z@60")


def test_a_store_of_the_real_clock_is_not_for_a_simulated_one(visit: Visit) -> None:
    visit("")
    with pytest.raises(HostingRefused, match="a directory of its own"):
        visit("60")
    visit("")


def test_it_is_for_this_machine_alone_and_must_be_one(settings: Any) -> None:
    settings.SIMULATED_CLOCK, settings.BROKER_HOST = "60", "10.0.0.1"
    with pytest.raises(HostingRefused, match="loopback"):
        simulation()
    settings.SIMULATED_CLOCK, settings.BROKER_HOST = "quick", "127.0.0.1"
    with pytest.raises(HostingRefused, match="ESCAPEMENT_SIMULATED_CLOCK: 'quick' is no simulated clock"):
        simulation()
