"""What processes of a pool do: send with the one producer of the module, as programs have it."""

from __future__ import annotations

from functools import cache

from broker.client import Producer


@cache
def producer_of(namesrv: str) -> Producer:
    """One a process, or its parent's."""
    return Producer("p", namesrv)


def send_one(namesrv: str, body: str) -> None:
    producer_of(namesrv).send("t", body, timeout_ms=20_000)
