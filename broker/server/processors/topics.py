"""Topics and what is in them (17, 18, 21, 351, 202, 300, 305), deleting one (215), what waits for one (14014).

Whoever deletes a topic says what is to become of that which waits for it (`escPending`): timers, delayed messages,
halves. Without a word a topic for which something waits stays: what fired later would make it anew.

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

import msgspec

from ...engine.errors import BrokerError, StoreRefused
from ...engine.tables.topics import Pending, Topic
from ...engine.timer.steer import Target
from ...engine.topic_backlog import Waiting
from ...engine.transaction.decision import TOPIC_DELETED, Ending
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import LONG_MAX, body_as, json_body, message_queue, table_with_object_keys, text, truth, whole
from ...rocketmq.frame import Command
from ...rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPICS
from ..connection import Connection, Handler
from ..refusals import refusal_code
from ..state import BrokerState
from ..statistics import TOPIC_PUT_NUMS

logger = logging.getLogger(__name__)


MOST_TOPICS_AT_ONCE = 10_000


class TopicBody(msgspec.Struct, rename="camel"):
    """TopicConfig as an administrator gives it: attributes are changes, `{"+name": "value", "-name": ""}`."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicListBody(msgspec.Struct, rename="camel"):
    """The body of request 18 (CreateTopicListRequestBody)."""

    topic_config_list: list[TopicBody] = []


class TopicProcessor:
    """The requests that make, change, delete and describe topics."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_TOPIC: self._put,
            Request.UPDATE_AND_CREATE_TOPIC_LIST: self._put_list,
            Request.GET_ALL_TOPIC_CONFIG: self._all,
            Request.GET_TOPIC_CONFIG: self._one,
            Request.GET_TOPIC_STATS_INFO: self._stats,
            Request.QUERY_TOPIC_CONSUME_BY_WHO: self._consumed_by,
            Request.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system_topics,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        body = TopicBody(
            text(ext, "topic"),
            whole(ext, "readQueueNums"),
            whole(ext, "writeQueueNums"),
            whole(ext, "perm", 6),
            ext.get("topicFilterType") or "SINGLE_TAG",
            whole(ext, "topicSysFlag", 0),
            truth(ext, "order"),
        )
        self._put_all([self._meant(body, ext.get("attributes", ""))])
        return request.answer()

    def _put_list(self, _: Connection, request: Command) -> Command:
        """Make or change all topics of a list, or none."""
        wanted = body_as(TopicListBody, request.body).topic_config_list
        if not 0 < len(wanted) <= MOST_TOPICS_AT_ONCE:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A list holds 1 to {MOST_TOPICS_AT_ONCE:,} topics.")
        changes = (
            ",".join(f"{name}={value}" if value else name for name, value in one.attributes.items()) for one in wanted
        )
        self._put_all([self._meant(one, change) for one, change in zip(wanted, changes, strict=True)])
        return request.answer()

    def _meant(self, body: TopicBody, attribute_changes: str) -> Topic:
        """Return the topic as it shall be; refused if it may not be so."""
        known = self._engine.topics.get(body.topic_name)
        topic = Topic(
            name=body.topic_name,
            read_queues=body.read_queue_nums,
            write_queues=body.write_queue_nums,
            permission=body.perm,
            filter_type=body.topic_filter_type,
            system_flag=body.topic_sys_flag,
            order=body.order,
            attributes=changed_attributes(known.attributes if known is not None else {}, attribute_changes),
        )
        if topic.is_system:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The topic[{topic.name}] is conflict with system topic.")
        return topic

    def _put_all(self, topics: list[Topic]) -> None:
        changed = [topic for topic in topics if topic != self._engine.topics.get(topic.name)]
        if changed:
            self._engine.topics.put_many(changed)

    def _one(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._state.topic(text(request.ext, "topic")).to_json()))

    def _all(self, _: Connection, request: Command) -> Command:
        topics = self._engine.topics
        every = topics.all()
        start = whole(request.ext, "topicSeq", 0, low=0)
        count = whole(request.ext, "maxTopicNum", len(every), low=0) or len(every)
        body = {
            "dataVersion": {"counter": topics.data_version, "stateVersion": 0, "timestamp": topics.changed_ms},
            "topicConfigTable": {topic.name: topic.to_json() for topic in every[start : start + count]},
        }
        return request.answer({"totalTopicNum": str(len(every))}, json_body(body))

    def _stats(self, _: Connection, request: Command) -> Command:
        topic = self._state.topic(text(request.ext, "topic"))
        rows: list[tuple[object, object]] = []
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            low, high = self._engine.queue_bounds(topic.name, queue_id)
            last_ms = self._engine.store_ms(topic.name, queue_id, high - 1) if high > low else None
            rows.append(
                (
                    message_queue(self._state.config.broker_name, topic.name, queue_id),
                    {"lastUpdateTimestamp": last_ms or 0, "maxOffset": high, "minOffset": low},
                )
            )
        rate = self._state.statistics.per_second(TOPIC_PUT_NUMS, topic.name, self._state.clock())
        return request.answer(body=json_body({"offsetTable": table_with_object_keys(rows), "topicPutTps": rate}))

    def _consumed_by(self, _: Connection, request: Command) -> Command:
        topic = text(request.ext, "topic")
        groups = set(self._engine.offsets.groups_of_topic(topic)) | set(self._state.clients.groups_of_topic(topic))
        return request.answer(body=json_body({"groupList": sorted(groups)}))

    def _system_topics(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body({"topicList": sorted(SYSTEM_TOPICS)}))


def changed_attributes(known: Mapping[str, str], changes: str) -> dict[str, str]:
    """Return attributes after changes of the form `+name=value,-name` (AttributeParser)."""
    attributes = dict(known)
    for change in filter(None, (part.strip() for part in changes.split(","))):
        sign, (name, _, value) = change[0], change[1:].partition("=")
        if sign == "+" and name and value:
            attributes[name] = value
        elif sign == "-" and name and not value:
            attributes.pop(name, None)
        else:
            raise RequestRefused(
                Answer.INVALID_PARAMETER, f"The attribute change {change[:80]!r} is neither +name=value nor -name."
            )
    return attributes


# Deleting a topic, and what waits for it.

#: Records looked at before others get their turn: a few milliseconds.
_LOOKS_AT_ONCE = 256
_CHOICES = ("cancel", "keep")


class DeletionProcessor:
    """The requests that delete a topic and what waits for it; `answered` is called with each and what it
    came to."""

    def __init__(self, state: BrokerState, answered: Callable[[Command, Command], None]) -> None:
        self._state = state
        self._engine = state.engine
        self._answered = answered

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
                remark=f"For topic {name} {least}{waiting.total} messages are pending: timers {counts['timers']}, "
                f"delayed {counts['delayed']}, halves {counts['halves'] + counts['parkedHalves']}. Decide about "
                "them: delete it in the console or by REST, or request with escPending=cancel or escPending=keep.",
            )
        if self._engine.topics.get(name) is not None:
            self._state.statistics.count()
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
            remark = "Its connection ended before; nothing was changed."
            self._answered(request, request.answer(code=Answer.SYSTEM_ERROR, remark=remark))
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
        self._answered(request, answer)
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
            logger.warning("pending messages of %s are dropped when they are due, not now: %s", self._topic, error)
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
