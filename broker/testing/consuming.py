"""Running handlers in a test: on what their groups have not consumed yet, in the thread of the test.

It is what a consumer does, without its threads: a group has an offset in each queue, an exception has a message come
again through the group's retry topic in growing steps, and after the last attempt it is a dead letter. What differs:

- messages come in the order in which they became visible, those of all queues and topics together;
- a group that is new begins with the first message of the test, whatever its handlers say of `from_where`: it stands
  for one that was there before;
- in an orderly group a message that failed comes again at the next call, and holds up its queue until then;
- a batch is what is there, and nobody waits for more; the time-out of a handler is not kept.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from ..client import DeadLetter, Handler, Message, RetryIn, Sql
from ..client.handlers import Plan, for_messages
from ..engine.queues.reader import Selection
from ..engine.tables.groups import Group
from ..handlers import Registration, registered
from ..rocketmq.message import pack_host
from ..rocketmq.properties import (
    DEAD_REASON,
    DELAY,
    DLQ_ORIGIN_TOPIC,
    ORIGIN_MESSAGE_ID,
    OWN_PREFIX,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TRANSACTION_PREPARED,
    format_properties,
)
from ..rocketmq.sql92 import Filter
from ..rocketmq.subscription import SQL92, TAG, build_subscription
from ..rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from .guard import OutsideRefused
from .messages import SentMessage
from .reading import messages_from
from .stage import Stage

#: The group of handlers that are given without one.
GROUP = "tests"
#: How often a message is handled again where nobody says so.
MOST_TIMES = Group("").retry_max_times
PLAN = Plan()
#: A call that has run so many handlers has gone round in a circle.
MOST_HANDLED = 10_000

#: Properties that say which way a record took, and not what its message is; and how further ones begin.
_OF_ITS_WAY = frozenset({DELAY, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_PREPARED})
_BEGINNINGS = (OWN_PREFIX, "TIMER_")

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


Call = Callable[[Sequence[Message]], object]
"""Calls a handler with its message, or its batch of them."""


@dataclass(frozen=True, slots=True)
class Handling:
    """A handler of one topic in one group. `most_times`: how often a message is handled again; None: without end."""

    group: str
    topic: str
    handler: Handler
    call: Call
    plan: Plan = PLAN
    selection: Selection = None
    tags: frozenset[str] = frozenset()
    is_orderly: bool = False
    most_times: int | None = MOST_TIMES

    @classmethod
    def of_function(cls, group: str, topic: str, handler: Handler) -> Handling:
        """Return how a function is run that nobody has registered."""
        return cls(group, topic, handler, call_of(for_messages(handler)))

    @classmethod
    def of_registration(cls, said: Registration) -> Handling:
        """Return what `@consumer` was told."""
        kind = SQL92 if isinstance(said.expression, Sql) else TAG
        wanted = build_subscription(said.topic, str(said.expression), kind, 0)
        options, plan = said.options, Plan.of(**said.calls, orderly=said.options.orderly)
        most = options.max_reconsume_times
        if most is None and not options.orderly:
            most = MOST_TIMES
        return cls(
            said.group, said.topic, said.handler, said.handler if plan.batch > 1 else call_of(_one_by_one(said)), plan,
            wanted.selection, frozenset(wanted.tags), options.orderly, most,
        )  # fmt: skip

    def wants(self, message: Message) -> bool:
        """Tell whether the handler is to see a message of its topic."""
        if isinstance(self.selection, Filter):
            return bool(self.selection.matches(message.properties))
        return not self.tags or message.tags in self.tags


def call_of(handle: Callable[[Message], object]) -> Call:
    """Return what calls a function of one message with the only one that there is."""
    return lambda messages: handle(*messages)


def _one_by_one(said: Registration) -> Callable[[Message], object]:
    if said.once is False:
        return for_messages(said.handler)
    from ..handlers.inbox import once  # models are loaded by now, and projects without `once` need no table

    return once(said.handler, said.group, said.once if isinstance(said.once, str) else None)


def chosen(handlers: Handlers, group: str | None) -> list[Handling]:
    """Return what to run: handlers by topic; registered ones; or of none all that are registered. Of one group, if it
    is given. Raises ValueError where there is nothing to run."""
    if isinstance(handlers, Mapping):
        return [Handling.of_function(group or GROUP, topic, handler) for topic, handler in handlers.items()]
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


@dataclass(frozen=True, slots=True)
class Stand:
    """A message that is to be handled, as its handler sees it, and where it stands."""

    handling: Handling
    place: Place
    offset: int
    message: Message


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of a handler: with a message, or with a batch."""

    handling: Handling
    stands: Sequence[Stand]

    @property
    def messages(self) -> list[Message]:
        """The messages, in their order."""
        return [each.message for each in self.stands]


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
        self._found: deque[Stand] = deque()
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
            yield self._taken()
        raise AssertionError(
            f"Handlers have run {MOST_HANDLED:,} times, and messages are still left: does one send to its own topic?"
        )

    def _taken(self) -> Delivery:
        """Take what is next, and more of it where the handler takes batches."""
        handling, found = self._found[0].handling, self._found
        batch = [each for each in found if each.handling is handling][: handling.plan.batch]
        taken = {id(each) for each in batch}
        self._found = deque(each for each in found if id(each) not in taken)
        return Delivery(handling, batch)

    def _look(self) -> list[Stand]:
        """Find what is there now, oldest first; pass over what no handler wants."""
        found: list[Stand] = []
        for group, handlings in self._by_group.items():
            for topic in (*handlings, RETRY_PREFIX + group):
                found += self._of_topic(group, topic, handlings)
        found.sort(key=lambda each: each.message.position)
        return found

    def _of_topic(self, group: str, topic: str, handlings: Mapping[str, Handling]) -> Iterator[Stand]:
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
                    yield Stand(handling, place, message.queue_offset, again)
                    is_first = False
                elif is_first:
                    engine.offsets.commit(*place, message.queue_offset + 1)

    def finish(self, delivery: Delivery, said: object) -> None:
        """Note how a handler ended. What it raised (or a decision that it returned) is raised here, or has its messages
        come again; decisions are carried out in either case."""
        error = said if isinstance(said, Exception) else None
        is_decision = isinstance(error, RetryIn | DeadLetter)
        if error is not None and (isinstance(error, OutsideRefused) or (self._on_error == "raise" and not is_decision)):
            raise error
        for stand in delivery.stands:
            outcome: Outcome = "done" if error is None else self._give_back(stand, error)
            if outcome == "held":
                self._held.add(stand.place)
            else:
                self._done(stand)
            self.consumed.append(Consumed(SentMessage(stand.message), stand.handling.group, error, outcome))

    def _done(self, stand: Stand) -> None:
        self._tries.pop((stand.place, stand.offset), None)
        self._stage.call(lambda: self._stage.engine.offsets.commit(*stand.place, stand.offset + 1))

    def _give_back(self, stand: Stand, error: Exception) -> Outcome:
        handling, message, at = stand.handling, stand.message, (stand.place, stand.offset)
        most = handling.most_times
        is_dead = isinstance(error, DeadLetter) or (most is not None and message.reconsume_times >= most)
        if handling.is_orderly and not is_dead:
            self._tries[at] = self._tries.get(at, 0) + 1
            return "held"
        if isinstance(error, DeadLetter):
            self._put_back(stand, DLQ_PREFIX, {DEAD_REASON: error.reason, DLQ_ORIGIN_TOPIC: message.topic})
        elif is_dead or (delay_ms := _delay_ms(handling.plan, message, error)) is None:
            engine, clock, level = self._stage.engine, self._stage.clock, -1 if is_dead else 0
            self._stage.call(lambda: engine.send_back(message.position, handling.group, level, most or 0, clock()))
        else:
            self._put_back(stand, RETRY_PREFIX, {TIMER_DELAY_MS: str(delay_ms)})
        self._stage.run(self._stage.service.settle())
        return "dead letter" if is_dead else "retry"

    def _put_back(self, stand: Stand, prefix: str, added: Mapping[str, str]) -> None:
        """Put a copy into a topic of the group, as a consumer does."""
        message, topic = stand.message, prefix + stand.handling.group
        kept = {
            name: value
            for name, value in message.properties.items()
            if name not in _OF_ITS_WAY and not name.startswith(_BEGINNINGS)
        }
        origin = kept.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
        kept |= {ORIGIN_MESSAGE_ID: origin, RETRY_TOPIC: message.topic, **added}
        properties, engine, clock = format_properties(kept), self._stage.engine, self._stage.clock

        def put() -> None:
            engine.topics.ensure(topic, 1)
            engine.append(
                topic, 0, message.body, properties, flag=message.flag, born_ms=message.born_ms,
                born_host=pack_host(*message.born_host), reconsume_times=message.reconsume_times + 1, now_ms=clock(),
            )  # fmt: skip

        self._stage.call(put)


def _delay_ms(plan: Plan, message: Message, error: Exception) -> int | None:
    """Return after which time the message is to come again; None: in the broker's steps."""
    return error.delay_ms if isinstance(error, RetryIn) else plan.retry_ms(message.reconsume_times)


def delivered(message: Message) -> Message:
    """Return the message as its handler sees it: one that comes again has the topic that it was sent to."""
    original = message.properties.get(RETRY_TOPIC)
    return replace(message, topic=original) if original and message.topic.startswith(RETRY_PREFIX) else message


# Calling handlers. In a Django project what they ask of the ORM has the connection of the test.


def run_here(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this thread; coroutine functions in an event loop of their own."""
    for delivery in consuming:
        consuming.finish(delivery, _said(delivery))
    return consuming.consumed


def _said(delivery: Delivery) -> object:
    """Return what the handler said: what it raised or returned."""
    try:
        if not inspect.iscoroutinefunction(delivery.handling.handler):
            return delivery.handling.call(delivery.messages)
        if "django" in sys.modules:
            from asgiref.sync import async_to_sync

            return async_to_sync(_awaited)(delivery)
        return asyncio.run(_awaited(delivery))
    except Exception as error:  # handlers may raise anything; it comes out, or has the message come again
        return error


async def _awaited(delivery: Delivery) -> object:
    return await cast(Awaitable[object], delivery.handling.call(delivery.messages))


async def run_in_loop(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this event loop; plain functions of a Django project in the thread that its ORM wants."""
    for delivery in consuming:
        consuming.finish(delivery, await _said_in_loop(delivery))
    return consuming.consumed


async def _said_in_loop(delivery: Delivery) -> object:
    try:
        if inspect.iscoroutinefunction(delivery.handling.handler):
            return await _awaited(delivery)
        if "django" in sys.modules:
            from asgiref.sync import sync_to_async

            return await sync_to_async(delivery.handling.call)(delivery.messages)
        return delivery.handling.call(delivery.messages)
    except Exception as error:  # as above
        return error
