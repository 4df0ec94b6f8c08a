"""Timers by schedule key, as a producer's `timers`: put, move, cancel, get. It belongs to the producer's event loop.

A schedule key is a business name ("invoice 4711") under which at most one message of a topic waits. `put` sends the
message to the broker that has the key's timers; the others ask every master of the topic, as a timer stays where it was
sent while brokers come and go. What they answer is definite:

- found and done at one of them: that is the outcome;
- nothing waits: only after every one of them has said so, else the error of the one that could not be asked is raised;
- brokers that know no schedule keys (Apache RocketMQ) have no such timer; where there are no others, NotSupported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeVar, Unpack

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.properties import REASON, SCHEDULE_KEY, TIMER_ACT, TIMER_DELAY_MS, TIMER_DELIVER_MS
from . import names
from ._event_loop import plain_send
from ._outgoing import Body, MessageOptions, Outgoing, Timing, moment_asked, prepare
from ._pipeline import Destination
from ._session import Deadline, Session, refused_for
from ._types import SendResult
from .errors import BadAnswer, ClientError, InvalidArgument, NotSupported, RouteNotFound
from .timers import Steered, SteeredAll, Timer, TimerLife, TimerTarget

#: How old the route may be that says which brokers are asked: of now, unless no name server answers.
FRESH_S = 0.001
#: Pause before a timer is asked for again that is being written or moved just now.
BUSY_PAUSE_S = 0.02
NO_KEYS = (
    "Apache RocketMQ knows no schedule keys. Send with delay= or at= and keep the recall_handle of the answer for "
    "`recall`, or have the topic at a broker of Escapement."
)
_BAD_REASON = "The reason holds \\x01 or \\x02, which part properties."
#: Longest reason that a half carries, in characters.
MOST_REASON = 1_000
_DONE = ("cancelled", "rescheduled", "delivered_now")
#: What is told of several brokers where nothing was done.
_RANKS = {"changed": 0, "already_delivered": 1, "already_cancelled": 2, "unknown": 3}
Value = TypeVar("Value")
Found = TypeVar("Found")


class AsyncTimers:
    """The timers of schedule keys: `producer.timers`.

    >>> await producer.timers.put("reminders", "invoice 4711", b"pay!", delay=timedelta(days=14))
    >>> await producer.timers.move("reminders", "invoice 4711", delay=timedelta(days=7))
    >>> await producer.timers.cancel("reminders", "invoice 4711")

    All methods raise ClientError and its kin: InvalidArgument before anything is asked, NotSupported where only Apache
    RocketMQ has the topic, RouteNotFound where no broker has it, BrokerUnreachable and Timeout where it is not known
    what waits. `timeout_ms` bounds a call as a whole. After a Timeout ask again: a repeated call does no harm.
    """

    def __init__(
        self,
        session: Session,
        find: Callable[[str, Outgoing, Deadline], Awaitable[Destination]],
        send: Callable[[str, Outgoing, int], Awaitable[SendResult]],
    ) -> None:
        """`find`: where the producer would send a message; `send`: have it sent, within so many ms."""
        self._session = session
        self._find = find
        self._send = send
        #: addresses of brokers that know schedule keys
        self._knowing: set[str] = set()

    @plain_send
    async def put(
        self, topic: str, key: str, body: Body, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> SendResult:
        """Store a timer with a schedule key, in the place of one pending there; `at`, `delay`, `deliver_at_ms` or
        `delay_ms` says until when.

        The other options are those of `send`. With `on_conflict="keep"` that one stays, with "error" ScheduleKeyTaken
        is raised. The result's `conflict` says what happened. Raises also TimerTooFar, TimerPast and TimerLimit.
        """
        message = prepare_put(key, body, options)
        deadline = Deadline(timeout_ms)
        destination = await self._find(topic, message, deadline)
        checked = self._check_keys(destination.address)
        await deadline.of(checked, f"an answer of {destination.address} whether it knows schedule keys")
        return await self._send(topic, message, deadline.left_ms)

    @plain_send
    async def move(
        self, topic: str, key: str, *, at: datetime | None = None, delay: timedelta | None = None,
        deliver_at_ms: int | None = None, delay_ms: int | None = None, reason: str = "", timeout_ms: int = 3000,
    ) -> Steered:  # fmt: skip
        """Give the timer with this key another due time; a delay counts from when the broker is asked.

        Outcomes: `rescheduled`; `delivered_now`, as the due time is past; `already_delivered`, `already_cancelled` and
        `unknown`, if none is pending. `reason` is kept with the timer's history. Raises also TimerTooFar, TimerLimit.
        """
        when = moment_to({"at": at, "delay": delay, "deliver_at_ms": deliver_at_ms, "delay_ms": delay_ms})
        return await self._steer("reschedule", topic, key, when, reason, timeout_ms)

    @plain_send
    async def cancel(self, topic: str, key: str, *, reason: str = "", timeout_ms: int = 3000) -> Steered:
        """Cancel the timer with this key.

        Outcomes: `cancelled`; `already_delivered` (it is too late), `already_cancelled` and `unknown`, where nothing
        waits. `reason` is kept with the timer's history.
        """
        return await self._steer("cancel", topic, key, {}, reason, timeout_ms)

    async def get(self, topic: str, key: str, *, timeout_ms: int = 3000) -> Timer | None:
        """Return the timer pending with this key now, None if there is none; of several brokers' the one due first."""
        body = msgspec.json.encode(_target(topic, key))
        deadline = Deadline(timeout_ms)

        async def look(address: str) -> TimerLife:
            answer = await self._session.ask(address, Request.GET_TIMER, body=body, timeout_ms=deadline.left_ms)
            return _read(answer.body, TimerLife)

        lives, failed = await self._ask_all(topic, look, deadline)
        found = [life.timer for life in lives if life.state == "pending" and life.timer is not None]
        if not found and failed is not None:
            raise failed
        return min(found, key=lambda timer: timer.due_ms, default=None)

    async def _steer(
        self, action: Literal["cancel", "reschedule"], topic: str, key: str, when: Mapping[str, int], reason: str,
        timeout_ms: int,
    ) -> Steered:  # fmt: skip
        target = msgspec.structs.replace(_target(topic, key), **when)
        if "\x01" in reason or "\x02" in reason:
            raise InvalidArgument(_BAD_REASON, field="reason")
        body = msgspec.json.encode({"action": action, "reason": reason, "targets": [target]})
        deadline = Deadline(timeout_ms)

        async def steer(address: str) -> Steered:
            while True:
                answer = await self._session.ask(address, Request.STEER_TIMERS, body=body, timeout_ms=deadline.left_ms)
                results = _read(answer.body, SteeredAll).results
                if len(results) != 1:
                    raise BadAnswer(f"The broker answered {len(results)} results to one target.")
                if results[0].outcome != "refused":
                    return results[0]
                if results[0].refusal != "busy" or deadline.left_s <= BUSY_PAUSE_S:
                    raise refused_for(results[0].refusal, results[0].error)
                await asyncio.sleep(BUSY_PAUSE_S)

        outcomes, failed = await self._ask_all(topic, steer, deadline)
        done = [each for each in outcomes if each.outcome in _DONE]
        if not done and failed is not None:
            raise failed
        return (done or sorted(outcomes, key=_rank))[0]

    async def _ask_all(
        self, topic: str, ask: Callable[[str], Awaitable[Found]], deadline: Deadline
    ) -> tuple[list[Found], ClientError | None]:
        """Ask all masters of a topic; return what they answer, and why that is not all.

        A topic that no broker has any more may have timers all the same: then all brokers are asked.
        """
        failed: ClientError | None = None
        try:
            route = await deadline.of(self._session.route(topic, max_age_s=FRESH_S), f"the route of topic {topic}")
            addresses = [route.addresses[name] for name in sorted(route.addresses)]
        except RouteNotFound as error:
            failed = error
            masters = await deadline.of(self._session.masters(), "the brokers of the name server")
            addresses = [each.address for each in masters]
        answers = await asyncio.gather(*map(ask, addresses), return_exceptions=True)
        found: list[Found] = []
        without_keys: NotSupported | None = None
        for answer in answers:
            if isinstance(answer, NotSupported):
                without_keys = NotSupported(answer.code, NO_KEYS)
            elif isinstance(answer, ClientError):
                failed = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        if not found and failed is None:
            failed = without_keys or RouteNotFound(topic)
        return found, failed

    async def _check_keys(self, address: str) -> None:
        """Raise NotSupported where a broker would take a timer and not see its schedule key."""
        if address not in self._knowing:
            try:
                await self._session.ask(address, Request.GET_SCHEDULE_STATUS)
            except NotSupported:
                raise NotSupported(Answer.REQUEST_CODE_NOT_SUPPORTED, NO_KEYS) from None
            self._knowing.add(address)


def prepare_put(key: str, body: Body, options: MessageOptions) -> Outgoing:
    """Return the message of a `put`; raises InvalidArgument."""
    if "schedule_key" in options:
        raise InvalidArgument("The schedule key is the second argument of put.", field="schedule_key")
    given = options.copy()
    given["schedule_key"] = key
    given["on_conflict"] = options.get("on_conflict") or "replace"
    return prepare(body, **given)


def timer_half(
    action: Literal["cancel", "move"], key: str, *, at: datetime | None = None, delay: timedelta | None = None,
    deliver_at_ms: int | None = None, delay_ms: int | None = None, reason: str = "",
) -> Outgoing:  # fmt: skip
    """Return a half whose commit cancels or moves the timer with a schedule key, and shows no message.

    For `TransactionProducer.send_half`, one for each broker that has the topic (`brokers_of`); a delay counts from the
    commit. Of halves about one key the one that was sent last counts. Raises InvalidArgument.
    """
    if action not in ("cancel", "move"):
        raise InvalidArgument(f"The action is 'cancel' or 'move', not {action!r}.", field="action")
    names.check_schedule_key(key)
    if "\x01" in reason or "\x02" in reason:
        raise InvalidArgument(_BAD_REASON, field="reason")
    when: Timing = {"at": at, "delay": delay, "deliver_at_ms": deliver_at_ms, "delay_ms": delay_ms}
    asked = moment_to(when) if action == "move" else {}
    if action == "cancel" and moment_asked(when, 0) is not None:
        raise InvalidArgument("A cancel takes no due time.", field="at")
    properties = {SCHEDULE_KEY: key, TIMER_ACT: action} | ({REASON: reason[:MOST_REASON]} if reason else {})
    properties |= {TIMER_DELAY_MS if name == "delay_ms" else TIMER_DELIVER_MS: str(ms) for name, ms in asked.items()}
    message = prepare(action)
    stored = message.properties + "".join(f"{name}\x01{text}\x02" for name, text in properties.items())
    return msgspec.structs.replace(message, properties=stored, schedule_key=key)


def moment_to(timing: Timing) -> dict[str, int]:
    """Return the due time of a `move` as fields of its target; raises InvalidArgument."""
    asked = moment_asked(timing, 0)
    if asked is None:
        raise InvalidArgument("A move needs a due time: at, delay, deliver_at_ms or delay_ms.", field="at")
    is_delay, ms = asked
    return {"delay_ms": ms} if is_delay else {"due_ms": ms}


def _target(topic: str, key: str) -> TimerTarget:
    names.check_writable_topic(topic)
    names.check_schedule_key(key)
    return TimerTarget(topic=topic, schedule_key=key)


def _rank(steered: Steered) -> tuple[int, int]:
    return _RANKS.get(steered.outcome, len(_RANKS)), -(steered.delivered_ms or 0)


def _read(body: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"The broker's answer about timers cannot be read: {error}") from None
