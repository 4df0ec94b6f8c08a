"""Two real brokers behind one name service, mirrored, for tests of pages in total."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.client import Admin, Producer
from broker.mirror.follower import Mirror
from broker.testing import BrokerThread
from tests.cluster import Cluster
from tests.console.kept import hang_up

A, B = "broker-a", "broker-b"


class Several:
    """A topic at all brokers; each is sent to, and mirrored, by itself."""

    def __init__(self, cluster: Cluster, topic: str = "orders") -> None:
        self.cluster = cluster
        self.admins = {name: Admin(cluster[name].namesrv) for name in cluster.names}
        self.producers = {name: Producer(group="tests", namesrv=cluster[name].namesrv) for name in cluster.names}
        for admin in self.admins.values():
            admin.create_topic(topic, queues=2)
        self.mirror()

    def __getitem__(self, name: str) -> BrokerThread:
        return self.cluster[name]

    def mirror(self) -> None:
        """Read each broker once."""
        for admin in self.admins.values():
            mirror = Mirror(admin)
            mirror.run_once()
            mirror.close()

    def close(self) -> None:
        """End all connections."""
        for client in (*self.admins.values(), *self.producers.values()):
            client.close()
        hang_up()


@contextmanager
def several(settings: Any, count: int = 2) -> Iterator[Several]:
    """So many brokers, and Django's settings pointed at their name service while the block runs."""
    with Cluster(count) as cluster:
        settings.ESCAPEMENT_NAMESRV = cluster.namesrv
        made = Several(cluster)
        yield made
        made.close()
