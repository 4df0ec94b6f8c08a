"""Sends of many messages, each answered on its own.

Plain messages that go to one queue travel as RocketMQ's batches: client and broker do for each of those a third of what
a request of its own costs. A broker takes a batch whole or not at all. So where it refuses one, and not for a reason
that holds for all it is sent, the messages are sent once more, each by itself, and only those that are not valid
themselves are refused. But for that case, messages to one queue are stored in the order given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from ..rocketmq.codes import Answer, Request
from ..rocketmq.frame import encode_fields
from ._outgoing import Outgoing, batch_header, batch_results, packed
from ._pipeline import (
    SEND,
    STORED,
    Destination,
    Outcome,
    Pipeline,
    Pipelines,
    Stored,
    pipeline_with_room,
    result_of,
    told_of_key,
)
from ._session import Deadline, refusal
from ._types import SendResult
from .errors import BadAnswer, ClientError

_BATCH = int(Request.SEND_BATCH_MESSAGE)
#: What keeps a broker from all messages of a topic: none of a batch that is refused so need be sent again by itself.
_OF_ALL = frozenset({Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.NO_PERMISSION, Answer.TOPIC_NOT_EXIST})
#: A batch is closed at so many bytes of bodies and properties: brokers limit the whole of it as they limit one message.
MOST_BATCH_BYTES = 256 << 10


class Each:
    """Messages that leave in one write to each broker, and what becomes of each.

    `ways`: where each goes; one without a way has its error already. `group`: the producer's.
    """

    def __init__(
        self, pipelines: Pipelines, group: str, ways: Sequence[Destination | ClientError], messages: Sequence[Outgoing]
    ) -> None:
        self._pipelines = pipelines
        self._group = group
        self._ways = ways
        self._messages = messages
        self._results: list[SendResult | ClientError | None] = [None] * len(messages)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = 0
        self._timeout_ms = 0

    async def sent(self, deadline: Deadline) -> list[SendResult | ClientError]:
        """Send them; return what became of each, in order.

        Raises BrokerUnreachable where no broker can be connected to; one that cannot harms no message for another.
        """
        going: dict[int, tuple[Destination, list[int]]] = {}
        for nth, way in enumerate(self._ways):
            if isinstance(way, Destination):
                going.setdefault(id(way), (way, []))[1].append(nth)
            else:
                self._results[nth] = way
        addresses = {way.address for way, _ in going.values()}
        connected, failed = await _connect(self._pipelines, addresses, deadline)
        if failed and not connected:
            way, (first, *_) = next(iter(going.values()))
            raise told_of_key(failed[way.address], way, self._messages[first])
        for way, numbers in going.values():
            if way.address in connected:
                self._left += len(numbers)
            else:
                for nth in numbers:
                    self._results[nth] = told_of_key(failed[way.address], way, self._messages[nth])
        self._timeout_ms = deadline.left_ms
        for way, numbers in going.values():
            if way.address in connected:
                self._write(connected[way.address], way, numbers)
        for pipeline in connected.values():
            pipeline.flush()  # the broker works on these while what comes next is read here
        if self._left:
            await self._done
        return [result for result in self._results if result is not None]

    def _write(self, pipeline: Pipeline, way: Destination, numbers: Sequence[int]) -> None:
        for together in _batches(self._messages, numbers):
            if len(together) == 1:
                self._write_one(pipeline, way, together[0])
            else:
                self._write_batch(pipeline, way, together)

    def _write_one(self, pipeline: Pipeline, way: Destination, nth: int) -> None:
        message = self._messages[nth]
        fields = way.fields(time.time_ns() // 1_000_000, message.properties)
        pipeline.ask(SEND, fields, message.body, self._timeout_ms, partial(self._one_answered, way, nth))

    def _write_batch(self, pipeline: Pipeline, way: Destination, numbers: Sequence[int]) -> None:
        messages = [self._messages[nth] for nth in numbers]
        header = batch_header(self._group, way.queue, time.time_ns() // 1_000_000, messages[0].message_id)
        answered = partial(self._batch_answered, pipeline, way, numbers, messages)
        pipeline.ask(_BATCH, encode_fields(header), packed(messages), self._timeout_ms, answered)

    def _one_answered(self, way: Destination, nth: int, outcome: Outcome) -> None:
        self._note([nth], [result_of(way, self._messages[nth], outcome)])

    def _batch_answered(
        self,
        pipeline: Pipeline,
        way: Destination,
        numbers: Sequence[int],
        messages: Sequence[Outgoing],
        outcome: Outcome,
    ) -> None:
        results: Sequence[SendResult | ClientError]
        if isinstance(outcome, ClientError):
            results = [outcome] * len(numbers)
        elif isinstance(outcome, Stored):
            results = [BadAnswer(f"The broker answered one id to a batch of {len(numbers)}.")] * len(numbers)
        elif outcome.code in STORED:
            results = _read_batch(way, messages, outcome.ext, STORED[outcome.code])
        elif outcome.code in _OF_ALL:
            results = [refusal(outcome)] * len(numbers)
        else:
            for nth in numbers:
                self._write_one(pipeline, way, nth)
            return
        self._note(numbers, results)

    def _note(self, numbers: Sequence[int], results: Sequence[SendResult | ClientError]) -> None:
        for nth, result in zip(numbers, results, strict=True):
            self._results[nth] = result
        self._left -= len(numbers)
        if not self._left and not self._done.done():
            self._done.set_result(None)


def _read_batch(
    way: Destination, messages: Sequence[Outgoing], ext: Mapping[str, str], status: str
) -> Sequence[SendResult | ClientError]:
    try:
        return batch_results(messages, way.queue, ext, status)
    except BadAnswer as error:
        return [error] * len(messages)


def _batches(messages: Sequence[Outgoing], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Divide what goes to one queue: what travels together, in the order given, and each that goes by itself."""
    together: list[int] = []
    size = 0
    for nth in numbers:
        message = messages[nth]
        if _goes_alone(message):
            if together:
                yield together
                together, size = [], 0
            yield [nth]
            continue
        its_size = len(message.body) + len(message.properties)
        if together and size + its_size > MOST_BATCH_BYTES:
            yield together
            together, size = [], 0
        together.append(nth)
        size += its_size
    if together:
        yield together


def _goes_alone(message: Outgoing) -> bool:
    # DELAY, TIMER_DELIVER_MS and the like; TRAN_MSG; what looks so goes by itself as well
    stored = message.properties
    return message.group is not None or "DEL" in stored or "TRA" in stored or "WAIT\x01false" in stored


async def _connect(
    pipelines: Pipelines, addresses: Collection[str], deadline: Deadline
) -> tuple[dict[str, Pipeline], dict[str, ClientError]]:
    """Open pipelines with room, and why others are not."""
    connected: dict[str, Pipeline] = {}
    failed: dict[str, ClientError] = {}

    async def connect(address: str) -> None:
        try:
            connected[address] = await pipeline_with_room(pipelines, address, deadline)
        except ClientError as error:
            failed[address] = error

    for address in addresses:
        if (pipeline := pipelines.with_room(address)) is not None:
            connected[address] = pipeline
    if len(connected) < len(addresses):
        await asyncio.gather(*(connect(address) for address in addresses if address not in connected))
    return connected, failed
