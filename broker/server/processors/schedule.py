"""Delay levels and changes: 45, and two requests of our own, 14000 and 14001."""

from __future__ import annotations

from collections.abc import Mapping

from ...rocketmq.codes import Request
from ...rocketmq.frame import Command
from ...rocketmq.json_body import json_body
from ..connection import Connection, Handler
from ..memory import anonymous_bytes
from ..state import BrokerState

#: What this broker calls itself; clients compare the protocol's version (request 28), people read this one.
VERSION = "Escapement 0.1"
_LOOK_INTERVAL_MS = 5_000


class ScheduleProcessor:
    """Says how far the delay levels are, and what changed in the whole store since a token."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._looked_ms = 0
        self._rss_bytes: int | None = None

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_ALL_DELAY_OFFSET: self._delay_offsets,
            Request.GET_CHANGES: self._changes,
            Request.GET_SCHEDULE_STATUS: self._status,
        }

    def _delay_offsets(self, _: Connection, request: Command) -> Command:
        offsets = self._engine.schedule.state()
        version = {"counter": 0, "stateVersion": 0, "timestamp": self._state.clock()}
        return request.answer(body=json_body({"dataVersion": version, "offsetTable": offsets}))

    def _changes(self, _: Connection, request: Command) -> Command:
        now_ms = self._state.clock()
        changes = self._engine.changes_since(request.ext.get("token", ""), now_ms)
        if not self._looked_ms <= now_ms < self._looked_ms + _LOOK_INTERVAL_MS:
            self._looked_ms, self._rss_bytes = now_ms, anonymous_bytes()
        broker = {**changes["broker"], "version": VERSION, "rssBytes": self._rss_bytes, **self._simulated(now_ms)}
        members = self._state.clients.consumer_counts()
        return request.answer(body=json_body({**changes, "broker": broker, "members": members}))

    def _simulated(self, now_ms: int) -> dict[str, object]:
        """How its clock is simulated, where it is: what it shows at which real moment, and how fast it runs."""
        speed, real_ms = self._state.speed, self._state.live_clock()
        if speed is None:
            return {}
        return {"simulatedClock": {"speed": speed, "simulatedMs": now_ms, "realMs": real_ms}}

    def _status(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._engine.schedule_json(self._state.clock())))
