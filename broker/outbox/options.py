"""What a message may be sent with, the same for every way of sending one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..client.timing import Timing


class MessageOptions(Timing, total=False):
    """The options of `prepare`, those that say when it is delivered among them."""

    tag: str | None
    keys: Iterable[str]
    properties: Mapping[str, str] | None
    delay_level: int
