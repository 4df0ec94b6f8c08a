"""The real RDelayedQueue from Python: a JVM with one client of Redisson, and its values in a form that keeps types."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.interop.programs import ANSWER_TIMEOUT_S, Program
from tests.interop.waiting import wait_until

CURRENT, LEGACY = "4.7.0", "3.16.8"
#: What an Integer holds; Jackson reads a larger number as a Long.
INTEGER = range(-(1 << 31), 1 << 31)
LONG = range(-(1 << 63), 1 << 63)


class JavaThrew(RuntimeError):
    """The real client threw this from the call that was asked for."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A Java value that has no Python type of its own: `kind` is the tag of the driver (`long`, `order`, `date`)."""

    kind: str
    value: Any


def described(value: Any) -> Any:
    """A Python value in the driver's form: dict is a LinkedHashMap, list an ArrayList, int the smallest type for it."""
    if isinstance(value, dict):
        return {"$map": {key: described(each) for key, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, Typed):
        return {f"${value.kind}": value.value}
    if isinstance(value, int) and not isinstance(value, bool) and value not in INTEGER:
        return {"$long": value} if value in LONG else {"$big": str(value)}
    return value


def plain(value: Any) -> Any:
    """The driver's form as a Python value; Long and Integer are both int, what has no Python type is Typed."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    (tag, inner), *_ = value.items()
    match tag:
        case "$map":
            return {key: plain(each) for key, each in inner.items()}
        case "$long":
            return inner
        case "$big":
            return int(inner)
        case "$bytes":
            return bytes.fromhex(inner)
        case "$decimal":
            return Decimal(inner)
    return Typed(tag[1:], inner)


class JavaQueues(Program):
    """One JVM with one client of Redisson against one server."""

    def __init__(self, address: str, *, version: str, work: Path, fast_start: bool = True) -> None:
        self.version = version
        self._ids = itertools.count(1)
        super().__init__("DelayedQueues", [address], version=version, work=work, fast_start=fast_start)

    def begin(self, operation: str, queue: str = "", codec: str = "string", **fields: Any) -> int:
        """Ask for one call without waiting for its answer; returns the id that `answer` takes."""
        number = next(self._ids)
        if "value" in fields:
            fields["value"] = described(fields["value"])
        command = {"id": number, "op": operation, "queue": queue, "codec": codec, **fields}
        self.child.say(json.dumps(command))
        return number

    def answer(self, number: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """What the call with this id returned; raises JavaThrew with what it threw."""
        start = f'{{"event":"answer","id":{number},'

        def look(lines: list[str]) -> dict[str, Any] | None:
            line = next((line for line in reversed(lines) if line.startswith(start)), None)
            return None if line is None else json.loads(line)

        found = self.child.wait_for(look, timeout_s, f"the answer to command {number}")
        if "error" in found:
            raise JavaThrew(found["error"])
        return plain(found["value"])

    def call(
        self,
        operation: str,
        queue: str = "",
        codec: str = "string",
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        **fields: Any,
    ) -> Any:
        """Ask for one call and wait for what it returns."""
        return self.answer(self.begin(operation, queue, codec, **fields), timeout_s)

    def offer(self, queue: str, value: Any, delay_ms: int, codec: str = "string", **fields: Any) -> None:
        """`RDelayedQueue.offer(value, delay_ms, MILLISECONDS)`."""
        self.call("offer", queue, codec, value=value, delayMs=delay_ms, **fields)

    def take(self, queue: str, codec: str = "string", timeout_s: float = 20) -> Any:
        """`RBlockingQueue.take()`; a take that ran out of time here would still pop, so the process is then lost."""
        return self.call("target.take", queue, codec, timeout_s=timeout_s)

    def open_live(self, queue: str, codec: str = "string") -> None:
        """Make an RDelayedQueue whose transfer task runs in that JVM until `destroy`."""
        self.call("open", queue, codec, live=True)

    def collected(self, queue: str) -> list[tuple[Any, int]]:
        """What the consumer begun by "traffic.take" has: each value and the ms of its arrival."""
        return [(value, now_ms) for value, now_ms in self.call("traffic.taken", queue)]

    def await_collected(self, queue: str, count: int, timeout_s: float = 60) -> list[tuple[Any, int]]:
        """The same, once there are `count`, or at the deadline whatever there is."""
        wait_until(lambda: self.call("traffic.count", queue) >= count, timeout_s)
        return self.collected(queue)
