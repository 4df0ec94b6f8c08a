"""Deleting a topic (215), and counting what waits for one (14014): timers, delayed messages, halves.

Whoever deletes a topic says what is to become of that which waits for it (`escPending`). Without a word a topic for
which something waits stays: what fired later would make it anew.

A `Sweep` ends, one by one, what waits for a topic that was deleted with all that waits for it. That nothing of it comes
out is decided when the topic goes (broker/engine/tables/topics.py) and needs no sweep. It is done so that counts,
lists, wheel and the board of halves say at once what will happen, not only when its moment has come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from ...engine.errors import BrokerError, StoreRefused
from ...engine.tables.topics import Pending
from ...engine.timer.steer import Target
from ...engine.topic_backlog import Waiting
from ...engine.transaction.decision import TOPIC_DELETED, Ending
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import LONG_MAX, json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from ..connection import Connection, Handler
from ..refusals import refusal_code
from ..state import BrokerState

logger = logging.getLogger(__name__)

#: Records looked at before others get their turn: a few milliseconds.
_LOOKS_AT_ONCE = 256
_CHOICES = ("cancel", "keep")


class DeletionProcessor:
    """The requests that delete a topic and what waits for it."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.DELETE_TOPIC_IN_BROKER: self._delete, Request.GET_TOPIC_WAITING: self._waiting}

    def _waiting(self, connection: Connection, request: Command) -> Command | None:
        topic = text(request.ext, "topic")

        def answer_of(waiting: Waiting) -> Command:
            body = {"nowMs": self._state.clock(), "topic": topic, **_counts(waiting), "complete": waiting.complete}
            return request.answer(body=json_body(body))

        self._count(connection, request, self._engine.waiting_for(topic), answer_of)
        return None

    def _delete(self, connection: Connection, request: Command) -> Command | None:
        """Delete a topic. Deleting what is not there succeeds: tools delete the retry topics of a group whether it has
        any or not."""
        name, choice = text(request.ext, "topic"), request.ext.get("escPending")
        if choice not in (None, "", *_CHOICES):
            raise RequestRefused(Answer.INVALID_PARAMETER, f"escPending is cancel or keep, not {choice[:40]!r}.")
        topic = self._engine.topics.get(name)
        if topic is None and choice != "cancel":
            return request.answer()
        if topic is not None and topic.is_system:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
        pending = cast(Pending, choice) if choice else "cancel" if self._is_left_behind(name) else None
        waiting = self._engine.waiting_for(name)
        self._count(
            connection, request, waiting, lambda found: self._deleted(request, name, pending, found), at_rest=True
        )
        return None

    def _is_left_behind(self, name: str) -> bool:
        """Tell whether this is a retry or dead letter topic whose group is gone: nobody can want what waits for it."""
        if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return False
        rest = name.split("%", 2)[2]
        return not any(rest == group.name or rest.startswith(f"{group.name}_") for group in self._engine.groups.all())

    def _deleted(self, request: Command, name: str, pending: Pending | None, waiting: Waiting) -> Command:
        counts = _counts(waiting)
        fields = {f"esc{word[0].upper()}{word[1:]}": str(count) for word, count in counts.items()}
        if pending is None and (waiting.total or not waiting.complete):
            least = "" if waiting.complete else "at least "
            return request.answer(
                {**fields, "escError": "topic_has_waiting"},
                code=Answer.ILLEGAL_OPERATION,
                remark=f"For topic {name} {least}{waiting.total} messages wait: timers {counts['timers']}, delayed "
                f"{counts['delayed']}, halves {counts['halves'] + counts['parkedHalves']}. Say what is to become of "
                "them: delete it in the console or by REST, or ask with escPending=cancel or escPending=keep.",
            )
        if self._engine.topics.get(name) is not None:
            self._engine.delete_topic(name, pending if waiting.total or not waiting.complete else None)
        elif pending == "cancel" and (waiting.total or not waiting.complete or self._engine.topics.is_kept(name)):
            self._engine.cancel_waiting(name)
        self._state.statistics.forget_topic(name)
        if pending == "cancel" and waiting.total:
            Sweep(self._state, name, [*waiting.open_halves, *waiting.parked_halves]).go_on()
        return request.answer(fields)

    def _count(
        self,
        connection: Connection,
        request: Command,
        waiting: Waiting,
        answer_of: Callable[[Waiting], Command],
        *,
        at_rest: bool = False,
    ) -> None:
        """Count what waits, a portion at a time, so that a million parked messages keep nobody from being answered;
        `at_rest`: while no other thread writes what may be removed then."""
        if not connection.is_open:
            return
        go_on = partial(self._count, connection, request, waiting, answer_of, at_rest=at_rest)
        if at_rest and self._engine.is_upkeeping:
            self._state.at_rest(go_on)
            return
        try:
            if waiting.look(_LOOKS_AT_ONCE):
                asyncio.get_running_loop().call_soon(go_on)
                return
            answer = answer_of(waiting)
        except BrokerError as error:
            answer = request.answer(code=refusal_code(error), remark=str(error))
        except OSError as error:
            logger.error("request %d failed: %s", request.code, error)
            answer = request.answer(code=Answer.SYSTEM_ERROR, remark=f"The disk failed: {error}; nothing was changed.")
        if not request.is_oneway:
            connection.send(answer)
        self._state.kick()


def _counts(waiting: Waiting) -> dict[str, int]:
    return {
        "timers": waiting.timers,
        "delayed": waiting.delayed,
        "halves": len(waiting.open_halves),
        "parkedHalves": len(waiting.parked_halves),
    }


# Ending what waited for a topic that was deleted with it.

#: Timers and halves ended, and units of the timer log looked at, before others get their turn.
_ENDED_AT_ONCE = 32
_UNITS_AT_ONCE = 256


class Sweep:
    """The end of what waits for one topic. ``halves``: (offset, position) of those that were found."""

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
        page = self._engine.timers.listing.page(
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
    """Go on, after a start, where the last run ended."""
    for topic in state.engine.topics.cancelled:
        if state.engine.timers.states.by_topic.get(topic):
            Sweep(state, topic, []).go_on()
