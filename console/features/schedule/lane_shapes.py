"""One lane opened: its pending messages in due order, page by page, read from the broker."""

from __future__ import annotations

from dataclasses import dataclass

from console.features.schedule.shapes import Lane
from console.site.evidence import Evidence

#: messages on one page of a lane, and the most one may ask for
PAGE_COUNT = 50
MAX_PAGE_COUNT = 200


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A message that waits (or waited) on a lane. Fields of the record are None when its bytes could not be read."""

    #: index in the lane's queue
    offset: int
    #: byte address of the parked record in the commit log
    position: int
    size_bytes: int
    due_ms: int
    #: offset < delayOffset: it has left, the parked record is still there
    released: bool
    real_topic: str | None
    real_queue_id: int | None
    keys: tuple[str, ...]
    tag: str | None
    #: the client's unique id (UNIQ_KEY)
    unique_key: str | None
    #: address of the parked record as an id: `message` page argument without a topic
    offset_message_id: str | None
    store_ms: int | None
    born_ms: int | None


@dataclass(frozen=True, slots=True)
class LanePage:
    """A page of a lane. `lane` None: no such level."""

    evidence: Evidence
    now_ms: int
    broker: str
    lane: Lane | None
    #: first offset of this page and the count asked for
    offset: int
    count: int
    messages: tuple[ParkedMessage, ...]
    #: offsets to page to; None where there is no such page
    first_offset: int | None
    previous_offset: int | None
    next_offset: int | None
    last_offset: int | None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0
