"""Reading messages: pulled (11 and 361), found by key (12), by position (33), and the entries of queues (321).

A pull is answered at once or held until a message arrives (long polling). Of its fields two change from one pull to the
next; `PullHeaders` reads the others once:

    queueOffset, commitOffset       each time
    all others                      once for each way in which they come together
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...engine.errors import BrokerError, CorruptRecord, InvalidValue, RecordNotFound, TopicNotFound, TopicNotReadable
from ...engine.queues.reader import Pulled, PullStatus, Selection
from ...engine.tables.topics import READ, Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, LONG_MAX, json_body, text, whole
from ...rocketmq.frame import MAX_FRAME_BYTES, Command
from ...rocketmq.subscription import Subscription, build_subscription, subscription_body
from ..connection import Connection, Handler
from ..long_polls import WaitingPull
from ..refusals import refusal_code
from ..state import BrokerState

logger = logging.getLogger(__name__)


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
    """The requests that pull messages from a queue."""

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
        """Return what the queue has from an offset on: as much as is asked for, and one pull may be answered with."""
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
        """Return the answer to a group that an administrator has put elsewhere, if it was not told yet."""
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
        """Return what the group's heartbeats say of the topic: it must be as new as the pull says."""
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
        """Answer a pull that waited, unless there is still nothing for it and time left."""
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
    """The fields of a pull that do not change from one to the next, checked."""

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
        """Return the subscription that it brings itself; refused if it is not understood."""
        if self._subscription is None:
            self._subscription = build_subscription(self.topic, self.expression, self.kind, self.version)
        return self._subscription


class PullHeaders:
    """The lasting fields of pulls, read once and remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, ...], PullHeader] = {}

    def read(self, ext: Mapping[str, str]) -> PullHeader:
        """Return the lasting fields of a pull; refused if one is missing or no value of its kind."""
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


# Looking for messages.

#: index type -> what stands before the key in the index
_INDEXED_AS = {"": "", "K": "", "U": "", "T": "T#"}

MOST_FOUND = 256
"""maxMsgsNumBatch, 64 in RocketMQ, where clients ask for no more; who passes over others' messages asks for more."""

MOST_ENTRIES = 10_000
MOST_FOUND_BYTES = MAX_FRAME_BYTES - 65_536
"""Java clients read no larger frame."""


class QueryProcessor:
    """The requests that read single messages and queue entries."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.QUERY_MESSAGE: self._by_key,
            Request.VIEW_MESSAGE_BY_ID: self._by_position,
            Request.QUERY_CONSUME_QUEUE: self._entries,
        }

    def _by_key(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        prefix = _INDEXED_AS.get(ext.get("indexType", ""))
        if prefix is None:
            raise RequestRefused(
                Answer.INVALID_PARAMETER, "Messages are found by key (K), message id (U) or tag (T) only."
            )
        positions = self._engine.find(
            text(ext, "topic"),
            prefix + text(ext, "key"),
            begin_ms=whole(ext, "beginTimestamp", 0),
            end_ms=whole(ext, "endTimestamp", LONG_MAX),
            max_count=min(whole(ext, "maxNum", MOST_FOUND, low=1, high=INT_MAX), MOST_FOUND),
            now_ms=self._state.clock(),
        )
        records = self._records(sorted(positions))
        if not records:
            return request.answer(
                {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"},
                code=Answer.QUERY_NOT_FOUND,
                remark="can not find message, maybe time range not correct",
            )
        end = self._engine.health().log_end_position
        ext = {"indexLastUpdateTimestamp": str(self._state.clock()), "indexLastUpdatePhyoffset": str(end)}
        return request.answer(ext, b"".join(records))

    def _records(self, positions: list[int]) -> list[bytes]:
        """Return the records there; a damaged one is logged and left out, it must not hide the others."""
        records: list[bytes] = []
        size = 0
        for position in positions:
            try:
                record = self._engine.record_at(position)
            except (RecordNotFound, CorruptRecord) as error:
                logger.warning("a message found by key is left out: %s", error)
                continue
            size += len(record)
            if size > MOST_FOUND_BYTES and records:
                break
            records.append(record)
        return records

    def _by_position(self, _: Connection, request: Command) -> Command:
        return request.answer(body=self._engine.look_at(whole(request.ext, "offset", low=0)))

    def _entries(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        name, queue_id = text(ext, "topic"), whole(ext, "queueId", low=0, high=INT_MAX)
        index, count = whole(ext, "index", low=0), whole(ext, "count", low=0, high=INT_MAX)
        topic = self._engine.topics.get(name)
        if topic is None or queue_id >= max(topic.read_queues, topic.write_queues):
            raise RequestRefused(Answer.SYSTEM_ERROR, f"{queue_id}@{name} is not exist!")
        low, high = self._engine.queue_bounds(name, queue_id)
        entries = self._engine.entries(name, queue_id, max(index, low), min(count, MOST_ENTRIES))
        rows = [
            {"eval": False, "physicOffset": entry.position, "physicSize": entry.size, "tagsCode": entry.tags_code}
            for entry in entries
        ]
        body: dict[str, object] = {"maxQueueIndex": high, "minQueueIndex": low, "queueData": rows}
        if ext.get("consumerGroup"):
            body |= self._wanted(ext["consumerGroup"], name)
        return request.answer(body=json_body(body))

    def _wanted(self, group: str, topic: str) -> dict[str, object]:
        """Return what a group wants of a topic, for whoever wonders why it gets no message."""
        consumers = self._state.clients.consumers(group)
        subscription = consumers.subscriptions.get(topic) if consumers is not None else None
        if subscription is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        return {"filterData": "null", "subscriptionData": subscription_body(subscription)}
