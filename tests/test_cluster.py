"""The cluster that tests use."""

from __future__ import annotations

import pytest

from broker.client import Admin, ClientError, Producer
from tests.cluster import Cluster


def test_brokers_and_topics_are_listed_together() -> None:
    with Cluster(2) as cluster, Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        assert [broker.name for broker in admin.brokers()] == ["broker-a", "broker-b"] == cluster.names
        assert [queue.broker for queue in admin.route("orders").readable()] == ["broker-a"] * 2 + ["broker-b"] * 2
        with Producer("shop", cluster.namesrv) as producer:
            assert {producer.send("orders", "x").broker for _ in range(4)} == {"broker-a", "broker-b"}


def test_one_that_is_down_stays_listed_until_it_is_delisted() -> None:
    with Cluster(2) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.create_topic("orders", queues=1)
            assert len(admin.route("orders").addresses) == 2
        cluster["broker-b"].stop()
        with Admin(cluster.namesrv) as admin:
            assert len(admin.brokers()) == 2
            assert len(admin.route("orders").addresses) == 2
        cluster.delist("broker-b")
        with Admin(cluster.namesrv) as admin:
            assert [broker.name for broker in admin.brokers()] == ["broker-a"]
            assert len(admin.route("orders").addresses) == 1


def test_its_name_service_may_be_away_and_come_back() -> None:
    with Cluster(1) as cluster:
        cluster.name_service.stop()
        with Admin(cluster.namesrv) as admin:
            with pytest.raises(ClientError):
                admin.brokers()
            cluster.name_service.start()
            assert [broker.name for broker in admin.brokers()] == ["broker-a"]
