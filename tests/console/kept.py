"""The clients that the console's pages and operations keep in the process, which a test's broker does not outlive."""

from __future__ import annotations

from console.features.timers import operations as timers_operations
from console.operations import copies
from console.site import broker as site_broker


def hang_up() -> None:
    """Close them all."""
    for each in (site_broker, copies, timers_operations):
        each.hang_up()
