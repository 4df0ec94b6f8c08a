"""Timers: RocketMQ's recall (370), checkpoint (60) and metrics (61), and requests of our own, 14002 to 14008."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ...engine.errors import StoreRefused, TopicNotFound
from ...engine.log.ticket import Ticket
from ...engine.timer.engine_calls import UNITS_PER_ANSWER, Action, Outcome, Target
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import text
from ...rocketmq.frame import Command
from ...rocketmq.json_body import json_body
from ...rocketmq.message import parse_offset_message_id
from ...rocketmq.recall_handle import OUTCOME, BadHandle, RecallHandle, handle_of, read_handle
from ..connection import Connection, Handler
from ..send_reply import REGION
from ..state import BrokerState
from ..timer_requests import (
    Listing,
    Steering,
    read_listing,
    read_paused,
    read_range,
    read_steering,
    read_target,
)
from ..timer_requests import Target as NamedTarget

#: Targets steered, or timers listed, before others get their turn: each looks things up on disk.
_AT_ONCE = 32
#: Units looked at for a list before others get their turn: some two milliseconds.
_UNITS_AT_ONCE = 256


class TimerProcessor:
    """Acts on what waits, and says what does."""

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
        topic = text(ext, "topic")
        if self._engine.topics.get(topic) is None:
            raise TopicNotFound(topic)
        try:
            handle = read_handle(text(ext, "recallHandle"))
        except BadHandle as error:
            raise _illegal(f"recall failed, {error}") from None
        if handle.topic != topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker != self._state.config.broker_name:
            raise _illegal("recall failed, broker service not available")
        now_ms, moment_ms = self._state.clock(), handle.timestamp_ms
        awaited = _Awaited(connection, request, lambda results: _recalled(request, results[0]))
        outcome = self._engine.recall_timer(topic, handle.unique_key, moment_ms, now_ms=now_ms, owner=awaited)
        ahead = 0 < moment_ms - now_ms < self._state.config.timer_max_delay_ms
        if outcome.outcome != "cancelled" and not ahead:
            remark = f"recall failed, timestamp invalid: the message is {_WORDS[outcome.outcome]}"
            return request.answer({OUTCOME: outcome.outcome}, code=Answer.ILLEGAL_OPERATION, remark=remark)
        outcome.unique_key = handle.unique_key
        awaited.add(outcome)
        awaited.complete()
        return None

    def _steer(self, connection: Connection, request: Command) -> Command | None:
        wanted, now_ms = read_steering(request.body), self._state.clock()

        def answer_of(results: list[Outcome]) -> Command:
            rows = [outcome.to_json() for outcome in results]
            return request.answer(body=json_body({"nowMs": now_ms, "results": rows}))

        self._steer_some(_Awaited(connection, request, answer_of), wanted, 0)
        return None

    def _steer_some(self, awaited: _Awaited, wanted: Steering, begin: int) -> None:
        """A portion at a time, so that a thousand targets keep nobody from being answered, and no timer waiting."""
        stop = begin + _AT_ONCE
        for named in wanted.targets[begin:stop]:
            due_ms = named.due_ms if named.due_ms is not None else wanted.due_ms
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
            return Outcome("refused", topic=target.topic, error=str(error))

    def _target(self, named: NamedTarget) -> Target | None:
        """What the engine calls it; None for a handle or an id that cannot be of this broker."""
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
        """A portion at a time: a page may have to look at all that fires in an hour, and no timer waits for that."""
        left = wanted.limit - (len(found["items"]) if found else 0)
        page = self._engine.timers_list(
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
            life = self._engine.timer_events(target, self._state.clock())
        if life["timer"] is not None:
            self._add_handle(life["timer"])
        return request.answer(body=json_body(life))

    def _add_handle(self, timer: dict[str, Any]) -> None:
        """The name that RocketMQ gave it, or would have."""
        key = timer["uniqueKey"]
        broker = self._state.config.broker_name
        timer["handle"] = handle_of(timer["topic"], broker, timer["dueMs"], key).decode() if key else None

    def _wheel(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.timer_wheel(*read_range(request.ext), self._state.clock())))

    def _forecast(self, _: Connection, request: Command) -> Command:
        return request.answer(
            body=json_body(self._engine.timer_forecast(*read_range(request.ext), self._state.clock()))
        )

    def _status(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.timer_status(self._state.clock())))

    def _checkpoint(self, _: Connection, request: Command) -> Command:
        return request.answer(body=self._engine.timer_check_point(self._state.clock()))

    def _metrics(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.timer_metrics()))


class _Awaited:
    """Collects results and answers once, when all of them are durable."""

    __slots__ = ("_answer_of", "_connection", "_is_complete", "_left", "_request", "_results")

    def __init__(self, connection: Connection, request: Command, answer_of: Callable[[list[Outcome]], Command]) -> None:
        self._connection = connection
        self._request = request
        self._answer_of = answer_of
        self._results: list[Outcome] = []
        self._left = 0
        self._is_complete = False

    def add(self, outcome: Outcome) -> None:
        """One more result, in order."""
        self._results.append(outcome)
        self._left += len(outcome.tickets)

    def complete(self) -> None:
        """All results are there: answered now if nothing of them is being written."""
        self._is_complete = True
        self._answer()

    def stored(self, _: Ticket) -> None:
        self._left -= 1
        self._answer()

    def refused(self, code: int, remark: str) -> None:
        if self._is_complete:
            self._is_complete = False
            self._connection.send(self._request.answer(code=code, remark=remark))

    def _answer(self) -> None:
        if self._left == 0 and self._is_complete:
            self._is_complete = False
            self._connection.send(self._answer_of(self._results))


def _recalled(request: Command, outcome: Outcome) -> Command:
    """As Apache RocketMQ answers whether there was a message or not, but for our own field."""
    return request.answer({"msgId": outcome.unique_key or "", "MSG_REGION": REGION, OUTCOME: outcome.outcome})


_WORDS = {
    "unknown": "not known to wait",
    "already_delivered": "delivered already",
    "already_cancelled": "taken back already",
    "refused": "not to be had now, try again",
}


def _target_of(handle: RecallHandle) -> Target:
    return Target(topic=handle.topic, unique_key=handle.unique_key, slot_ms=handle.timestamp_ms)


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(Answer.ILLEGAL_OPERATION, remark)
