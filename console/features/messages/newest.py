"""Where one begins to look: the topics that are seen, with how much is in them, and the newest of their messages.

The mirror says which queues were written to last. Only those are asked, so thousands of topics take no longer than one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import F, Max, Sum

from broker.client import Admin, BrokerRefused, Message, RouteNotFound
from broker.mirror.models import Queue, Topic
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.messages.shapes import Beginning, Found, MessageSearch, TopicToChoose
from console.features.messages.through import found_of
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each
from console.site.chosen import chosen
from console.site.mirrored import Cluster, cluster

NEWEST_REQUESTS = (Request.PULL_MESSAGE,)
#: topics to choose from, queues that are asked, messages that are shown: no queue is asked for more than these
TOPICS, QUEUES, SHOWN = 12, 8, 20
#: what a broker gives at once
_PULLED = 32


@dataclass(frozen=True, slots=True)
class _End:
    """The stretch of a queue that holds what it has newest."""

    topic: str
    queue_id: int
    first: int


@authorised
def beginning(scope: TopicScope) -> Beginning:
    """Return the topics that were written to last, and the newest messages of the QUEUES that were."""
    here = cluster()
    known = Topic.objects.filter(broker__in=here.names, is_system=False).order_by().values_list("name", flat=True)
    names = [each for each in known.distinct() if not each.startswith(GROUP_PREFIXES) and scope.topic(each)]
    topics = _topics(here, names)
    ends = _ends(here, [each.name for each in topics[:QUEUES]])

    def look(admin: Admin) -> list[Found]:
        own = ends.get(chosen().name if here.has_several else "", ())
        return [found_of(message, end.topic) for end in own for message in _pulled(admin, end)]

    found, evidence = ask_each(look, here, requests=NEWEST_REQUESTS)
    hits = [replace(hit, broker=broker.name) for broker, part in found for hit in part]
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    shown = MessageSearch(
        evidence, here.now_ms, "", "", masks().rows(hits[:SHOWN]), SHOWN, len(names), has_several=here.has_several
    )
    return Beginning(tuple(topics[:TOPICS]), len(names), shown)


def _topics(here: Cluster, names: Iterable[str]) -> list[TopicToChoose]:
    """Return the topics by when they were written to last, those that never were by name behind them."""
    queues = Queue.objects.filter(broker__in=here.names).order_by().values_list("topic")
    counted = {
        name: (held, last)
        for name, held, last in queues.annotate(held=Sum(F("max_offset") - F("min_offset")), last=Max("last_ms"))
    }
    found = [TopicToChoose(name, *counted.get(name, (None, None))) for name in names]
    return sorted(found, key=lambda each: (-(each.last_ms or 0), each.name))


def _ends(here: Cluster, topics: list[str]) -> dict[str, list[_End]]:
    """Return the ends of the queues of these topics that were written to last, by broker ("": the only one)."""
    queues = Queue.objects.filter(broker__in=here.names, topic__in=topics, max_offset__gt=F("min_offset"))
    last = queues.filter(last_ms__isnull=False).order_by("-last_ms", "topic", "queue_id")[:QUEUES]
    ends: dict[str, list[_End]] = {}
    for queue in last:
        first = max(queue.min_offset or 0, (queue.max_offset or 0) - SHOWN)
        own = ends.setdefault(queue.broker_id if here.has_several else "", [])
        own.append(_End(queue.topic, queue.queue_id, first))
    return ends


def _pulled(admin: Admin, end: _End) -> list[Message]:
    """Return what stands at the end of a queue, with what came since the mirror looked."""
    try:
        return list(admin.pull(end.topic, end.queue_id, end.first, _PULLED))
    except (RouteNotFound, BrokerRefused):
        # deleted, or changed, since the mirror looked
        return []
