"""`transactional()`: a block of one database transaction whose messages are shown if and only if it commits.

What a send does, in this order; whatever dies after any of these steps, a check finds the truth in the database:

1. the transaction's id is read (PostgreSQL gives it one);
2. the half goes to the broker and carries that id;
3. a row of `escapement_outbox` is written inside the transaction;
4. after the commit, the broker is told to commit; where the block fails, to roll back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from types import TracebackType
from typing import Any, TypeVar, Unpack, overload

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..client import Half, prepare
from ..client.transaction_guard import plain_sends as plain_sends_of_thread
from .configuration import producer_group as chosen_group
from .configuration import transaction_limit_s
from .errors import BlockEnded, NotInTransaction, TransactionTooLong, WrongThread
from .models import OutboxHalf
from .options import MessageOptions
from .origin import current_origin
from .producers import producer_of
from .settle import Sent, Settlement

_of_thread = threading.local()
Function = TypeVar("Function", bound=Callable[..., Any])


class Block:
    """One entered transactional() block: the producer that it gives. Belongs to the thread that entered it."""

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
        body: bytes | str,
        *,
        timeout_ms: int = 3000,
        **options: Unpack[MessageOptions],
    ) -> Half:
        """Send a message that is shown when the transaction commits, and never if it does not.

        Raises ClientError where the broker does not take it, and OutboxError for a send in the wrong place: let
        either end the block, so that nothing is committed. A delay counts from the commit; a `schedule_key` needs
        `on_conflict="replace"`, for after the commit nobody can be told that it is taken.
        """
        message = prepare(body, **options)
        connection = self._connection()
        origin = current_origin(connection)
        began_s = time.monotonic()
        producer = producer_of(self.group)
        half = producer.send_half(topic, message, marks=origin.mark(), timeout_ms=timeout_ms)
        sent = Sent(half, origin, producer, began_s)
        self.sent.append(sent)
        self.settlement.sent.append(sent)
        OutboxHalf.objects.using(self.using).create(
            transaction_id=half.transaction_id, producer_group=self.group, topic=topic
        )
        transaction.on_commit(lambda: self.settlement.committed(sent), using=self.using, robust=True)
        return half

    def _connection(self) -> BaseDatabaseWrapper:
        if self._ended:
            raise BlockEnded
        if threading.get_ident() != self._thread:
            raise WrongThread
        return connections[self.using]

    def too_long(self) -> TransactionTooLong | None:
        """The error to end with where the row could not decide any more."""
        limit_s = transaction_limit_s()
        is_late = time.monotonic() - self._began_s > limit_s
        return TransactionTooLong(self.using, limit_s) if is_late and any(not s.origin.xid for s in self.sent) else None

    def end(self) -> None:
        """No send any more."""
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

    def _recreate_cm(self) -> Transactional:
        """For each call of a decorated function one of its own: calls may be at once, in several threads."""
        return Transactional(
            self._using, self._group, savepoint=self._savepoint, durable=self._durable, plain_sends=self._plain_sends
        )

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
    """The open blocks of this thread, outermost first."""
    blocks: list[Block] | None = getattr(_of_thread, "blocks", None)
    if blocks is None:
        blocks = _of_thread.blocks = []
    return blocks


def _block(using: str | None = None) -> Block | None:
    """The innermost open block of this thread, of one database if `using` says so."""
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
    """A block (or a decorator) whose messages are shown if and only if its database transaction commits.

    `using`, `savepoint` and `durable` are those of `transaction.atomic`; inside another block it is a savepoint, and
    what a rolled-back savepoint sent is rolled back. `producer_group` is one of ESCAPEMENT_PRODUCER_GROUPS.
    `plain_sends` allows producers that are not the block's, whose messages go out whatever becomes of it.
    """
    alias = using if isinstance(using, str) else DEFAULT_DB_ALIAS
    block = Transactional(alias, producer_group, savepoint=savepoint, durable=durable, plain_sends=plain_sends)
    return block(using) if callable(using) else block


class InnermostProducer:
    """`producer`: sends in the innermost transactional() block of this thread."""

    @property
    def block(self) -> Block:
        """That block; raises NotInTransaction outside of any."""
        block = _block()
        if block is None:
            raise NotInTransaction
        return block

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        timeout_ms: int = 3000,
        **options: Unpack[MessageOptions],
    ) -> Half:
        """As Block.send."""
        return self.block.send(topic, body, timeout_ms=timeout_ms, **options)


producer = InnermostProducer()
