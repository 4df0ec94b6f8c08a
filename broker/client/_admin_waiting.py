"""The part of the asynchronous admin that asks about what waits, timers and transactions, and acts on it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ..rocketmq.codes import Request
from ..rocketmq.topics import PARKED_HALF_TOPIC
from . import _answers as answers
from ._admin_settings import Questions
from ._answers import read_object
from ._transaction import Decision
from .errors import BadAnswer, InvalidArgument
from .remoting import Response
from .timers import MOST_TARGETS as MOST_TIMERS
from .timers import (
    Action,
    Releases,
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
from .transactions import MOST_TARGETS as MOST_TRANSACTIONS
from .transactions import Action as TransactionAction
from .transactions import (
    State,
    SteeredTransactions,
    TransactionLife,
    TransactionPage,
    TransactionStatus,
    TransactionTarget,
)

Value = TypeVar("Value")

#: config/timercheck: read time, flushed position, queue offset, the master's queue offset; a data version follows.
_CHECKPOINT = struct.Struct(">qqqq")


#: steering thousands of timers or transactions means thousands of records on disk
_STEER_TIMEOUT_MS = 15_000
#: a self-test takes two or three seconds where nothing else is done
_MEASURE_TIMEOUT_MS = 30_000


class TimerQuestions(Questions):
    """The questions about timers; `address` asks another broker than the admin's own."""

    async def timers(
        self, from_ms: int, to_ms: int, *, topic: str | None = None, key: str | None = None, limit: int = 100,
        cursor: str | None = None, address: str | None = None,
    ) -> TimerPage:  # fmt: skip
        """Return timers due from `from_ms` to before `to_ms` (epoch), by due time; at most `limit`, up to 1,000.

        `key` is a schedule key, a key or a message id. Continue with the page's cursor.
        """
        ext = {"fromMs": str(from_ms), "toMs": str(to_ms), "limit": str(limit)}
        ext |= {name: text for name, text in (("topic", topic), ("key", key), ("cursor", cursor)) if text is not None}
        return _read_timers(await self._ask(Request.LIST_TIMERS, ext, address=address), TimerPage)

    async def timer_wheel(self, from_ms: int, to_ms: int, step_ms: int) -> TimerWheel:
        """Return the wheel from one time to another (epoch) in steps of at least a second, at most 2,000 of them."""
        return _read_timers(await self._ask(Request.GET_TIMER_WHEEL, _range(from_ms, to_ms, step_ms)), TimerWheel)

    async def timer_forecast(self, from_ms: int, to_ms: int, step_ms: int) -> TimerForecast:
        """Return how many timers are due in each step of `step_ms`, and which of them will be late for their number."""
        return _read_timers(await self._ask(Request.GET_TIMER_FORECAST, _range(from_ms, to_ms, step_ms)), TimerForecast)

    async def timer_status(self) -> TimerStatus:
        """Return the figures of all timers: pending, backlog, totals, lateness, limits, clock steps."""
        return _read_timers(await self._ask(Request.GET_TIMER_STATUS), TimerStatus)

    async def timer(self, target: TimerTarget | Mapping[str, Any], *, address: str | None = None) -> TimerLife:
        """Return the state of one timer and its history; raises InvalidArgument for what names none."""
        body = msgspec.json.encode(TimerTarget.of(target))
        return _read_timers(await self._ask(Request.GET_TIMER, body=body, address=address), TimerLife)

    async def steer_timers(
        self, action: Action, targets: Sequence[TimerTarget | Mapping[str, Any]], *, reason: str = "",
        due_ms: int | None = None, reference: str | None = None, address: str | None = None,
    ) -> SteeredAll:  # fmt: skip
        """Cancel, reschedule (to `due_ms`, or to each target's own) or deliver now; up to 1,000 in a call, each with a
        result of its own in the same order. Answered when it is durable."""
        if not 1 <= len(targets) <= MOST_TIMERS:
            raise InvalidArgument(f"{len(targets)} targets are not valid: 1 to {MOST_TIMERS:,}.", field="targets")
        asked: dict[str, object] = {"action": action, "reason": reason, "targets": [*map(TimerTarget.of, targets)]}
        asked |= {name: value for name, value in (("dueMs", due_ms), ("reference", reference)) if value is not None}
        answer = await self._change(
            Request.STEER_TIMERS, body=msgspec.json.encode(asked), address=address, timeout_ms=_STEER_TIMEOUT_MS
        )
        steered = _read_timers(answer, SteeredAll)
        if len(steered.results) != len(targets):
            raise BadAnswer(f"The broker answered {len(steered.results)} results to {len(targets)} targets.")
        return steered

    async def pause_timers(self, paused: bool) -> TimersPaused:
        """Pause all releases, or resume them; sends are accepted all the same. Survives a restart of the broker."""
        answer = await self._change(Request.PAUSE_TIMERS, {"paused": "true" if paused else "false"})
        return _read_timers(answer, TimersPaused)

    async def measure_releases(self) -> Releases:
        """Have the broker measure how many timers a second it can release: another process of it tries for a moment,
        on the disk of the store. Raises NotSupported of an Apache RocketMQ broker."""
        answer = await self._change(Request.MEASURE_RELEASES, timeout_ms=_MEASURE_TIMEOUT_MS)
        return _read_timers(answer, Releases)

    async def timer_checkpoint(self) -> TimerCheckpoint:
        """Return how far the broker has read its timers and released them (request 60)."""
        body = (await self._ask(Request.GET_TIMER_CHECK_POINT)).body
        if len(body) < _CHECKPOINT.size:
            raise BadAnswer(f"The timer checkpoint has {len(body)} bytes, at least {_CHECKPOINT.size} were expected.")
        return TimerCheckpoint(*_CHECKPOINT.unpack_from(body))

    async def timer_metrics(self) -> tuple[TimerMetric, ...]:
        """Return how many timers wait for each real topic (request 61), by name."""
        counts = answers.fields(read_object((await self._ask(Request.GET_TIMER_METRICS)).body).get("timingCount"))
        rows = ((topic, answers.fields(counts[topic])) for topic in sorted(counts))
        return tuple(
            TimerMetric(topic, answers.number(row.get("count", 0)), answers.number(row.get("timeStamp", 0)))
            for topic, row in rows
        )


def _range(from_ms: int, to_ms: int, step_ms: int) -> dict[str, str]:
    return {"fromMs": str(from_ms), "toMs": str(to_ms), "stepMs": str(step_ms)}


def _read_timers(answer: Response, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"The broker's answer about timers cannot be read: {error}") from None


class TransactionQuestions(Questions):
    """The questions about transactions, and what an operator does to them."""

    async def transactions(
        self, state: State = "open", *, after: int | None = None, count: int = 100, group: str = "", topic: str = "",
        older_than_ms: int | None = None, address: str | None = None,
    ) -> TransactionPage:  # fmt: skip
        """Return a page of transactions; `after` is a page's `following`, `older_than_ms` the least age of a half."""
        ext = {"state": state, "count": str(count), "group": group, "topic": topic}
        ext |= {"after": str(after)} if after is not None else {}
        ext |= {"olderThanMs": str(older_than_ms)} if older_than_ms is not None else {}
        return _read(await self._ask(Request.LIST_TRANSACTIONS, ext, address=address), TransactionPage)

    async def transaction(
        self, transaction_id: str = "", *, offset: int | None = None, position: int | None = None,
        address: str | None = None,
    ) -> TransactionLife:  # fmt: skip
        """Return a transaction by its id (the newest with it), or its half's place; raises BrokerRefused (code 22)."""
        ext = {"transactionId": transaction_id}
        ext |= {name: str(text) for name, text in (("offset", offset), ("position", position)) if text is not None}
        return _read(await self._ask(Request.GET_TRANSACTION, ext, address=address), TransactionLife)

    async def transaction_status(self, *, address: str | None = None) -> TransactionStatus:
        """Return the figures of all transactions of the broker."""
        return _read(await self._ask(Request.GET_TRANSACTION_STATUS, address=address), TransactionStatus)

    async def steer_transactions(
        self, action: TransactionAction, targets: Sequence[TransactionTarget], *, who: str, reason: str = "",
        address: str | None = None,
    ) -> SteeredTransactions:  # fmt: skip
        """Commit, roll back, check now, or resume checking up to 10,000 halves; each is answered on its own."""
        if len(targets) > MOST_TRANSACTIONS:
            raise InvalidArgument(f"{len(targets):,} targets; at most {MOST_TRANSACTIONS:,} a call.", field="targets")
        if not who.strip():
            raise InvalidArgument("Give who: the name of whoever decides.", field="who")
        body = msgspec.json.encode({"action": action, "targets": targets, "who": who, "reason": reason})
        answer = await self._change(
            Request.STEER_TRANSACTIONS, body=body, address=address, timeout_ms=_STEER_TIMEOUT_MS
        )
        return _read(answer, SteeredTransactions)

    async def end_transaction(
        self, decision: Decision, *, group: str, offset: int, position: int, transaction_id: str = "", topic: str = "",
        address: str | None = None,
    ) -> None:  # fmt: skip
        """Decide as a producer does (request 37), on Apache RocketMQ too; raises BrokerRefused (604: the opposite was
        decided, or it comes too late)."""
        ext = {
            "producerGroup": group, "topic": topic, "tranStateTableOffset": str(offset),
            "commitLogOffset": str(position), "commitOrRollback": str(int(decision)), "fromTransactionCheck": "true",
            "msgId": transaction_id, "transactionId": transaction_id,
        }  # fmt: skip
        await self._change(Request.END_TRANSACTION, ext, address=address)

    async def resume_check(self, offset_message_id: str, *, topic: str = "", address: str | None = None) -> None:
        """Resume checking a parked half (request 323), on Apache RocketMQ too; the id is that of the parked record."""
        ext = {"topic": topic or PARKED_HALF_TOPIC, "msgId": offset_message_id}
        await self._change(Request.RESUME_CHECK_HALF_MESSAGE, ext, address=address)


def _read(answer: Response, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(read_object(answer.body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"The broker's answer about transactions cannot be read: {error}") from None
