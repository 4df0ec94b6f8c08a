"""A broker, Apache RocketMQ's own proxy in front of it, and a client of the 5.x API (gRPC) that talks to that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.client import Admin
from tests.interop.conftest import running
from tests.interop.grpcclients import GrpcClient
from tests.interop.popping import bodies
from tests.interop.proxy import Proxy
from tests.interop.pythongrpc import PythonGrpcClient
from tests.interop.servers import Server

NUMBERS = itertools.count(1)
KINDS = {"normal": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "trans": "TRANSACTION"}


@dataclass
class House:
    """All three."""

    server: Server
    client: GrpcClient | PythonGrpcClient

    def group(self, *, in_order: bool = False) -> str:
        """A new consumer group."""
        name = f"proxied-{next(NUMBERS)}"
        with Admin(self.server.namesrv) as admin:
            admin.create_group(name, in_order=in_order)
        return name

    def left(self, group: str, topic: str) -> list[str]:
        """Bodies that a group has not got yet."""
        return bodies(self.client.receive(group, topic))


def housed(broker: str, client: type[GrpcClient | PythonGrpcClient], base: Path) -> Iterator[House]:
    """A house with a topic of each kind; all of it is gone afterwards."""
    with running(broker, base) as server:
        with Admin(server.namesrv) as admin:
            for topic, kind in KINDS.items():
                admin.create_topic(topic, queues=2, attributes={"message.type": kind})
        proxy = Proxy(server, base / "proxy")
        asked = client(proxy.endpoints, list(KINDS), work=base)
        yield House(server, asked)
        asked.child.kill()
        proxy.child.kill()
