"""What a snapshot holds besides the pages' own shapes, and how shapes are packed: as MessagePack, compressed.

A field that is added to a shape later needs a default, which it has when an older snapshot is read; one that is gone is
left out.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from console.features.groups.read import GroupRow
from console.features.schedule.shapes import Lanes
from console.features.timers.shapes import Forecast, Stretch, TimersPage
from console.features.transactions.shapes import TransactionFigures

Shape = TypeVar("Shape")

#: the parts of a snapshot, as its row has them
PARTS = ("lanes", "timers", "transactions", "groups")


@dataclass(frozen=True, slots=True)
class Zoomed:
    """What was due at one zoom of the Timers page."""

    zoom: str
    forecast: Forecast | None = None
    #: on a broker that tells no forecast: counted from its newest records
    strip: Stretch | None = None


@dataclass(frozen=True, slots=True)
class TimersKept:
    """The Timers page without the list of what fires next, and all its zooms."""

    page: TimersPage
    zooms: tuple[Zoomed, ...]


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """How far one group has read one topic: sums over its queues."""

    group: str
    topic: str
    queues: int
    #: None: the end of some queue was not known
    lag: int | None
    offset_sum: int
    end_sum: int | None


@dataclass(frozen=True, slots=True)
class GroupsKept:
    """Consumer groups, those furthest behind first; `left_out`: so many more were there."""

    rows: tuple[GroupRow, ...]
    topics: tuple[GroupTopic, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """All that is known of a moment. A part that is None could not be read: `why` has its StaleReason's code."""

    broker: str
    at_ms: int
    lanes: Lanes | None
    timers: TimersKept | None
    transactions: TransactionFigures | None
    groups: GroupsKept | None
    why: dict[str, str]


def pack(shape: Any) -> bytes:
    """Pack a shape of dataclasses, tuples, texts and numbers."""
    return zlib.compress(msgspec.msgpack.encode(shape))


def unpack(kind: type[Shape], data: bytes) -> Shape:
    """Make the shape again. Raises msgspec.ValidationError for bytes that hold another one."""
    return msgspec.msgpack.decode(zlib.decompress(data), type=kind)
