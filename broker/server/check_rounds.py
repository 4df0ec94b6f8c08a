"""Asking producers what became of their half messages (request 39), as the engine says whom and when.

A few questions at a time, so that a million of them hold up nobody: between two slices the event loop serves senders,
and what was counted meanwhile is written with their messages, or ten times a second. While something is being written
there are no questions for a moment: after each call to the system the thread that writes would wait for the loop's
slice to end before it may go on, ten times a message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from ..engine.transaction.check import Checks
from .check_frames import Questions
from .connection import Connection
from .state import BrokerState, Member

logger = logging.getLogger(__name__)

#: Questions in one slice: as many as take about this long.
_SLICE_S = 0.0006
_FEWEST, _MOST = 16, 256
#: While something is written questions wait for so long (the loop counts in milliseconds: less would be no pause), but
#: not so often one after the other: disks may be slow.
_WRITING_PAUSE_S = 0.001
_MOST_PAUSES = 8
#: A producer that does not read what it was sent is looked at again after so long.
_HELD_PAUSE_S = 0.005
_IDLE_PAUSE_S = 0.1
_WRITE_INTERVAL_S = 0.1


class CheckRounds:
    """Asks producers about their open halves, from start to stop."""

    def __init__(self, state: BrokerState, kick: Callable[[], None], is_writing: Callable[[], bool]) -> None:
        self._state = state
        self._kick = kick
        self._is_writing = is_writing
        self._pauses = 0
        self._slice = _FEWEST
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
        if self._is_writing() and self._pauses < _MOST_PAUSES:
            self._pauses += 1
            return _WRITING_PAUSE_S
        self._pauses = 0
        begin_s = time.perf_counter()
        asked = self.ask(self._slice)
        if asked == self._slice:
            is_short = time.perf_counter() - begin_s < _SLICE_S
            self._slice = min(self._slice + _FEWEST, _MOST) if is_short else max(self._slice // 2, _FEWEST)
        if asked or self._is_behind:
            return 0
        return _HELD_PAUSE_S if self._is_held else _IDLE_PAUSE_S

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
