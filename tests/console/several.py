"""Real brokers behind one name service, mirrored, for tests of pages that show several in total."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from broker.client import Admin, Consumer, Producer
from broker.mirror.follower import Mirror
from broker.mirror.models import MirrorState
from broker.testing import BrokerThread
from tests.cluster import Cluster
from tests.console.kept import hang_up
from tests.waiting import until

A, B = "broker-a", "broker-b"


class Several:
    """A topic of two queues at all brokers; each is asked, sent to and mirrored by itself."""

    def __init__(self, cluster: Cluster, topic: str = "orders") -> None:
        self.cluster = cluster
        self.admins = {name: Admin(cluster.namesrv, broker=name) for name in cluster.names}
        self.producers = {name: Producer(group="tests", namesrv=cluster[name].namesrv) for name in cluster.names}
        for admin in self.admins.values():
            admin.create_topic(topic, queues=2)
        self.mirror()

    def __getitem__(self, name: str) -> BrokerThread:
        return self.cluster[name]

    def mirror(self) -> None:
        """Read every broker that answers once."""
        for name, admin in self.admins.items():
            if not self.is_down(name):
                mirror = Mirror(admin, name)
                mirror.run_once()
                mirror.close()

    def is_down(self, name: str) -> bool:
        """Tell whether `kill` ended the broker, and nothing started it again."""
        return MirrorState.objects.filter(broker=name).exclude(error="").exists()

    def kill(self, name: str) -> None:
        """End a broker; the name service lists it still, and the mirror has noticed."""
        self.cluster[name].stop()
        MirrorState.mirror_writer.filter(broker=name).update(error="it does not answer")

    def start(self, name: str) -> None:
        """Start a broker again that was killed."""
        self.cluster[name].start()
        MirrorState.mirror_writer.filter(broker=name).update(error="")

    def send(self, broker: str, topic: str, body: str, **more: Any) -> None:
        """Send to a queue of this broker, whatever the producer would choose."""
        self.producers[broker].send(topic, body, **more)

    def consume(self, group: str = "billing", topic: str = "orders", count: int = 1) -> None:
        """Let a group take messages, so that it has offsets at every broker."""
        taken, got = [], threading.Event()

        def take(message: Any) -> None:
            taken.append(message)
            if len(taken) >= count:
                got.set()

        consumer = Consumer(group, self.cluster.namesrv, from_where="first")
        consumer.subscribe(topic, "*", take)
        with consumer:
            assert got.wait(20), f"the consumer got {len(taken)} of {count}"
        self.mirror()

    def bury(self, broker: str, key: str, group: str = "billing") -> None:
        """Store a message that the group has given up at this broker."""
        admin = self.admins[broker]
        sent = self.producers[broker].send("orders", "pay", keys=[key])
        record = admin.message_by_offset_id(sent.offset_message_id)
        admin.send_back(group, record, delay_level=-1, max_reconsume_times=0)

    def wait_for(self, found: Callable[[], object], timeout_s: float = 15) -> None:
        """Ask again until there is something."""
        until(found, timeout_s)

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
