"""Transactions: 37 and 323 of RocketMQ's, and four requests of our own, 14010 to 14013 (docs/PROTOCOL.md)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from ...engine.errors import BrokerError, TransactionNotFound
from ...engine.transaction import listing
from ...engine.transaction.decision import Ending
from ...rocketmq.codes import ONEWAY_FLAG, Answer, Request
from ...rocketmq.end_transaction import EndShortcut
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, body_as, json_body, text, truth, whole
from ...rocketmq.frame import BINARY, Command
from ...rocketmq.frame import decode as decode_frame
from ...rocketmq.message import parse_offset_message_id
from ..connection import Connection, Handler
from ..pump import AnsweredOwner, BriefOwner
from ..refusals import refusal_code
from ..state import BrokerState

logger = logging.getLogger(__name__)

_ENDING = ("commitOrRollback", "tranStateTableOffset", "commitLogOffset")
#: MessageSysFlag: what field commitOrRollback says.
_QUICK: Mapping[str, bool | None] = {"0": None, "8": True, "12": False}
#: Who decides, by field fromTransactionCheck.
_ROLES = ("producer", "check")
_MOST_ROWS = 1_000
_MOST_TARGETS = 10_000
_STATES = ("open", "parked", "decided")


class Target(msgspec.Struct):
    """One half to steer."""

    offset: int
    position: int


class Steering(msgspec.Struct):
    """The body of request 14011."""

    action: str
    targets: list[Target]
    who: str
    reason: str = ""


class TransactionProcessor:
    """The requests by which producers decide, and operators look and steer."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._transactions = state.engine.transactions
        self._shortcut = EndShortcut()

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.END_TRANSACTION: self._end,
            Request.RESUME_CHECK_HALF_MESSAGE: self._resume,
            Request.LIST_TRANSACTIONS: self._list,
            Request.STEER_TRANSACTIONS: self._steer,
            Request.GET_TRANSACTION: self._get,
            Request.GET_TRANSACTION_STATUS: self._status,
        }

    # what clients say

    def express(self, connection: Connection, frame: bytes, now_ms: int) -> bool:
        """Take a decision with a binary header the short way; return False if it is to go the long one."""
        said = self._shortcut.read(frame)
        if said is None:
            if frame[0] == BINARY:
                self._shortcut.learn(frame, decode_frame(frame))
            return False
        is_oneway = said.frame_flag & ONEWAY_FLAG
        owner = None if is_oneway else BriefOwner(connection, said.opaque, Request.END_TRANSACTION, now_ms)
        asked = Ending(
            said.offset, said.position, said.commit, f"{_ROLES[said.is_check]} {connection.address}", "", said.group,
            said.transaction_id or None,
        )  # fmt: skip
        try:
            self._engine.check_open()
            waits = self._transactions.end(asked, now_ms, owner)
        except BrokerError:
            return False  # nothing was changed: the long way says why
        if owner is not None and not waits:
            owner.answer()
        return True

    def _end(self, connection: Connection, request: Command) -> Command | None:
        ext = request.ext
        said, offset, position = (ext.get(name, "") for name in _ENDING)
        if not (said in _QUICK and offset.isdecimal() and position.isdecimal() and len(offset + position) < 36):
            said, offset, position = _checked_ending(ext)
        role = _ROLES[truth(ext, "fromTransactionCheck")]
        asked = Ending(
            int(offset), int(position), _QUICK[said], f"{role} {connection.address}", "", text(ext, "producerGroup"),
            ext.get("transactionId") or None,
        )  # fmt: skip
        self._engine.check_open()
        owner = None if request.is_oneway else AnsweredOwner(connection, request)
        try:
            waits = self._transactions.end(asked, self._state.clock(), owner)
        except BrokerError as error:
            if request.is_oneway:
                logger.warning("a decision of %s is refused: %s", asked.by, error)
            raise
        return None if waits else request.answer()

    def _resume(self, connection: Connection, request: Command) -> Command | None:
        """Resume by RocketMQ's name: the offset message id of the parked copy, or of the half itself."""
        try:
            _, _, position = parse_offset_message_id(text(request.ext, "msgId"))
        except ValueError as error:
            raise RequestRefused(
                Answer.INVALID_PARAMETER, f"The field 'msgId' is no offset message id: {error}"
            ) from None
        book = self._transactions.book
        if (parked := book.parked.by_copy(position)) is not None:
            target = Target(parked.offset, parked.position)
        elif (half := book.half_at(position)) is not None:
            target = Target(half.queue_offset, position)
        else:
            raise TransactionNotFound(-1, position)
        owner = AnsweredOwner(connection, request)
        _, waits = self._apply("resume", target, f"admin {connection.address}", "", owner)
        return None if waits else request.answer()

    # what operators ask

    def _list(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        state = ext.get("state", "open")
        if state not in _STATES:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The field 'state' is one of {', '.join(_STATES)}.")
        book, now_ms = self._transactions.book, self._state.clock()
        count = whole(ext, "count", 100, low=1, high=_MOST_ROWS)
        group, topic = ext.get("group", ""), ext.get("topic", "")
        if state == "decided":
            before = whole(ext, "after", -1, low=-1)
            page = listing.decided_page(
                book, before=None if before < 0 else before, count=count, group=group, topic=topic
            )
        else:
            age_ms = whole(ext, "olderThanMs", -1, low=-1)
            show = listing.open_page if state == "open" else listing.parked_page
            page = show(
                book, after=whole(ext, "after", -1, low=-1), count=count, group=group, topic=topic,
                older_than_ms=None if age_ms < 0 else now_ms - age_ms,
            )  # fmt: skip
        for row in page["transactions"]:
            self._add_producers(row)
        return request.answer(body=json_body({"nowMs": now_ms, **page}))

    def _add_producers(self, row: dict[str, Any]) -> None:
        """Say which producers would be asked: those who may see the half."""
        topic, may_send = row.get("topic", ""), self._state.may_send
        members = self._state.clients.producers(row.get("group", ""))
        there = [each for each in members if each.connection.is_open and may_send(each.connection, topic)]
        row["producers"] = [member.client_id for member in there[:10]]

    def _get(self, _: Connection, request: Command) -> Command:
        ext, book = request.ext, self._transactions.book
        half = listing.find_half(
            book,
            transaction_id=ext.get("transactionId", ""),
            offset=whole(ext, "offset", -1, low=-1),
            position=whole(ext, "position", -1, low=-1),
        )
        row = listing.life_of(book, half)
        self._add_producers(row)
        return request.answer(body=json_body({"nowMs": self._state.clock(), **row}))

    def _status(self, _: Connection, request: Command) -> Command:
        value = listing.status(self._transactions.book, self._state.clock())
        for group in value["groups"]:
            group["producers"] = sum(m.connection.is_open for m in self._state.clients.producers(group["group"]))
        return request.answer(body=json_body(value))

    # what operators steer

    def _steer(self, connection: Connection, request: Command) -> Command | None:
        steering = body_as(Steering, request.body)
        if steering.action not in ("commit", "rollback", "check", "resume") or not steering.who.strip():
            raise RequestRefused(
                Answer.INVALID_PARAMETER, "'action' is commit, rollback, check or resume, and 'who' must be given."
            )
        if len(steering.targets) > _MOST_TARGETS:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"At most {_MOST_TARGETS:,} transactions at once.")
        owner = AnsweredOwner(connection, request, 0)
        results: list[dict[str, Any]] = []
        waiting = 0
        for target in steering.targets:
            result: dict[str, Any] = {"offset": target.offset, "position": target.position, "outcome": "done"}
            try:
                done, waits = self._apply(steering.action, target, steering.who, steering.reason, owner)
                waiting += waits
                if not done:
                    result["outcome"] = "already"
            except BrokerError as error:
                result |= {"outcome": "refused", "code": int(refusal_code(error)), "error": str(error)}
            results.append(result)
        body = json_body({"nowMs": self._state.clock(), "results": results})
        owner.expect(waiting, body)
        return None if waiting else request.answer(body=body)

    def _apply(self, action: str, target: Target, who: str, reason: str, owner: AnsweredOwner) -> tuple[bool, bool]:
        """Steer one half; return whether it changes something, and whether the owner is told when that is durable."""
        self._engine.check_open()
        transactions, now_ms = self._transactions, self._state.clock()
        if action in ("commit", "rollback"):
            asked = Ending(target.offset, target.position, action == "commit", who, reason)
            done = transactions.end(asked, now_ms, owner)
            return done, done
        if action == "check":
            transactions.check_now(target.offset, target.position, now_ms)
            return True, False
        return True, transactions.resume_checks(target.offset, target.position, who, reason, now_ms, owner)


def _checked_ending(ext: Mapping[str, str]) -> tuple[str, str, str]:
    """Return decision, offset and position of a request that is not in its usual form; refused by name if wrong."""
    said = whole(ext, _ENDING[0], low=0, high=INT_MAX)
    if str(said) not in _QUICK:
        raise RequestRefused(
            Answer.INVALID_PARAMETER, f"commitOrRollback is 8 (commit), 12 (roll back) or 0 (unknown), not {said}."
        )
    offset, position = (whole(ext, name, low=0) for name in _ENDING[1:])
    return str(said), str(offset), str(position)
