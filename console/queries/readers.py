"""Which groups have had a message, and what is before it for those that have not."""

from __future__ import annotations

from collections.abc import Sequence

from broker.models import ConsumerGroup, ConsumerOffset
from console.access.topics import Eyes
from console.queries.mirrored import Mirrored
from console.queries.shapes.messages import Hop, HopKind, Reader

#: groups that are told of one message
MOST = 32
_GIVEN_OUT = (HopKind.STORED, HopKind.RELEASED)


def readers_of(here: Mirrored, hops: Sequence[Hop], seen: Eyes) -> tuple[Reader, ...]:
    """By the mirror, those that wait for it first; of the newest record that consumers of its topic are given."""
    given = [hop for hop in hops if hop.kind in _GIVEN_OUT]
    if not given:
        return ()
    hop = given[-1]
    offsets = ConsumerOffset.objects.filter(broker=here.name, topic=hop.topic, queue_id=hop.queue_id)
    found = [(name, offset) for name, offset in offsets.values_list("group", "offset") if seen.group(name)]
    groups = {row.name: row for row in ConsumerGroup.objects.filter(broker=here.name, name__in=dict(found))}
    rows = [
        Reader(
            name, hop.queue_offset < offset, max(0, hop.queue_offset - offset),
            groups[name].members if name in groups else None, name not in groups or groups[name].consume_enable,
        )
        for name, offset in found
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (row.has_had_it, -row.before, row.group))[:MOST])
