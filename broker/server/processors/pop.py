"""Popping: 200050, answered at once or held until a message arrives; 200052, 200054 and 200055, which look only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ...engine.errors import BrokerError, TopicNotFound, TopicNotReadable
from ...engine.pop.service import Pops
from ...engine.pop.take import Popped, Taken, Wanted
from ...engine.tables.topics import READ, Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, text, truth, whole
from ...rocketmq.frame import Command
from ...rocketmq.ids import (
    ORDER_QUEUE,
    as_of_topic,
    message_offsets,
    order_counts,
    start_offsets,
)
from ...rocketmq.subscription import build_subscription
from ...rocketmq.topics import RETRY_PREFIX
from ..connection import Connection, Handler
from ..long_polls import WaitingPop, WaitingPops
from ..refusals import refusal_code
from ..state import BrokerState

MOST_MESSAGES = 32
"""Messages of one pop (PopMessageProcessor refuses more)."""
MOST_BYTES = 4 * 1024 * 1024
LONGEST_POLL_MS = 120_000
LONGEST_INVISIBLE_MS = INT_MAX
_FOUND, _NOTHING = "FOUND", "NO_MESSAGE_IN_QUEUE"
#: The tick comes at least this often by itself.
_SOON_MS = 1_000


class _Asked(NamedTuple):
    """A pop whose fields were checked."""

    wanted: Wanted
    read_queues: int
    poll_ms: int


class PopProcessor:
    """The requests that pop messages, or look at what a pop would get."""

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._engine = state.engine
        self._pops: Pops = state.engine.pops
        self.waiting = WaitingPops(loop, state.live_clock, self._looked, live_ms=state.live_ms)
        self._has_hurry = False

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.POP_MESSAGE: self._pop,
            Request.PEEK_MESSAGE: self._peek,
            Request.NOTIFICATION: self._notification,
            Request.POLLING_INFO: self._polling_info,
        }

    # asking

    def _place(self, ext: Mapping[str, str]) -> tuple[str, Topic, int]:
        """Return group, topic and queue id (-1: any) of a request; a group that is new is made, as RocketMQ does."""
        group, topic = text(ext, "consumerGroup"), self._topic(text(ext, "topic"))
        queue_id = whole(ext, "queueId", -1, low=-INT_MAX - 1, high=INT_MAX)
        if queue_id >= topic.read_queues:
            raise RequestRefused(
                Answer.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic {topic.name!r} has {topic.read_queues} queues.",
            )
        known = self._state.group(group)
        if not known.consume_enable or self._engine.groups.is_forbidden(group, topic.name):
            raise RequestRefused(Answer.NO_PERMISSION, f"subscription group no permission, {group}")
        return group, topic, max(queue_id, -1)

    def _topic(self, name: str) -> Topic:
        topic = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        if not topic.permission & READ:
            raise TopicNotReadable(name)
        return topic

    def _is_given_back(self, group: str) -> bool:
        """Tell whether what is given back to a group (36) is for those who pop: no consumer of it is there that pulls
        it."""
        consumers = self._state.clients.consumers(group)
        return consumers is None or RETRY_PREFIX + group not in consumers.subscriptions

    def _asked(self, ext: Mapping[str, str]) -> _Asked:
        count = whole(ext, "maxMsgNums", low=1, high=INT_MAX)
        if count > MOST_MESSAGES:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A pop gets at most {MOST_MESSAGES} messages.")
        group, topic, queue_id = self._place(ext)
        wanted = Wanted(
            group,
            topic.name,
            queue_id,
            count,
            MOST_BYTES,
            whole(ext, "invisibleTime", low=0, high=LONGEST_INVISIBLE_MS),
            build_subscription(topic.name, ext.get("exp") or "*", ext.get("expType") or "TAG", 0).selection,
            # ConsumeInitMode: 0 the first message, 1 the last one
            from_end=whole(ext, "initMode", 0, low=0, high=INT_MAX) == 1,
            in_order=truth(ext, "order"),
            attempt=ext.get("attemptId") or "",
            given_back=self._is_given_back(group),
        )
        return _Asked(wanted, topic.read_queues, _poll_ms(ext))

    def _pop(self, connection: Connection, request: Command) -> Command | None:
        self._engine.check_open()
        asked = self._asked(request.ext)
        popped = self._take(asked)
        if popped.taken or not asked.poll_ms:
            return self._answer(request, asked.wanted, popped)
        if self.waiting.is_full:
            return self._answer(request, asked.wanted, popped, nothing=Answer.POLLING_FULL)
        self._hold(connection, request, asked, popped.again_ms)
        return None

    def _take(self, asked: _Asked) -> Popped:
        wanted = asked.wanted
        popped = self._pops.pop(wanted, asked.read_queues, self._state.clock())
        if popped.taken:
            self._state.statistics.given(
                wanted.group, wanted.topic, popped.messages, popped.size_bytes, self._state.clock()
            )
            if wanted.invisible_ms <= _SOON_MS:
                self._hurry()
        return popped

    def _hurry(self) -> None:
        """Have the engine look at once, though many of one moment ask for that, once only."""
        if not self._has_hurry:
            self._has_hurry = True
            asyncio.get_running_loop().call_soon(self._hurried)

    def _hurried(self) -> None:
        self._has_hurry = False
        self._state.hurry()

    def _looked(self) -> None:
        """Have written down what was handed out to those who waited."""
        self._state.kick()

    def _answer(
        self, request: Command, wanted: Wanted, popped: Popped, *, nothing: int = Answer.POLLING_TIMEOUT
    ) -> Command:
        fields = {
            "popTime": str(popped.pop_ms),
            "invisibleTime": str(wanted.invisible_ms),
            "reviveQid": str(ORDER_QUEUE) if wanted.in_order else "0",
            "restNum": str(popped.rest),
            "startOffsetInfo": start_offsets(popped.taken, wanted.topic),
            "msgOffsetInfo": message_offsets(popped.taken, wanted.topic),
        }
        if not popped.taken:
            return request.answer(fields, code=nothing, remark=_NOTHING)
        if wanted.in_order:
            fields["orderCountInfo"] = order_counts(popped.taken, wanted.topic)
        records: list[bytes] = []
        for taken in popped.taken:
            if taken.topic == wanted.topic:
                records += taken.records
            else:
                records += self._of_retry(taken, wanted, popped.pop_ms)
        return request.answer(fields, b"".join(records), remark=_FOUND)

    def _of_retry(self, taken: Taken, wanted: Wanted, pop_ms: int) -> list[bytes]:
        """Return messages of the retry topic as clients expect them: as of the topic itself."""
        broker = self._state.config.broker_name
        return [
            as_of_topic(record, wanted.topic, taken.start, pop_ms, wanted.invisible_ms, broker)
            for record in taken.records
        ]

    # waiting

    def _hold(self, connection: Connection, request: Command, asked: _Asked, again_ms: int | None) -> None:
        wanted = asked.wanted

        def look(is_last: bool) -> tuple[bool, int | None]:
            return self._look_again(connection, request, asked, is_last)

        deadline_ms = self._state.live_clock() + min(asked.poll_ms, LONGEST_POLL_MS)
        alike = (wanted.tags_codes, wanted.in_order, wanted.attempt if wanted.in_order else "")
        pop = WaitingPop(connection, wanted.group, wanted.topic, wanted.queue_id, deadline_ms, alike, look)
        self.waiting.add(pop, again_ms)

    def _look_again(
        self, connection: Connection, request: Command, asked: _Asked, is_last: bool
    ) -> tuple[bool, int | None]:
        """Answer a pop that waited, unless there is still nothing for it and time left."""
        # whoever does not read, or is to hear that its time is over, must not be given messages
        is_last = is_last or connection.is_paused
        popped = Popped(self._state.clock(), [], 0, None)
        try:
            if not is_last:
                self._engine.check_open()
                popped = self._take(asked)
        except (BrokerError, OSError) as error:
            connection.send(_refused(request, error))
            return True, None
        if not popped.taken and not is_last:
            return False, popped.again_ms
        connection.send(self._answer(request, asked.wanted, popped))
        return True, None

    # looking only

    def _peek(self, _: Connection, request: Command) -> Command:
        """Answer what the next pop would get, and change nothing by it."""
        ext = request.ext
        count = min(whole(ext, "maxMsgNums", low=1, high=INT_MAX), MOST_MESSAGES)
        group, topic, queue_id = self._place(ext)
        wanted = Wanted(group, topic.name, queue_id, count, MOST_BYTES, 0)
        records, rest = self._pops.taker.peek(wanted, topic.read_queues)
        fields = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": str(rest)}
        if not records:
            return request.answer(fields, code=Answer.PULL_NOT_FOUND, remark=_NOTHING)
        return request.answer(fields, b"".join(records), remark=_FOUND)

    def _notification(self, connection: Connection, request: Command) -> Command | None:
        """Answer whether a pop would get something, at once or as soon as it does; without the messages themselves."""
        ext = request.ext
        group, topic, queue_id = self._place(ext)
        wanted = Wanted(
            group, topic.name, queue_id, 1, MOST_BYTES, 0, in_order=truth(ext, "order"),
            attempt=ext.get("attemptId") or "", given_back=self._is_given_back(group),
        )  # fmt: skip
        poll_ms = _poll_ms(ext)
        has_messages, again_ms = self._pops.has_messages(wanted, topic.read_queues, self._state.clock())
        if has_messages or not poll_ms or self.waiting.is_full:
            return _notified(request, has_messages, is_full=not has_messages and poll_ms > 0)

        def look(is_last: bool) -> tuple[bool, int | None]:
            try:
                found, later_ms = self._pops.has_messages(wanted, topic.read_queues, self._state.clock())
            except (BrokerError, OSError) as error:
                connection.send(_refused(request, error))
                return True, None
            if found or is_last:
                connection.send(_notified(request, found))
            return found or is_last, later_ms

        deadline_ms = self._state.live_clock() + min(poll_ms, LONGEST_POLL_MS)
        # each is told by itself: none takes anything away from another
        pop = WaitingPop(connection, group, topic.name, queue_id, deadline_ms, look, look)
        self.waiting.add(pop, again_ms)
        return None

    def _polling_info(self, _: Connection, request: Command) -> Command:
        """Answer how many pops of a group wait at a queue, or at any (-1)."""
        group, topic, queue_id = self._place(request.ext)
        return request.answer({"pollingNum": str(self.waiting.count(group, topic.name, queue_id))})


def _poll_ms(ext: Mapping[str, str]) -> int:
    """Return how long a request waits for a message; 0, or less, is not at all, as in RocketMQ."""
    return max(whole(ext, "pollTime", 0), 0)


def _refused(request: Command, error: BrokerError | OSError) -> Command:
    """Return the answer to a request that waited, and came to nothing."""
    code = refusal_code(error) if isinstance(error, BrokerError) else Answer.SYSTEM_ERROR
    return request.answer(code=code, remark=str(error))


def _notified(request: Command, has_messages: bool, *, is_full: bool = False) -> Command:
    """Return the answer to request 200054."""
    return request.answer({"hasMsg": str(has_messages).lower(), "pollingFull": str(is_full).lower()})
