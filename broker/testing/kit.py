"""What a test has of its broker: `Escapement`, with a clock in the test's hand.

>>> with Escapement() as escapement, Producer("shop", escapement.namesrv) as producer:
...     producer.send("reminders", "pay!", delay_ms=86_400_000)
...     escapement.forward(hours=24)
...     escapement.assert_sent("reminders", body="pay!")
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

from ..client import MessageOptions, Producer, SendResult
from ..rocketmq.properties import DLQ_ORIGIN_TOPIC
from ..rocketmq.topics import DLQ_PREFIX
from .consuming import Consumed, Consuming, Handlers, OnError, chosen, run_here, run_in_loop
from .guard import guard
from .messages import ANYTHING, Messages, PendingMessage, SentMessage, body_of, expected, in_order, make_message, moment
from .reading import messages_of, visible, waiting
from .stage import Stage, house

#: The producer group of what a test sends itself.
GROUP = "tests"
#: The package that holds this one, by the name under which it was imported.
PACKAGE = __name__.rpartition(".testing.")[0]
#: Turns of the worker of the outbox in one step: so many messages, and more, are a circle.
MOST_TURNS = 1_000


class Escapement:
    """A broker of one test: real, on a socket of this machine, with a store in memory. Use it as a `with` block.

    Its clock stands still until the test moves it. It begins at the machine's time, so that what is reckoned from
    `time.time()` is right until the clock was moved for the first time; `now` and `now_ms()` are right always.

    `delay_levels`: those of the broker, "1s 5s 10s ..." (RocketMQ's 18 if not given). One at a time in a process.
    """

    def __init__(self, delay_levels: str | None = None) -> None:
        self._delay_levels = delay_levels
        self._stage: Stage | None = None
        self._behind = ExitStack()
        self._producer: Producer | None = None
        self._tries: dict[Any, int] = {}

    def __enter__(self) -> Self:
        if self._stage is not None:
            raise RuntimeError("This broker runs already.")
        self._stage = house().open(self._delay_levels)
        self._tries = {}
        self._behind.enter_context(guard.allowing([self.namesrv]))
        self._behind.enter_context(project_at(self.namesrv))
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        stage, self._stage = self._there, None
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
        self._behind.close()
        left = house().close(stage)
        if left and kind is None:
            raise AssertionError(
                f"Consumers of {', '.join(sorted(left))} still run at the end of the test. Stop them, or use them as"
                " `with` blocks: they would take the messages of the next test."
            )

    @property
    def _there(self) -> Stage:
        if self._stage is None:
            raise RuntimeError("This broker does not run: use it inside its `with` block, or within the test.")
        return self._stage

    @property
    def namesrv(self) -> str:
        """The address that clients are given, host:port; the same for all tests of a process."""
        return self._there.namesrv

    # time

    @property
    def now(self) -> datetime:
        """The time of the broker's clock, in UTC."""
        return moment(self.now_ms())

    def now_ms(self) -> int:
        """Return the time of the broker's clock in ms since 1970."""
        return self._there.clock()

    def forward(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Move the clock, and have all that falls due come out in its order; returns the time that it is then.

        >>> escapement.forward(minutes=30)
        >>> escapement.forward(timedelta(days=1), seconds=-1)

        `parts` are those of a timedelta. Raises ValueError for a time that is negative. In a coroutine whose event loop
        has producers of transactions use `aforward`.
        """
        stage, end_ms = self._there, self._end_of(by, parts)
        stage.run(stage.forward(end_ms))
        return self.now

    async def aforward(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Move the clock as `forward` does, while this event loop goes on."""
        await asyncio.to_thread(self.forward, by, **parts)
        return self.now

    def at(self, when: datetime) -> datetime:
        """Move the clock to a time, as `forward` does. Raises ValueError for one that is past or has no zone."""
        if when.tzinfo is None:
            raise ValueError(f"{when.isoformat()} has no zone: give one, such as datetime(..., tzinfo=UTC).")
        if when < self.now:
            raise ValueError(f"{when.isoformat()} is past, it is {self.now.isoformat()}: this clock goes forward only.")
        return self.forward(when - self.now)

    def _end_of(self, by: timedelta | None, parts: Mapping[str, float]) -> int:
        whole = (by or timedelta()) + timedelta(**parts)
        if whole < timedelta():
            raise ValueError(f"{whole} is negative: this clock goes forward only.")
        return self.now_ms() + round(whole / timedelta(milliseconds=1))

    # what is there

    @property
    def sent(self) -> Messages[SentMessage]:
        """The messages that consumers can see now, in the order in which they became visible.

        `sent("orders")` are those of one topic. Pending ones are not listed (`pending`), nor is what a handler failed
        on (`dead_letters`).
        """
        stage = self._there
        return stage.call(lambda: visible(stage))

    @property
    def pending(self) -> Messages[PendingMessage]:
        """The messages that wait, what is due first first: timers, delayed ones, retries, halves.

        `pending("orders")` are those for one topic. Rows of an outbox that were not sent yet are not among them.
        """
        stage = self._there
        return stage.call(lambda: waiting(stage))

    def dead_letters(self, group: str) -> Messages[SentMessage]:
        """Return the dead letters of a group, with the topics that they were sent to."""
        stage = self._there
        found = stage.call(lambda: list(messages_of(stage.engine, DLQ_PREFIX + group)))
        return in_order(
            SentMessage(replace(message, topic=message.properties.get(DLQ_ORIGIN_TOPIC, message.topic)))
            for message in found
        )

    def assert_sent(
        self, topic: str, *, body: bytes | str = ANYTHING, json: object = ANYTHING, tag: str | None = ANYTHING,
        key: str = ANYTHING, properties: Mapping[str, str] | None = None, times: int = 1,
    ) -> Messages[SentMessage]:  # fmt: skip
        """Return the messages with these values that consumers can see; raise AssertionError unless there are `times`.

        What is not given may be anything. `properties`: these, and maybe others.
        """
        return self._assert_found(self.sent, topic, times, _given(body, json, tag, key, properties))

    def assert_pending(
        self, topic: str, *, body: bytes | str = ANYTHING, json: object = ANYTHING, tag: str | None = ANYTHING,
        key: str = ANYTHING, properties: Mapping[str, str] | None = None, times: int = 1,
    ) -> Messages[PendingMessage]:  # fmt: skip
        """Return the messages with these values that wait for this topic; raise AssertionError unless `times` do.

        What is not given may be anything. `properties`: these, and maybe others.
        """
        return self._assert_found(self.pending, topic, times, _given(body, json, tag, key, properties))

    def _assert_found(self, there: Messages[Any], topic: str, times: int, wanted: dict[str, Any]) -> Messages[Any]:
        found = there.where(topic, **wanted)
        if len(found) != times:
            raise AssertionError(
                f"Expected {expected(topic, wanted, times)}, found {len(found)}. By {self.now:%Y-%m-%d %H:%M:%S} there"
                f" are\n{self.sent.shown()}\nand waiting\n{self.pending.shown()}"
            )
        return found

    def assert_nothing_sent(self, topic: str | None = None) -> None:
        """Raise AssertionError if consumers can see any message, or one of this topic."""
        found = self.sent.where(topic)
        if found:
            raise AssertionError(f"Expected no message{f' to {topic}' if topic else ''}, there are\n{found.shown()}")

    def assert_nothing_pending(self, topic: str | None = None) -> None:
        """Raise AssertionError if any message waits, or one for this topic."""
        found = self.pending.where(topic)
        if found:
            raise AssertionError(f"Expected nothing pending{f' for {topic}' if topic else ''}, but\n{found.shown()}")

    # sending and consuming

    def send(
        self, topic: str, body: bytes | str | None = None, *, json: object = ANYTHING, **options: Unpack[MessageOptions]
    ) -> SendResult:
        """Send a message as another program would; `options` are those of `Producer.send`. Raises ClientError."""
        if self._producer is None:
            self._producer = Producer(GROUP, self.namesrv)
        return self._producer.send(topic, body_of(body, json), **options)

    def consume_all(
        self, handlers: Handlers = None, *, group: str | None = None, on_error: OnError = "raise"
    ) -> list[Consumed]:
        """Run handlers on all that their groups have not consumed, and on what comes of it, until nothing is left.

        >>> escapement.consume_all()
        >>> escapement.consume_all(bill)
        >>> escapement.consume_all({"orders": handle}, group="billing")

        `handlers`: those that `@consumer` has registered (in Django those of all `handlers.py`), only these of them, or
        functions by topic. They run in this thread, one after the other. `group`: only that one's; of functions by
        topic their group.

        `on_error`: with "raise" what a handler raises comes out here, and its message is not consumed; with "retry" the
        message comes again when it is due, or is a dead letter, as with a consumer. What a handler decides itself
        (RetryIn, DeadLetter) is done in either case.
        """
        return run_here(self._consuming(handlers, group, on_error))

    async def aconsume_all(
        self, handlers: Handlers = None, *, group: str | None = None, on_error: OnError = "raise"
    ) -> list[Consumed]:
        """Run handlers as `consume_all` does, coroutine functions in this event loop."""
        return await run_in_loop(self._consuming(handlers, group, on_error))

    def _consuming(self, handlers: Handlers, group: str | None, on_error: OnError) -> Consuming:
        return Consuming(self._there, chosen(handlers, group), on_error, self._tries)

    def send_outbox(self, using: str = "default") -> int:
        """Send what `send_later` has written into a database, as `manage.py outbox` does; returns how many there were.

        Raises AssertionError for messages that cannot be sent, OutboxError without ESCAPEMENT_PRODUCER_GROUPS.
        """
        return sent_outbox(using)

    make_message = staticmethod(make_message)


def _given(
    body: object, json: object, tag: object, key: object, properties: Mapping[str, str] | None
) -> dict[str, Any]:
    values = {"body": body, "json": json, "tag": tag, "key": key}
    found = {name: value for name, value in values.items() if value is not ANYTHING}
    return found if properties is None else found | {"properties": properties}


# The Django project that is tested, if it is one. Django is imported only where the tests have it already.


def is_django() -> bool:
    """Tell whether a Django project is there, with settings."""
    if "django" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


@contextmanager
def project_at(namesrv: str) -> Iterator[None]:
    """Have the project's clients use this broker inside the block, and those it keeps be closed behind it."""
    with ExitStack() as stack:
        if is_django():
            from django.test import override_settings

            stack.enter_context(override_settings(ESCAPEMENT_NAMESRV=namesrv, ESCAPEMENT_CLIENT={}))
        try:
            yield
        finally:
            kept = sys.modules.get(f"{PACKAGE}.outbox.transaction_block")
            if kept is not None:
                kept.close_all()


def sent_outbox(using: str) -> int:
    """Send what `send_later` wrote, as `manage.py outbox` does; returns how many. Raises AssertionError for what the
    broker refuses, OutboxError without ESCAPEMENT_PRODUCER_GROUPS."""
    from ..outbox.after_commit import Worker, waiting
    from ..outbox.configuration import producer_group
    from ..outbox.transaction_block import producer_of

    worker, sent = Worker(producer_of(producer_group(None)), using), 0
    for _ in range(MOST_TURNS):
        turn = worker.turn()
        sent += turn.sent
        if turn.has_failed:
            reasons = "; ".join(f"{each.topic}: {each.reason}" for each in waiting(using) if each.reason)
            raise AssertionError(f"The outbox holds messages that could not be sent: {reasons}")
        if not turn.sent:
            break
    return sent
