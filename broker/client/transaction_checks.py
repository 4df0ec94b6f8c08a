"""Answering checks: a broker asks over our connection what became of a half (request 39), we answer by request 37.

Checks wait in a bounded queue; what does not fit is dropped and logged: the broker asks again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ..engine.errors import CorruptRecord
from ..rocketmq.codes import Request
from ..rocketmq.frame import Command
from ..rocketmq.message import decode
from .errors import ClientError
from .session import Session
from .transaction import Check, Checker, Decision
from .types import Message

logger = logging.getLogger(__name__)

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
        """A broker's request 39: queued for an answer; it is one-way, so nothing is answered here."""
        check = self._read(address, request)
        if check is None or self._closed:
            return
        try:
            self._waiting.put_nowait(check)
        except asyncio.QueueFull:
            logger.warning("check of %s dropped: %d wait already", check.transaction_id, MAX_WAITING)
            return
        if not self._workers:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix=f"check-{self._group}")
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._answer_all()) for _ in range(self._count)]

    def _read(self, address: str, request: Command) -> Check | None:
        try:
            # not verified: the broker put the real topic into the record, its checksum is of the half topic
            message = decode(request.body, verify=False)
            check = Check(message, self._group, address, request.ext)
            check.ending(Decision.UNKNOWN)
        except (CorruptRecord, KeyError, ValueError) as error:
            logger.error("a check from %s cannot be read: %r", address, error)
            return None
        group = message.properties.get("PGROUP", self._group)
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
