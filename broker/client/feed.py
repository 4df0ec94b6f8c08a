"""One queue of a lite pull consumer: what was read ahead of its polls, and how far these have got."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..rocketmq.message import Message
from .offsets import QueueOffsets
from .reader import QueueReader, ReadAhead
from .running_info import QueueWork
from .session import Session
from .start_offsets import Beginnings
from .subscription import Subscription
from .types import MessageQueue


class Feed:
    """Two offsets matter: `position` is that of the next message a poll gives, `settled` the position at which the
    latest poll began. Who polls again is done with what the poll before gave, so all below `settled` may be committed.
    """

    def __init__(
        self, session: Session, group: str, queue: MessageQueue, wanted: Subscription, beginnings: Beginnings,
        ahead: ReadAhead, arrived: Callable[[], None],
    ) -> None:  # fmt: skip
        self.queue = queue
        self._reader = QueueReader(session, group, queue, wanted, self._deliver, beginnings, ahead)
        self._arrived = arrived
        self._ready: deque[Message] = deque()
        self._settled = -1
        self._paused = False

    @property
    def offsets(self) -> QueueOffsets:
        """Asks the broker about this queue."""
        return self._reader.offsets

    @property
    def is_paused(self) -> bool:
        """Whether polls pass this queue by."""
        return self._paused

    def start(self) -> None:
        """Begin to read ahead, from where the group stands."""
        self._reader.start()

    def _deliver(self, _: QueueReader, message: Message) -> None:
        self._ready.append(message)
        self._arrived()

    def want(self, wanted: Subscription) -> None:
        """Another expression counts from the next message on that is polled."""
        now = self._reader.wanted
        if (now.kind, now.expression) != (wanted.kind, wanted.expression):
            self._reader.wanted = wanted
            self._ready.clear()
            self._reader.seek(self._reader.finished_offset)

    def take(self, most: int) -> list[Message]:
        """Up to `most` messages, in order."""
        if self._paused:
            return []
        taken = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        for message in taken:
            self._reader.done(message)
        return taken

    def settle(self) -> None:
        """The program is done with all that was taken."""
        self._settled = self._reader.finished_offset

    async def position(self) -> int:
        """The offset of the next message; asks the broker where the group stands while nothing was read."""
        await self._reader.find_start()
        return self._reader.finished_offset

    def seek(self, offset: int) -> None:
        """Go on at `offset`. What is settled goes there too: the program chose it."""
        self._ready.clear()
        self._reader.seek(offset)
        self._settled = offset

    def held(self) -> QueueWork:
        """What can be said of the queue at this moment."""
        return self._reader.held()

    def pause(self) -> None:
        """Give nothing, and read no further ahead."""
        self._paused = True
        self._reader.pause()

    def resume(self) -> None:
        """Give what was read ahead, and read on."""
        self._paused = False
        self._reader.resume()
        if self._ready:
            self._arrived()

    async def commit(self, *, settled_only: bool, confirmed: bool) -> None:
        """Commit the position, or what is settled; raises ClientError."""
        offset = self._settled if settled_only else self._reader.finished_offset
        await self._reader.commit_at(offset, confirmed=confirmed)

    async def commit_at(self, offset: int) -> None:
        """Commit an offset that the program keeps; raises ClientError."""
        await self._reader.commit_at(offset, confirmed=True)

    async def stop(self) -> None:
        """Read no more, give no more."""
        self._ready.clear()
        await self._reader.stop()
