"""Keeps a plain send out of a block whose messages a transaction decides: it would go out whatever becomes of that.

Each thread has its own state: a synchronous producer is called in the thread that entered the block.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ClientError

_state = threading.local()


class PlainSendRefused(ClientError):
    """A plain producer was used inside a transactional block; nothing was sent."""

    def __init__(self) -> None:
        super().__init__(
            "This producer would send at once, whether or not the transaction commits. Send with the producer of the "
            "transactional() block, or enter it with plain_sends=True if that is what you want."
        )


@contextmanager
def plain_sends(*, allowed: bool) -> Iterator[None]:
    """Refuse or allow plain sends of this thread inside the block."""
    before = getattr(_state, "refused", False)
    _state.refused = not allowed
    try:
        yield
    finally:
        _state.refused = before


def check_plain_send() -> None:
    """Raise PlainSendRefused where plain sends are refused."""
    if getattr(_state, "refused", False):
        raise PlainSendRefused
