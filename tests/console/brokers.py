"""Two brokers known to one name service, both mirrored, for tests of pages that show several in total."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from broker.client import Admin, Consumer, Producer
from broker.mirror.follower import Mirror
from broker.mirror.models import MirrorState
from tests.cluster import Cluster
from tests.console.kept import hang_up
from tests.waiting import until

A, B = "broker-a", "broker-b"


class Several:
    """The cluster, a producer, and an admin and a mirror of each broker."""

    def __init__(self, cluster: Cluster, producer: Producer, admins: dict[str, Admin]) -> None:
        self.cluster, self.producer, self.admins = cluster, producer, admins
        self._sources = {name: Admin(cluster[name].namesrv) for name in cluster.names}

    def mirror(self) -> None:
        """Read every broker that answers once."""
        for name in self.cluster.names:
            if self.is_down(name):
                continue
            mirror = Mirror(self._sources[name])
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
        with Producer(group="tests", namesrv=self.cluster[broker].namesrv) as own:
            own.send(topic, body, **more)

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
        with Producer(group="tests", namesrv=self.cluster[broker].namesrv) as own:
            sent = own.send("orders", "pay", keys=[key])
        record = admin.message_by_offset_id(sent.offset_message_id)
        admin.send_back(group, record, delay_level=-1, max_reconsume_times=0)

    def wait_for(self, found: Callable[[], object], timeout_s: float = 15) -> None:
        """Ask again until there is something."""
        until(found, timeout_s)

    def close(self) -> None:
        """End the connections of the mirrors."""
        for source in self._sources.values():
            source.close()


@contextmanager
def several(settings: Any) -> Iterator[Several]:
    """Two brokers with a topic `orders` of two queues each, and Django's settings pointed at them."""
    with ExitStack() as open_now:
        cluster = open_now.enter_context(Cluster(2))
        settings.ESCAPEMENT_NAMESRV = cluster.namesrv
        open_now.callback(hang_up)
        admins = {name: open_now.enter_context(Admin(cluster.namesrv, broker=name)) for name in cluster.names}
        for admin in admins.values():
            admin.create_topic("orders", queues=2)
        producer = open_now.enter_context(Producer(group="tests", namesrv=cluster.namesrv))
        made = Several(cluster, producer, admins)
        open_now.callback(made.close)
        made.mirror()
        yield made
