"""Reading one queue for a group: long-polling pulls in, finished offsets out.

A message is in flight from the pull until its handler is done (or it was sent back); what may be committed is the
lowest offset in flight, so a crash repeats messages but loses none.

The body of a pull is commit-log records one after another. Each message gets the body that its sender had: official
clients compress large ones, by ZLIB unless they are told otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import CorruptRecord
from ..rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED
from ..rocketmq.message import decode_as
from ..rocketmq.properties import RETRY_TOPIC
from ..rocketmq.topics import RETRY_PREFIX
from ._offsets import QueueOffsets, StartOffsets
from ._running_info import Pulling, QueueWork
from ._session import Session
from ._types import ALL, TAG, Message, MessageQueue, Subscription
from .errors import BadAnswer, ClientClosed, ClientError
from .remoting import Response

logger = logging.getLogger(__name__)

PULL_COUNT = 32
PULL_BYTES = 256 * 1024
#: How long the broker holds a pull that finds nothing (the official client's brokerSuspendMaxTimeMillis).
SUSPEND_MS = 15_000
PULL_TIMEOUT_MS = 30_000
#: Limits of what one queue may have in memory (pullThresholdForQueue and pullThresholdSizeForQueue).
IN_FLIGHT_COUNT = 1000
IN_FLIGHT_BYTES = 64 * 1024 * 1024
PAUSE_AFTER_ERROR_S = 0.5
LONGEST_PAUSE_S = 3.0
#: PullSysFlag: suspend when nothing is there; the request carries its subscription.
_WITH_SUBSCRIPTION: Final = 4
_SUSPEND_WITH_SUBSCRIPTION: Final = 2 | _WITH_SUBSCRIPTION
_PULL_ANSWERS = (Answer.SUCCESS, Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED)

Deliver = Callable[["QueueReader", Message], None]


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Limits of what one queue may have in memory; bytes are exceeded by one pull at most."""

    messages: int = IN_FLIGHT_COUNT
    size_bytes: int = IN_FLIGHT_BYTES


class QueueReader:
    """The reader of one queue for one group; it calls `deliver` with each message that is wanted."""

    def __init__(
        self, session: Session, group: str, queue: MessageQueue, wanted: Subscription, deliver: Deliver,
        start_offsets: StartOffsets, ahead: ReadAhead = ReadAhead(),
    ) -> None:  # fmt: skip
        """`start_offsets`: those of the group."""
        self.queue = queue
        self.wanted = wanted
        self.offsets = QueueOffsets(session, group, queue)
        self._session = session
        self._group = group
        self._deliver = deliver
        self._start_offsets = start_offsets
        self._ahead = ahead
        #: the process to pull from, as the last answer suggested
        self._suggested = 0
        self._next_offset = -1
        self._committed = -1
        self._pulling = Pulling()
        self._in_flight: dict[int, int] = {}
        self._in_flight_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._paused = False
        self.dropped = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to pull, from where the group stands."""
        self._task = asyncio.get_running_loop().create_task(self._read())

    def seek(self, offset: int) -> None:
        """Go on at `offset`, or from where the group stands if it is negative; forgets all that was read ahead."""
        if self._task is not None:
            self._task.cancel()
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._next_offset = offset
        self._make_room()
        self._task = asyncio.get_running_loop().create_task(self._read())

    def pause(self) -> None:
        """Pull no more until `resume`; a pull that is on its way still delivers."""
        self._paused = True
        self._room.clear()

    def resume(self) -> None:
        """Go on to pull after a pause."""
        self._paused = False
        self._make_room()

    def _make_room(self) -> None:
        full = len(self._in_flight) >= self._ahead.messages or self._in_flight_bytes >= self._ahead.size_bytes
        if full or self._paused:
            self._room.clear()
        else:
            self._room.set()

    async def stop(self) -> None:
        """Pull no more; messages whose handler has not begun are to be left alone (`dropped`)."""
        self.dropped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def done(self, message: Message) -> None:
        """Note that the message with this offset is finished."""
        size = self._in_flight.pop(message.queue_offset, None)
        if size is not None:
            self._in_flight_bytes -= size
            self._pulling.done()
            if not self._room.is_set():
                self._make_room()

    def held(self, locked_ms: int | None = None) -> QueueWork:
        """Return the state of the queue at this moment."""
        return QueueWork(
            self.queue, self.finished_offset, dict(self._in_flight), self._pulling, self.dropped, locked_ms
        )

    @property
    def finished_offset(self) -> int:
        """Everything below is done; -1 while nothing is known."""
        return min(self._in_flight) if self._in_flight else self._next_offset

    async def commit(self, *, confirmed: bool = False) -> None:
        """Tell the broker how far the group is, if that changed; `confirmed` waits for its answer."""
        await self.commit_at(self.finished_offset, confirmed=confirmed)

    async def commit_at(self, offset: int, *, confirmed: bool) -> None:
        """Commit an offset that the caller keeps; a negative one is none yet."""
        if offset < 0:
            return
        if self._committed < 0:  # sought before it was known where the group stands
            self._committed = await self.offsets.committed() or 0
        if offset == self._committed:
            return
        await self.offsets.commit(offset, confirmed=confirmed)
        self._committed = offset

    async def find_start(self) -> None:
        """Find out where the group stands, unless that is known."""
        if self._next_offset < 0:
            start = await self.offsets.committed()
            if start is None:
                await self._start_offsets.settle(self.queue.topic)
                start = await self.offsets.committed()
            if self._next_offset < 0:
                self._next_offset = self._committed = start or 0

    async def _read(self) -> None:
        failures = 0
        while not self.dropped:
            try:
                await self.find_start()
                await self._room.wait()
                await self._pull_once()
                failures = 0
                self._session.works(self.queue.topic)
            except ClientClosed:
                return
            except ClientError as error:
                self._session.failed(self.queue.topic, error, f"reading topic {self.queue.topic}")
                failures += 1
                self._session.forget_route(self.queue.topic)
                await asyncio.sleep(min(PAUSE_AFTER_ERROR_S * failures, LONGEST_PAUSE_S))

    async def _pull_once(self) -> None:
        broker_id, address = await self.offsets.readable_at(self._suggested)
        # a slave that is not to be read answers PULL_RETRY_IMMEDIATELY to what it found, as others to a pull of which
        # nothing matches: so tags are looked at here, and with a filter it is asked whether it gives anything at all
        is_by_tag = self.wanted.kind == TAG
        ext = self.offsets.about() | {
            "queueOffset": str(self._next_offset),
            "maxMsgNums": str(max(1, min(PULL_COUNT, self._ahead.messages - len(self._in_flight)))),
            "maxMsgBytes": str(PULL_BYTES),
            "sysFlag": str(_SUSPEND_WITH_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(SUSPEND_MS),
            "subscription": ALL if broker_id and is_by_tag else self.wanted.expression,
            "subVersion": str(self.wanted.version),
            "expressionType": self.wanted.kind,
        }
        began_s = time.monotonic()
        answer = await self._session.ask(
            address, Request.PULL_MESSAGE, ext, timeout_ms=PULL_TIMEOUT_MS, accept=_PULL_ANSWERS
        )
        if self.dropped:
            return
        taken = self._take(answer) if answer.code == Answer.SUCCESS else 0
        self._pulling.pulled((time.monotonic() - began_s) * 1000, taken)
        suggested = answer.ext.get("suggestWhichBrokerId", "")
        self._suggested = int(suggested) if suggested.isdecimal() else 0
        moves = not broker_id or answer.code == Answer.SUCCESS
        if not moves and not is_by_tag and answer.code == Answer.PULL_RETRY_IMMEDIATELY:
            moves = await self._is_given(address, ext)
        if moves:
            self._next_offset = int(answer.ext["nextBeginOffset"])
        elif answer.code != Answer.PULL_NOT_FOUND:
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)

    async def _is_given(self, address: str, pull: dict[str, str]) -> bool:
        """Tell whether a slave gives what is there, so that nothing matched where it gave nothing for a filter."""
        ext = pull | {
            "maxMsgNums": "1",
            "sysFlag": str(_WITH_SUBSCRIPTION),
            "suspendTimeoutMillis": "0",
            "subscription": ALL,
            "expressionType": TAG,
        }
        answer = await self._session.ask(address, Request.PULL_MESSAGE, ext, accept=_PULL_ANSWERS)
        return answer.code == Answer.SUCCESS

    def _take(self, answer: Response) -> int:
        """Deliver what was pulled; how many messages are wanted of it."""
        taken = 0
        for record in split_records(answer.body):
            try:
                message = read_delivery(record)
            except BadAnswer as error:
                # the broker's own check let it pass: damaged on the way or by the broker; it must not stop the queue
                logger.error("a record of %s is damaged and skipped: %s", self.queue, error)
                continue
            if not self.wanted.wants(message.tags):
                continue
            self._in_flight[message.queue_offset] = message.size
            self._in_flight_bytes += message.size
            self._deliver(self, message)
            taken += 1
        self._make_room()
        return taken

    async def send_back(self, message: Message, max_times: int) -> None:
        """Have the broker deliver the message again later, or park it as a dead letter after `max_times`."""
        ext = {
            "offset": str(message.position),
            "group": self._group,
            "delayLevel": "0",
            "originMsgId": message.unique_key or "",
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(max_times),
            "bname": self.queue.broker,
        }
        await self._session.ask(await self.offsets.address(), Request.CONSUMER_SEND_MSG_BACK, ext)


def as_delivered(message: Message) -> Message:
    """Return the message as its handler is to see it: one that comes again carries the topic it was sent to."""
    original = message.properties.get(RETRY_TOPIC)
    if original is None or not message.topic.startswith(RETRY_PREFIX):
        return message
    return replace(message, topic=original)


# Cutting the body of a pull into messages.

_MIN_RECORD_BYTES = 91


def split_records(body: bytes) -> Iterator[bytes]:
    """Split an answer into its records, each of which begins with its size, 4 bytes; raises BadAnswer."""
    position = 0
    while position < len(body):
        size = int.from_bytes(body[position : position + 4], "big")
        if size < _MIN_RECORD_BYTES or position + size > len(body):
            raise BadAnswer(f"A record of {size} bytes does not fit the answer of {len(body)} bytes.")
        yield body[position : position + size]
        position += size


def read_record(record: bytes) -> Message:
    """Decode one record, its body as it is stored; raises BadAnswer where it is damaged."""
    try:
        return decode_as(Message, record)
    except CorruptRecord as error:
        raise BadAnswer(f"The broker answered with a damaged record: {error}") from error


def read_delivery(record: bytes) -> Message:
    """Read a record, with the body as its sender had it; raises BadAnswer."""
    message = read_record(record)
    body, sys_flag = inflated(message.body, message.sys_flag)
    return message if body is message.body else replace(message, body=body, sys_flag=sys_flag)


MOST_INFLATED_BYTES = 64 * 1024 * 1024
"""A body that would be larger is left as it is stored: 4 MiB on the wire may hold a thousand times that."""

#: Compression types (RocketMQ, CompressionType): 1 LZ4, 2 ZSTD, 3 ZLIB; 0 is the ZLIB of clients before 5.0.
_ZLIB_TYPES = frozenset({0, 3})


def inflated(body: bytes, sys_flag: int) -> tuple[bytes, int]:
    """Return the body and the sysFlag as they were before compression; both unchanged where they cannot be had."""
    if not sys_flag & FLAG_COMPRESSED or sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK not in _ZLIB_TYPES:
        return body, sys_flag
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, MOST_INFLATED_BYTES)
    except zlib.error:
        return body, sys_flag
    if not stream.eof:
        return body, sys_flag
    return plain, sys_flag & ~(FLAG_COMPRESSED | COMPRESSION_MASK << COMPRESSION_SHIFT)
