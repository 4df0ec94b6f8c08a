"""Asking producers what became of their half messages (request 39), as the engine says whom and when.

A few questions at a time, so that a million of them hold up nobody: between two slices the event loop serves senders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..engine.message import encode, pack_host, record_size
from ..engine.properties import CHECK_TIMES, REAL_QUEUE_ID, REAL_TOPIC, WAIT, format_properties
from ..engine.store.topics import HALF_TOPIC
from ..engine.transaction.checking import Check
from .clients import Member
from .codec import Command
from .codes import ONEWAY_FLAG, Request
from .state import BrokerState

logger = logging.getLogger(__name__)

#: Questions in one slice.
_SLICE = 100
_BUSY_PAUSE_S = 0.002
_IDLE_PAUSE_S = 0.1


class CheckRounds:
    """Asks, from start to stop."""

    def __init__(self, state: BrokerState, kick: Callable[[], None]) -> None:
        self._state = state
        self._kick = kick
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0

    def start(self) -> None:
        """Begin to ask."""
        self._timer = self._loop.call_later(_IDLE_PAUSE_S, self._go_on)

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on(self) -> None:
        pause_s = _IDLE_PAUSE_S
        try:
            if self._state.engine.is_open and self.ask(_SLICE):
                pause_s = _BUSY_PAUSE_S
        except Exception:
            # asked again later: a fault here must not end the checks of all others
            logger.exception("asking producers failed")
            pause_s = 10 * _IDLE_PAUSE_S
        finally:
            self._timer = self._loop.call_later(pause_s, self._go_on)

    def ask(self, count: int) -> int:
        """Ask up to ``count`` questions now; return how many there were."""
        now_ms = self._state.clock()
        transactions = self._state.engine.transactions
        transactions.tick(now_ms)  # new halves wake nobody: they are looked at here
        checks = transactions.take_checks(now_ms, self._is_alive, count)
        if not checks:
            self._kick()
            return 0
        asked: list[int] = []
        not_asked: list[int] = []
        for check in checks:
            member = self._member(check.group, check.half.properties.get(REAL_TOPIC, ""))
            if member is None:
                not_asked.append(check.half.queue_offset)
            else:
                member.connection.send(self._question(check, member))
                asked.append(check.half.queue_offset)
        transactions.checked(asked, not_asked, now_ms)
        self._kick()
        return len(checks)

    def _is_alive(self, group: str) -> bool:
        return any(_listens(member) for member in self._state.clients.producers(group))

    def _member(self, group: str, topic: str) -> Member | None:
        """Return a producer of the group that reads what it is sent and may see it, each in its turn."""
        may_send = self._state.may_send
        producers = self._state.clients.producers(group)
        members = [each for each in producers if _listens(each) and may_send(each.connection, topic)]
        self._turn += 1
        return members[self._turn % len(members)] if members else None

    def _question(self, check: Check, member: Member) -> Command:
        half, config = check.half, self._state.config
        key = half.unique_key or ""
        ext = {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.position),
            "msgId": key,
            "transactionId": key,
            "offsetMsgId": half.offset_message_id,
            "bname": config.broker_name,
        }
        return Command(
            Request.CHECK_TRANSACTION_STATE, ext, question_body(check), flag=ONEWAY_FLAG,
            serialization=member.connection.serialization,
        )  # fmt: skip


def _listens(member: Member) -> bool:
    return member.connection.is_open and not member.connection.is_paused


def question_body(check: Check) -> bytes:
    """Return the half encoded anew, with its real topic and queue: what a producer reads as its message."""
    half = check.half
    properties = {**half.properties, CHECK_TIMES: str(check.checks + 1), WAIT: "false"}
    topic, queue_id = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "0")
    stored = format_properties(properties)
    born_host, store_host = pack_host(*half.born_host), pack_host(*half.store_host)
    size = record_size(topic.encode(), half.body, stored, born_host, store_host)
    return encode(
        topic.encode(), int(queue_id), half.queue_offset, half.position, half.body, stored, half.flag, half.sys_flag,
        half.born_ms, born_host, half.store_ms, store_host, half.reconsume_times, half.prepared_position, size,
    )  # fmt: skip
