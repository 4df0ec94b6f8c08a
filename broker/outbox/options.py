"""What a message may be sent with, the same for every way of sending one from a transaction.

`prepare` of the client reads all of them; a test compares the two, so that none is forgotten here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..client import Timing


class MessageOptions(Timing, total=False):
    """The options of `prepare`: what the message carries, which queue it goes to, when it is delivered."""

    tag: str | None
    keys: Iterable[str]
    properties: Mapping[str, str] | None
    delay_level: int
    wait_for_disk: bool
    queue_id: int | None
    sharding_key: str | None
