"""A message across the brokers of a cluster: where its record lies, and what the others have of the same message.

A record is of one broker, and so are its tries, its dead letter, and the lane or timer that it waits on. Others have
records with its message id where its producer, not sure of an answer, sent it once more to another broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broker.client import Admin, ClientError, Message, RouteNotFound
from broker.rocketmq.codes import Request
from broker.rocketmq.message import parse_offset_message_id, written_address
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.messages.hops import Trail, hops_of
from console.features.messages.shapes import OFFSET_ID, Hop
from console.site.broker import ask_each
from console.site.mirrored import Cluster, Mirrored, cluster

LOOKING_REQUESTS = (Request.QUERY_MESSAGE,)
#: records of one message at one other broker that are shown
MOST = 8


def home_of(here: Cluster, message_id: str, topic: str | None) -> Mirrored | None:
    """Return the broker that has the message's first record: an offset id says where, a message id is looked for.

    None: none of those that answer has it.
    """
    if not topic:
        return broker_of(here, message_id)
    found, _evidence = ask_each(
        lambda admin: _first(admin, message_id, (topic, SCHEDULE_TOPIC)), here, requests=LOOKING_REQUESTS
    )
    first = min((pair for pair in found if pair[1]), key=lambda pair: pair[1][0].store_ms, default=None)
    return first[0] if first is not None else broker_of(here, message_id)


def broker_of(here: Cluster, offset_message_id: str) -> Mirrored | None:
    """Return the broker that has the record with an offset id, which holds its address; None: it is none of these."""
    if not OFFSET_ID.fullmatch(offset_message_id):
        return None
    host, port, _position = parse_offset_message_id(offset_message_id)
    address = written_address(host, port)
    return next((each for each in here.brokers if each.broker is not None and each.broker.address == address), None)


def is_offset_id(text: str) -> bool:
    """Tell whether the text is an offset id of one of these brokers: message ids may have as many digits."""
    return broker_of(cluster(), text) is not None


def _first(admin: Admin, message_id: str, topics: Sequence[str]) -> list[Message]:
    """Return the records of the first topic that has any with this message id, oldest first."""
    for topic in topics:
        try:
            records = admin.records_by_id(topic, message_id, MOST)
        except RouteNotFound:
            continue
        if records:
            return sorted(records, key=lambda record: record.position)
    return []


def hops_elsewhere(others: Cluster, opened: Message, topics: Sequence[str]) -> list[Hop]:
    """Return what other brokers have of the same message, each record with its broker's name."""
    message_id = opened.unique_key
    if not message_id or not others.brokers:
        return []

    def look(admin: Admin) -> list[Message]:
        found: list[Message] = []
        for topic in topics:
            try:
                found += admin.records_by_id(topic, message_id, MOST)
            except (RouteNotFound, ClientError):
                # the page is worth showing without what another broker may have
                continue
        return found

    hops: list[Hop] = []
    for broker, records in ask_each(look, others, requests=LOOKING_REQUESTS)[0]:
        if records:
            trail = Trail(records[0])
            for record in records:
                trail.add(record)
            hops += [replace(hop, broker=broker.name, current=False, waits=False) for hop in hops_of(trail)]
    return hops


def in_time(hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """Return records of several brokers in the order in which they were stored, by the brokers' clocks."""
    ordered = sorted(hops, key=lambda hop: (hop.store_ms, hop.broker, hop.position))
    before = [None, *(hop.store_ms for hop in ordered)]
    return tuple(
        replace(hop, after_ms=None if last is None else hop.store_ms - last)
        for hop, last in zip(ordered, before, strict=False)
    )
