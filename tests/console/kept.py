"""The clients that the console's pages and operations keep in the process, which a test's broker does not outlive."""

from __future__ import annotations

from console.features.timers import apache_records as timers_apache
from console.operations import copies
from console.rest import as_me
from console.site import broker as site_broker


def hang_up() -> None:
    """Close them all."""
    for each in (as_me, site_broker, copies, timers_apache):
        each.hang_up()
