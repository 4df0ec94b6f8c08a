"""Where a lite pull consumer goes on in each of its queues: asked, moved, stopped for a while."""

from __future__ import annotations

from collections.abc import Collection

from .errors import ClientClosed, InvalidArgument
from .feed import Feed
from .types import MessageQueue


class QueuePlaces:
    """The queues that are polled now, in the order in which polls look at them.

    Every method raises InvalidArgument for a queue that is not polled here (any more), asynchronous ones ClientError.
    """

    def __init__(self) -> None:
        self._feeds: dict[MessageQueue, Feed] = {}
        self._closed = False

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that are polled now, sorted."""
        return tuple(sorted(self._feeds, key=queue_order))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Poll this queue from `offset` on; raises InvalidArgument if it is not polled here or has no such offset."""
        feed = self._feed(queue)
        begin, end = await feed.offsets.begin(), await feed.offsets.end()
        if not begin <= offset <= end:
            raise InvalidArgument(f"Offset {offset} is not in {queue}: it has {begin} to {end}.", field="offset")
        feed.seek(offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go back to the first message there is, in these queues or (none given) in all."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.begin())

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Skip all that is there now."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.end())

    async def seek_to_time(self, at_ms: int, *queues: MessageQueue) -> None:
        """Go to the first message stored at `at_ms` (epoch) or later, or to the end if there is none."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.at_time(at_ms))

    def pause(self, *queues: MessageQueue) -> None:
        """Polls give nothing of these queues (none given: of all), and nothing more is read ahead, until `resume`."""
        for feed in self._chosen(queues):
            feed.pause()

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues (none given: with all) where they stood."""
        for feed in self._chosen(queues):
            feed.resume()

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether polls pass the queue by."""
        return self._feed(queue).is_paused

    async def position(self, queue: MessageQueue) -> int:
        """The offset of the queue's next message for a poll."""
        return await self._feed(queue).position()

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the group has committed in a queue of this consumer, as the broker knows it; None if nothing."""
        return await self._feed(queue).offsets.committed()

    def _feed(self, queue: MessageQueue) -> Feed:
        if self._closed:
            raise ClientClosed
        feed = self._feeds.get(queue)
        if feed is None:
            raise InvalidArgument(f"{queue} is not assigned to this consumer now.", field="queue")
        return feed

    def _chosen(self, queues: Collection[MessageQueue]) -> list[Feed]:
        if self._closed:
            raise ClientClosed
        return [self._feed(queue) for queue in queues or tuple(self._feeds)]


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    """RocketMQ's order of queues."""
    return queue.topic, queue.broker, queue.queue_id
