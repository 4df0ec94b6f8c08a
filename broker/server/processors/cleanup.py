"""Tidying at once what the broker tidies by itself: 306 queues, 316 topics, 329 the log."""

from __future__ import annotations

from collections.abc import Mapping

from ...rocketmq.codes import Request
from ...rocketmq.frame import Command
from ..connection import Connection, Handler
from ..state import BrokerState


class TidyingProcessor:
    """Removes what has expired, by the rules that hold anyway: nothing pending or unconsumed goes."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.CLEAN_EXPIRED_CONSUMEQUEUE: self._tidy,
            Request.CLEAN_UNUSED_TOPIC: self._tidy,
            Request.DELETE_EXPIRED_COMMITLOG: self._tidy,
        }

    def _tidy(self, _: Connection, request: Command) -> Command:
        """Queues are trimmed with the log, and go with their topic: what expires is the log's oldest segments."""
        self._engine.expire_soon()
        return request.answer()
