"""What clients with tracing told of one message, a line for each thing that was done; every text in it is hostile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from broker.rocketmq.traces import Trace

What = Literal["sent", "consumed", "ended", "recalled"]

#: lines of one message that are shown: anybody may write to the trace topic, as much as he likes
TOLD_LIMIT = 100
#: the year 9999: what is later, or before 1970, is no moment
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Told:
    """One line, by the clock of the client that tells it; None where it does not say.

    consumed: given to a handler at `at_ms`, which was at work for `took_ms`; `succeeded` None: its end was not told.
    `retries`: tries before this one. ended: a transaction, `state` says how. recalled: a timer was taken back.
    """

    what: What
    at_ms: int | None
    group: str | None = None
    topic: str | None = None
    client: str | None = None
    took_ms: int | None = None
    succeeded: bool | None = None
    retries: int | None = None
    state: str | None = None


def told_of(traces: Iterable[Trace]) -> tuple[Told, ...]:
    """Every line, the oldest first; the two events of one consumption are one. Those without a moment come last."""
    lines: list[Told] = []
    begun: dict[tuple[str | None, str | None], int] = {}
    for trace in traces:
        if trace.kind == "handled":
            at = _begin_of(trace, begun)
            if at is None:
                lines.append(_handled_only(trace))
            else:
                lines[at] = replace(lines[at], took_ms=_count(trace.took_ms), succeeded=trace.succeeded)
            continue
        if trace.kind == "delivered":
            begun[trace.request_id, trace.group] = len(lines)
        lines.append(_line(trace, "consumed" if trace.kind == "delivered" else trace.kind))
    return tuple(sorted(lines, key=lambda line: _LAST_MS if line.at_ms is None else line.at_ms))


def _line(trace: Trace, what: What) -> Told:
    """Return a line as it was told, without what is no moment or no number."""
    return Told(
        what, _moment(trace.at_ms), trace.group, trace.topic, trace.client, _count(trace.took_ms), trace.succeeded,
        _count(trace.retries), trace.state,
    )  # fmt: skip


def _begin_of(trace: Trace, begun: dict[tuple[str | None, str | None], int]) -> int | None:
    """The line that this end belongs to; old clients name no group in it."""
    if trace.group is not None:
        return begun.pop((trace.request_id, trace.group), None)
    key = next((key for key in begun if key[0] == trace.request_id), None)
    return None if key is None else begun.pop(key)


def _handled_only(trace: Trace) -> Told:
    """What tells of the end alone: it began as long before as it took."""
    line = _line(trace, "consumed")
    return line if line.at_ms is None else replace(line, at_ms=max(0, line.at_ms - (line.took_ms or 0)))


def _moment(ms: int | None) -> int | None:
    return ms if ms is not None and 0 < ms <= _LAST_MS else None


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= _LAST_MS else None
