"""Transactions: 37 and 323 of RocketMQ's, four requests of our own, 14010 to 14013 (docs/PROTOCOL.md), and asking (39).

`CheckRounds` asks producers what became of their half messages, as the engine says whom and when. It asks a few
questions at a time, so that a million of them hold up nobody: between two slices the event loop serves senders, and
what was counted meanwhile is written with their messages, or ten times a second. While something is being written there
are no questions for a moment: after each call to the system the thread that writes would wait for the loop's slice to
end before it may go on, ten times a message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...engine.errors import BrokerError, TransactionNotFound
from ...engine.transaction import listing
from ...engine.transaction.check import Checks
from ...engine.transaction.decision import Ending
from ...rocketmq.codes import ONEWAY_FLAG, Answer, Request
from ...rocketmq.compiled import FAST
from ...rocketmq.end_transaction import EndShortcut, QuickEnding
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, body_as, json_body, text, truth, whole
from ...rocketmq.frame import BINARY, Command
from ...rocketmq.frame import decode as decode_frame
from ...rocketmq.message import parse_offset_message_id
from ..check_frames import Questions
from ..connection import Connection, Handler
from ..pump import AnsweredOwner, BriefOwner
from ..refusals import refusal_code
from ..state import BrokerState, Member

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
    """A half to steer, by its offset and position."""

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
        self._read = self._shortcut.read if FAST is None else FAST.read_end
        self._held: list[tuple[QuickEnding, bytes]] = []

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
        """Hold back a decision, to take it with others; return False if it is to go the long way: with a JSON header
        those that are to be answered, which producers do not ask for, and without compiled twins all."""
        if FAST is None and frame[0] != BINARY:
            return False
        said = self._read(frame)
        if said is None:
            if FAST is None:
                self._shortcut.learn(frame, decode_frame(frame))
            return False
        if frame[0] != BINARY and not said[1] & ONEWAY_FLAG:
            return False
        self._held.append((said, frame))
        return True

    def take_held(self, connection: Connection, now_ms: int) -> None:
        """Carry out the decisions that were held back: together those about halves that need not be read."""
        if not self._held:
            return
        held, self._held = self._held, []
        names = [f"{role} {connection.address}" for role in _ROLES]
        asked = [
            tuple.__new__(Ending, (offset, position, commit, names[is_check], "", group, transaction_id or None))
            for (_, _, commit, offset, position, group, transaction_id, is_check), _ in held
        ]
        owners = [
            None if said[1] & ONEWAY_FLAG else BriefOwner(connection, said[0], Request.END_TRANSACTION, now_ms)
            for said, _ in held
        ]
        outcomes: list[bool | None] = [None] * len(asked)
        if len(asked) > 1 and self._engine.is_open:
            outcomes = self._transactions.end_together(asked, owners)
        for waits, each, owner, (_, frame) in zip(outcomes, asked, owners, held, strict=True):
            if waits is None:
                self._end_closely(connection, frame, each, owner, now_ms)
            elif owner is not None and not waits:
                owner.answer()

    def _end_closely(
        self, connection: Connection, frame: bytes, asked: Ending, owner: BriefOwner | None, now_ms: int
    ) -> None:
        try:
            self._engine.check_open()
            waits = self._transactions.end(asked, now_ms, owner)
        except BrokerError:
            connection.take(frame, now_ms)  # nothing was changed: the long way says why
        else:
            if owner is not None and not waits:
                owner.answer()

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
        table = self._transactions.table
        if (parked := table.parked.by_copy(position)) is not None:
            target = Target(parked.offset, parked.position)
        elif (half := table.half_at(position)) is not None:
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
        table, now_ms = self._transactions.table, self._state.clock()
        count = whole(ext, "count", 100, low=1, high=_MOST_ROWS)
        group, topic = ext.get("group", ""), ext.get("topic", "")
        if state == "decided":
            before = whole(ext, "after", -1, low=-1)
            page = listing.decided_page(
                table, before=None if before < 0 else before, count=count, group=group, topic=topic
            )
        else:
            age_ms = whole(ext, "olderThanMs", -1, low=-1)
            show = listing.open_page if state == "open" else listing.parked_page
            page = show(
                table, after=whole(ext, "after", -1, low=-1), count=count, group=group, topic=topic,
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
        ext, table = request.ext, self._transactions.table
        half = listing.find_half(
            table,
            transaction_id=ext.get("transactionId", ""),
            offset=whole(ext, "offset", -1, low=-1),
            position=whole(ext, "position", -1, low=-1),
        )
        row = listing.life_of(table, half)
        self._add_producers(row)
        return request.answer(body=json_body({"nowMs": self._state.clock(), **row}))

    def _status(self, _: Connection, request: Command) -> Command:
        value = listing.status(self._transactions.table, self._state.clock())
        for group in value["groups"]:
            group["producers"] = sum(m.connection.is_open for m in self._state.clients.producers(group["group"]))
        return request.answer(body=json_body(value))

    # what operators steer

    def _steer(self, connection: Connection, request: Command) -> Command | None:
        steering = body_as(Steering, request.body)
        if steering.action not in ("commit", "rollback", "check", "resume") or not steering.who.strip():
            raise RequestRefused(
                Answer.INVALID_PARAMETER, "'action' is commit, rollback, check or resume, and 'who' is required."
            )
        if len(steering.targets) > _MOST_TARGETS:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"At most {_MOST_TARGETS:,} transactions in one request.")
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


# Asking producers.

#: Questions in one slice: as many as take about this long; beside those who send, who each wait for half of one, fewer.
_SLICE_S, _SLICE_BESIDE_S = 0.0006, 0.00034
#: Somebody sends while the last write is no longer ago.
_BESIDE_S = 0.03
_FEWEST, _MOST = 16, 256
#: While something is written questions wait for so long (the loop counts in milliseconds: less would be no pause), but
#: not so often one after the other: disks may be slow.
_WRITING_PAUSE_S = 0.001
_MOST_PAUSES = 8
#: A producer that does not read what it was sent is looked at again after so long.
_HELD_PAUSE_S = 0.005
_IDLE_PAUSE_S = 0.1
#: While no half is open; one that comes is asked about after its time-out, which is seconds.
_EMPTY_PAUSE_S = 0.5
_WRITE_INTERVAL_S = 0.1


class CheckRounds:
    """Asks producers about their open halves, from start to stop."""

    def __init__(self, state: BrokerState, kick: Callable[[], None], is_writing: Callable[[], bool]) -> None:
        self._state = state
        self._kick = kick
        self._is_writing = is_writing
        self._pauses = 0
        self._slice = _FEWEST
        self._last_write_s = -_BESIDE_S
        self._questions = Questions(state.config.broker_name)
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._written_s = self._loop.time()
        self._is_held = False
        #: more has come due than was looked at
        self._is_behind = False
        self._turn = 0
        #: groups of whom nobody might see some half, and who was there then
        self._refused: dict[str, list[tuple[Connection, bool]]] = {}

    def start(self) -> None:
        """Begin to ask a moment from now."""
        self._next = self._loop.call_later(_IDLE_PAUSE_S, self._go_on)

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _go_on(self) -> None:
        pause_s = _IDLE_PAUSE_S
        try:
            if self._state.engine.is_open:
                pause_s = self.ask_slice()
        except Exception:
            # asked again later: a fault here must not end the checks of all others
            logger.exception("asking producers failed")
            pause_s = 10 * _IDLE_PAUSE_S
        finally:
            go_on = self._go_on
            self._next = self._loop.call_later(pause_s, go_on) if pause_s else self._loop.call_soon(go_on)

    def ask_slice(self) -> float:
        """Ask for a moment, unless others are to go first; return how long to pause, in seconds."""
        begin_s = time.perf_counter()
        if self._is_writing():
            self._last_write_s = begin_s
            if self._pauses < _MOST_PAUSES:
                self._pauses += 1
                return _WRITING_PAUSE_S
        self._pauses = 0
        asked = self.ask(self._slice)
        if asked == self._slice:
            most_s = _SLICE_BESIDE_S if begin_s - self._last_write_s < _BESIDE_S else _SLICE_S
            is_short = time.perf_counter() - begin_s < most_s
            self._slice = min(self._slice + _FEWEST, _MOST) if is_short else max(self._slice // 2, _FEWEST)
        if asked or self._is_behind:
            return 0
        if self._is_held:
            return _HELD_PAUSE_S
        return _IDLE_PAUSE_S if len(self._state.engine.transactions.table.halves) else _EMPTY_PAUSE_S

    def ask(self, count: int) -> int:
        """Ask up to ``count`` questions now; return how many there were."""
        now_ms = self._state.clock()
        transactions = self._state.engine.transactions
        next_ms = transactions.tick(now_ms)  # new halves wake nobody: they are looked at here
        self._is_behind = next_ms is not None and next_ms <= now_ms
        self._is_held = False
        for group in [group for group, seen in self._refused.items() if self._present(group) != seen]:
            del self._refused[group]
            transactions.come(group)
        taken = transactions.take_checks(now_ms, self._is_alive, count)
        if taken:
            transactions.checked(*self._send(taken), now_ms)
        now_s = self._loop.time()
        if not taken or now_s - self._written_s >= _WRITE_INTERVAL_S:
            # each of its own would keep the disk from those who send
            self._written_s = now_s
            self._kick()
        return sum(map(len, taken))

    def _send(self, taken: Sequence[Checks]) -> tuple[list[int], list[int]]:
        """Send questions; return the offsets of halves that somebody was asked about, and of the others."""
        asked: list[int] = []
        not_asked: list[int] = []
        refused: set[str] = set()
        written: dict[Connection, list[bytes]] = {}
        questions = self._questions
        for alike in questions.alike(taken):
            offsets = alike.checks.offsets
            connections = self._listeners(alike.group, alike.topic)
            if not connections:
                not_asked += offsets
                refused.add(alike.group)
                continue
            asked += offsets
            for part in alike.shares(len(connections)):
                self._turn += 1
                connection = connections[self._turn % len(connections)]
                written.setdefault(connection, []).append(questions.frames(part, connection.serialization))
        for group in refused:
            self._refused[group] = self._present(group)
        for connection, frames in written.items():
            connection.write(b"".join(frames))
        # in the order in which they stand, which is how they are found again quickly
        return sorted(asked), not_asked

    def _is_alive(self, group: str) -> bool:
        members = self._state.clients.producers(group)
        if any(_listens(member) for member in members):
            return True
        self._is_held |= any(member.connection.is_open for member in members)
        return False

    def _present(self, group: str) -> list[tuple[Connection, bool]]:
        """Return who is there of a group, and whether he reads what he is sent."""
        producers = self._state.clients.producers(group)
        return [(member.connection, _listens(member)) for member in producers if member.connection.is_open]

    def _listeners(self, group: str, topic: str) -> list[Connection]:
        """Return the producers of the group that read what they are sent, and may see what goes to this topic."""
        may_send = self._state.may_send
        connections = [each.connection for each in self._state.clients.producers(group) if _listens(each)]
        return [each for each in connections if may_send(each, topic)]


def _listens(member: Member) -> bool:
    return member.connection.is_open and not member.connection.is_paused
