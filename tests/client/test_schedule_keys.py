"""Schedule keys in a cluster: every producer sends those of one key to one broker, which sees that it waits once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from broker.client import (
    Admin,
    BrokerRefused,
    BrokerUnreachable,
    Decision,
    Producer,
    ScheduleKeyTaken,
    SendResult,
    TransactionProducer,
    prepare,
)
from broker.client._pipeline import Destinations, broker_of_key
from broker.client._types import Route, RouteQueues
from broker.client.errors import NoSuchQueue
from broker.client.timers import TimerTarget
from tests.cluster import Cluster
from tests.waiting import until

HOUR_MS = 3_600_000
KEYS = [f"order-{number}" for number in range(12)]
A, B = "broker-a", "broker-b"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running, Admin(running.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        yield running


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer("shop", cluster.namesrv) as made:
        yield made


def key_of(broker: str) -> str:
    """A schedule key that is this broker's."""
    return next(key for key in KEYS if broker_of_key(key, (A, B)) == broker)


def waiting(cluster: Cluster) -> dict[str, list[str | None]]:
    """The schedule keys that wait, by broker."""
    found = {}
    for name in cluster.names:
        with Admin(cluster.namesrv, name) as admin:
            found[name] = sorted(str(each.schedule_key) for each in admin.timers(0, 2**62).items)
    return found


def test_a_key_waits_once_whoever_sends_it(cluster: Cluster, producer: Producer) -> None:
    first = {key: producer.send("orders", "1", delay_ms=HOUR_MS, schedule_key=key) for key in KEYS}
    assert {sent.broker for sent in first.values()} == {A, B}
    with Producer("office", cluster.namesrv) as other:
        for number, (key, sent) in enumerate(first.items()):
            with pytest.raises(ScheduleKeyTaken):
                other.send("orders", "2", delay_ms=HOUR_MS, schedule_key=key)
            kept = other.send("orders", "3", delay_ms=HOUR_MS, schedule_key=key, on_conflict="keep")
            assert (kept.conflict, kept.message_id, kept.broker) == ("kept", sent.message_id, sent.broker)
            if number % 2:
                again = other.send("orders", "4", delay_ms=HOUR_MS, schedule_key=key, on_conflict="replace")
                assert (again.conflict, again.broker) == ("replaced", sent.broker)
    assert waiting(cluster) == {
        name: sorted(key for key, sent in first.items() if sent.broker == name) for name in (A, B)
    }


def test_all_ways_of_sending_agree(cluster: Cluster, producer: Producer) -> None:
    made = [prepare("x", delay_ms=HOUR_MS, schedule_key=key, on_conflict="replace") for key in KEYS]
    places: list[list[str]] = [[broker_of_key(key, (A, B)) for key in KEYS]]
    each = producer.send_each("orders", made)
    places.append([result.broker for result in each if isinstance(result, SendResult)])
    kept = [type(message).of_stored(message.body, message.properties, message.message_id) for message in made]
    places.append([producer.send_prepared("orders", message).broker for message in kept])
    with TransactionProducer("payers", cluster.namesrv, check=lambda _: Decision.UNKNOWN) as payers:
        halves = [payers.send_half("orders", message) for message in made]
        for half in halves:
            payers.commit(half)
        places.append([half.broker for half in halves])
    assert places == [places[0]] * 4
    for message in made:
        producer.send_oneway("orders", message)
    until(lambda: Counter(key for keys in waiting(cluster).values() for key in keys) == Counter(KEYS))


def test_a_timer_whose_broker_is_away_goes_nowhere_else(cluster: Cluster, producer: Producer) -> None:
    key, other = key_of(B), key_of(A)
    producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key)
    cluster[B].stop()
    for _ in range(2):  # also of those who know the route from before
        with pytest.raises(BrokerUnreachable, match=f"broker-b has the timers with schedule key '{key}'"):
            producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, on_conflict="replace")
    made = [prepare("x", delay_ms=HOUR_MS, schedule_key=each) for each in (key, other)]
    refused, sent = producer.send_each("orders", made)
    assert isinstance(sent, SendResult)
    assert isinstance(refused, BrokerUnreachable)
    assert "it is sent to no other broker" in str(refused)
    with pytest.raises(BrokerUnreachable, match="it is sent to no other broker"):
        producer.send_each("orders", made[:1])
    assert producer.send("orders", "no key", delay_ms=HOUR_MS).broker == A
    cluster[B].start()
    assert producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, on_conflict="replace").broker == B
    assert waiting(cluster)[B] == [key]


def test_a_retry_stays_also_where_its_broker_is_listed_no_more(cluster: Cluster) -> None:
    key = key_of(B)
    with Producer("shop", cluster.namesrv) as producer:
        producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key)
        cluster.delist(B)
        with pytest.raises(BrokerUnreachable, match="broker-b"):
            producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key)
        # a new send knows the brokers of now
        assert producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key).broker == A


def test_what_an_earlier_number_of_brokers_left_is_found_by_its_key(cluster: Cluster, producer: Producer) -> None:
    key = key_of(B)
    with Producer("shop", cluster[A].namesrv) as alone:  # knows broker-a only
        assert alone.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key).broker == A
    with Admin(cluster.namesrv, A) as admin:
        assert admin.timer(TimerTarget(topic="orders", schedule_key=key)).state == "pending"
    assert producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key).broker == B


def test_a_queue_that_is_named_is_one_of_the_keys_broker(cluster: Cluster, producer: Producer) -> None:
    for key in KEYS:
        sent = producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, queue_id=1)
        assert sent.broker == broker_of_key(key, (A, B))
    with pytest.raises(NoSuchQueue, match=r"no queue 2 that can be written at broker-b"):
        producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key_of(B), queue_id=2)


def test_a_sharding_key_keeps_its_queue_and_a_named_broker_its_messages(cluster: Cluster, producer: Producer) -> None:
    plain = producer.send("orders", "x", sharding_key="4711")
    for key in KEYS:
        sent = producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, sharding_key="4711")
        assert sent.broker == plain.broker
    for key in (key_of(A), key_of(B)):
        there = producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, broker=B, on_conflict="replace")
        assert there.broker == B


def test_a_refusal_is_not_taken_to_another_broker(cluster: Cluster, producer: Producer) -> None:
    key = key_of(B)
    producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key)
    with Admin(cluster.namesrv, B) as admin:
        admin.create_topic("orders", queues=2, permission=4)  # the producer has the route from before
    with pytest.raises(BrokerRefused):
        producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key, on_conflict="replace")
    assert waiting(cluster) == {A: [], B: [key]}


def test_a_broker_more_takes_its_share_and_moves_no_other_key() -> None:
    keys = [f"key-{number}" for number in range(3_000)]
    before = {key: broker_of_key(key, ("a", "b", "c")) for key in keys}
    after = {key: broker_of_key(key, ("c", "d", "b", "a")) for key in keys}
    moved = {key for key in keys if before[key] != after[key]}
    assert {after[key] for key in moved} == {"d"}
    assert 600 < len(moved) < 900
    assert all(count > 600 for count in Counter(after.values()).values())


def test_one_broker_has_all_keys_and_takes_turns() -> None:
    route = Route("orders", {"a": "127.0.0.1:1"}, (RouteQueues("a", 4, 4, 6),))
    destinations = Destinations("shop", route, borrowed=False)
    message = prepare("x", delay_ms=1, schedule_key="k")
    assert {destinations.of(message, None, None).queue.queue_id for _ in range(4)} == {0, 1, 2, 3}
    two = Route("orders", {"a": "127.0.0.1:1", "b": "127.0.0.1:2"}, (*route.queues, RouteQueues("b", 4, 4, 6)))
    several = Destinations("shop", two, borrowed=False)
    found = [several.of(message, None, None).queue for _ in range(4)]
    assert {queue.broker for queue in found} == {broker_of_key("k", ("a", "b"))}
    assert {queue.queue_id for queue in found} == {0, 1, 2, 3}
