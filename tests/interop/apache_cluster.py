"""A cluster of Apache RocketMQ: a name server, two masters, and a slave of the first that copies its log.

The slave is told by the name server where its master is: its log on the port for replication, its tables (topics,
groups, offsets, delay levels, timers) on the master's VIP port, which is two below the one it listens on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from broker.client import Admin
from broker.client.errors import ClientError
from tests.interop.names import SMALL, ApacheBroker, ApacheNamesrv
from tests.interop.process import Child
from tests.interop.readiness import await_runtime, has_topic
from tests.interop.servers import START_TIMEOUT_S, StoreShape, says
from tests.waiting import until

A, B = "broker-a", "broker-b"


class Member(ApacheBroker):
    """A master or a slave of the cluster; it can be killed and started again on the same store."""

    def __init__(self, work: Path, at: str, name: str, broker_id: int = 0, *, shape: StoreShape = SMALL) -> None:
        super().__init__(work, at, name, broker_id)
        self.shape = shape

    def _settings(self) -> dict[str, object]:
        # the address that a master tells its slaves is another setting than the one that clients are told
        return super()._settings() | {"brokerIP2": "127.0.0.1", "slaveReadEnable": "true"}

    def await_up(self, child: Child) -> None:
        """Wait for its own word that it is up, and until it tells about itself."""
        child.wait_for(says("boot success"), START_TIMEOUT_S, "the broker")
        await_runtime(self.address, START_TIMEOUT_S)

    def start(self) -> None:
        """Start the JVM and wait until it is up."""
        self.prepare()
        self.await_up(self.launch())

    @contextmanager
    def dead(self) -> Iterator[None]:
        """Kill it, and start it again when the block ends, however that ends."""
        self.kill()
        try:
            yield
        finally:
            self.start()


class ApacheCluster:
    """`namesrv`, masters `a` and `b`, and `slave`, which is process 1 of broker-a."""

    def __init__(self, work: Path, shape: StoreShape = SMALL) -> None:
        self.names = ApacheNamesrv(work / "names")
        self._work = work
        self._shape = shape

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return self.names.namesrv

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        for each in (*self.members, self.names):
            each.kill()

    @property
    def members(self) -> tuple[Member, ...]:
        """The processes that were made, in the order of names and numbers."""
        return tuple(vars(self)[name] for name in ("a", "slave", "b") if name in vars(self))

    def _start(self) -> None:
        self.names.start()
        self.a = Member(self._work / "a", self.namesrv, A, shape=self._shape)
        self.b = Member(self._work / "b", self.namesrv, B, shape=self._shape)
        self.slave = Member(self._work / "slave", self.namesrv, A, 1, shape=self._shape)
        started = []
        for each in (self.a, self.b):
            each.prepare()
            started.append((each, each.launch()))
        for each, child in started:
            each.await_up(child)
        # afterwards, as it asks the name server for its master when it starts
        self.slave.start()
        self.await_listed()
        self.await_copied()

    def await_listed(self) -> None:
        """Wait until the name server lists all three."""
        with Admin(self.namesrv) as admin:
            until(lambda: len(admin.members()) == 3, START_TIMEOUT_S, not_yet=(ClientError,))

    def await_copied(self, *topics: str, timeout_s: float = 60) -> None:
        """Wait until the slave's log ends where its master's does, and its tables have these topics."""
        until(lambda: all(has_topic(self.slave.address, each) for each in topics), timeout_s)
        with Admin(self.namesrv) as admin:

            def end(member: Member) -> int:
                return int(admin.runtime(address=member.address)["commitLogMaxOffset"])

            until(lambda: end(self.slave) == end(self.a), timeout_s, not_yet=(ClientError, KeyError))
