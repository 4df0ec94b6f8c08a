"""The part of the asynchronous admin that asks about transactions, and acts on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ..rocketmq.codes import Request
from ..rocketmq.topics import PARKED_HALF_TOPIC
from ._admin_base import Questions
from ._answers import read_object
from ._transaction import Decision
from .errors import BadAnswer, InvalidArgument
from .remoting import Response
from .transactions import (
    MOST_TARGETS,
    State,
    SteeredTransactions,
    TransactionLife,
    TransactionPage,
    TransactionStatus,
    TransactionTarget,
)
from .transactions import Action as TransactionAction

#: steering thousands of transactions means thousands of records on disk
_STEER_TIMEOUT_MS = 15_000


Value = TypeVar("Value")


class TransactionQuestions(Questions):
    """What an admin can ask about transactions, and do to them."""

    async def transactions(
        self, state: State = "open", *, after: int | None = None, count: int = 100, group: str = "", topic: str = "",
        older_than_ms: int | None = None, address: str | None = None,
    ) -> TransactionPage:  # fmt: skip
        """A page of transactions; `after` is a page's `following`, `older_than_ms` the least age of a half."""
        ext = {"state": state, "count": str(count), "group": group, "topic": topic}
        ext |= {"after": str(after)} if after is not None else {}
        ext |= {"olderThanMs": str(older_than_ms)} if older_than_ms is not None else {}
        return _read(await self._ask(Request.LIST_TRANSACTIONS, ext, address=address), TransactionPage)

    async def transaction(
        self, transaction_id: str = "", *, offset: int | None = None, position: int | None = None,
        address: str | None = None,
    ) -> TransactionLife:  # fmt: skip
        """One transaction by its id (the newest with it), its half's offset or position; raises BrokerRefused 22."""
        ext = {"transactionId": transaction_id}
        ext |= {name: str(text) for name, text in (("offset", offset), ("position", position)) if text is not None}
        return _read(await self._ask(Request.GET_TRANSACTION, ext, address=address), TransactionLife)

    async def transaction_status(self, *, address: str | None = None) -> TransactionStatus:
        """The transactions of the broker as a whole."""
        return _read(await self._ask(Request.GET_TRANSACTION_STATUS, address=address), TransactionStatus)

    async def steer_transactions(
        self, action: TransactionAction, targets: Sequence[TransactionTarget], *, who: str, reason: str = "",
        address: str | None = None,
    ) -> SteeredTransactions:  # fmt: skip
        """Commit, roll back, check now, or resume checking up to 10,000 halves; each is answered on its own."""
        if len(targets) > MOST_TARGETS:
            raise InvalidArgument(f"{len(targets):,} targets; at most {MOST_TARGETS:,} at once.", field="targets")
        if not who.strip():
            raise InvalidArgument("Say who decides.", field="who")
        body = msgspec.json.encode({"action": action, "targets": targets, "who": who, "reason": reason})
        answer = await self._ask(Request.STEER_TRANSACTIONS, body=body, address=address, timeout_ms=_STEER_TIMEOUT_MS)
        return _read(answer, SteeredTransactions)

    async def end_transaction(
        self, decision: Decision, *, group: str, offset: int, position: int, transaction_id: str = "", topic: str = "",
        address: str | None = None,
    ) -> None:  # fmt: skip
        """Decide as a producer does (request 37), on Apache RocketMQ too; raises BrokerRefused (604: the opposite was
        decided, or it comes too late)."""
        ext = {
            "producerGroup": group, "topic": topic, "tranStateTableOffset": str(offset),
            "commitLogOffset": str(position), "commitOrRollback": str(int(decision)), "fromTransactionCheck": "true",
            "msgId": transaction_id, "transactionId": transaction_id,
        }  # fmt: skip
        await self._ask(Request.END_TRANSACTION, ext, address=address)

    async def resume_check(self, offset_message_id: str, *, topic: str = "", address: str | None = None) -> None:
        """Resume checking a parked half (request 323), on Apache RocketMQ too; the id is that of the parked record."""
        ext = {"topic": topic or PARKED_HALF_TOPIC, "msgId": offset_message_id}
        await self._ask(Request.RESUME_CHECK_HALF_MESSAGE, ext, address=address)


def _read(answer: Response, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(read_object(answer.body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"The broker's answer about transactions cannot be read: {error}") from None
