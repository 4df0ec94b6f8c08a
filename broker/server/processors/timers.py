"""Requests about timers and delay levels; the fields and bodies of our own ones are in docs/PROTOCOL.md.

- timers: RocketMQ's recall (370), checkpoint (60) and metrics (61), and requests of our own, 14002 to 14008;
- delay levels: RocketMQ's offsets (45), and our own 14001;
- what changed in the whole store since a token: our own 14000.

What requests about timers ask for is checked in one place: fields of 14002, 14003, 14006 and 14008, bodies of 14005 and
14007.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...engine.errors import StoreBusy, StoreRefused
from ...engine.log.ticket import Ticket
from ...engine.timer.listing import UNITS_PER_ANSWER
from ...engine.timer.steer import Action, Outcome, Target
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import LONG_MAX, body_as, json_body, text, whole
from ...rocketmq.frame import Command
from ...rocketmq.ids import OUTCOME, BadHandle, RecallHandle, handle_of, read_handle
from ...rocketmq.message import parse_offset_message_id
from ...rocketmq.properties import MSG_REGION
from ...version import version
from ..connection import Connection, Handler
from ..listener import anonymous_bytes
from ..refusals import REASONS
from ..send_reply import REGION
from ..state import BrokerState

#: Targets steered, or timers listed, before others get their turn: each looks things up on disk.
_AT_ONCE = 32
#: Units looked at for a list before others get their turn: some two milliseconds.
_UNITS_AT_ONCE = 256


class TimerProcessor:
    """The requests that steer timers, and list and count what waits."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.RECALL_MESSAGE: self._recall,
            Request.GET_TIMER_CHECK_POINT: self._checkpoint,
            Request.GET_TIMER_METRICS: self._metrics,
            Request.LIST_TIMERS: self._list,
            Request.GET_TIMER_WHEEL: self._wheel,
            Request.GET_TIMER_STATUS: self._status,
            Request.STEER_TIMERS: self._steer,
            Request.PAUSE_TIMERS: self._pause,
            Request.GET_TIMER: self._life,
            Request.GET_TIMER_FORECAST: self._forecast,
        }

    def _recall(self, connection: Connection, request: Command) -> Command | None:
        ext = request.ext
        topic = self._state.topic(text(ext, "topic")).name
        try:
            handle = read_handle(text(ext, "recallHandle"))
        except BadHandle as error:
            raise _illegal(f"recall failed, {error}") from None
        if handle.topic != topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker != self._state.config.broker_name:
            raise _illegal("recall failed, broker service not available")
        now_ms, moment_ms = self._state.clock(), handle.timestamp_ms
        awaited = _Awaited(connection, request, lambda results: _recalled(request, handle.unique_key, results[0]))
        outcome = self._engine.recall_timer(topic, handle.unique_key, moment_ms, now_ms=now_ms, owner=awaited)
        ahead = 0 < moment_ms - now_ms < self._state.config.timer_max_delay_ms
        if outcome.outcome != "cancelled" and not ahead:
            remark = f"recall failed, timestamp invalid: the message is {_WORDS[outcome.outcome]}"
            return request.answer({OUTCOME: outcome.outcome}, code=Answer.ILLEGAL_OPERATION, remark=remark)
        awaited.add(outcome)
        awaited.complete()
        return None

    def _steer(self, connection: Connection, request: Command) -> Command | None:
        wanted, now_ms = read_steering(request.body), self._state.clock()

        def answer_of(results: list[Outcome]) -> Command:
            rows = [_row(outcome) for outcome in results]
            return request.answer(body=json_body({"nowMs": now_ms, "results": rows}))

        self._steer_some(_Awaited(connection, request, answer_of), wanted, 0)
        return None

    def _steer_some(self, awaited: _Awaited, wanted: Steering, begin: int) -> None:
        """Steer a portion at a time, so that a thousand targets keep nobody from being answered, and no timer
        waiting."""
        stop = begin + _AT_ONCE
        for named in wanted.targets[begin:stop]:
            due_ms = named.due_ms if named.due_ms is not None else wanted.due_ms
            if named.delay_ms is not None:
                due_ms = min(self._state.clock() + named.delay_ms, LONG_MAX)
            target = self._target(named)
            if target is not None and named.expected_due_ms is not None:
                target = target._replace(expected_ms=named.expected_due_ms)
            if target is None:
                awaited.add(Outcome("unknown", topic=named.topic))
            else:
                awaited.add(self._do(wanted.action, target, due_ms, wanted.kept_reason, awaited))
        if stop < len(wanted.targets):
            asyncio.get_running_loop().call_soon(self._steer_some, awaited, wanted, stop)
        else:
            awaited.complete()
        self._state.hurry()

    def _do(self, action: Action, target: Target, due_ms: int | None, reason: str, owner: object) -> Outcome:
        try:
            return self._engine.steer_timer(
                action, target, due_ms=due_ms, reason=reason, now_ms=self._state.clock(), owner=owner
            )
        except StoreRefused as error:
            return Outcome("refused", topic=target.topic, error=str(error), cause=error)

    def _target(self, named: NamedTarget) -> Target | None:
        """Return the target in the engine's words; None for a handle or an id that cannot be of this broker."""
        if named.handle is not None:
            try:
                handle = read_handle(named.handle)
            except BadHandle:
                return None
            return _target_of(handle) if handle.broker == self._state.config.broker_name else None
        if named.message_id is not None:
            try:
                host, port, position = parse_offset_message_id(named.message_id)
            except ValueError:
                return None
            is_ours = (host, port) == (self._state.config.host, self._state.config.port)
            return Target(position=position) if is_ours else None
        return Target(named.position, named.topic, named.schedule_key, named.unique_key)

    def _pause(self, _: Connection, request: Command) -> Command:
        state = self._engine.pause_timers(read_paused(request.ext), self._state.clock())
        self._state.hurry()
        return request.answer(body=json_body(state))

    # looking

    def _list(self, connection: Connection, request: Command) -> Command | None:
        self._list_some(connection, request, read_listing(request.ext), None)
        return None

    def _list_some(
        self, connection: Connection, request: Command, wanted: Listing, found: dict[str, Any] | None
    ) -> None:
        """List a portion at a time: a page may have to look at all that fires in an hour, and no timer waits for
        that."""
        left = wanted.limit - (len(found["items"]) if found else 0)
        page = self._engine.timers.listing.page(
            wanted.from_ms, wanted.to_ms - 1, topic=wanted.topic, key=wanted.key,
            limit=left if wanted.key else min(left, _AT_ONCE),  # those with a key have no cursor
            units=_UNITS_AT_ONCE, cursor=found["cursor"] if found else wanted.cursor, now_ms=self._state.clock(),
        )  # fmt: skip
        for timer in page["items"]:
            self._add_handle(timer)
        if found:
            page["items"] = found["items"] + page["items"]
            page["scanned"] += found["scanned"]
        is_full = len(page["items"]) >= wanted.limit
        if page["cursor"] is None or is_full or page["scanned"] >= UNITS_PER_ANSWER:
            page["complete"] = page["cursor"] is None or is_full
            connection.send(request.answer(body=json_body(page)))
        elif connection.is_open:
            asyncio.get_running_loop().call_soon(self._list_some, connection, request, wanted, page)

    def _life(self, _: Connection, request: Command) -> Command:
        target = self._target(read_target(request.body))
        life: dict[str, Any] = {"state": "unknown", "timer": None, "events": []}
        if target is not None:
            life = self._engine.timers.life.of(target, self._state.clock())
        if life["timer"] is not None:
            self._add_handle(life["timer"])
        return request.answer(body=json_body(life))

    def _add_handle(self, timer: dict[str, Any]) -> None:
        """Add the handle that RocketMQ gave the timer, or would have given it."""
        key = timer["uniqueKey"]
        broker = self._state.config.broker_name
        timer["handle"] = handle_of(timer["topic"], broker, timer["dueMs"], key).decode() if key else None

    def _wheel(self, _: Connection, request: Command) -> Command:
        return request.answer(
            body=json_body(self._engine.timers.views.wheel(*read_range(request.ext), self._state.clock()))
        )

    def _forecast(self, _: Connection, request: Command) -> Command:
        return request.answer(
            body=json_body(self._engine.timers.views.forecast(*read_range(request.ext), self._state.clock()))
        )

    def _status(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.timers.status(self._state.clock())))

    def _checkpoint(self, _: Connection, request: Command) -> Command:
        return request.answer(body=self._engine.timers.check_point(self._state.clock()))

    def _metrics(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.timers.metrics()))


class _Awaited:
    """The results of several targets, answered once, when all of them are durable."""

    __slots__ = ("_answer_of", "_connection", "_is_complete", "_left", "_request", "_results")

    def __init__(self, connection: Connection, request: Command, answer_of: Callable[[list[Outcome]], Command]) -> None:
        self._connection = connection
        self._request = request
        self._answer_of = answer_of
        self._results: list[Outcome] = []
        self._left = 0
        self._is_complete = False

    def add(self, outcome: Outcome) -> None:
        """Add one more result, in order."""
        self._results.append(outcome)
        self._left += len(outcome.tickets)

    def complete(self) -> None:
        """Note that all results are there, and answer now if nothing of them is being written."""
        self._is_complete = True
        self._answer()

    def stored(self, _: Ticket) -> None:
        self._left -= 1
        self._answer()

    def refused(self, code: int, remark: str) -> None:
        if self._is_complete:
            self._end()
            self._connection.send(self._request.answer(code=code, remark=remark))

    def _answer(self) -> None:
        if self._left == 0 and self._is_complete:
            self._connection.send(self._answer_of(self._end()))

    def _end(self) -> list[Outcome]:
        """Return the results, and forget them: their tickets name this as their owner, and what goes round in a circle
        waits for the collector, which looks seldom."""
        self._is_complete = False
        results, self._results = self._results, []
        return results


def _row(outcome: Outcome) -> dict[str, object]:
    """Return the result of one target as 14005 answers it; of a refusal also the word that programs act upon."""
    row = outcome.to_json()
    if outcome.outcome == "refused":
        cause = outcome.cause
        row["refusal"] = "busy" if cause is None or isinstance(cause, StoreBusy) else REASONS.get(type(cause))
    return row


def _recalled(request: Command, unique_key: str, outcome: Outcome) -> Command:
    """Return the answer of Apache RocketMQ, which is the same whether there was a message or not, with our own
    field."""
    return request.answer({"msgId": unique_key, MSG_REGION: REGION, OUTCOME: outcome.outcome})


_WORDS = {
    "unknown": "not pending",
    "already_delivered": "delivered already",
    "already_cancelled": "cancelled already",
    "refused": "not available now, retry",
}


def _target_of(handle: RecallHandle) -> Target:
    return Target(topic=handle.topic, unique_key=handle.unique_key, slot_ms=handle.timestamp_ms)


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(Answer.ILLEGAL_OPERATION, remark)


# What requests about timers ask for.

MOST_LISTED = 1_000
MOST_TARGETS = 1_000
MOST_STEPS = 2_000
SHORTEST_STEP_MS = 1_000
_MINUTE_MS = 60_000
_CURSOR = re.compile(r"\d{1,19}-\d{1,19}", re.ASCII).fullmatch
_Moment = Annotated[int, Meta(ge=0, le=LONG_MAX)]
_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Reason = Annotated[str, Meta(max_length=1000)]


class NamedTarget(Struct, rename="camel", forbid_unknown_fields=True):
    """A timer by exactly one of its names; `due_ms` is its own new moment, `delay_ms` the same from now,
    `expected_due_ms` what it is to be now."""

    position: _Moment | None = None
    topic: _Text | None = None
    schedule_key: _Text | None = None
    unique_key: _Text | None = None
    handle: _Text | None = None
    message_id: _Text | None = None
    due_ms: _Moment | None = None
    expected_due_ms: _Moment | None = None
    delay_ms: _Moment | None = None

    def check(self) -> None:
        """Refuse a target that names none, or two, or leaves out the topic of a key, or has two moments."""
        if self.due_ms is not None and self.delay_ms is not None:
            raise _refused("A target has one of dueMs and delayMs.")
        names = [self.position, self.schedule_key, self.unique_key, self.handle, self.message_id]
        if sum(name is not None for name in names) != 1:
            raise _refused("A target has one of position, scheduleKey, uniqueKey, handle and messageId.")
        if self.topic is None and (self.schedule_key is not None or self.unique_key is not None):
            raise _refused("A target's scheduleKey or uniqueKey needs its topic.")


class Steering(Struct, rename="camel", forbid_unknown_fields=True):
    """The body of request 14005."""

    action: Literal["cancel", "reschedule", "deliver_now"]
    targets: Annotated[list[NamedTarget], Meta(min_length=1, max_length=MOST_TARGETS)]
    reason: _Reason = ""
    due_ms: _Moment | None = None
    reference: _Reason | None = None

    @property
    def kept_reason(self) -> str:
        """Return what is written into the log: reason and reference."""
        return " | ".join(part for part in (self.reason, self.reference) if part)


@dataclass(frozen=True, slots=True)
class Listing:
    """The fields of request 14002."""

    from_ms: int
    to_ms: int
    limit: int
    topic: str | None
    key: str | None
    cursor: str | None


def read_steering(body: bytes) -> Steering:
    """Read the body of 14005; raises RequestRefused."""
    wanted = body_as(Steering, body)
    for target in wanted.targets:
        target.check()
        if (
            wanted.action == "reschedule"
            and target.due_ms is None
            and wanted.due_ms is None
            and target.delay_ms is None
        ):
            raise _refused("A timer is rescheduled to a dueMs: give one for all, or each target its own, or a delayMs.")
    if "\x01" in wanted.kept_reason or "\x02" in wanted.kept_reason:
        raise _refused("The reason holds \\x01 or \\x02, which part properties.")
    return wanted


def read_target(body: bytes) -> NamedTarget:
    """Read the body of 14007; raises RequestRefused."""
    target = body_as(NamedTarget, body)
    target.check()
    return target


def read_listing(ext: Mapping[str, str]) -> Listing:
    """Read the fields of 14002; raises RequestRefused."""
    cursor = ext.get("cursor") or None
    if cursor is not None and _CURSOR(cursor) is None:
        raise _refused(f"The cursor {cursor[:60]!r} is none of this broker's; begin without one.")
    return Listing(
        from_ms=whole(ext, "fromMs", low=0),
        to_ms=whole(ext, "toMs", low=0),
        limit=whole(ext, "limit", 100, low=1, high=MOST_LISTED),
        topic=ext.get("topic") or None,
        key=ext.get("key") or None,
        cursor=cursor,
    )


def read_range(ext: Mapping[str, str]) -> tuple[int, int, int]:
    """Read from, to and step of 14003 and 14008 in ms; raises RequestRefused. Steps of a minute and more are whole
    minutes, and begin with one: those are counted beforehand, seconds are not.

    Steps of a minute and more are whole minutes, and begin with one: those are counted beforehand, seconds are not.
    """
    from_ms, to_ms = whole(ext, "fromMs", low=0), whole(ext, "toMs", low=0)
    step_ms = whole(ext, "stepMs", low=SHORTEST_STEP_MS)
    if to_ms <= from_ms:
        raise _refused("toMs must be later than fromMs.")
    if step_ms >= _MINUTE_MS:
        step_ms = -(-step_ms // _MINUTE_MS) * _MINUTE_MS
        from_ms -= from_ms % _MINUTE_MS
    if -(-(to_ms - from_ms) // step_ms) > MOST_STEPS:
        raise _refused(f"That is more than {MOST_STEPS:,} steps; choose a longer stepMs.")
    return from_ms, to_ms, step_ms


def read_paused(ext: Mapping[str, str]) -> bool:
    """Read the field of 14006; raises RequestRefused for anything but true and false: it is not to be guessed."""
    value = ext.get("paused", "")
    if value not in ("true", "false"):
        raise _refused(f"The field 'paused' is 'true' or 'false', not {value[:40]!r}.")
    return value == "true"


def _refused(remark: str) -> RequestRefused:
    return RequestRefused(Answer.INVALID_PARAMETER, remark)


# Delay levels, and what changed in the store.

#: What this broker calls itself; clients compare the protocol's version (request 28), people read this one.
VERSION = f"Escapement {version()}"
_LOOK_INTERVAL_MS = 5_000
#: how long who asks for changes may wait for one
MOST_WAIT_MS = 5_000
#: how soon it is looked when messages have come, many of them once; and how often for what nobody tells: offsets,
#: topics, groups and their members
_LOOK_SOON_MS, _LOOK_AGAIN_MS = 100, 500


class ScheduleProcessor:
    """The requests that tell how far the delay levels are, and what changed in the whole store since a token."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._looked_ms = 0
        self._rss_bytes: int | None = None
        self._asking: set[_Asking] = set()

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_ALL_DELAY_OFFSET: self._delay_offsets,
            Request.GET_CHANGES: self._changes,
            Request.GET_SCHEDULE_STATUS: self._status,
        }

    def arrived(self) -> None:
        """Have a look soon for those that wait for news: messages have come."""
        for asking in self._asking:
            asking.hurry()

    def _delay_offsets(self, _: Connection, request: Command) -> Command:
        offsets = self._engine.schedule.state()
        version = {"counter": 0, "stateVersion": 0, "timestamp": self._state.clock()}
        return request.answer(body=json_body({"dataVersion": version, "offsetTable": offsets}))

    def _changes(self, connection: Connection, request: Command) -> Command | None:
        wait_ms = whole(request.ext, "waitMs", 0, low=0, high=MOST_WAIT_MS)
        token, members = request.ext.get("token", ""), self._state.clients.consumer_counts()
        if not wait_ms or token != self._engine.changes_token():
            return self._answer(request)

        def has_news() -> bool:
            is_other = token != self._engine.changes_token() or members != self._state.clients.consumer_counts()
            return is_other or not connection.is_open

        def answer() -> None:
            self._asking.discard(asking)
            if connection.is_open:
                connection.send(self._answer(request))

        asking = _Asking(has_news, answer, wait_ms)
        self._asking.add(asking)
        return None

    def _answer(self, request: Command) -> Command:
        now_ms = self._state.clock()
        changes = self._engine.changes_since(request.ext.get("token", ""), now_ms)
        if not self._looked_ms <= now_ms < self._looked_ms + _LOOK_INTERVAL_MS:
            self._looked_ms, self._rss_bytes = now_ms, anonymous_bytes()
        broker = {**changes["broker"], "version": VERSION, "rssBytes": self._rss_bytes, **self._simulated(now_ms)}
        members = self._state.clients.consumer_counts()
        return request.answer(body=json_body({**changes, "broker": broker, "members": members}))

    def _simulated(self, now_ms: int) -> dict[str, object]:
        """Return how the clock is simulated, where it is: what it shows at which real moment, and how fast it runs."""
        speed, real_ms = self._state.speed, self._state.live_clock()
        if speed is None:
            return {}
        return {"simulatedClock": {"speed": speed, "simulatedMs": now_ms, "realMs": real_ms}}

    def _status(self, _: Connection, request: Command) -> Command:
        status = self._engine.schedule_json(self._state.clock())
        return request.answer(body=json_body({**status, "halfActs": ["cancel", "move"]}))


class _Asking:
    """Somebody who waits for news, or until it has been long enough."""

    def __init__(self, has_news: Callable[[], bool], answer: Callable[[], None], wait_ms: int) -> None:
        self._has_news = has_news
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + wait_ms / 1000
        self._is_hurried = False
        self._timer = self._look_in(_LOOK_AGAIN_MS)

    def hurry(self) -> None:
        """Look soon; again and again is once."""
        if not self._is_hurried:
            self._is_hurried = True
            self._timer.cancel()
            self._timer = self._look_in(_LOOK_SOON_MS)

    def _look_in(self, pause_ms: int) -> asyncio.TimerHandle:
        at_s = min(self._loop.time() + pause_ms / 1000, self._until_s)
        return self._loop.call_at(at_s, self._look, at_s >= self._until_s)

    def _look(self, is_last: bool) -> None:
        self._is_hurried = False
        if is_last or self._has_news():
            self._answer()
        else:
            self._timer = self._look_in(_LOOK_AGAIN_MS)
