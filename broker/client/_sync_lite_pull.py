"""The synchronous lite pull consumer: a thin face of AsyncLitePullConsumer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Literal, Unpack

from ._event_loop import Face, event_loop_thread
from ._lite_pull import COMMIT_MS, AsyncLitePullConsumer
from ._reader import IN_FLIGHT_BYTES, IN_FLIGHT_COUNT
from ._subscription import ALL
from ._types import Message, MessageQueue
from .credentials import Access

_run = event_loop_thread.run


class LitePullConsumer(Face[AsyncLitePullConsumer]):
    """Fetches messages in the program's own time, queue by queue in order.

    >>> with LitePullConsumer("reports") as consumer:
    ...     consumer.subscribe("order", "created || paid")
    ...     while messages := consumer.poll():
    ...         print([message.body for message in messages])

    Topics are subscribed, then the group's members share the queues, or queues are assigned by hand. A poll gives what
    was read ahead and moves the position; the next one says that all before is done, and done offsets are committed
    every `commit_every_ms` and by `close`. With `auto_commit` off only `commit` does that. Nothing is delivered again
    by the broker: who fails seeks back. May be used from any thread, by one at a time.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        auto_commit: bool = True, commit_every_ms: int = COMMIT_MS, read_ahead: int = IN_FLIGHT_COUNT,
        read_ahead_bytes: int = IN_FLIGHT_BYTES, trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`read_ahead` messages and `read_ahead_bytes` of each queue are in memory at most (bytes: and one pull).

        `trace`: tell of every message that a poll gives in RocketMQ's trace topic (True), or in another one.
        """
        super().__init__(
            lambda: AsyncLitePullConsumer(
                group, namesrv, from_where=from_where, auto_commit=auto_commit, commit_every_ms=commit_every_ms,
                read_ahead=read_ahead, read_ahead_bytes=read_ahead_bytes, trace=trace, **access,
            )
        )  # fmt: skip

    @property
    def core(self) -> AsyncLitePullConsumer:
        """The asynchronous consumer behind this face."""
        return self._core

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that are polled now, sorted."""
        return self._core.assignment

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All queues of a topic that can be read, to choose from for `assign`. Raises RouteNotFound."""
        return _run(self._core.queues(topic))

    def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Poll this member's share of a topic's queues: messages with these tags, or that a Sql wants."""
        _run(self._core.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Poll a topic no more. Its queues go to others only when this member closes: a group wants the same topics."""
        _run(self._core.unsubscribe(topic))

    def assign(self, queues: Collection[MessageQueue], expression: str = ALL) -> None:
        """Poll exactly these queues, whatever others of the group do; those that stay keep their positions."""
        _run(self._core.assign(queues, expression))

    def poll(self, timeout_ms: int = 5_000, max_messages: int = 32) -> list[Message]:
        """Up to `max_messages`; waits up to `timeout_ms` for the first. Says that what was polled before is done."""
        return _run(self._core.poll(timeout_ms, max_messages), timeout_ms=timeout_ms)

    def queue_of(self, message: Message) -> MessageQueue:
        """The queue that a polled message came from, for instance to `seek` to it again."""
        return self._core.queue_of(message)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Poll this queue from `offset` on; raises InvalidArgument if it is not polled here or has no such offset."""
        _run(self._core.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go back to the first message there is, in these queues or (none given) in all."""
        _run(self._core.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Skip all that is there now."""
        _run(self._core.seek_to_end(*queues))

    def seek_to_time(self, at_ms: int, *queues: MessageQueue) -> None:
        """Go to the first message stored at `at_ms` (epoch) or later, or to the end if there is none."""
        _run(self._core.seek_to_time(at_ms, *queues))

    def pause(self, *queues: MessageQueue) -> None:
        """Polls give nothing of these queues (none given: of all), and nothing more is read ahead, until `resume`."""
        _run(_call(self._core.pause, queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues (none given: with all) where they stood."""
        _run(_call(self._core.resume, queues))

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether polls pass the queue by."""
        return self._core.is_paused(queue)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the queue's next message for a poll."""
        return _run(self._core.position(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """What the group has committed in a queue of this consumer, as the broker knows it; None if nothing."""
        return _run(self._core.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit the positions of all queues, or these offsets. Raises ClientError for the first that failed."""
        _run(self._core.commit(offsets))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_done=error is None)

    def close(self, *, is_done: bool = True) -> None:
        """Leave the group, after committing if that is automatic; see AsyncLitePullConsumer.close."""
        _run(self._core.close(is_done=is_done))
        self._is_closed = True


async def _call(change: Callable[..., None], queues: tuple[MessageQueue, ...]) -> None:
    """Change what belongs to the event loop in that loop."""
    change(*queues)
