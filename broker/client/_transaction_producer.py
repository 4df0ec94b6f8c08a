"""The asynchronous transaction producer: halves, their decisions, answers to checks. It belongs to one event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, Unpack, cast

from ..rocketmq.codes import Answer, Request
from ..rocketmq.frame import Command
from ..rocketmq.message import parse_offset_message_id
from ..rocketmq.properties import TIMER_ACT, is_delayed
from ._answers import read_object
from ._event_loop import unhurried
from ._outgoing import Body, MessageOptions, Outgoing, ready_message, value_in
from ._pipeline import SEND, Destination, Outcome, Pipeline, pipeline_with_room, result_of, told_of_key
from ._producer import RETRY_PAUSE_S, AsyncProducer
from ._session import Deadline
from ._transaction import (
    WORKERS,
    Checker,
    Checks,
    Confirmed,
    Decision,
    Half,
    TransactionListener,
    TransactionResult,
    as_half,
)
from ._types import SendResult
from .credentials import Access
from .errors import (
    BadAnswer,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    HalfNotSafe,
    InvalidArgument,
    NotSupported,
    Timeout,
)

logger = logging.getLogger(__name__)

#: How often the name server is asked for brokers that have come: each must know this producer to ask it.
LOOK_S = 30.0
LOOK_SOON_S = 2.0
NO_ACTS = (
    "This broker cannot cancel or move a timer with the commit of a half: Apache RocketMQ knows no schedule keys. Have "
    "the topic at a broker of Escapement, or let the consumer ask the database whether the timer still counts."
)


class AsyncTransactionProducer(AsyncProducer):
    """Sends messages that consumers see only if a local transaction succeeded.

    >>> class Payments(TransactionListener):
    ...     def execute(self, half, order):
    ...         order.pay(half.transaction_id)
    ...         return Decision.COMMIT
    ...
    ...     def check(self, message):
    ...         return Decision.COMMIT if is_paid(message.message_id) else Decision.ROLLBACK
    >>> async with AsyncTransactionProducer("payments", listener=Payments()) as producer:
    ...     await producer.send_in_transaction("paid", b"4711", argument=order)

    It sends halves and decides them, and answers brokers that ask, from `start` (or the first half) on. Who answers is
    `check`, or a `listener` that also does the local work of `send_in_transaction`. A producer group must be able to
    answer for every half that any of its producers has sent: a broker may ask another one. `confirmed` is told of each
    answer that a broker has taken; `check_workers` checks are answered at a time.

    It is a producer too: `send` and its kin act immediately, in no transaction. Every method raises ClientError and its
    kin; InvalidArgument before anything is sent.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, check: Checker | None = None,
        listener: TransactionListener | None = None, confirmed: Confirmed | None = None, retries: int = 2,
        check_workers: int = WORKERS, trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        if (check is None) == (listener is None):
            raise InvalidArgument("Give either check or listener: who answers when the broker asks?", field="check")
        super().__init__(group, namesrv, retries=retries, trace=trace, **access)
        self._listener = listener
        checker = listener.check if listener is not None else cast(Checker, check)
        self._checks = Checks(self._session, group, checker, confirmed, check_workers, self._watch.answered)
        self._session.register(Request.CHECK_TRANSACTION_STATE, self._asked)
        self._session.on_lost(lambda address: self._heartbeat.nudge())
        self._looking: asyncio.Task[None] | None = None
        #: addresses of brokers that take delayed halves, and such as act on timers
        self._delaying: set[str] = set()
        self._acting: set[str] = set()
        self._closing = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def start(self) -> None:
        """Tell every broker of the name server that this producer is there, so that it is asked; idempotent.

        Raises ClientClosed after `close`, UsedAfterFork.
        """
        if self._closing:
            raise ClientClosed
        self._session.check_open()
        if self._looking is None:
            with suppress(ClientError):  # a broker that is not there yet is looked for again
                await self._look_once()
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        pause_s = LOOK_SOON_S
        # asked each time: a cancellation may arrive where it only ends what is waited for
        while not self._closing:
            await asyncio.sleep(pause_s)
            try:
                await self._look_once()
                pause_s = LOOK_S
            except ClientClosed:
                return
            except ClientError as error:
                logger.info("group %s finds no broker: %s", self.group, error)
                pause_s = LOOK_SOON_S

    async def _look_once(self) -> None:
        self._heartbeat.reach(broker.address for broker in await self._session.masters())

    def _asked(self, address: str, request: Command) -> None:
        self._checks.take(address, request)

    async def send_half(
        self, topic: str, message: Outgoing, *, marks: Mapping[str, str] | None = None, queue_id: int | None = None,
        broker: str | None = None, timeout_ms: int = 3000,
    ) -> Half:  # fmt: skip
        """Send a half (see `prepare`); raises ClientError, and then nothing may be shown to consumers.

        It is tried again only while it was certainly not stored: a second half would be a second message.
        """
        half = as_half(message.to(broker), self.group, marks)
        deadline = Deadline(timeout_ms)
        if self._looking is None:
            await deadline.of(self.start(), f"brokers from {' or '.join(self._session.namesrv)}")
        return await self._watch.around(
            topic, [half], lambda ready: self._send_half(topic, ready[0], queue_id, deadline)
        )

    async def _send_half(self, topic: str, half: Outgoing, queue_id: int | None, deadline: Deadline) -> Half:
        destination, pipeline = await self._pipeline_to(topic, half, queue_id, deadline)
        if value_in(half.properties, TIMER_ACT) is not None:
            checked = self._check_acts(destination.address)
            await deadline.of(checked, f"an answer of {destination.address} whether its halves act on timers")
        elif is_delayed(half.properties):
            checked = self._check_delays(destination.address)
            await deadline.of(checked, f"an answer of {destination.address} whether it takes delays")
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def answered(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        fields = destination.fields(time.time_ns() // 1_000_000, half.properties, half=True)
        pipeline.ask(SEND, fields, half.body, deadline.left_ms, answered)
        result = result_of(destination, half, await answer)
        if isinstance(result, ClientError):
            self._forget(topic)
            raise result
        is_ordered = not (queue_id is None and half.queue_id is None and half.sharding_key is None)
        sent = self._half(destination, result, f"{topic} {destination.queue.queue_id}" if is_ordered else "")
        if result.status != "SEND_OK":  # as the official client: what is less safe than asked for is not executed
            with suppress(ClientError):
                await self.end(sent, Decision.ROLLBACK, timeout_ms=deadline.left_ms)
            raise HalfNotSafe(result.status)
        return sent

    async def _pipeline_to(
        self, topic: str, half: Outgoing, queue_id: int | None, deadline: Deadline
    ) -> tuple[Destination, Pipeline]:
        """Return an open connection to where the half goes; only this part is tried again."""
        failed: Destination | None = None
        for attempt in range(self._retries + 1):
            pause_s = RETRY_PAUSE_S * 2**attempt
            try:
                failed = destination = await self._way_to(topic, half, queue_id, deadline, avoid=failed)
                return destination, await pipeline_with_room(self._pipelines, destination.address, deadline)
            except BrokerUnreachable as error:
                if attempt == self._retries or self._closed or pause_s >= deadline.left_s:
                    raise (error if failed is None else told_of_key(error, failed, half)) from error.__cause__
            self._forget(topic)
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _check_delays(self, address: str) -> None:
        """Raise NotSupported where a broker would park the half itself instead of what it becomes (RocketMQ 5.5.0)."""
        if address not in self._delaying:
            try:
                await self._session.ask(address, Request.GET_SCHEDULE_STATUS)
            except NotSupported:
                raise NotSupported(
                    Answer.REQUEST_CODE_NOT_SUPPORTED,
                    "Apache RocketMQ loses a half that carries a delay. Send it without one, or send the delayed "
                    "message in no transaction.",
                ) from None
            self._delaying.add(address)

    async def _check_acts(self, address: str) -> None:
        """Raise NotSupported where the commit of such a half would show it as a message."""
        if address not in self._acting:
            acts: object = None
            with suppress(NotSupported):
                answer = await self._session.ask(address, Request.GET_SCHEDULE_STATUS)
                acts = read_object(answer.body).get("halfActs")
            if not acts:
                raise NotSupported(Answer.REQUEST_CODE_NOT_SUPPORTED, NO_ACTS)
            self._acting.add(address)

    def _half(self, destination: Destination, sent: SendResult, lane: str) -> Half:
        try:
            position = parse_offset_message_id(sent.offset_message_id)[2]
        except ValueError:
            raise BadAnswer(f"The half's id {sent.offset_message_id[:60]!r} cannot be read.") from None
        return Half(
            sent.message_id,
            sent.topic,
            self.group,
            sent.broker,
            destination.address,
            sent.queue_offset,
            position,
            lane,
        )

    async def commit(self, half: Half, *, timeout_ms: int = 3000) -> None:
        """Show the message to consumers; raises ClientError if the broker did not confirm it, which will then ask."""
        await self.end(half, Decision.COMMIT, timeout_ms=timeout_ms)

    async def rollback(self, half: Half, *, timeout_ms: int = 3000) -> None:
        """Drop the message; raises ClientError if the broker did not confirm it, which will then ask."""
        await self.end(half, Decision.ROLLBACK, timeout_ms=timeout_ms)

    async def end(self, half: Half, decision: Decision, *, timeout_ms: int = 3000) -> None:
        """Decide a half and wait for the broker's word; raises ClientError if it did not take the decision.

        A decision that is lost is no harm: the broker asks. UNKNOWN is told but not answered.
        """
        way = self._session.tell if decision is Decision.UNKNOWN else self._session.ask
        await way(half.address, Request.END_TRANSACTION, half.ending(decision), timeout_ms=timeout_ms)
        self._watch.ended(half, decision)

    async def end_all(
        self, halves: Sequence[Half], decision: Decision, *, timeout_ms: int = 3000
    ) -> list[ClientError | None]:
        """Decide many in one call; None for each that its broker has taken, else why not.

        Those of one lane one after the other: a broker may work at several decisions at a time.
        """
        deadline = Deadline(timeout_ms)
        lanes: dict[tuple[str, str] | int, list[int]] = {}
        for nth, half in enumerate(halves):
            lanes.setdefault((half.address, half.lane) if half.lane else nth, []).append(nth)
        ended = (self._end_lane([halves[nth] for nth in lane], decision, deadline) for lane in lanes.values())
        outcomes: list[ClientError | None] = [None] * len(halves)
        for lane, results in zip(lanes.values(), await asyncio.gather(*ended), strict=True):
            for nth, result in zip(lane, results, strict=True):
                outcomes[nth] = result
        return outcomes

    async def _end_lane(
        self, halves: Sequence[Half], decision: Decision, deadline: Deadline
    ) -> list[ClientError | None]:
        """Decide one after the other; those behind one that may not have been decided are left to checks as it is."""
        outcomes: list[ClientError | None] = []
        lost: ClientError | None = None
        for half in halves:
            if lost is None and outcomes and deadline.left_s <= 0:
                lost = Timeout(half.address, deadline.timeout_ms)
            if lost is None:
                try:
                    await self.end(half, decision, timeout_ms=deadline.left_ms)
                    outcomes.append(None)
                    continue
                except (BrokerUnreachable, Timeout) as error:
                    lost = error
                except ClientError as error:
                    outcomes.append(error)
                    continue
            outcomes.append(lost)
        return outcomes

    @unhurried
    async def send_in_transaction(
        self,
        topic: str,
        body: Outgoing | Body,
        argument: Any = None,
        *,
        timeout_ms: int = 3000,
        **options: Unpack[MessageOptions],
    ) -> TransactionResult:
        """Send a half, have the listener's `execute` do the local work, and decide by what it returns.

        Raises what `execute` raises: then nothing is decided, and the broker asks the listener's `check`. `timeout_ms`
        is for half and decision together. The local work takes nothing of it: that may have committed what the caller
        would then believe failed. `body`: also a message that `prepare` made, for which `queue_id` and `broker` may be
        given here.
        """
        if self._listener is None:
            raise InvalidArgument(
                "send_in_transaction needs a listener; this producer has only a check.", field="listener"
            )
        message = ready_message(body, options)
        deadline = Deadline(timeout_ms)
        half = await self.send_half(topic, message, timeout_ms=timeout_ms)
        left_ms = deadline.left_ms
        if inspect.iscoroutinefunction(self._listener.execute):
            said = await self._listener.execute(half, argument)
        else:
            said = await asyncio.to_thread(cast(Any, self._listener.execute), half, argument)
        decision = Decision(said)
        try:
            await self.end(half, decision, timeout_ms=left_ms)
        except ClientError as error:
            logger.warning("%s of %s did not reach the broker, which will ask: %s", decision.name, half, error)
            return TransactionResult(half, decision, is_confirmed=False)
        return TransactionResult(half, decision, is_confirmed=decision is not Decision.UNKNOWN)

    async def close(self) -> None:
        """Sign off at the brokers and end all connections; idempotent."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._checks.close()
        await super().close()
