"""The clients that the console's pages and operations keep in the process, which a test's broker does not outlive."""

from __future__ import annotations

from console.operations import copying, recalling
from console.queries import asking


def hang_up() -> None:
    """Close them all."""
    for each in (asking, copying, recalling):
        each.hang_up()
