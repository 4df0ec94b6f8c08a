"""The trace events that clients report of messages, in bodies of RMQ_SYS_TRACE_TOPIC (TraceDataEncoder).

    an event ends with \\x02, its fields are parted by \\x01; the first is its kind

Old clients write fewer fields. What cannot be read is left out: anybody may write to that topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["sent", "delivered", "handled", "ended", "recalled"]


@dataclass(frozen=True, slots=True)
class Trace:
    """An event of a message, by the clock of the client that tells it; None where it does not say.

    sent: by a producer. delivered: given to a consumer's handler; handled: that has ended (both with one `request_id`).
    ended: a transaction (`state`). recalled: a timer was taken back.
    """

    kind: Kind
    message_id: str
    at_ms: int | None = None
    group: str | None = None
    topic: str | None = None
    client: str | None = None
    took_ms: int | None = None
    succeeded: bool | None = None
    retries: int | None = None
    request_id: str | None = None
    state: str | None = None


def read_traces(body: bytes) -> list[Trace]:
    """Return the events in one body, in its order."""
    return list(_read(body.decode(errors="replace")))


def _read(text: str) -> Iterator[Trace]:
    for event in text.split("\x02"):
        fields = event.split("\x01")
        read = _KINDS.get(fields[0])
        if read is None:
            continue
        try:
            yield read(fields)
        except (IndexError, ValueError):
            continue


def _sent(fields: list[str]) -> Trace:
    told = fields[13] if len(fields) > 13 else fields[12] if len(fields) > 12 else ""
    return Trace(
        "sent", fields[5], int(fields[1]), fields[3], fields[4], fields[14] if len(fields) > 14 else None,
        int(fields[10]), _truth(told),
    )  # fmt: skip


def _delivered(fields: list[str]) -> Trace:
    client = fields[8] if len(fields) > 8 else None
    return Trace(
        "delivered", fields[5], int(fields[1]), fields[3], None, client, retries=int(fields[6]), request_id=fields[4]
    )


def _handled(fields: list[str]) -> Trace:
    at_ms = int(fields[7]) if len(fields) > 7 else None
    group = fields[8] if len(fields) > 8 else None
    return Trace(
        "handled", fields[2], at_ms, group, took_ms=int(fields[3]), succeeded=_truth(fields[4]), request_id=fields[1]
    )


def _ended(fields: list[str]) -> Trace:
    return Trace("ended", fields[5], int(fields[1]), fields[3], fields[4], state=fields[11])


def _recalled(fields: list[str]) -> Trace:
    return Trace("recalled", fields[5], int(fields[1]), fields[3], fields[4], succeeded=_truth(fields[6]))


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


_KINDS: dict[str, Callable[[list[str]], Trace]] = {
    "Pub": _sent,
    "SubBefore": _delivered,
    "SubAfter": _handled,
    "EndTransaction": _ended,
    "Recall": _recalled,
}
