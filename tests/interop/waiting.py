"""Waiting until another process has done something: look again every few ms until a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from broker.client import BrokerRefused, RouteNotFound

LOOK_EVERY_S = 0.05


def wait_until(holds: Callable[[], bool], timeout_s: float = 20) -> bool:
    """Whether `holds` came true in time; a route or record that is not there yet counts as not yet."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while time.monotonic() < deadline:
        try:
            if holds():
                return True
        except (BrokerRefused, RouteNotFound):
            pass
        pause.wait(LOOK_EVERY_S)
    return False
