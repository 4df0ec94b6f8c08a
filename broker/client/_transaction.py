"""The parts of a transaction: a half, a decision, the fields in which RocketMQ carries them, and answers to checks.

A half is a message that the broker has but shows to nobody. Its producer's group decides: commit shows it, rollback
drops it. Where no decision comes, the broker asks a live producer of the group over its connection what became of the
half (request 39, a check); `Checks` answers by request 37. Checks wait in a bounded queue; what does not fit is dropped
and logged: the broker asks again.

`plain_sends` keeps a plain send out of a block whose messages a transaction decides: it would go out whatever becomes
of that. Each thread has its own state: a synchronous producer is called in the thread that entered the block.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from ..rocketmq.codes import Request
from ..rocketmq.errors import CorruptRecord
from ..rocketmq.frame import Command
from ..rocketmq.message import decode_as
from ..rocketmq.properties import ON_CONFLICT, PRODUCER_GROUP, SCHEDULE_KEY, TIMER_ACT, TRANSACTION_PREPARED
from . import names
from ._outgoing import Outgoing, value_in
from ._session import Session
from ._types import Message
from .errors import ClientError, InvalidArgument, PlainSendRefused

logger = logging.getLogger(__name__)

#: Refusal of a decision that contradicts the one already taken, or comes too late (ResponseCode.ILLEGAL_OPERATION).
ILLEGAL_OPERATION = 604


class Decision(IntEnum):
    """The fate of a half; the numbers are MessageSysFlag's of 5.5.0."""

    UNKNOWN = 0
    """Not known yet: the broker asks again later."""
    COMMIT = 8
    """Show the message to consumers."""
    ROLLBACK = 12
    """Drop it."""


@dataclass(frozen=True, slots=True)
class Half:
    """A half that the broker has. `queue_offset` and `position` are those in RMQ_SYS_TRANS_HALF_TOPIC.

    `lane`: the same for halves that are to be shown in the order in which they were sent; "" for any order.
    """

    transaction_id: str
    topic: str
    group: str
    broker: str
    address: str
    queue_offset: int
    position: int
    lane: str = ""

    def ending(self, decision: Decision) -> dict[str, str]:
        """Return the fields of request 37 that decides it (EndTransactionRequestHeader)."""
        return _ending(
            self.group, self.topic, self.broker, self.transaction_id, self.queue_offset, self.position, decision, False
        )


@dataclass(frozen=True, slots=True)
class Check:
    """A broker's question what became of a half: `message` as it was sent, and where to answer."""

    message: Message
    group: str
    address: str
    fields: Mapping[str, str]

    @property
    def transaction_id(self) -> str:
        """The half's transaction id, which is its message id."""
        return self.message.unique_key or self.fields.get("transactionId", "")

    def ending(self, decision: Decision) -> dict[str, str]:
        """Return the fields of request 37 that answers: places as the broker asked, for it may have moved the half."""
        fields = self.fields
        offset, position = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
        topic, broker = fields.get("topic", ""), fields.get("bname", "")
        return _ending(self.group, topic, broker, self.transaction_id, offset, position, decision, True)


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The result of send_in_transaction: the half, what the listener said, and whether the broker confirmed it."""

    half: Half
    decision: Decision
    is_confirmed: bool


class TransactionListener(Protocol):
    """The two questions of RocketMQ's TransactionListener; both may also be coroutine functions."""

    def execute(self, half: Half, argument: Any) -> Decision | Coroutine[Any, Any, Decision]:
        """The broker has the half: do the local work, and say what becomes of the message."""

    def check(self, message: Message) -> Decision | Coroutine[Any, Any, Decision]:
        """The broker asks what became of the half that `message` was."""


Checker = Callable[[Message], Decision | Coroutine[Any, Any, Decision]]
"""Answers checks; called in a thread, or awaited if it is a coroutine function."""


def as_half(message: Outgoing, group: str, marks: Mapping[str, str] | None = None) -> Outgoing:
    """Return the message as a half of `group`; `marks` are properties of ours (``ESC_``). Raises InvalidArgument."""
    _check_conflict(message)
    properties = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group, **(marks or {})}
    stored = message.properties + "".join(f"{name}\x01{text}\x02" for name, text in properties.items())
    if len(stored.encode()) > names.MAX_PROPERTIES_BYTES:
        raise InvalidArgument(
            f"Tag, keys and properties take more than {names.MAX_PROPERTIES_BYTES:,} bytes; move data to the body.",
            field="properties",
        )
    return msgspec.structs.replace(message, properties=stored, group=group)


def _check_conflict(message: Outgoing) -> None:
    """Refuse other conflict rules than "replace": the half becomes a timer at its commit, too late for errors."""
    if value_in(message.properties, SCHEDULE_KEY) is None or value_in(message.properties, TIMER_ACT) is not None:
        return
    conflict = value_in(message.properties, ON_CONFLICT) or "error"
    if conflict != "replace":
        raise InvalidArgument(
            f"on_conflict={conflict!r} is not possible in a transaction: whether the schedule key is in use shows "
            "only after the commit, when nothing can be undone. Give on_conflict='replace', or use send_later() or a "
            "send after the commit, which the broker can still refuse.",
            field="on_conflict",
        )


def _ending(
    group: str, topic: str, broker: str, transaction_id: str, queue_offset: int, position: int, decision: Decision,
    from_check: bool,
) -> dict[str, str]:  # fmt: skip
    return {
        "producerGroup": group,
        "bname": broker,
        "topic": topic,
        "msgId": transaction_id,
        "transactionId": transaction_id,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(position),
        "commitOrRollback": str(int(decision)),
        "fromTransactionCheck": "true" if from_check else "false",
    }


# Plain sends inside a transactional block.

_state = threading.local()


@contextmanager
def plain_sends(*, allowed: bool) -> Iterator[None]:
    """Refuse or allow plain sends of this thread inside the block."""
    before = getattr(_state, "refused", False)
    _state.refused = not allowed
    try:
        yield
    finally:
        _state.refused = before


def check_plain_send() -> None:
    """Raise PlainSendRefused where plain sends are refused."""
    if getattr(_state, "refused", False):
        raise PlainSendRefused


# Answering checks.

#: The official client's checkRequestHoldMax.
MAX_WAITING = 2000
WORKERS = 2

Confirmed = Callable[[Message, Decision], object]
"""Told, in a thread, when a broker has taken the answer to a check."""


class Checks:
    """The checks of one producer group; belongs to one event loop."""

    def __init__(
        self, session: Session, group: str, checker: Checker, confirmed: Confirmed | None = None,
        workers: int = WORKERS, answered: Callable[[Check, Decision], None] | None = None,
    ) -> None:  # fmt: skip
        """`answered`: called in the loop when an answer is out, before `confirmed` is."""
        self._session = session
        self._group = group
        self._checker = checker
        self._confirmed = confirmed
        self._told = answered
        self._count = workers
        self._waiting: asyncio.Queue[Check] = asyncio.Queue(MAX_WAITING)
        self._workers: list[asyncio.Task[None]] = []
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def take(self, address: str, request: Command) -> None:
        """Queue a broker's request 39 for an answer; it is one-way, so nothing is answered here."""
        check = self._read(address, request)
        if check is None or self._closed:
            return
        try:
            self._waiting.put_nowait(check)
        except asyncio.QueueFull:
            logger.warning("check of %s dropped: %d are waiting already", check.transaction_id, MAX_WAITING)
            return
        if not self._workers:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix=f"check-{self._group}")
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._answer_all()) for _ in range(self._count)]

    def _read(self, address: str, request: Command) -> Check | None:
        try:
            # not verified: the broker put the real topic into the record, its checksum is of the half topic
            message = decode_as(Message, request.body, verify=False)
            check = Check(message, self._group, address, request.ext)
            check.ending(Decision.UNKNOWN)
        except (CorruptRecord, KeyError, ValueError) as error:
            logger.error("a check from %s cannot be read: %r", address, error)
            return None
        group = message.properties.get(PRODUCER_GROUP, self._group)
        if group != self._group:
            logger.error("a check from %s is for group %s, this is %s", address, group, self._group)
            return None
        return check

    async def _answer_all(self) -> None:
        while True:
            check = await self._waiting.get()
            decision = await self._decide(check)
            try:
                await self._answer(check, decision)
            except ClientError as error:
                # a refusal is the word on a half that was decided meanwhile; any other loss is asked for again
                logger.info("answer %s to the check of %s: %s", decision.name, check.transaction_id, error)
            except Exception:  # what is told of an answer may raise anything; the next check is answered all the same
                logger.exception("after the check of %s", check.transaction_id)

    async def _decide(self, check: Check) -> Decision:
        try:
            if inspect.iscoroutinefunction(self._checker):
                decision = await self._checker(check.message)
            else:
                loop = asyncio.get_running_loop()
                decision = await loop.run_in_executor(self._threads, self._checker, check.message)
            return Decision(decision)
        except Exception:  # a checker may raise anything: then nothing is known
            logger.exception("check of %s failed, answered unknown", check.transaction_id)
            return Decision.UNKNOWN

    async def _answer(self, check: Check, decision: Decision) -> None:
        ext = check.ending(decision)
        if decision is Decision.UNKNOWN:
            await self._session.tell(check.address, Request.END_TRANSACTION, ext)  # brokers answer nothing to it
        else:
            await self._session.ask(check.address, Request.END_TRANSACTION, ext)
        if self._told is not None:
            self._told(check, decision)
        if decision is not Decision.UNKNOWN and self._confirmed is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, self._confirmed, check.message, decision)

    async def close(self) -> None:
        """Answer nothing any more."""
        self._closed = True
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
