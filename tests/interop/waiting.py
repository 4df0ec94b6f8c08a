"""Waiting until another process has done something that can be looked for through a broker."""

from __future__ import annotations

from collections.abc import Callable

from broker.client import BrokerRefused, RouteNotFound
from tests.waiting import NotInTime, until

LOOK_EVERY_S = 0.05


def wait_until(holds: Callable[[], object], timeout_s: float = 20) -> bool:
    """Whether `holds` came true in time; a route or record that is not there yet counts as not yet."""
    try:
        until(holds, timeout_s, not_yet=(BrokerRefused, RouteNotFound), every_s=LOOK_EVERY_S)
    except NotInTime:
        return False
    return True
