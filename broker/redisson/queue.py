"""Redisson's RDelayedQueue from Python, on the very keys that Java uses.

| Key | Type | Whose | Content |
|---|---|---|---|
| NAME | list | Redisson's | the target: bare values that are due |
| redisson_delay_queue_timeout:{NAME} | zset | Redisson's | members, score = due time in epoch ms |
| redisson_delay_queue:{NAME} | list | Redisson's | the same members in the order of offers |
| redisson_delay_queue_channel:{NAME} | channel | Redisson's | due time of a new head |
| escapement_delay_index:{NAME} | zset | ours | id of a member -> its number in the order of offers |
| escapement_delay_values:{NAME} | zset | ours, expires | digest of a value and number -> found by value |
| escapement_delay_aside:{NAME} | zset | ours | poison that somebody moved aside, score as before |
| escapement_delay_sending:{NAME} | zset | ours | members on their way to a topic, score as before |
| escapement_delay_mode:{NAME} | hash | ours | where due values go, when not to the target |

A name that holds a `{` anywhere is used as it is: it has its own hash tag. So all keys of a queue are in one slot of a
Redis Cluster.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from . import scripts
from .codecs import Codec, Packing, StringCodec, certain, detect, likely_packing, pack, unpack
from .errors import InvalidDelay, NotAllowed
from .scripts import Script
from .server import Answer, Argument, RedisClient, Server, connect, whole
from .values import Receipt

# Keys.

TIMEOUT_PREFIX = "redisson_delay_queue_timeout:"
_QUEUE_PREFIX = "redisson_delay_queue:"
CHANNEL_PREFIX = "redisson_delay_queue_channel:"
_INDEX_PREFIX = "escapement_delay_index:"
_VALUES_PREFIX = "escapement_delay_values:"
_ASIDE_PREFIX = "escapement_delay_aside:"
_SENDING_PREFIX = "escapement_delay_sending:"
MODE_PREFIX = "escapement_delay_mode:"


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The Redis keys of the queue `name`, in UTF-8."""

    name: str

    @property
    def target(self) -> bytes:
        """The key of the list of due values."""
        return _encoded(self.name)

    @property
    def timeout(self) -> bytes:
        """The key of the set of waiting members by due time."""
        return self._key(TIMEOUT_PREFIX)

    @property
    def waiting(self) -> bytes:
        """The list of waiting members by the order of offers."""
        return self._key(_QUEUE_PREFIX)

    @property
    def channel(self) -> bytes:
        """The channel in which the due time of a new head is published."""
        return self._key(CHANNEL_PREFIX)

    @property
    def index(self) -> bytes:
        """Our index of places in the waiting list."""
        return self._key(_INDEX_PREFIX)

    @property
    def values(self) -> bytes:
        """Our index of values."""
        return self._key(_VALUES_PREFIX)

    @property
    def aside(self) -> bytes:
        """Poison that was moved aside."""
        return self._key(_ASIDE_PREFIX)

    @property
    def sending(self) -> bytes:
        """Members on their way to a topic."""
        return self._key(_SENDING_PREFIX)

    @property
    def mode(self) -> bytes:
        """The key of the hash that says where due values go."""
        return self._key(MODE_PREFIX)

    def _key(self, prefix: str) -> bytes:
        return _encoded(prefix + tagged(self.name))


def tagged(name: str) -> str:
    """Return the name in braces, or as it is when it has a `{` of its own."""
    return name if "{" in name else "{" + name + "}"


def name_of(key: bytes, prefix: str = TIMEOUT_PREFIX) -> str | None:
    """Return the queue that a key belongs to, None when it has another prefix.

    The keys of the queues `orders` and `{orders}` are the same; the name without braces is assumed.
    """
    text = key.decode("utf-8", "surrogateescape")
    if not text.startswith(prefix):
        return None
    tail = text[len(prefix) :]
    inner = tail[1:-1]
    if tail.startswith("{") and tail.endswith("}") and len(tail) > 1 and "{" not in inner:
        return inner
    return tail if "{" in tail else None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# The queue.

#: Scores are doubles; whole milliseconds are exact up to here.
MAX_DUE_MS = 2**53 - 1
#: One script takes about so many steps for its indexes: 2 to 4 ms.
INDEX_STEP = 500
#: The index of values goes when nobody looked for a value this long.
VALUES_KEPT_S = 3600
#: After so many calls without an end (Java may undo them), the list is read in parts instead.
PATIENCE_CALLS = 20_000
Delay = int | float | timedelta
Moment = int | datetime


class DelayedQueue:
    """A delayed queue that Java services share.

    >>> queue = DelayedQueue("orders", "redis://127.0.0.1:6379/0")
    >>> queue.offer("order-1", delay=30 * 60_000)
    >>> queue.take(timeout_s=5)

    Delays are milliseconds or a timedelta; due times are epoch milliseconds or a datetime with a zone. Parts of a
    millisecond are rounded up, so that nothing is due early. The server's clock decides what is due. `packing="old"`
    writes for clients up to 3.21.0; "auto" follows what is in the queue.

    Safe for threads when the client is. Raises RedissonError and its kin, and redis-py's errors of the connection.
    """

    def __init__(
        self,
        name: str,
        client: RedisClient | str,
        *,
        codec: Codec | None = None,
        packing: Literal["auto", "new", "old"] = "auto",
        read_only: bool = False,
    ) -> None:
        self.name = name
        self.keys = QueueKeys(name)
        self.codec: Codec = codec or StringCodec()
        self.server = Server(connect(client) if isinstance(client, str) else client)
        self.packing = packing
        self._read_only = read_only

    def offer(self, value: object, delay: Delay | None = None, *, at: Moment | None = None) -> Receipt:
        """Let a value wait; a time in the past is due immediately. Raises InvalidDelay and ValueRefused."""
        return self.offer_many([value], delay, at=at)[0]

    def offer_many(
        self, values: Iterable[object], delay: Delay | None = None, *, at: Moment | None = None
    ) -> list[Receipt]:
        """Let all of these wait, in this order, or none; up to some thousand in one call."""
        kind, number = _due(delay, at)
        encoded = [self.codec.encode(value) for value in values]
        if not encoded:
            return []
        self.may_write()
        arguments = [part for value in encoded for part in (kind, number, value)]
        keys = (self.keys.target, self.keys.timeout, self.keys.waiting, self.keys.channel)
        answer = cast("list[bytes]", self.script(scripts.OFFER, keys, arguments))
        packing = Packing(answer[1].decode())
        pairs = zip(answer[2::2], answer[3::2], encoded, strict=True)
        return [
            Receipt(pack(value, struct.pack(">Q", int(counter)), packing), int(due), packing)
            for due, counter, value in pairs
        ]

    def take(self, timeout_s: float | None = None) -> object | None:
        """Wait for the next due value: None after `timeout_s`; without it, for ever. Somebody must transfer.

        Once taken a value is yours alone: a crash loses it. A value that does not decode raises ValueUnreadable, which
        carries its bytes.
        """
        self.may_write()
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # In short turns, so that a client with a socket timeout can wait for ever.
            longest_s = self.server.wait_turn_s
            turn_s = longest_s if ends is None else max(0.01, min(longest_s, ends - time.monotonic()))
            answer = cast(
                "Sequence[bytes] | None", self.server.run_once("BLPOP", self.keys.target, str(round(turn_s, 3)))
            )
            if answer:
                return self.codec.decode(answer[1])
            if ends is not None and time.monotonic() >= ends:
                return None

    def poll(self) -> object | None:
        """Return the next due value, None when there is none right now."""
        self.may_write()
        value = cast("bytes | None", self.server.run_once("LPOP", self.keys.target))
        return None if value is None else self.codec.decode(value)

    def peek(self) -> object | None:
        """Return the value that was offered first and still waits, due or not, as in Java."""
        member = cast("bytes | None", self.server.run("LINDEX", self.keys.waiting, 0))
        if member is None:
            return None
        nearby = [] if certain(member) else cast("list[bytes]", self.server.run("LRANGE", self.keys.waiting, -8, -1))
        return self.codec.decode(unpack(member, self.likely(nearby)).value)

    def size(self) -> int:
        """Return how many values wait."""
        return whole(self.server.run("LLEN", self.keys.waiting))

    def __len__(self) -> int:
        return self.size()

    def __bool__(self) -> bool:
        return True

    def read_all(self) -> list[object]:
        """Return all waiting values in the order of their offers. Raises ValueUnreadable, MemberUnreadable."""
        return [self.codec.decode(value) for value in self.read_all_bytes()]

    def read_all_bytes(self) -> Iterator[bytes]:
        """Yield the waiting values as bytes, in the order in which they were offered. Raises MemberUnreadable."""
        members = cast("list[bytes]", self.server.run("LRANGE", self.keys.waiting, 0, -1))
        likely = self.likely(members)
        for member in members:
            yield unpack(member, likely).value

    def contains(self, value: object) -> bool:
        """Tell whether a value waits; as in Java, its bytes must be equal."""
        if self._read_only:
            return any(True for _ in self._members_of(self.codec.encode(value)))
        return self._by_value("find", value)

    def remove(self, value: object) -> bool:
        """Take the first offered one of this value out; False when none waits."""
        self.may_write()
        return self._by_value("remove", value)

    def remove_all(self, values: Iterable[object]) -> int:
        """Take every one of these values out, however often it waits; how many there were."""
        self.may_write()
        count = 0
        for value in values:
            while self._by_value("remove", value):
                count += 1
        return count

    def clear(self) -> bool:
        """Let nothing wait any more; what is due already stays in the target. Whether there was anything."""
        self.may_write()
        mine = (self.keys.index, self.keys.values)
        return whole(self.server.run("UNLINK", self.keys.waiting, self.keys.timeout, *mine)) > 0

    def poll_first_offered(self) -> object | None:
        """Take the value that was offered first, due or not: Java's RDelayedQueue.poll()."""
        return self._poll("first", ())

    def poll_last_and_offer_first_to(self, other: str) -> object | None:
        """Take the value that was offered last, due or not, and put it in front of the list `other`, as in Java."""
        return self._poll("last", (QueueKeys(other).target,))

    def may_write(self) -> None:
        """Raise NotAllowed in read-only mode."""
        if self._read_only:
            raise NotAllowed(self.name, "this is read-only.")

    def script_keys(self) -> tuple[bytes, ...]:
        """Return the keys in the order in which the scripts name them."""
        keys = self.keys
        return keys.target, keys.timeout, keys.waiting, keys.index, keys.values

    def script(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument] = ()) -> Answer:
        """Run a script on keys of this queue; the last argument tells which packing the queue is said to have."""
        return self.server.script(script, keys, (*arguments, self.packing))

    def likely(self, members: Sequence[bytes], sizes: Sequence[int] | None = None) -> Packing:
        """Decide for a member that fits both packings: as the queue is said to have it, else as these others do."""
        return likely_packing(members, sizes) if self.packing == "auto" else Packing(self.packing)

    def _poll(self, end: str, target: tuple[bytes, ...]) -> object | None:
        self.may_write()
        value = cast("bytes | None", self.script(scripts.POLL, (*self.script_keys(), *target), (end,)))
        return None if value is None else self.codec.decode(value)

    def _by_value(self, action: str, value: object) -> bool:
        encoded = self.codec.encode(value)
        found = self._ask_by_value(action, encoded)
        if found is not None:
            return found
        members = self._members_of(encoded)
        return any(action == "find" or self._ask_by_value(action, encoded, member) for member in members)

    def _ask_by_value(self, action: str, encoded: bytes, member: bytes = b"") -> bool | None:
        """Ask the index of values; return None if it was never whole, in so many calls."""
        arguments = (action, encoded, INDEX_STEP, VALUES_KEPT_S, member)
        for _ in range(PATIENCE_CALLS):
            found, _ = cast("list[int]", self.script(scripts.BY_VALUE, self.script_keys(), arguments))
            if found >= 0:
                return found == 1
        return None

    def _members_of(self, encoded: bytes) -> Iterator[bytes]:
        """Yield members of this value: read in parts, nothing is written, not even an index of ours."""
        first = 0
        while members := cast("list[bytes]", self.server.run("LRANGE", self.keys.waiting, first, first + 999)):
            likely = self.likely(members)
            alike = (member for member in members if member.endswith(encoded) and detect(member))
            yield from (member for member in alike if unpack(member, likely).value == encoded)
            first += len(members)


def due_ms(moment: Moment) -> int:
    """Return a due time in epoch ms, rounded up; raise InvalidDelay for one without a zone, before 1970 or too far
    away."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise InvalidDelay("A datetime needs a time zone; without one it is ambiguous.")
        number = _whole_ms(moment - datetime(1970, 1, 1, tzinfo=UTC))
    else:
        number = _whole_ms(moment)
    if not 0 <= number <= MAX_DUE_MS:
        raise InvalidDelay(f"A due time is between 0 and {MAX_DUE_MS} epoch milliseconds, not {number}.")
    return number


def _due(delay: Delay | None, at: Moment | None) -> tuple[str, int]:
    if (delay is None) == (at is None):
        raise InvalidDelay
    if at is not None:
        return "at", due_ms(at)
    assert delay is not None
    number = _whole_ms(delay)
    if not 0 <= number <= MAX_DUE_MS // 2:
        raise InvalidDelay(f"A delay is between 0 ms and {MAX_DUE_MS // 2} ms, not {number}.")
    return "delay", number


def _whole_ms(span: Delay) -> int:
    """Return whole milliseconds, over no sooner than the span is: nothing is due early. What is below 0 stays so."""
    if isinstance(span, timedelta):
        whole, rest = divmod(span, timedelta(milliseconds=1))
        return whole + (whole >= 0 and bool(rest))
    if isinstance(span, float) and not math.isfinite(span):
        raise InvalidDelay(f"Milliseconds are a number, not {span}.")
    return math.ceil(span) if span >= 0 else math.floor(span)


# Moving what is due, one bounded script at a time.

#: Values that one script moves; with this, the slowest call takes about 5 ms with 100,000 waiting.
BATCH = 96
#: In a longer list than this one pass over it is most of a call, which moves so many then.
LONG, LONG_BATCH = 200_000, 128


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of one transfer script. All `_ms` are by the server's clock."""

    count: int
    still_due: int
    next_due_ms: int | None
    now_ms: int
    again: bool
    list_size: int
    poison: int
    size_bytes: int
    first_due_ms: int | None


def batch_for(waiting: int) -> int:
    """Return how many values one script moves out of a list of this length."""
    return LONG_BATCH if waiting > LONG else BATCH


def move_due(queue: DelayedQueue, limit: int, *, skip_poison: int = 0, scan: bool = False) -> Moved:
    """Move at most `limit` due values to the target; `again` says that more can be done at once.

    `skip_poison` of the first due members are known to be poison and stay; `scan` moves the first one even while the
    index is being built, by a scan of the whole list.
    """
    arguments = (limit, INDEX_STEP, int(scan), skip_poison)
    answer = cast("list[int | bytes]", queue.script(scripts.TRANSFER, queue.script_keys(), arguments))
    return read_moved([whole(part) for part in answer])


def read_moved(numbers: Sequence[int]) -> Moved:
    """Read the answer of a moving script, whose numbers stand in this order."""
    count, due, following, now, again, size, poison, size_bytes, first = numbers
    return Moved(count, due, _moment(following), now, again == 1, size, poison, size_bytes, _moment(first))


def tend_index(queue: DelayedQueue) -> bool:
    """Bring the index of places one step nearer to the list; True when there is nothing more to do.

    It is left alone while members come due in the order of offers: then a transfer finds them without it.
    """
    return queue.script(scripts.TEND, queue.script_keys(), (INDEX_STEP,)) == 1


def move_all_due(queue: DelayedQueue, limit: int = 200) -> int:
    """Move everything that is due now; how many. For scripts and tests: a service has its own loop."""
    total = poison = 0
    while True:
        moved = move_due(queue, limit, skip_poison=poison)
        total += moved.count
        poison += moved.poison
        if not moved.again:
            return total


def _moment(score: int) -> int | None:
    return score if score >= 0 else None
