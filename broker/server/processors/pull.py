"""Pulling messages (11 and 361), answered at once or held until a message arrives (long polling).

Of the fields of a pull two change from one pull to the next; `PullHeaders` reads the others once:

    queueOffset, commitOffset       each time
    all others                      once for each way in which they come together
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...engine.errors import BrokerError, InvalidValue, TopicNotFound, TopicNotReadable
from ...engine.queues.reader import Pulled, PullStatus, Selection
from ...engine.tables.topics import READ, Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, text, whole
from ...rocketmq.frame import Command
from ...rocketmq.subscription import Subscription, build_subscription
from ..connection import Connection, Handler
from ..long_polls import WaitingPull
from ..refusals import refusal_code
from ..state import BrokerState

LONGEST_SUSPEND_MS = 120_000

#: status of the engine -> response code and remark (GetMessageStatus)
_ANSWERS = {
    PullStatus.FOUND: (Answer.SUCCESS, "FOUND"),
    PullStatus.NO_MESSAGE: (Answer.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    PullStatus.EMPTY_QUEUE: (Answer.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
    PullStatus.NO_MATCH: (Answer.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    PullStatus.OFFSET_OVERFLOW: (Answer.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
    PullStatus.OFFSET_TOO_SMALL: (Answer.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
}


class PullProcessor:
    """Gives consumers what they ask for."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._headers = PullHeaders()

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.PULL_MESSAGE: self._pull, Request.LITE_PULL_MESSAGE: self._pull}

    def _pull(self, connection: Connection, request: Command) -> Command | None:
        ext = request.ext
        wanted = self._headers.read(ext)
        group, topic, queue_id = wanted.group, wanted.topic, wanted.queue_id
        self._check_group(group, topic)
        self._check_queue(topic, queue_id)
        selection = (wanted.subscription() if wanted.brings_subscription else self._subscription(wanted)).selection
        offset = whole(ext, "queueOffset")
        moved = self._moved(request, wanted)
        if moved is not None:
            return moved
        committed = whole(ext, "commitOffset", -1)
        if wanted.commits and committed >= 0 and self._engine.groups.get(group) is not None:
            # where there is no room for it, the next commit by itself (15) is told so: messages are given out
            with suppress(InvalidValue):
                self._engine.offsets.commit(group, topic, queue_id, committed)
        pulled = self._look(wanted, offset, selection)
        if self._may_wait(pulled, offset, wanted.suspend_ms):
            self._hold(connection, request, wanted, selection, pulled.next_offset)
            return None
        return self._answer(request, wanted, pulled, offset)

    def _look(self, wanted: PullHeader, offset: int, selection: Selection) -> Pulled:
        """What the queue has from an offset on: as much as is asked for, and one pull may be answered with."""
        config = self._state.config
        return self._engine.pull(
            wanted.topic, wanted.queue_id, offset, min(wanted.most_messages, config.pull_most_messages),
            min(wanted.most_bytes, config.pull_most_bytes), selection,
        )  # fmt: skip

    def _check_group(self, name: str, topic: str) -> None:
        if not self._state.group(name).consume_enable:
            raise RequestRefused(Answer.NO_PERMISSION, f"subscription group no permission, {name}")
        if self._engine.groups.is_forbidden(name, topic):
            raise RequestRefused(Answer.NO_PERMISSION, f"the consumer group[{name}] is forbidden for topic[{topic}]")

    def _moved(self, request: Command, wanted: PullHeader) -> Command | None:
        """The answer to a group that an administrator has put elsewhere, if it was not told yet."""
        offset = self._state.resets.take(wanted.group, (wanted.topic, wanted.queue_id))
        if offset is None:
            return None
        low, high = self._engine.queue_bounds(wanted.topic, wanted.queue_id)
        return request.answer(_fields(offset, low, high), code=Answer.PULL_OFFSET_MOVED, remark="OFFSET_RESET")

    def _check_queue(self, name: str, queue_id: int) -> None:
        topic: Topic | None = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        if not topic.permission & READ:
            raise TopicNotReadable(name)
        if queue_id >= topic.read_queues:
            raise RequestRefused(
                Answer.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic {name!r} has {topic.read_queues} queues.",
            )

    def _subscription(self, wanted: PullHeader) -> Subscription:
        """What the group's heartbeats say of the topic: it must be as new as the pull says."""
        consumers = self._state.clients.consumers(wanted.group)
        if consumers is None:
            raise RequestRefused(Answer.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        subscription = consumers.subscriptions.get(wanted.topic)
        if subscription is None:
            raise RequestRefused(Answer.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if subscription.version < wanted.version:
            raise RequestRefused(Answer.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        subscription.read_filter()
        return subscription

    def _may_wait(self, pulled: Pulled, offset: int, suspend_ms: int) -> bool:
        if suspend_ms <= 0 or self._state.waiting.is_full:
            return False
        return pulled.status is PullStatus.NO_MESSAGE or (pulled.status is PullStatus.EMPTY_QUEUE and offset == 0)

    def _hold(
        self, connection: Connection, request: Command, wanted: PullHeader, selection: Selection, offset: int
    ) -> None:
        def look(pull: WaitingPull, is_last: bool) -> bool:
            return self._look_again(pull, wanted, selection, is_last)

        deadline_ms = self._state.live_clock() + min(wanted.suspend_ms, LONGEST_SUSPEND_MS)
        key = (wanted.topic, wanted.queue_id)
        self._state.waiting.add(WaitingPull(connection, request, key, offset, deadline_ms, look))

    def _look_again(self, pull: WaitingPull, wanted: PullHeader, selection: Selection, is_last: bool) -> bool:
        """Answers a pull that waited, unless there is still nothing for it and time left."""
        connection, request = pull.connection, pull.request
        if connection.is_paused and not is_last:
            return False
        try:
            pulled = self._look(wanted, pull.offset, selection)
        except (BrokerError, OSError) as error:
            code = refusal_code(error) if isinstance(error, BrokerError) else Answer.SYSTEM_ERROR
            connection.send(request.answer(code=code, remark=str(error)))
            return True
        moved = self._moved(request, wanted)
        if moved is not None:
            connection.send(moved)
            return True
        if not is_last and pulled.status in {PullStatus.NO_MESSAGE, PullStatus.NO_MATCH}:
            pull.go_on_at(pulled.next_offset)
            if pulled.next_offset >= pulled.max_offset:
                return False
        connection.send(self._answer(request, wanted, pulled, pull.offset))
        return True

    def _answer(self, request: Command, wanted: PullHeader, pulled: Pulled, offset: int) -> Command:
        code, remark = _ANSWERS[pulled.status]
        if pulled.status is PullStatus.EMPTY_QUEUE and offset != 0:
            code, remark = Answer.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE"
        body = b"".join(pulled.records)
        if body:
            count, now_ms = len(pulled.records), self._state.clock()
            self._state.statistics.given(wanted.group, wanted.topic, count, len(body), now_ms)
        fields = _fields(pulled.next_offset, pulled.min_offset, pulled.max_offset)
        return request.answer(fields, body, code=code, remark=remark)


def _fields(next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


# The fields of a pull.

COMMIT_OFFSET = 1
SUSPEND = 2
HAS_SUBSCRIPTION = 4

MOST_MESSAGES = 1024
MOST_BYTES = 4 * 1024 * 1024
"""What the settings of a pull's answer may be raised to; it holds at least one message."""

_LASTING = (
    "consumerGroup", "topic", "queueId", "sysFlag", "maxMsgNums", "maxMsgBytes", "suspendTimeoutMillis", "subVersion",
    "subscription", "expressionType",
)  # fmt: skip
_MOST_HEADERS = 20_000
#: Clients say what they like in these fields: what is longer is read each time rather than kept.
_MOST_LETTERS = 600


@dataclass(slots=True, eq=False)
class PullHeader:
    """The fields of a pull that do not change, checked."""

    group: str
    topic: str
    queue_id: int
    most_messages: int
    most_bytes: int
    suspend_ms: int
    """How long it may wait for news; 0: not at all."""
    commits: bool
    """True if it says how far the group came."""
    version: int
    brings_subscription: bool
    """False if that of the group's heartbeats counts."""
    expression: str
    kind: str
    _subscription: Subscription | None = None

    def subscription(self) -> Subscription:
        """What it brings itself; refused if it is not understood."""
        if self._subscription is None:
            self._subscription = build_subscription(self.topic, self.expression, self.kind, self.version)
        return self._subscription


class PullHeaders:
    """Reads the fields of pulls, and remembers what it has read."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, ...], PullHeader] = {}

    def read(self, ext: Mapping[str, str]) -> PullHeader:
        """The lasting fields of a pull; refused if one is missing or no value of its kind."""
        key = tuple(map(ext.get, _LASTING))
        header = self._known.get(key)
        if header is None:
            header = _read(ext)
            if sum([len(value or "") for value in key]) <= _MOST_LETTERS:
                if len(self._known) >= _MOST_HEADERS:
                    self._known.clear()
                self._known[key] = header
        return header


def _read(ext: Mapping[str, str]) -> PullHeader:
    sys_flag = whole(ext, "sysFlag", 0, low=0, high=INT_MAX)
    return PullHeader(
        text(ext, "consumerGroup"),
        text(ext, "topic"),
        whole(ext, "queueId", low=0, high=INT_MAX),
        # none is one, as at RocketMQ: pull consumers of the Go client ask for 0 unless they are told otherwise
        min(max(whole(ext, "maxMsgNums", 32, low=0, high=INT_MAX), 1), MOST_MESSAGES),
        min(whole(ext, "maxMsgBytes", MOST_BYTES, low=0, high=INT_MAX), MOST_BYTES),
        max(whole(ext, "suspendTimeoutMillis", 0), 0) if sys_flag & SUSPEND else 0,
        bool(sys_flag & COMMIT_OFFSET),
        whole(ext, "subVersion", 0),
        bool(sys_flag & HAS_SUBSCRIPTION),
        ext.get("subscription") or "*",
        ext.get("expressionType") or "TAG",
    )
