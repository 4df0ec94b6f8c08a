"""The ledger's pen: what happens is collected, and becomes records when the batch is closed.

So what one moment brings shares a record and a sync, however many pops and acknowledgements it was.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from ...rocketmq.properties import WAIT, format_properties
from ..derived import Derived
from ..log.ticket import Ticket
from ..message_header import Facts
from ..store import Store
from ..tables.topics import POP_TOPIC
from .checkpoint import CheckPoint
from .popqueue import PopQueue
from .records import CHANGED, CUT, FORGOTTEN, ORDER_ACKED, ORDER_CHANGED, PLACED, Page

#: A record is closed at this size, in small stores at a quarter of a segment.
_PAGE_BYTES = 128 << 10
_PROPERTIES = format_properties({WAIT: "true"})


class Waiting(Protocol):
    """Who wants to know that what it asked for is durable."""

    def stored(self, ticket: Ticket) -> None:
        """It is."""

    def refused(self, code: int, remark: str) -> None:
        """It may be lost."""


class _Owners:
    """Owner of a record's ticket: all who wait for something in it."""

    __slots__ = ("_owners",)

    def __init__(self, owners: list[object]) -> None:
        self._owners = owners

    def stored(self, ticket: Ticket) -> None:
        for owner in self._owners:
            cast(Waiting, owner).stored(ticket)

    def refused(self, code: int, remark: str) -> None:
        for owner in self._owners:
            cast(Waiting, owner).refused(code, remark)


class Pen:
    """Collects entries. Owners are told when everything noted so far is durable."""

    def __init__(self, store: Store, service: Derived) -> None:
        self._store = store
        self._service = service
        self._pages: list[Page] = [Page()]
        self._page_bytes = min(_PAGE_BYTES, store.config.segment_size_bytes // 4)
        #: acknowledgements, many of one check point together
        self._acks: dict[CheckPoint, tuple[PopQueue, int]] = {}
        self._owners: list[object] = []
        #: records that were appended and are not durable yet
        self._unsynced = 0

    @property
    def page(self) -> Page:
        """The page to write on."""
        page = self._pages[-1]
        if page.size > self._page_bytes:
            page = Page()
            self._pages.append(page)
        return page

    def popped(self, queue: PopQueue, point: CheckPoint) -> None:
        """Note a pop."""
        invisible_ms = point.due_ms - point.pop_ms
        self.page.popped(queue.name, point.start, queue.next_offset, point.pop_ms, invisible_ms, point.held)

    def acked(self, queue: PopQueue, point: CheckPoint, mask: int) -> None:
        """Note acknowledgements."""
        known = self._acks.get(point)
        self._acks[point] = (queue, mask if known is None else known[1] | mask)

    def changed(self, queue: PopQueue, point: CheckPoint, changed: CheckPoint) -> None:
        """Note that a message got another time."""
        numbers = (point.start, point.pop_ms, changed.start, changed.pop_ms, changed.due_ms - changed.pop_ms)
        self.page.add(CHANGED, queue.name, *numbers)

    def placed(self, queue: PopQueue, offset: int = FORGOTTEN) -> None:
        """Note that a queue begins at an offset, or is forgotten."""
        self.page.add(PLACED, queue.name, offset)

    def ordered(self, queue: PopQueue, value: dict[str, Any]) -> None:
        """Note an orderly pop."""
        self.page.ordered(queue.name, queue.next_offset, value)

    def cut(self, queue: PopQueue, offset: int) -> None:
        """Note that nothing is there from an offset on that was handed out before."""
        self.page.add(CUT, queue.name, offset)

    def order_acked(self, queue: PopQueue, pop_ms: int, offset: int) -> None:
        """Note the acknowledgement of one message of an orderly pop."""
        self.page.add(ORDER_ACKED, queue.name, pop_ms, offset)

    def order_changed(self, queue: PopQueue, pop_ms: int, offset: int, visible_ms: int) -> None:
        """Note that a message of an orderly pop got another time."""
        self.page.add(ORDER_CHANGED, queue.name, pop_ms, offset, visible_ms)

    def tell(self, queue: PopQueue, owner: object) -> bool:
        """Have somebody told when all that was noted so far is durable; False if it is already."""
        if not self._acks and not self._pages[0]:
            if not self._unsynced:
                return False
            # what it waits for is on its way to the disk: an entry that says nothing goes after it
            self.page.acked(queue.name, 0, 0, 0)
        self._owners.append(owner)
        return True

    def synced(self) -> None:
        """Hear that one of the records is durable."""
        self._unsynced -= 1

    def write(self, now_ms: int) -> None:
        """Append what was collected. Raises StoreRefused; then some of it waits for the next time."""
        acks, self._acks = self._acks, {}
        for point, (queue, mask) in acks.items():
            self.page.acked(queue.name, point.start, point.pop_ms, mask)
        store = self._store
        while self._pages[0]:
            is_last = len(self._pages) == 1
            owners = _Owners(self._owners) if is_last and self._owners else None
            store.append(
                POP_TOPIC, 0, self._pages[0].body(), Facts(_PROPERTIES, None, None, None), 0, 0, 0, now_ms,
                store.store_host, now_ms, owner=owners,
            )  # fmt: skip
            store.note(self._service, ("written",))
            self._unsynced += 1
            if owners is not None:
                self._owners = []
            self._pages.pop(0)
            if not self._pages:
                self._pages.append(Page())
