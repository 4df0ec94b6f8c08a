"""Queues that hold nothing have rows, up to a number of all topics together: no topic takes the mirror's room alone."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client import Admin, Producer
from broker.mirror.changes import Changes
from broker.mirror.follower import Mirror
from broker.mirror.models import Broker, MirrorState, Queue, Topic
from broker.mirror.watch import MOST_EMPTY_QUEUES, Rates, Watch


def told(*topics: Topic, complete: bool = True, **more: Any) -> Changes:
    """A reading that tells of these topics."""
    kinds = frozenset({"topics", "queues"} if complete else ())
    return Changes("t", 1, Broker(name="broker-a"), complete=kinds, topics=topics, **more)


def topic(name: str, queues: int) -> Topic:
    return Topic(broker_id="broker-a", name=name, read_queues=queues, write_queues=1)


@pytest.fixture
def watch() -> Watch:
    return Watch("broker-a", Rates.begin(1, {}))


def test_all_topics_together_have_so_many_rows_and_the_small_ones_come_first(watch: Watch) -> None:
    large = [topic(f"a-{number}", 16_384) for number in range(20)]
    endless = topic("endless", 1 << 40)
    changes = watch.with_empty_queues(told(*large, endless, topic("orders", 8)))
    assert len(changes.queues) <= MOST_EMPTY_QUEUES
    rows = {row.topic: 0 for row in changes.queues}
    for row in changes.queues:
        rows[row.topic] += 1
    fit = MOST_EMPTY_QUEUES // 16_384
    assert rows == {"orders": 8} | {one.name: 16_384 for one in large[:fit]}, "a topic has all of its rows, or none"
    assert [flaw.name for flaw in changes.flaws] == [one.name for one in large[fit:]] + ["endless"]
    assert f"{MOST_EMPTY_QUEUES:,}" in changes.flaws[0].why


def test_those_that_have_rows_already_count(watch: Watch) -> None:
    first = watch.with_empty_queues(told(topic("a", MOST_EMPTY_QUEUES - 10)))
    watch.observe(first, {})
    later = watch.with_empty_queues(told(topic("b", 11), topic("c", 10), complete=False))
    assert {row.topic for row in later.queues} == {"c"}
    assert [flaw.name for flaw in later.flaws] == ["b"]
    watch.observe(later, {})
    again = watch.with_empty_queues(told(topic("a", MOST_EMPTY_QUEUES - 10), topic("c", 10), complete=False))
    assert (again.queues, again.flaws) == ((), ())
    watch.observe(told(complete=False, deleted_topics=("c",)), {})
    assert len(watch.with_empty_queues(told(topic("d", 9), complete=False)).queues) == 9


def test_a_topic_without_rows_is_said_until_it_has_them(
    mirror: Mirror, admin: Admin, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.run_once()
    monkeypatch.setattr("broker.mirror.watch.MOST_EMPTY_QUEUES", Queue.objects.count() + 8)
    admin.create_topic("small", queues=4)
    admin.create_topic("large", queues=8)
    producer.send("large", b"here")
    mirror.run_once()
    assert Queue.objects.filter(topic="small").count() == 4
    assert Queue.objects.filter(topic="large").count() == 1, "what holds something has its row"
    (flaw,) = MirrorState.objects.get().flaws
    assert (flaw["kind"], flaw["name"]) == ("topics", "large")
    admin.create_topic("beside", queues=2)
    mirror.run_once()
    assert Queue.objects.filter(topic="beside").count() == 2
    assert len(MirrorState.objects.get().flaws) == 1
    admin.delete_topic("small")
    admin.delete_topic("beside")
    admin.create_topic("large", queues=9)
    mirror.run_once()
    assert Queue.objects.filter(topic="large").count() == 9
    assert MirrorState.objects.get().flaws == []
