"""Telling the broker what became of the halves of one transaction. What is lost here, a check finds out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import Error, connections

from ..client import ClientError, Decision, Half, TransactionProducer
from .decisions import decide, row_state
from .models import OutboxHalf
from .origin import Origin

logger = logging.getLogger(__name__)

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
    """All halves of one outermost block."""

    def __init__(self, using: str) -> None:
        self._using = using
        self.sent: list[Sent] = []

    def committed(self, sent: Sent) -> None:
        """Django's on_commit of one half: it settles all of the transaction that are still open."""
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

    def left(self, sent: Sequence[Sent], *, body_failed: bool) -> None:
        """A block ended: what is open of it was rolled back, or nobody can say yet.

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
                    logger.warning("%d rows stay owed, a check would commit them again: %s", len(ids), error)
