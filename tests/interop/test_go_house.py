"""Apache's Go client around our broker: transactions, administration, access control, a broker that stops and dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import Admin
from tests.interop.golang import GoAdmin, GoConsumer, GoProducer, GoPuller, GoTransactions
from tests.interop.guarded import ROOT, GuardedEscapement, OpenRoutes
from tests.interop.process import ChildFailed
from tests.interop.servers import EscapementServer, Server, StoreShape, served
from tests.interop.waiting import wait_until

Go = Callable[..., Any]
#: Its heartbeats are 30 s apart, its rounds of sharing out queues 20 s: so long may it take to be back.
RETURN_TIMEOUT_S = 120


def test_transactions_end_as_their_sender_or_his_answer_to_the_check_says(
    escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str
) -> None:
    go_producer.send(topic, "seed")
    consumer = go(GoConsumer, escapement, f"{group}-reads", topic)
    transactions = go(GoTransactions, escapement, group)
    transactions.send(topic, "committed", ends="commit")
    transactions.send(topic, "rolled back", ends="rollback")
    transactions.send(topic, "committed when asked", ends="unknown", checked="commit")
    transactions.send(topic, "rolled back when asked", ends="unknown", checked="rollback")
    consumer.await_bodies({"seed", "committed", "committed when asked"})
    checked = transactions.await_events("checked", 2, timeout_s=60)
    assert {event["body"] for event in checked} == {"committed when asked", "rolled back when asked"}
    go_producer.send(topic, "after")
    consumer.await_bodies({"after"})
    with Admin(escapement.namesrv) as admin:
        assert wait_until(lambda: not admin.transactions(group=group).items)
    bodies = sorted(event["body"] for event in consumer.events("message"))
    assert bodies == ["after", "committed", "committed when asked", "seed"]


def test_topics_are_made_listed_and_deleted(escapement: Server, go: Go, topic: str) -> None:
    admin = go(GoAdmin, escapement)
    admin.names("create", escapement.address, topic, 3)
    assert admin.names("queues", topic) == [f"broker-a:{number}" for number in range(3)]
    assert topic in admin.names("topics")
    admin.names("delete", topic)
    assert topic not in admin.names("topics")


def test_groups_are_listed(escapement: Server, go_producer: GoProducer, go: Go, topic: str, group: str) -> None:
    go_producer.send(topic, "seed")
    go(GoConsumer, escapement, group, topic).receive(1)
    assert group in go(GoAdmin, escapement).names("groups", escapement.address)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our broker with access control; root may do everything."""
    base = tmp_path_factory.mktemp("guarded")
    with served(GuardedEscapement(base / "store", base / "work", StoreShape())) as server:
        yield server


def test_signed_clients_are_let_in(guarded: Server, go: Go, topic: str, group: str) -> None:
    keys = {"access_key": ROOT[0], "secret_key": ROOT[1]}
    traced = go(GoProducer, guarded, f"{group}-traces", trace=True, **keys).send(topic, "traced", keys="k")
    producer = go(GoProducer, guarded, f"{group}-makes", **keys)
    for kind in ("sync", "oneway", "batch"):
        producer.send(topic, kind, kind=kind, count=2, tag="signed", keys="k")
    transactions = go(GoTransactions, guarded, f"{group}-ends", instance="ends", **keys)
    transactions.send(topic, "committed", ends="commit")
    consumer = go(GoConsumer, guarded, group, topic, **keys)
    sent = {f"{kind}-{i}" for kind in ("sync", "oneway", "batch") for i in range(2)}
    consumer.await_bodies(sent | {"traced", "committed"})
    with Admin(guarded.namesrv, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        assert wait_until(lambda: admin.traces(traced["msgId"]) != [])


def test_pull_consumer_and_admin_are_let_in_where_routes_are_open(
    tmp_path: Path, go: Go, topic: str, group: str
) -> None:
    keys = {"access_key": ROOT[0], "secret_key": ROOT[1]}
    with served(OpenRoutes(tmp_path / "store", tmp_path / "broker", StoreShape())) as server:
        go(GoProducer, server, f"{group}-makes", **keys).send(topic, "pulled", queue_id=2, count=3)
        puller = go(GoPuller, server, group, topic, **keys)
        *messages, _ = puller.ask("from", 2, 0, 3, until="pulled")
        assert [each["body"] for each in messages if each["event"] == "message"] == [f"pulled-{i}" for i in range(3)]
        assert go(GoAdmin, server, **keys).names("queues", topic) == [f"broker-a:{number}" for number in range(4)]


@pytest.mark.parametrize("keys", [{}, {"access_key": ROOT[0], "secret_key": "wrong"}], ids=["unsigned", "wrong"])
def test_clients_without_a_valid_signature_are_not(
    guarded: Server, go: Go, topic: str, group: str, keys: dict[str, str]
) -> None:
    with pytest.raises(ChildFailed, match="route info not found"):
        go(GoProducer, guarded, group, **keys).send(topic, "from nobody")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EscapementServer]:
    """A broker that its test may stop."""
    with served(EscapementServer(tmp_path / "store", tmp_path / "broker", StoreShape())) as server:
        yield server


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_acknowledged_is_lost_across_the_end_of_the_broker(
    own: EscapementServer, go: Go, topic: str, group: str, end: str
) -> None:
    producer = go(GoProducer, own, f"{group}-makes")
    producer.send(topic, "seed")
    consumer = go(GoConsumer, own, group, topic)
    consumer.receive(1)
    stored: set[str] = set()
    is_back = threading.Event()

    def come_back() -> None:
        getattr(own, end)()
        own.start()
        is_back.set()

    away = threading.Thread(target=come_back)
    number, later = 0, 0
    while later < 50:
        if number == 100:
            away.start()
        body = f"message {number}"
        number += 1
        later += is_back.is_set()
        try:
            producer.send(topic, body)
        except ChildFailed:
            continue  # refused: it may be stored or not
        stored.add(body)
    away.join()
    assert len(stored) > 100
    consumer.await_bodies(stored, RETURN_TIMEOUT_S)
