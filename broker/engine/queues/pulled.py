"""What a pull finds."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ...rocketmq.sql92.expression import Filter

#: What is wanted of a queue: hash codes of tags (as they stand in its entries), a filter, or everything (None).
Selection = frozenset[int] | Filter | None


class PullStatus(Enum):
    """What a pull found."""

    FOUND = "found"
    NO_MESSAGE = "no message"
    NO_MATCH = "no match"
    OFFSET_TOO_SMALL = "offset too small"
    OFFSET_OVERFLOW = "offset overflow"
    EMPTY_QUEUE = "empty queue"


class Pulled(NamedTuple):
    """Whole records in queue order, and where to go on."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]
