"""Reads a broker that has no request 14000, such as Apache RocketMQ, by its standard requests.

Lanes every reading (202, 45, 321); configuration every ten seconds (21, 201, 26, 28); queues and offsets of topics and
groups (202, 208) in turns, a bounded number each reading, so that a thousand topics cost no more than ten.
What such a broker does not tell (lateness, saves, state) stays None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ..client.admin import QueueStats
from ..client.errors import BadAnswer, BrokerRefused, RouteNotFound
from ..rocketmq.topics import SCHEDULE_TOPIC
from .changes import Changes, is_system_group, is_system_topic
from .models import Broker, ConsumerGroup, ConsumerOffset, Queue, ScheduleLevel, Topic
from .source import Source
from .writer import is_storable

#: how often lists and configuration are read again
LISTING_INTERVAL_MS = 10_000
#: topics and groups whose numbers are read in one reading
TOPICS_A_READING = 25
GROUPS_A_READING = 10


class Poller:
    """`read` gives one reading; it remembers only whose turn it is."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._listed_ms: int | None = None
        self._delays_ms: tuple[int, ...] = ()
        self._runtime: Mapping[str, str] = {}
        self._topics: deque[str] = deque()
        self._groups: deque[str] = deque()

    def read(self, known: Broker, now_ms: int) -> Changes:
        """One reading of the broker, `now_ms` its moment."""
        topics: tuple[Topic, ...] = ()
        groups: tuple[ConsumerGroup, ...] = ()
        complete = frozenset({"levels"})
        if self._listed_ms is None or now_ms - self._listed_ms >= LISTING_INTERVAL_MS:
            topics, groups = self._list(known.name)
            complete |= {"topics", "groups"}
            self._listed_ms = now_ms
        return Changes(
            token="",
            as_of_ms=now_ms,
            broker=self._broker(known, now_ms),
            polling=True,
            complete=complete,
            topics=topics,
            queues=tuple(self._queues(known.name)),
            groups=groups,
            offsets=tuple(self._offsets(known.name)),
            levels=tuple(self._levels(known.name)),
        )

    def _list(self, broker: str) -> tuple[tuple[Topic, ...], tuple[ConsumerGroup, ...]]:
        self._delays_ms = tuple(self._source.delay_levels())
        self._runtime = self._source.runtime()
        topics = tuple(
            Topic(
                broker_id=broker,
                name=topic.name,
                read_queues=topic.read_queues,
                write_queues=topic.write_queues,
                permission=topic.permission,
                order=topic.order,
                attributes=dict(topic.attributes),
                is_system=is_system_topic(topic.name),
            )
            for topic in self._source.topics()
            if topic.broker == broker
        )
        groups = tuple(
            ConsumerGroup(
                broker_id=broker,
                name=group.name,
                retry_max_times=group.retry_max_times,
                retry_queues=group.retry_queues,
                consume_enable=group.consume_enabled,
                consume_broadcast_enable=group.broadcast_enabled,
                consume_message_orderly=group.orderly,
                is_system=is_system_group(group.name),
            )
            for group in self._source.groups()
            if group.broker == broker
        )
        self._topics = _turns(self._topics, [topic.name for topic in topics if is_storable(topic.name)])
        self._groups = _turns(self._groups, [row.name for row in groups if not row.is_system and is_storable(row.name)])
        return topics, groups

    def _broker(self, known: Broker, now_ms: int) -> Broker:
        facts = self._runtime
        return Broker(
            name=known.name,
            cluster=known.cluster,
            address=known.address,
            version=facts.get("brokerVersionDesc", ""),
            started_ms=_whole(facts.get("bootTimestamp")),
            log_min_position=_whole(facts.get("commitLogMinOffset")),
            log_end_position=_whole(facts.get("commitLogMaxOffset")),
            disk_used_ratio=_ratio(facts.get("commitLogDiskRatio")),
            as_of_ms=now_ms,
        )

    def _queues(self, broker: str) -> Iterator[Queue]:
        for topic in _next(self._topics, TOPICS_A_READING):
            for part in self._stats(broker, topic):
                yield Queue(
                    broker_id=broker,
                    topic=topic,
                    queue_id=part.queue.queue_id,
                    min_offset=part.min_offset,
                    max_offset=part.max_offset,
                    last_ms=part.last_update_ms or None,
                )

    def _stats(self, broker: str, topic: str) -> list[QueueStats]:
        """Queues of the topic on this broker; a cluster has queues of the same number on each."""
        try:
            stats = self._source.topic_stats(topic)
        except (BadAnswer, BrokerRefused, RouteNotFound):
            return []
        return [part for part in stats.queues if part.queue.broker == broker]

    def _offsets(self, broker: str) -> Iterator[ConsumerOffset]:
        for group in _next(self._groups, GROUPS_A_READING):
            try:
                stats = self._source.consume_stats(group)
            except (BadAnswer, BrokerRefused, RouteNotFound):
                continue
            for part in stats.queues:
                if part.queue.broker == broker and part.consumer_offset >= 0:
                    yield ConsumerOffset(
                        broker_id=broker,
                        group=group,
                        topic=part.queue.topic,
                        queue_id=part.queue.queue_id,
                        offset=part.consumer_offset,
                    )

    def _levels(self, broker: str) -> Iterator[ScheduleLevel]:
        ends = {part.queue.queue_id: part for part in self._stats(broker, SCHEDULE_TOPIC)}
        released = self._source.delay_offsets()
        for level, delay_ms in enumerate(self._delays_ms, start=1):
            row = ScheduleLevel(broker_id=broker, level=level, delay_ms=delay_ms)
            part = ends.get(level - 1)
            if part is not None:
                row.min_offset, row.max_offset = part.min_offset, part.max_offset
                # a level is missing from the table until its queue was used
                row.delay_offset = min(max(released.get(level, 0), part.min_offset), part.max_offset)
                self._head(row)
            yield row

    def _head(self, row: ScheduleLevel) -> None:
        """When the first pending message is due, read from its queue entry."""
        if row.delay_offset is None or row.delay_offset == row.max_offset:
            return
        entries = self._source.queue_entries(SCHEDULE_TOPIC, row.level - 1, row.delay_offset, 1).entries
        if entries:
            row.next_due_ms = entries[0].tags_code
            row.oldest_store_ms = entries[0].tags_code - row.delay_ms


def _turns(waiting: deque[str], names: list[str]) -> deque[str]:
    """The order of turns kept, new names first, vanished ones dropped."""
    kept = [name for name in waiting if name in set(names)]
    return deque([*(name for name in names if name not in set(waiting)), *kept])


def _next(waiting: deque[str], count: int) -> list[str]:
    chosen = [waiting[index] for index in range(min(count, len(waiting)))]
    waiting.rotate(-len(chosen))
    return chosen


def _whole(value: str | None) -> int | None:
    try:
        number = int(value or "")
    except ValueError:
        return None
    return number if number >= 0 else None


def _ratio(value: str | None) -> float | None:
    try:
        ratio = float(value or "")
    except ValueError:
        return None
    return ratio if 0 <= ratio <= 1 else None
