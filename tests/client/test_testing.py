"""The broker that programs have for their tests."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from broker.client import Admin, BrokerUnreachable, Producer, RouteNotFound
from broker.testing import BrokerThread, small_store


def test_it_holds_what_was_sent_in_the_order_of_each_queue() -> None:
    with BrokerThread() as broker, Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        with pytest.raises(RouteNotFound):
            broker.messages("orders")
        admin.create_topic("orders", queues=2)
        assert broker.messages("orders") == []
        for number in range(80):
            producer.send("orders", str(number), tag="x", queue_id=number % 2)
        found = broker.messages("orders")
    assert [message.body for message in found] == [b"%d" % number for number in [*range(0, 80, 2), *range(1, 80, 2)]]
    assert {message.tags for message in found} == {"x"}


def test_it_comes_again_where_it_was_with_what_it_had(tmp_path: Path) -> None:
    with BrokerThread(small_store(tmp_path)) as broker, Producer("p", broker.namesrv, retries=0) as producer:
        places = broker.address, broker.namesrv
        producer.send("orders", "before")
        broker.stop()
        with pytest.raises(BrokerUnreachable):
            producer.send("orders", "meanwhile", timeout_ms=500)
        broker.start()
        assert (broker.address, broker.namesrv) == places
        assert [message.body for message in broker.messages("orders")] == [b"before"]
    with BrokerThread(small_store(tmp_path)) as broker:
        assert [message.body for message in broker.messages("orders")] == [b"before"]


def test_nothing_of_it_is_left() -> None:
    before = set(threading.enumerate())
    broker = BrokerThread()
    with broker:
        store = Path(broker._config.root)
        assert store.is_dir()
        serving = set(threading.enumerate()) - before
    assert not store.parent.exists()
    broker.stop()
    for thread in serving:
        thread.join(20)
    assert not [thread for thread in serving if thread.is_alive()]
