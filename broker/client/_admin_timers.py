"""The part of the asynchronous admin that asks about timers, and acts on them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ..rocketmq.codes import Request
from . import _answers as answers
from ._admin_base import Questions
from ._answers import read_object
from .errors import BadAnswer, InvalidArgument
from .remoting import Response
from .timers import (
    MOST_TARGETS,
    Action,
    SteeredAll,
    TimerCheckpoint,
    TimerForecast,
    TimerLife,
    TimerMetric,
    TimerPage,
    TimersPaused,
    TimerStatus,
    TimerTarget,
    TimerWheel,
)

Value = TypeVar("Value")


#: config/timercheck: read time, flushed position, queue offset, the master's queue offset; a data version follows.
_CHECKPOINT = struct.Struct(">qqqq")


#: steering a thousand timers means a thousand records on disk
_STEER_TIMEOUT_MS = 15_000


class TimerQuestions(Questions):
    """What an admin can ask about timers; `address` asks another broker than the admin's own."""

    async def timers(
        self, from_ms: int, to_ms: int, *, topic: str | None = None, key: str | None = None, limit: int = 100,
        cursor: str | None = None, address: str | None = None,
    ) -> TimerPage:  # fmt: skip
        """Timers due from `from_ms` to before `to_ms`, by due time, at most 1,000; `key` is a schedule key, a key or a
        unique id. Go on with the page's cursor."""
        ext = {"fromMs": str(from_ms), "toMs": str(to_ms), "limit": str(limit)}
        ext |= {name: text for name, text in (("topic", topic), ("key", key), ("cursor", cursor)) if text is not None}
        return _read(await self._ask(Request.LIST_TIMERS, ext, address=address), TimerPage)

    async def timer_wheel(self, from_ms: int, to_ms: int, step_ms: int) -> TimerWheel:
        """The wheel from one moment to another in steps of at least a second, at most 2,000 of them."""
        return _read(await self._ask(Request.GET_TIMER_WHEEL, _range(from_ms, to_ms, step_ms)), TimerWheel)

    async def timer_forecast(self, from_ms: int, to_ms: int, step_ms: int) -> TimerForecast:
        """How many timers are due when, and which of them will be late for their number."""
        return _read(await self._ask(Request.GET_TIMER_FORECAST, _range(from_ms, to_ms, step_ms)), TimerForecast)

    async def timer_status(self) -> TimerStatus:
        """The timers as a whole: pending, backlog, totals, lateness, limits, clock steps."""
        return _read(await self._ask(Request.GET_TIMER_STATUS), TimerStatus)

    async def timer(self, target: TimerTarget | Mapping[str, Any], *, address: str | None = None) -> TimerLife:
        """Where one timer is, and what happened to it."""
        body = msgspec.json.encode(TimerTarget.of(target))
        return _read(await self._ask(Request.GET_TIMER, body=body, address=address), TimerLife)

    async def steer_timers(
        self, action: Action, targets: Sequence[TimerTarget | Mapping[str, Any]], *, reason: str = "",
        due_ms: int | None = None, reference: str | None = None, address: str | None = None,
    ) -> SteeredAll:  # fmt: skip
        """Cancel, reschedule (to `due_ms`, or to each target's own) or deliver now; up to 1,000 at once, each with a
        result of its own in the same order. Answered when it is durable."""
        if not 1 <= len(targets) <= MOST_TARGETS:
            raise InvalidArgument(f"{len(targets)} targets are not valid: 1 to {MOST_TARGETS:,}.", field="targets")
        asked: dict[str, object] = {"action": action, "reason": reason, "targets": [*map(TimerTarget.of, targets)]}
        asked |= {name: value for name, value in (("dueMs", due_ms), ("reference", reference)) if value is not None}
        answer = await self._ask(
            Request.STEER_TIMERS, body=msgspec.json.encode(asked), address=address, timeout_ms=_STEER_TIMEOUT_MS
        )
        steered = _read(answer, SteeredAll)
        if len(steered.results) != len(targets):
            raise BadAnswer(f"The broker answered {len(steered.results)} results to {len(targets)} targets.")
        return steered

    async def pause_timers(self, paused: bool) -> TimersPaused:
        """Release nothing any more, or go on; sends are taken all the same. Survives a restart of the broker."""
        answer = await self._ask(Request.PAUSE_TIMERS, {"paused": "true" if paused else "false"})
        return _read(answer, TimersPaused)

    async def timer_checkpoint(self) -> TimerCheckpoint:
        """How far the broker's timers are (request 60)."""
        body = (await self._ask(Request.GET_TIMER_CHECK_POINT)).body
        if len(body) < _CHECKPOINT.size:
            raise BadAnswer(f"The timer checkpoint has {len(body)} bytes, at least {_CHECKPOINT.size} were expected.")
        return TimerCheckpoint(*_CHECKPOINT.unpack_from(body))

    async def timer_metrics(self) -> tuple[TimerMetric, ...]:
        """Pending timers by real topic (request 61), by name."""
        counts = answers.fields(read_object((await self._ask(Request.GET_TIMER_METRICS)).body).get("timingCount"))
        rows = ((topic, answers.fields(counts[topic])) for topic in sorted(counts))
        return tuple(
            TimerMetric(topic, answers.number(row.get("count", 0)), answers.number(row.get("timeStamp", 0)))
            for topic, row in rows
        )


def _range(from_ms: int, to_ms: int, step_ms: int) -> dict[str, str]:
    return {"fromMs": str(from_ms), "toMs": str(to_ms), "stepMs": str(step_ms)}


def _read(answer: Response, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"The broker's answer about timers cannot be read: {error}") from None
