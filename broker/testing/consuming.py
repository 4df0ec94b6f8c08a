"""Running handlers in a test: on what their groups have not consumed yet, in the thread of the test.

It is what a consumer does, without its threads: a group has an offset in each queue, an exception has a message come
again through the group's retry topic in growing steps, and after the last attempt it is a dead letter. What differs:

- messages come in the order in which they became visible, those of all queues and topics together;
- a group that is new begins with the first message of the test, whatever its handlers say of `from_where`: it stands
  for one that was there before;
- in an orderly group a message that failed comes again at the next call, and holds up its queue until then.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ..client import DeadLetter, Handler, Message, RetryIn, Sql
from ..client.handlers import for_messages
from ..engine.queues.reader import Selection
from ..engine.tables.groups import Group
from ..handlers import Registration, registered
from ..rocketmq.properties import RETRY_TOPIC
from ..rocketmq.sql92 import Filter
from ..rocketmq.subscription import SQL92, TAG, build_subscription
from ..rocketmq.topics import RETRY_PREFIX
from .guard import OutsideRefused
from .messages import SentMessage
from .reading import messages_from
from .stage import Stage

#: The group of handlers that are given without one.
GROUP = "tests"
#: How often a message is handled again where nobody says so.
MOST_TIMES = Group("").retry_max_times
#: A call that has run so many handlers has gone round in a circle.
MOST_HANDLED = 10_000

OnError = Literal["raise", "retry"]
Outcome = Literal["done", "retry", "dead letter", "held"]
Handlers = Mapping[str, Handler] | Handler | Iterable[Handler] | None
Place = tuple[str, str, int]
"""Group, topic, queue id."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """A message that a handler was run on: in which group, what it raised, and what became of the message.

    `outcome`: `done`; `retry`, it comes again when it is due; `dead letter`; `held`, in an orderly group: it comes
    again at the next call.
    """

    message: SentMessage
    group: str
    error: Exception | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Handling:
    """A handler of one topic in one group. `most_times`: how often a message is handled again; None: without end."""

    group: str
    topic: str
    handler: Handler
    selection: Selection = None
    tags: frozenset[str] = frozenset()
    is_orderly: bool = False
    most_times: int | None = MOST_TIMES

    @classmethod
    def of_registration(cls, said: Registration) -> Handling:
        """Return what `@consumer` was told."""
        kind = SQL92 if isinstance(said.expression, Sql) else TAG
        wanted = build_subscription(said.topic, str(said.expression), kind, 0)
        options = said.options
        most = options.max_reconsume_times
        if most is None and not options.orderly:
            most = MOST_TIMES
        return cls(
            said.group, said.topic, _called(said), wanted.selection, frozenset(wanted.tags), options.orderly, most
        )

    def wants(self, message: Message) -> bool:
        """Tell whether the handler is to see a message of its topic."""
        if isinstance(self.selection, Filter):
            return bool(self.selection.matches(message.properties))
        return not self.tags or message.tags in self.tags


def _called(said: Registration) -> Handler:
    """Return the handler as it is called here: with one message, which may be an event, or a batch of one."""
    if said.calls.get("batch", 1) > 1:
        return _of_batch(said.handler)
    if said.once is False:
        return for_messages(said.handler)
    from ..handlers.inbox import once  # needs Django's models

    return once(said.handler, said.group, said.once if isinstance(said.once, str) else None)


def _of_batch(handler: Handler) -> Handler:
    if not inspect.iscoroutinefunction(handler):
        return lambda message: handler([message])

    async def handle(message: Message) -> object:
        return await cast(Awaitable[object], handler([message]))

    return handle


def chosen(handlers: Handlers, group: str | None) -> list[Handling]:
    """Return what to run: handlers by topic; registered ones; or of none all that are registered. Of one group, if it
    is given. Raises ValueError where there is nothing to run."""
    if isinstance(handlers, Mapping):
        return [Handling(group or GROUP, topic, handler) for topic, handler in handlers.items()]
    _look_for_handlers()
    known = [each for each in registered() if group in (None, each.group)]
    if handlers is not None:
        wanted = [handlers] if callable(handlers) else list(handlers)
        lacking = [each for each in wanted if all(each is not one.handler for one in known)]
        if lacking:
            raise ValueError(
                f"{lacking[0]!r} is no handler that @consumer has registered. For a plain function say its topic:"
                ' consume_all({"orders": handle}).'
            )
        known = [each for each in known if any(each.handler is one for one in wanted)]
    if not known:
        raise ValueError(
            "There is nothing to run: no function has @consumer" + (f' with group "{group}"' if group else "") + ", or"
            ' its module was not imported. For a plain function say its topic: consume_all({"orders": handle}).'
        )
    return [Handling.of_registration(each) for each in known]


def _look_for_handlers() -> None:
    """In a Django project import `handlers.py` of its apps, as `manage.py consume` does."""
    if "django" in sys.modules:
        from django.apps import apps
        from django.utils.module_loading import autodiscover_modules

        if apps.ready:
            autodiscover_modules("handlers")


@dataclass(slots=True)
class Delivery:
    """A message that is to be handled, and where it stands."""

    handling: Handling
    place: Place
    offset: int
    message: Message
    """As the handler sees it."""


class Consuming:
    """One call of `consume_all`. `tries` is kept from call to call: how often orderly messages have failed."""

    def __init__(
        self, stage: Stage, handlings: Iterable[Handling], on_error: OnError, tries: dict[tuple[Place, int], int]
    ) -> None:
        if on_error not in ("raise", "retry"):
            raise ValueError(f"on_error={on_error!r} is not valid: 'raise' or 'retry'.")
        self._stage = stage
        self._on_error = on_error
        self._tries = tries
        self._by_group: dict[str, dict[str, Handling]] = {}
        for each in handlings:
            self._by_group.setdefault(each.group, {})[each.topic] = each
        self._held: set[Place] = set()
        self._found: deque[Delivery] = deque()
        self.consumed: list[Consumed] = []

    def __iter__(self) -> Iterator[Delivery]:
        """Yield what is to be handled, until nothing is left; each is to be finished before the next is taken."""
        for _ in range(MOST_HANDLED):
            while self._found and self._found[0].place in self._held:
                self._found.popleft()
            if not self._found:
                self._found.extend(self._stage.call(self._look))
            if not self._found:
                return
            yield self._found.popleft()
        raise AssertionError(
            f"Handlers have run {MOST_HANDLED:,} times, and messages are still left: does one send to its own topic?"
        )

    def _look(self) -> list[Delivery]:
        """Find what is there now, oldest first; pass over what no handler wants."""
        found: list[Delivery] = []
        for group, handlings in self._by_group.items():
            for topic in (*handlings, RETRY_PREFIX + group):
                found += self._of_topic(group, topic, handlings)
        found.sort(key=lambda each: each.message.position)
        return found

    def _of_topic(self, group: str, topic: str, handlings: Mapping[str, Handling]) -> Iterator[Delivery]:
        engine = self._stage.engine
        known = engine.topics.get(topic)
        for queue_id in range(known.read_queues if known is not None else 0):
            place = (group, topic, queue_id)
            if place in self._held:
                continue
            is_first = True
            for message in messages_from(engine, topic, queue_id, engine.offsets.get(*place) or 0):
                seen = delivered(message)
                handling = handlings.get(seen.topic)
                if handling is not None and handling.wants(seen):
                    tries = self._tries.get((place, message.queue_offset), 0)
                    again = replace(seen, reconsume_times=seen.reconsume_times + tries)
                    yield Delivery(handling, place, message.queue_offset, again)
                    is_first = False
                elif is_first:
                    engine.offsets.commit(*place, message.queue_offset + 1)

    def finish(self, delivery: Delivery, error: Exception | None) -> None:
        """Note how a handler ended: what it raised is raised here, or has the message come again."""
        outcome: Outcome = "done"
        if error is not None:
            if self._on_error == "raise" or isinstance(error, OutsideRefused):
                raise error
            outcome = self._give_back(delivery, is_dead=isinstance(error, DeadLetter))
        if outcome == "held":
            self._held.add(delivery.place)
        else:
            self._tries.pop((delivery.place, delivery.offset), None)
            self._stage.call(lambda: self._stage.engine.offsets.commit(*delivery.place, delivery.offset + 1))
        self.consumed.append(Consumed(SentMessage(delivery.message), delivery.handling.group, error, outcome))

    def _give_back(self, delivery: Delivery, *, is_dead: bool) -> Outcome:
        handling, message, at = delivery.handling, delivery.message, (delivery.place, delivery.offset)
        most = handling.most_times
        is_last = is_dead or (most is not None and message.reconsume_times >= most)
        if handling.is_orderly and not is_last:
            self._tries[at] = self._tries.get(at, 0) + 1
            return "held"
        engine, clock = self._stage.engine, self._stage.clock
        level = -1 if is_last else 0
        self._stage.call(lambda: engine.send_back(message.position, handling.group, level, most or 0, clock()))
        self._stage.run(self._stage.service.settle())
        return "dead letter" if is_last else "retry"


def delivered(message: Message) -> Message:
    """Return the message as its handler sees it: one that comes again has the topic that it was sent to."""
    original = message.properties.get(RETRY_TOPIC)
    return replace(message, topic=original) if original and message.topic.startswith(RETRY_PREFIX) else message


# Calling handlers.


def run_here(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this thread; coroutine functions in an event loop of their own."""
    for delivery in consuming:
        consuming.finish(delivery, _attempt(delivery.handling.handler, delivery.message))
    return consuming.consumed


def _attempt(handler: Handler, message: Message) -> Exception | None:
    try:
        said = _run_coroutine(handler, message) if inspect.iscoroutinefunction(handler) else handler(message)
    except Exception as error:  # handlers may raise anything; it comes out, or has the message come again
        return error
    return said if isinstance(said, (RetryIn, DeadLetter)) else None


def _run_coroutine(handler: Handler, message: Message) -> object:
    """Run it so that what it calls of Django's ORM has this thread's connection, where that can be had."""
    if "django" in sys.modules:
        from asgiref.sync import async_to_sync

        return async_to_sync(cast(Callable[[Message], Awaitable[object]], handler))(message)
    return asyncio.run(cast(Coroutine[Any, Any, object], handler(message)))


async def run_in_loop(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this event loop; plain functions of a Django project in the thread that its ORM wants."""
    for delivery in consuming:
        consuming.finish(delivery, await _attempt_in_loop(delivery.handling.handler, delivery.message))
    return consuming.consumed


async def _attempt_in_loop(handler: Handler, message: Message) -> Exception | None:
    try:
        if inspect.iscoroutinefunction(handler):
            said = await cast(Awaitable[object], handler(message))
        elif "django" in sys.modules:
            from asgiref.sync import sync_to_async

            said = await sync_to_async(handler)(message)
        else:
            said = handler(message)
    except Exception as error:  # as above
        return error
    return said if isinstance(said, (RetryIn, DeadLetter)) else None
