"""What clients did and what they were answered: one JSON line an event, in the order in which events ended.

    {"call": 1764170000123, "answer": 1764170000125, "client": "plain-1", "op": "send", "id": "plain-1-17",
     "outcome": "ok", "about": {"kind": "plain", "topic": "life-plain"}}

`call` and `answer` are epoch ms of the machine whose clock nobody steps. `outcome` is `ok`, `refused` (the answer says
that it was not done) or `unknown` (no answer, or one that promises nothing).

| op      | id          | about                                                                                      |
|---------|-------------|--------------------------------------------------------------------------------------------|
| send    | message     | kind, topic, tries; timers: due_ms or delay_ms; ordered: shard, number                      |
| cancel  | message     | a refusal says that the message was or will be delivered                                    |
| move    | message     | due_ms or delay_ms                                                                          |
| decide  | message     | said: commit or rollback                                                                    |
| check   | message     | said: commit, rollback or unknown, to a broker that asked                                   |
| hand    | message     | group, topic, queue, offset, attempt, store_ms, intact: what a consumer was given           |
| ack     | message     | group, topic, queue, offset                                                                 |
| stored  | message     | topic, queue, offset, store_ms, intact: what a topic holds at the end                       |
| pending | message     | at the end, still waiting                                                                   |
| count   | topic       | waiting: how many wait for the topic at the end, where a broker tells no more than that     |
| reader  | group       | topic: a group that is to get everything of it                                              |
| letters | group       | attempts: after so many a message is a dead letter                                          |
| fault   | kind        | call to answer: while it lasted                                                             |
| clock   |             | step_ms: how far the broker's clock is from the machine's, from then on                     |
| stood   | how many    | said: what readers had not got until the broker was restarted                              |
| health  | what        | said: a check of the broker's own that failed                                               |

A body is `id checksum padding`, so that whoever gets it knows whose it is and whether it is whole.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

Outcome = Literal["ok", "refused", "unknown"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a client did, or that was done to the broker."""

    call_ms: int
    answer_ms: int
    client: str
    op: str
    id: str
    outcome: Outcome = "ok"
    about: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """Its JSON line."""
        return json.dumps(
            {"call": self.call_ms, "answer": self.answer_ms, "client": self.client, "op": self.op, "id": self.id,
             "outcome": self.outcome, "about": dict(self.about)}
        )  # fmt: skip


def read(lines: Iterable[str]) -> Iterator[Event]:
    """The events of JSON lines."""
    for line in lines:
        row = json.loads(line)
        yield Event(
            row["call"], row["answer"], row["client"], row["op"], row["id"], row["outcome"], row["about"],
        )  # fmt: skip


def body_of(message: str, size_bytes: int) -> bytes:
    """A body of this message, of about so many bytes."""
    padding = (message.encode() * (size_bytes // len(message) + 1))[:size_bytes]
    return b"%s %08x %s" % (message.encode(), zlib.crc32(padding), padding)


def read_body(body: bytes) -> tuple[str, bool]:
    """Whose body this is, and whether it is as it was sent."""
    message, _, rest = body.partition(b" ")
    checksum, _, padding = rest.partition(b" ")
    return message.decode(errors="replace"), checksum == b"%08x" % zlib.crc32(padding)


def now_ms() -> int:
    """The machine's clock."""
    return time.time_ns() // 1_000_000


class Recorder:
    """Keeps events, and writes each to a file at once: what a run that died has seen is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []
        self._file = path.open("w")

    def note(
        self, client: str, op: str, message: str, outcome: Outcome = "ok", *, call_ms: int | None = None,
        answer_ms: int | None = None, **about: Any,
    ) -> None:  # fmt: skip
        """Note an event that ends now."""
        end_ms = now_ms() if answer_ms is None else answer_ms
        event = Event(end_ms if call_ms is None else call_ms, end_ms, client, op, message, outcome, about)
        self.events.append(event)
        self._file.write(event.line() + "\n")

    async def call(
        self, client: str, op: str, message: str, work: Awaitable[T], judge: Callable[[T | Exception], Outcome],
        **about: Any,
    ) -> T | None:  # fmt: skip
        """Do something and note how it ended; its result, None if it failed. Only what `judge` knows may be raised."""
        call_ms = now_ms()
        result: T | None = None
        try:
            result = await work
            outcome = judge(result)
        except Exception as error:
            outcome = judge(error)
            about["error"] = str(error)[:160]
        self.note(client, op, message, outcome, call_ms=call_ms, **about)
        return result

    def close(self) -> None:
        """Write what is left."""
        self._file.close()
