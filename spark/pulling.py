"""Ranges of queues, pulled from a broker: many pulls on their way at once over one connection, records in order.

    range → pieces → one pull each, as many as are allowed on their way → what a pull left of its piece is asked next

A broker gives as many messages a pull as it likes (Apache RocketMQ 32 from memory and 8 from the disk, unless it is set
otherwise), so a piece is as large as the pulls before gave. With a filter only the broker knows where the next match
is: pieces are wide then, and what a pull finds behind the end of its piece belongs to the next and is dropped
(``records.py``).

No pull waits at the broker for news, none commits anything, and none is answered with more than is asked for. When the
connection is lost, what is not there yet is asked anew: of the master, then of a slave.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command

from .asking import Access, ClusterUnreachable, Link, RequestDenied
from .offsets import Range
from .store import DashboardError

#: Pulls that are on their way at once over one connection, and what one is answered with at most.
DEPTH = 16
MOST_BYTES = 256 << 10
MOST_MESSAGES = 1024
#: A piece for the first pulls, as large as Apache RocketMQ answers; and one where a filter passes most messages over.
FIRST_MESSAGES = 32
FILTERED_MESSAGES = 16_384
#: After so many full answers more is asked for at once.
FULL_ANSWERS = 32
#: Connections that are tried one after the other, and answers without anything new.
TRIES = 5
PAUSE_S = 0.2
#: PullSysFlag: the request carries its subscription.
_HAS_SUBSCRIPTION = 4
#: A slave of Apache RocketMQ says so what it found, and keeps it to itself.
_FOUND = "FOUND"
#: There is nothing in the answer, and the reader goes on.
_NOTHING = (
    Answer.PULL_RETRY_IMMEDIATELY,
    Answer.PULL_OFFSET_MOVED,
    Answer.PULL_NOT_FOUND,
    Answer.SYSTEM_BUSY,
)


class MessagesGone(DashboardError):
    """Messages that were to be read are not there any more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pull asks for beside its place: the group that reads, and the filter.

    ``kind``: ``TAG`` or ``SQL92``. ``is_strict``: messages that were deleted before they were read are an error.
    """

    group: str
    kind: str = "TAG"
    expression: str = "*"
    is_strict: bool = True
    most_messages: int = MOST_MESSAGES

    @property
    def is_filtered(self) -> bool:
        """Tell whether the broker passes messages over."""
        return self.expression != "*"


@dataclass(slots=True)
class Piece:
    """A part of a range that a pull is on its way for: what came of it, and how far that reaches."""

    range: Range
    at: int
    bodies: list[bytes] = field(default_factory=list)
    idle: int = 0

    @property
    def is_done(self) -> bool:
        """Tell whether all of it has come."""
        return self.at >= self.end

    @property
    def end(self) -> int:
        """Offset behind its last message."""
        return self.range.end


class Puller:
    """Pulls ranges of one broker's queues, once."""

    def __init__(self, addresses: Sequence[str], access: Access, wish: Wish) -> None:
        """``addresses``: the master's first."""
        self._addresses = addresses
        self._access = access
        self._wish = wish
        self._step = FILTERED_MESSAGES if wish.is_filtered else min(FIRST_MESSAGES, wish.most_messages)
        self._full = 0
        #: pieces in order, the first of them next to be given out
        self._open: deque[Piece] = deque()
        self._asked: dict[int, Piece] = {}
        self._link: Link | None = None

    def read(self, ranges: Sequence[Range]) -> Iterator[tuple[Range, list[bytes]]]:
        """Yield the pieces of the ranges in order, with what was pulled of each: records one after another.

        Raises ClusterUnreachable, RequestDenied, MessagesGone.
        """
        left = deque(ranges)
        failures = 0
        try:
            while left or self._open:
                try:
                    link = self._connected()
                    self._ask(link, self._more(left))
                    self._take(link, link.receive())
                except ClusterUnreachable:
                    failures += 1
                    self._close()
                    if failures > TRIES:
                        raise
                    time.sleep(PAUSE_S * failures)
                    continue
                while self._open and self._open[0].is_done:
                    piece = self._open.popleft()
                    failures = 0
                    yield piece.range, piece.bodies
        finally:
            self._close()

    def _more(self, left: deque[Range]) -> list[Piece]:
        """Return further pieces, as many as may be on their way; what they are cut from becomes shorter."""
        found: list[Piece] = []
        while left and len(self._asked) + len(found) < DEPTH and len(self._open) < 2 * DEPTH:
            whole = left.popleft()
            end = min(whole.start + self._step, whole.end)
            piece = Piece(replace(whole, end=end), whole.start)
            found.append(piece)
            self._open.append(piece)
            if end < whole.end:
                left.appendleft(replace(whole, start=end))
        return found

    def _ask(self, link: Link, pieces: Sequence[Piece]) -> None:
        if pieces:
            numbers = link.send([(Request.PULL_MESSAGE, self._fields(piece)) for piece in pieces])
            self._asked |= dict(zip(numbers, pieces, strict=True))

    def _fields(self, piece: Piece) -> dict[str, str]:
        most = self._wish.most_messages
        return {
            "consumerGroup": self._wish.group,
            "topic": piece.range.queue.topic,
            "queueId": str(piece.range.queue.queue_id),
            "queueOffset": str(piece.at),
            "maxMsgNums": str(most if self._wish.is_filtered else min(most, piece.end - piece.at)),
            "maxMsgBytes": str(MOST_BYTES),
            "sysFlag": str(_HAS_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": self._wish.expression,
            "subVersion": "0",
            "expressionType": self._wish.kind,
        }

    def _take(self, link: Link, answer: Command) -> None:
        """Put an answer into its piece, and ask for what it left."""
        piece = self._asked.pop(answer.opaque, None)
        if piece is None:
            return
        if answer.code == Answer.SUCCESS:
            following = _following(answer)
            self._learn(following - piece.at, piece.end - piece.at)
            piece.bodies.append(answer.body)
        elif answer.code == Answer.PULL_RETRY_IMMEDIATELY and answer.remark == _FOUND:
            raise ClusterUnreachable(link.address, "it is a slave that gives nothing out (slaveReadEnable of it)")
        elif answer.code in _NOTHING:
            following = self._without(piece, answer)
        else:
            raise RequestDenied(str(piece.range.queue), answer)
        if following > piece.at:
            piece.at, piece.idle = following, 0
        else:
            self._wait(piece, answer)
        if not piece.is_done:
            self._ask(link, [piece])

    def _without(self, piece: Piece, answer: Command) -> int:
        """Return where to go on behind an answer without messages. Raises MessagesGone if some were to be there."""
        following = piece.at if answer.code == Answer.SYSTEM_BUSY else _following(answer)
        if answer.code == Answer.PULL_NOT_FOUND or (answer.code == Answer.PULL_OFFSET_MOVED and following <= piece.at):
            if piece.idle < TRIES:
                return piece.at  # a slave may not have them yet
            self._refuse(piece, f"the broker has none from {piece.at} on: another store lies in its place, or it lost")
            return piece.end
        moved = answer.code == Answer.PULL_OFFSET_MOVED or not self._wish.is_filtered
        if following > piece.at and moved:
            self._refuse(piece, f"those before {following} were deleted")
        return following

    def _refuse(self, piece: Piece, why: str) -> None:
        if self._wish.is_strict:
            raise MessagesGone(
                f"Messages {piece.at} to {piece.end - 1} of {piece.range.queue} were to be read, and {why}. To skip "
                "them, with a row that says so: fail_on_data_loss=false."
            )

    def _wait(self, piece: Piece, answer: Command) -> None:
        piece.idle += 1
        if piece.idle > 2 * TRIES:
            raise RequestDenied(f"{piece.range.queue}, asked for offset {piece.at},", answer)
        time.sleep(PAUSE_S)

    def _learn(self, given: int, asked: int) -> None:
        """Ask for as many messages at once as the broker gives."""
        if self._wish.is_filtered:
            return
        if given < asked:
            self._step, self._full = max(given, 1), 0
        else:
            self._full += 1
            if self._full >= FULL_ANSWERS:
                self._step, self._full = min(self._step * 2, self._wish.most_messages), 0

    def _connected(self) -> Link:
        """Return the connection; where there is none, make one and ask for everything that was on its way."""
        if self._link is None:
            self._link = self._connect()
            self._asked.clear()
            self._ask(self._link, [piece for piece in self._open if not piece.is_done])
        return self._link

    def _connect(self) -> Link:
        """Connect to the master, or to a slave if it is away."""
        failure: ClusterUnreachable | None = None
        for address in self._addresses:
            try:
                return Link(address, self._access)
            except ClusterUnreachable as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def _following(answer: Command) -> int:
    """Return the offset at which to go on."""
    try:
        return int(answer.ext["nextBeginOffset"])
    except (KeyError, ValueError):
        raise RequestDenied("the pull", answer) from None
