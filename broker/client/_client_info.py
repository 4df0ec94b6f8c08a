"""Answering what brokers ask a consumer for an administrator: 307 what it does, 221 how far it is, 309 to handle a
message at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.frame import Command
from ..rocketmq.message import Message
from ._reader import read_delivery
from ._running_info import Consuming, running_body, status_body
from ._session import Session
from .errors import BadAnswer

#: CMResult: the message was handled, or its handler raised.
_HANDLED, _RAISED = "CR_SUCCESS", "CR_THROW_EXCEPTION"
#: Why a handler failed is told this far.
_REMARK_CHARACTERS = 1_000

Try = Callable[[Message], Awaitable[tuple[float, Exception | None]]]
"""Have a message handled: ms that it took, and what the handler raised."""


class SelfTelling:
    """The answers of one consumer; `now` is asked for each. `attempt`: None where there are no handlers."""

    def __init__(
        self, session: Session, group: str, now: Callable[[], Consuming], *, attempt: Try | None = None,
        is_orderly: bool = False,
    ) -> None:  # fmt: skip
        self._group = group
        self._now = now
        self._attempt = attempt
        self._is_orderly = is_orderly
        session.register(Request.GET_CONSUMER_RUNNING_INFO, self._running_info)
        session.register(Request.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        if attempt is not None:
            session.register(Request.CONSUME_MESSAGE_DIRECTLY, self._consume)

    def _running_info(self, _: str, request: Command) -> Command:
        if (refusal := self._refusal(request, "consumerGroup")) is not None:
            return refusal
        return request.answer(
            body=running_body(self._now(), with_stack=request.ext.get("jstackEnable", "").lower() == "true")
        )

    def _status(self, _: str, request: Command) -> Command:
        if (refusal := self._refusal(request, "group")) is not None:
            return refusal
        return request.answer(body=status_body(self._now(), request.ext.get("topic", "")))

    def _refusal(self, request: Command, field: str) -> Command | None:
        group = request.ext.get(field)
        if group == self._group:
            return None
        return request.answer(
            code=Answer.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer"
        )

    def _consume(self, _: str, request: Command) -> Command | asyncio.Future[Command]:
        if (refusal := self._refusal(request, "consumerGroup")) is not None:
            return refusal
        try:
            message = read_delivery(request.body)
        except BadAnswer as error:
            return request.answer(code=Answer.SYSTEM_ERROR, remark=str(error))
        return asyncio.get_running_loop().create_task(self._handled(request, message))

    async def _handled(self, request: Command, message: Message) -> Command:
        assert self._attempt is not None, "registered only with one"
        took_ms, failure = await self._attempt(message)
        remark = None if failure is None else f"{type(failure).__name__}: {failure}"[:_REMARK_CHARACTERS]
        result = {
            "order": self._is_orderly,
            "autoCommit": True,
            "consumeResult": _HANDLED if failure is None else _RAISED,
            "remark": remark,
            "spentTimeMills": int(took_ms),
        }
        return request.answer(body=msgspec.json.encode(result))
