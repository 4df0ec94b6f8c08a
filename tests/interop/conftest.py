"""One server of each kind for the whole run, and what the tests start against it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import redis

from broker.redisson import Codec, DelayedQueue
from tests import speed
from tests.interop.apache_cluster import ApacheCluster
from tests.interop.golang import GoProducer, GoProgram
from tests.interop.programs import JavaConsumer, JavaProducer, Program
from tests.interop.redis_servers import RedisServer
from tests.interop.redisson import CURRENT, LEGACY, JavaQueues
from tests.interop.servers import SERVERS, Server, StoreShape, served

#: asks soon about halves, and tries soon again
SOON = StoreShape(
    heap="512m", transaction_interval_ms=1_000, transaction_checks=255, delay_levels="1s 1s 1s 1s 2s 5s 10m 1h"
)

NUMBERS = itertools.count(1)
ServerFactory = Callable[..., Server]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs Java, Maven, Go or Apache RocketMQ; the gate runs the core of it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.interop)
            if speed.is_core(item.path, item.name):
                item.add_marker(pytest.mark.core)


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running Apache RocketMQ 5.5.0."""
    with running("apache", tmp_path_factory.mktemp("apache")) as one:
        yield one


@pytest.fixture(scope="session")
def escapement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our broker, running."""
    with running("escapement", tmp_path_factory.mktemp("escapement")) as one:
        yield one


@pytest.fixture(params=["apache", "escapement"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the two: what holds for Apache RocketMQ must hold for ours."""
    chosen: Server = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="session")
def quick_apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Two masters and a slave of Apache RocketMQ 5.5.0 that ask soon and try soon again; whoever kills one starts it
    again."""
    with ApacheCluster(tmp_path_factory.mktemp("cluster"), SOON) as running:
        yield running


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[ServerFactory]:
    """Start servers of one test's own; all are stopped at its end."""
    started: list[Server] = []

    def start(kind: str, root: Path, shape: StoreShape) -> Server:
        new = SERVERS[kind](root, tmp_path / f"{kind}-{next(NUMBERS)}", shape)
        started.append(new)
        new.start()
        return new

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"Topic{next(NUMBERS)}"


@pytest.fixture
def group() -> str:
    """A group name that no other test uses."""
    return f"group-{next(NUMBERS)}"


@pytest.fixture(scope="session")
def producers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., JavaProducer]]:
    """Java producers, one a server, version and serialisation, kept for the whole run."""
    work = tmp_path_factory.mktemp("producers")
    kept: dict[tuple[str, str, bool], JavaProducer] = {}

    def producer(server: Server, version: str, *, binary_headers: bool = False) -> JavaProducer:
        key = (server.namesrv, version, binary_headers)
        if key not in kept:
            name = f"producer-{len(kept)}"
            kept[key] = JavaProducer(server.namesrv, name, version=version, work=work, binary_headers=binary_headers)
        return kept[key]

    yield producer
    for one in kept.values():
        one.child.kill()


@pytest.fixture
def consume(tmp_path: Path) -> Iterator[Callable[..., JavaConsumer]]:
    """Start Java push consumers that end with the test."""
    started: list[Program] = []

    def start(server: Server, group: str, topic: str, **options: Any) -> JavaConsumer:
        consumer = JavaConsumer(server.namesrv, group, topic, work=tmp_path, **options)
        started.append(consumer)
        return consumer

    yield start
    for one in started:
        one.child.kill()


@pytest.fixture(scope="session")
def go_producer(escapement: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoProducer]:
    """A producer of Apache's Go client on our broker, kept for the whole run."""
    one = GoProducer(escapement, "go-producer", work=tmp_path_factory.mktemp("go"))
    yield one
    one.child.kill()


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start programs of Apache's Go client that end with the test: their class, a server, what they are about."""
    started: list[GoProgram] = []

    def start(kind: type[GoProgram], *about: Any, **flags: Any) -> GoProgram:
        one = kind(*about, work=tmp_path, **flags)
        started.append(one)
        return one

    yield start
    for one in started:
        one.child.kill()


@dataclass(frozen=True, slots=True)
class Shared:
    """A Redis that one JVM with the real Redisson works on; the tests share both, each with queues of its own."""

    server: RedisServer
    client: redis.Redis
    java: JavaQueues

    def ours(self, queue: str, codec: Codec | None = None) -> DelayedQueue:
        """The same queue from Python; it writes the packing that this Redisson reads."""
        packing: Literal["new", "old"] = "old" if self.java.version == LEGACY else "new"
        return DelayedQueue(queue, self.client, codec=codec, packing=packing)


@pytest.fixture(scope="session", params=[("valkey", CURRENT), ("valkey", LEGACY), ("redis", CURRENT)], ids="-".join)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Each Redis with each Redisson that changes anything: the packing is the older one's, scripts run on both."""
    kind, version = request.param
    work = tmp_path_factory.mktemp("redisson")
    server = RedisServer(work / kind, kind).start()
    java = JavaQueues(server.url, version=version, work=work)
    with server.client() as client:
        yield Shared(server, client, java)
    java.child.kill()
    server.kill()


@pytest.fixture
def queue() -> str:
    """A queue name that no other test uses."""
    return f"queue-{next(NUMBERS)}"


def running(kind: str, base: Path, shape: StoreShape | None = None) -> AbstractContextManager[Server]:
    """A server of this kind, for a block."""
    return served(SERVERS[kind](base / "store", base / "work", shape or StoreShape()))
