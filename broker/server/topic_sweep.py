"""Ends, one by one, what waits for a topic that was deleted with all that waits for it.

That nothing of it comes out is decided when the topic goes (engine/store/topics.py) and needs none of this. It is done
so that counts, lists, wheel and the board of halves say at once what will happen, not only when its moment has come.
"""

from __future__ import annotations

import asyncio
import logging

from ..engine.errors import BrokerError, StoreRefused
from ..engine.timer.engine_calls import Target
from ..engine.transaction.decision import TOPIC_DELETED, Ending
from ..rocketmq.fields import LONG_MAX
from .state import BrokerState

logger = logging.getLogger(__name__)

#: Timers and halves ended, and units of the timer log looked at, before others get their turn.
_ENDED_AT_ONCE = 32
_UNITS_AT_ONCE = 256


class Sweep:
    """One topic's. ``halves``: (offset, position) of those that were found."""

    def __init__(self, state: BrokerState, topic: str, halves: list[tuple[int, int]]) -> None:
        self._state = state
        self._engine = state.engine
        self._topic = topic
        self._halves = halves
        self._cursor: str | None = None

    def go_on(self) -> None:
        """End a portion; the rest follows when others had their turn. A store that takes nothing ends it."""
        try:
            more = self._end_halves() if self._halves else self._end_timers()
        except StoreRefused as error:
            logger.warning("what waited for %s is dropped when it is due, not now: %s", self._topic, error)
            return
        self._state.kick()
        if more:
            asyncio.get_running_loop().call_soon(self.go_on)

    def _end_halves(self) -> bool:
        now_ms = self._state.clock()
        while self._halves:
            offset, position = self._halves[-1]
            try:
                self._engine.transactions.end(Ending(offset, position, False, TOPIC_DELETED), now_ms)
            except StoreRefused:
                raise
            except BrokerError as error:
                logger.info("a half message of %s is not rolled back: %s", self._topic, error)
            self._halves.pop()
            if len(self._halves) % _ENDED_AT_ONCE == 0:
                break
        return True

    def _end_timers(self) -> bool:
        now_ms, topics = self._state.clock(), self._engine.topics
        page = self._engine.timers_list(
            0, LONG_MAX, topic=self._topic, limit=_ENDED_AT_ONCE, units=_UNITS_AT_ONCE, cursor=self._cursor,
            now_ms=now_ms,
        )  # fmt: skip
        for timer in page["items"]:
            position = timer["position"]
            if topics.is_cancelled(self._topic, position):
                self._engine.steer_timer("cancel", Target(position=position), reason=TOPIC_DELETED, now_ms=now_ms)
        self._cursor = page["cursor"]
        return self._cursor is not None


def sweep_all(state: BrokerState) -> None:
    """After a start: go on where the last run ended."""
    for topic in state.engine.topics.cancelled:
        if state.engine.timers.core.by_topic.get(topic):
            Sweep(state, topic, []).go_on()
