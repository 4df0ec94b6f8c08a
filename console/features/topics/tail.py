"""The newest messages of a topic, for a page that follows it: so many and no more, however fast they come."""

from __future__ import annotations

from dataclasses import dataclass

from broker.client import Admin
from console.features.topics.queue import row_of
from console.features.topics.shapes import MessageRow
from console.site.broker import ask
from console.site.evidence import Evidence
from console.site.mirrored import mirrored
from console.site.queue_contents import pull_all

#: topic stats, pull
REQUESTS = (202, 11)
SHOWN = 50
#: queues that are read: those written to last
QUEUES = 16


@dataclass(frozen=True, slots=True)
class Tail:
    """`rows` are (queue, message), the newest first; `stored` is how many the topic ever held, None when unknown."""

    evidence: Evidence
    now_ms: int
    name: str
    rows: tuple[tuple[int, MessageRow], ...]
    stored: int | None
    shown: int = SHOWN


def tail(name: str) -> Tail:
    """What was stored last."""
    here = mirrored()
    found, evidence = ask(lambda admin: _newest(admin, name), source=here.name, requests=REQUESTS)
    rows, stored = found if found is not None else ((), None)
    return Tail(evidence, here.now_ms, name, rows, stored)


def _newest(admin: Admin, name: str) -> tuple[tuple[tuple[int, MessageRow], ...], int]:
    queues = admin.topic_stats(name).queues
    last = sorted(queues, key=lambda each: each.last_update_ms, reverse=True)[:QUEUES]
    found = []
    for each in last:
        queue_id, first = each.queue.queue_id, max(each.min_offset, each.max_offset - SHOWN)
        if first < each.max_offset:
            messages = pull_all(admin, name, queue_id, first, each.max_offset - first)
            found += [(queue_id, row_of(message)) for message in messages]
    found.sort(key=lambda row: (row[1].store_ms, row[1].position), reverse=True)
    return tuple(found[:SHOWN]), sum(each.max_offset for each in queues)
