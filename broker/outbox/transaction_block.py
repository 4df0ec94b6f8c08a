"""`transactional()`: a block of one database transaction whose messages are shown if and only if it commits.

What a send does, in this order; whatever dies after any of these steps, a check finds the truth in the database:

1. the transaction's id is read (PostgreSQL gives it one);
2. the half goes to the broker and carries that id;
3. a row of `escapement_outbox` is written inside the transaction;
4. after the commit, the broker is told to commit; where the block fails, to roll back (`Settlement`).

This process has one transaction producer a group, made at first use, anew in a forked child. Each answers checks too
(`decisions.check`): a broker asks any live member of the group, so every member must know.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator, ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..client import Body, ClientError, Decision, Half, MessageOptions, Outgoing, TransactionProducer, prepare
from ..client import plain_sends as plain_sends_of_thread
from ..client.remoting import forks
from .configuration import (
    AsynchronousBlock,
    BlockEnded,
    NotInTransaction,
    TransactionTooLong,
    WrongThread,
    namesrv,
    transaction_limit_s,
)
from .configuration import producer_group as chosen_group
from .decisions import Origin, check, confirmed, current_origin, decide, row_state
from .models import OutboxHalf
from .timers import BlockTimers

logger = logging.getLogger(__name__)

_of_thread = threading.local()
Function = TypeVar("Function", bound=Callable[..., Any])
Given = ParamSpec("Given")
Result = TypeVar("Result")


class Block:
    """An entered transactional() block: the producer that it gives. Belongs to the thread that entered it."""

    def __init__(self, using: str, group: str, outer: Block | None) -> None:
        self.using = using
        self.group = group
        self._thread = threading.get_ident()
        self._ended = False
        self._began_s = time.monotonic()
        #: what was sent in this block and in those inside it
        self.sent: list[Sent] = []
        self.settlement: Settlement = outer.settlement if outer is not None else Settlement(using)

    def send(
        self,
        topic: str,
        body: Body,
        *,
        timeout_ms: int = 3000,
        **options: Unpack[MessageOptions],
    ) -> Half:
        """Send a message that is shown when the transaction commits, and never if it does not.

        Raises ClientError where the broker does not take it, and OutboxError for a send in the wrong place: let
        either end the block, so that nothing is committed. A delay counts from the commit; a `schedule_key` needs
        `on_conflict="replace"`, for after the commit nobody can be told that it is taken.
        """
        return self.send_prepared(topic, prepare(body, **options), timeout_ms=timeout_ms)

    def send_prepared(self, topic: str, message: Outgoing, *, timeout_ms: int = 3000) -> Half:
        """Send one message that `prepare` or `timer_half` made; otherwise as `send`."""
        connection = self._connection()
        origin = current_origin(connection)
        began_s = time.monotonic()
        producer = producer_of(self.group)
        half = producer.send_half(topic, message, marks=origin.mark(), timeout_ms=timeout_ms)
        sent = Sent(half, origin, producer, began_s)
        self.sent.append(sent)
        self.settlement.sent.append(sent)
        try:
            OutboxHalf.objects.using(self.using).create(
                transaction_id=half.transaction_id, producer_group=self.group, topic=topic
            )
        except Error:
            self.settlement.not_written(sent)
            raise
        transaction.on_commit(lambda: self.settlement.committed(sent), using=self.using, robust=True)
        return half

    @property
    def timers(self) -> BlockTimers:
        """Timers by schedule key that are put, moved and cancelled with the commit."""
        return BlockTimers(lambda: self)

    @property
    def plain_producer(self) -> TransactionProducer:
        """The producer behind the block; raises outside of it: what it sends itself no transaction decides."""
        self._connection()
        return producer_of(self.group)

    def _connection(self) -> BaseDatabaseWrapper:
        if self._ended:
            raise BlockEnded
        if threading.get_ident() != self._thread:
            raise WrongThread
        return connections[self.using]

    def too_long(self) -> TransactionTooLong | None:
        """Return the error to end with where the row could not decide any more."""
        limit_s = transaction_limit_s()
        is_late = time.monotonic() - self._began_s > limit_s
        return TransactionTooLong(self.using, limit_s) if is_late and any(not s.origin.xid for s in self.sent) else None

    def end(self) -> None:
        """Refuse all further sends."""
        self._ended = True


class Transactional(ContextDecorator):
    """`transaction.atomic` of one database, and a producer whose messages share its fate."""

    def __init__(self, using: str, group: str | None, *, savepoint: bool, durable: bool, plain_sends: bool) -> None:
        self._using = using
        self._group = group
        self._savepoint = savepoint
        self._durable = durable
        self._plain_sends = plain_sends
        self._entered: list[tuple[Block, transaction.Atomic, ExitStack]] = []

    def __call__(self, func: Function) -> Function:
        """Return a function whose calls are blocks; raises AsynchronousBlock for a coroutine function."""
        if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
            raise AsynchronousBlock
        return super().__call__(func)

    async def __aenter__(self) -> Block:
        """Refuse `async with`: raises AsynchronousBlock."""
        raise AsynchronousBlock

    async def __aexit__(self, *_: object) -> None:
        raise AsynchronousBlock

    def _recreate_cm(self) -> Transactional:
        """Return one of its own for each call of a decorated function: calls may be at once, in several threads."""
        return Transactional(
            self._using, self._group, savepoint=self._savepoint, durable=self._durable, plain_sends=self._plain_sends
        )

    @classmethod
    def of_default(cls) -> Transactional:
        """Return the block of the default database and group."""
        return cls(DEFAULT_DB_ALIAS, None, savepoint=True, durable=False, plain_sends=False)

    def __enter__(self) -> Block:
        group = chosen_group(self._group)
        blocks = _blocks()
        outer = next((block for block in reversed(blocks) if block.using == self._using), None)
        atomic = transaction.Atomic(self._using, self._savepoint, self._durable)
        atomic.__enter__()
        block = Block(self._using, group, outer)
        guard = ExitStack()
        guard.enter_context(plain_sends_of_thread(allowed=self._plain_sends))
        blocks.append(block)
        self._entered.append((block, atomic, guard))
        return block

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, atomic, guard = self._entered.pop()
        block.end()
        _blocks().remove(block)
        guard.close()
        if error is None and (late := block.too_long()) is not None:
            kind, error, trace = TransactionTooLong, late, late.__traceback__
        try:
            atomic.__exit__(kind, error, trace)
        finally:
            block.settlement.left(block.sent, body_failed=error is not None)
            if (outer := _block(self._using)) is not None:
                outer.sent.extend(block.sent)  # what could not be said yet is said when that one ends
        if isinstance(error, TransactionTooLong):
            raise error


def _blocks() -> list[Block]:
    """Return the open blocks of this thread, outermost first."""
    blocks: list[Block] | None = getattr(_of_thread, "blocks", None)
    if blocks is None:
        blocks = _of_thread.blocks = []
    return blocks


def _block(using: str | None = None) -> Block | None:
    """Return the innermost open block of this thread, of one database if `using` says so."""
    return next((block for block in reversed(_blocks()) if using in (None, block.using)), None)


@overload
def transactional(using: Function) -> Function: ...
@overload
def transactional(
    using: str | None = None, producer_group: str | None = None, *, savepoint: bool = True, durable: bool = False,
    plain_sends: bool = False,
) -> Transactional: ...  # fmt: skip
def transactional(
    using: str | Function | None = None, producer_group: str | None = None, *, savepoint: bool = True,
    durable: bool = False, plain_sends: bool = False,
) -> Transactional | Function:  # fmt: skip
    """Return a block (or a decorator) whose messages are shown if and only if its database transaction commits.

    `using`, `savepoint` and `durable` are those of `transaction.atomic`; inside another block it is a savepoint, and
    what a rolled-back savepoint sent is rolled back. `producer_group` is one of ESCAPEMENT_PRODUCER_GROUPS.
    `plain_sends` allows producers that are not the block's, whose messages go out whatever becomes of it.
    """
    alias = using if isinstance(using, str) else DEFAULT_DB_ALIAS
    block = Transactional(alias, producer_group, savepoint=savepoint, durable=durable, plain_sends=plain_sends)
    return block(using) if callable(using) else block


async def run_in_transaction(
    function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:  # fmt: skip
    """Call a plain function inside transactional(), in the thread in which Django has its connections; return what it
    returns.

    For coroutines. What it sends with `escapement_mq.outbox.producer` is shown if and only if it returns; whatever it
    raises is raised here. Nothing else of the event loop runs in its transaction. Cancelling the caller does not undo
    it: the function goes on in its thread. For another database or group give a function that has the block itself to
    `sync_to_async`. Raises AsynchronousBlock for a coroutine function.
    """
    return await sync_to_async(Transactional.of_default()(function), thread_sensitive=True)(*args, **kwargs)


class InnermostProducer:
    """`producer`: sends in the innermost transactional() block of this thread."""

    @property
    def block(self) -> Block:
        """The innermost open block; raises NotInTransaction outside of any."""
        block = _block()
        if block is None:
            raise NotInTransaction
        return block

    def send(
        self,
        topic: str,
        body: Body,
        *,
        timeout_ms: int = 3000,
        **options: Unpack[MessageOptions],
    ) -> Half:
        """Send in the innermost open block, as Block.send does."""
        return self.block.send(topic, body, timeout_ms=timeout_ms, **options)

    @property
    def timers(self) -> BlockTimers:
        """Timers by schedule key in the innermost open block, as Block.timers."""
        return BlockTimers(lambda: self.block)


producer = InnermostProducer()


# The transaction producers of this process.

_lock = threading.Lock()
_kept: dict[tuple[int, str, str], TransactionProducer] = {}


def producer_of(group: str) -> TransactionProducer:
    """Return the producer of `group` at the configured name server."""
    forks.look()
    address = namesrv()
    key = (os.getpid(), address, group)
    with _lock:
        kept = _kept.get(key)
        if kept is None:
            kept = _kept[key] = TransactionProducer(group, address, check=check, confirmed=confirmed)
        return kept


def close_all() -> None:
    """Sign off from the brokers, so that they ask others at once; idempotent."""
    with _lock:
        mine = [key for key in _kept if key[0] == os.getpid()]
        closing = [_kept.pop(key) for key in mine]
    for each in closing:
        with suppress(ClientError):
            each.close()


def _forget() -> None:
    """Forget connections and lock after a fork: they are the parent's."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


atexit.register(close_all)
forks.begin_anew(_forget)


# Telling the broker what became of the halves.

#: A half whose commit was confirmed within this time cannot have been copied for a check by Apache RocketMQ: its
#: transactionTimeOut (6 s) less its transactionOpBatchInterval (3 s), and a second for clocks.
EARLY_S = 2.0


@dataclass(eq=False, slots=True)
class Sent:
    """A half, the transaction that decides it, and whether the broker was told."""

    half: Half
    origin: Origin
    producer: TransactionProducer
    began_s: float
    is_settled: bool = False


class Settlement:
    """The halves of one outermost block, and what becomes of them."""

    def __init__(self, using: str) -> None:
        self._using = using
        self.sent: list[Sent] = []

    def committed(self, sent: Sent) -> None:
        """Settle all halves of the transaction that are still open; Django's on_commit of one of them."""
        if sent.is_settled:
            return
        still_open = [each for each in self.sent if not each.is_settled and each.origin == sent.origin]
        try:
            rows = {sent.half.transaction_id} if len(still_open) == 1 else self._rows(still_open)
        except Error as error:
            logger.warning("the rows of %d halves cannot be read, checks decide: %s", len(still_open), error)
            return
        self._tell([each for each in still_open if each.half.transaction_id in rows], Decision.COMMIT)
        self._tell([each for each in still_open if each.half.transaction_id not in rows], Decision.ROLLBACK)

    def not_written(self, sent: Sent) -> None:
        """Roll back a half whose row could not be written: nothing can commit it, and without a table no check ends."""
        self._tell([sent], Decision.ROLLBACK)

    def left(self, sent: Sequence[Sent], *, body_failed: bool) -> None:
        """End a block: its open messages were rolled back, or nobody can say yet.

        The database is asked, also here: a COMMIT that fails may have happened.
        """
        still_open = [each for each in sent if not each.is_settled]
        if not still_open:
            return
        try:
            outcomes = [self._outcome(each, body_failed) for each in still_open]
        except Error as error:
            logger.warning("%d halves are left to the broker's checks: %s", len(still_open), error)
            return
        for decision in (Decision.COMMIT, Decision.ROLLBACK):
            self._tell([each for each, is_so in zip(still_open, outcomes, strict=True) if is_so is decision], decision)

    def _outcome(self, sent: Sent, body_failed: bool) -> Decision:
        connection = connections[self._using]
        transaction_id = sent.half.transaction_id
        if connection.in_atomic_block:
            # an outer block will say; but a row that its savepoint took back can never be committed
            is_lost = not connection.needs_rollback and row_state(connection, transaction_id) is None
            return Decision.ROLLBACK if is_lost else Decision.UNKNOWN
        decision = decide(connection, sent.origin, transaction_id, age_s=0)
        if decision is Decision.UNKNOWN and not sent.origin.xid and body_failed:
            return Decision.ROLLBACK  # no row, and no COMMIT was tried
        return decision

    def _rows(self, sent: Sequence[Sent]) -> set[str]:
        wanted = [each.half.transaction_id for each in sent]
        rows = OutboxHalf.objects.using(self._using).filter(pk__in=wanted)
        return set(rows.values_list("pk", flat=True))

    def _tell(self, sent: Sequence[Sent], decision: Decision) -> None:
        for producer in {each.producer for each in sent}:
            mine = [each for each in sent if each.producer is producer]
            for each in mine:
                each.is_settled = True
            self._tell_one(producer, mine, decision)

    def _tell_one(self, producer: TransactionProducer, sent: Sequence[Sent], decision: Decision) -> None:
        try:
            outcomes = producer.end_all([each.half for each in sent], decision)
        except ClientError as error:
            logger.warning("%s of %d halves is left to the broker's checks: %s", decision.name, len(sent), error)
            return
        for each, error_of_one in zip(sent, outcomes, strict=True):
            if error_of_one is not None:
                logger.warning("%s of %s is left to a check: %s", decision.name, each.half, error_of_one)
        if decision is Decision.COMMIT:
            self._note([each for each, failed in zip(sent, outcomes, strict=True) if failed is None])

    def _note(self, confirmed: Sequence[Sent]) -> None:
        now_s = time.monotonic()
        early = [each.half.transaction_id for each in confirmed if now_s - each.began_s <= EARLY_S]
        late = [each.half.transaction_id for each in confirmed if now_s - each.began_s > EARLY_S]
        for ids, state in ((early, OutboxHalf.State.CONFIRMED), (late, OutboxHalf.State.DONE)):
            if ids:
                try:
                    OutboxHalf.objects.using(self._using).filter(pk__in=ids).update(state=state)
                except Error as error:
                    logger.warning("%d rows count as undelivered, a check would repeat the commit: %s", len(ids), error)
