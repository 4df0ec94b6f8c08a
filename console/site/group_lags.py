"""How far consumer groups are behind, summed by the database."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Sums over a group's queues; lag None: some queue's end is unknown."""

    group: str
    #: topics and queues with a committed offset, retry and dead-letter topics not counted in topics
    topics: int
    queues: int
    #: all topics but the dead letters
    lag: int | None
    #: of that, in %RETRY%group and in the retry topics of who pops; None without such a topic
    retry: int | None


#: What stands in a group's own retry topic is for that group alone: it is behind there before it ever read it.
_SUMS = """
    WITH progress AS (
    SELECT "group", topic, queue_id, "offset"
      FROM broker_consumeroffset
     WHERE broker_id = %(broker)s
     UNION ALL
    SELECT g.name, q.topic, q.queue_id, coalesce(q.min_offset, 0)
      FROM broker_consumergroup g
      JOIN broker_queue q ON q.broker_id = g.broker_id AND q.topic = %(retry)s || g.name
     WHERE g.broker_id = %(broker)s
       AND q.max_offset > coalesce(q.min_offset, 0)
       AND NOT EXISTS (SELECT 1 FROM broker_consumeroffset o
                        WHERE o.broker_id = g.broker_id AND o."group" = g.name
                          AND o.topic = q.topic AND o.queue_id = q.queue_id)
    )
    SELECT o."group",
           count(DISTINCT o.topic)
                 FILTER (WHERE NOT starts_with(o.topic, %(retry)s) AND NOT starts_with(o.topic, %(dead)s)),
           count(*),
           CASE WHEN bool_and(q.max_offset IS NOT NULL OR starts_with(o.topic, %(dead)s))
                THEN coalesce(sum(greatest(q.max_offset - o."offset", 0))
                              FILTER (WHERE NOT starts_with(o.topic, %(dead)s)), 0) END,
           sum(greatest(q.max_offset - o."offset", 0)) FILTER (WHERE starts_with(o.topic, %(retry)s))
      FROM progress o
      LEFT JOIN broker_queue q ON q.broker_id = %(broker)s AND q.topic = o.topic AND q.queue_id = o.queue_id
     WHERE (%(topic)s::text IS NULL OR o.topic = %(topic)s)
       AND (%(group)s::text IS NULL OR o."group" = %(group)s)
     GROUP BY o."group"
     ORDER BY o."group"
"""


def lags_by_group(broker: str, *, topic: str | None = None, group: str | None = None) -> list[GroupLag]:
    """One line a group, of all topics or of one."""
    wanted = {"broker": broker, "topic": topic, "group": group, "retry": RETRY_PREFIX, "dead": DLQ_PREFIX}
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, wanted)
        return [
            GroupLag(name, topics, queues, None if lag is None else int(lag), None if retry is None else int(retry))
            for name, topics, queues, lag, retry in cursor.fetchall()
        ]
