"""Reliable mode while Java goes on: what it offers, and what its own transfer task moves, arrives in the topic."""

from __future__ import annotations

import queue as queues

import pytest

from broker.client import Consumer
from broker.redisson.to_topic import make_reliable, read_mode, stop
from broker.redisson.transfer import transfer_service
from tests.interop.waiting import wait_until

COUNT, SPAN_MS, HOUR_MS = 300, 2_000, 3_600_000


@pytest.fixture
def reliable(shared, escapement, queue, topic):
    """A queue whose due values go to a topic, and the service that moves them."""
    ours = shared.ours(queue)
    make_reliable(ours, topic)
    service = transfer_service(shared.server.url, shared.server.url, escapement.namesrv, queues=[queue])
    service.start()
    yield ours
    service.stop()


@pytest.fixture
def inbox(escapement, group, topic):
    """The bodies that a consumer of the topic gets."""
    arrived = queues.Queue()
    consumer = Consumer(group, escapement.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda message: arrived.put(message.body))
    consumer.start()
    yield arrived
    consumer.stop()


def received(inbox, wanted: set[bytes]) -> list[bytes]:
    """Bodies until all that are wanted have come."""
    bodies: list[bytes] = []
    while not wanted <= set(bodies):
        bodies.append(inbox.get(timeout=40))
    return bodies


@pytest.mark.parametrize("live", [False, True], ids=["no transfer task", "a live transfer task"])
def test_all_that_java_offers_arrives_in_the_topic(shared, reliable, inbox, live):
    if live:
        shared.java.open_live(reliable.name)
    fields = {"prefix": "v", "count": COUNT, "minMs": 0, "maxMs": SPAN_MS, "live": live}
    shared.java.call("traffic.offer", reliable.name, **fields)
    wanted = {f"v{number}".encode() for number in range(COUNT)}
    bodies = received(inbox, wanted)
    assert set(bodies) == wanted
    assert len(bodies) == COUNT
    assert wait_until(lambda: read_mode(reliable).sent + read_mode(reliable).taken_over >= COUNT)
    assert shared.client.llen(reliable.keys.target) == 0 == reliable.size()
    if live:
        shared.java.call("destroy", reliable.name)


def test_after_its_end_java_takes_from_the_list_again(shared, reliable, inbox):
    shared.java.offer(reliable.name, "to the topic", 0)
    assert received(inbox, {b"to the topic"}) == [b"to the topic"]
    stop(reliable)
    shared.java.offer(reliable.name, "to the list", 100)
    assert shared.java.take(reliable.name) == "to the list"
