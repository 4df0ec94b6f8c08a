"""Name servers and brokers, ours and Apache RocketMQ's, that are started one by one to be put together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.interop import jars
from tests.interop.guarded import ROOT, guarded_settings
from tests.interop.process import Child
from tests.interop.servers import START_TIMEOUT_S, ApacheServer, EscapementServer, StoreShape, says
from tests.ports import free_ports

SMALL = StoreShape(heap="512m")


class OurNamesrv:
    """`python -m broker.server.namesrv`."""

    more_arguments: tuple[str, ...] = ()
    more_environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self, work: Path) -> None:
        self.work = work
        self._port = free_ports(1)
        self._child: Child | None = None

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process and wait until it says that it listens."""
        self.work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "broker.server.namesrv", "--root", str(self.work / "names")]
        env = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(jars.REPOSITORY), **self.more_environment}
        self._child = Child(
            [*command, "--port", str(self._port), *self.more_arguments], log=self.work / "namesrv.err", env=env
        )
        self._child.wait_for(says("name service"), START_TIMEOUT_S, "our name service")

    def kill(self) -> None:
        """KILL it, at once."""
        if self._child:
            self._child.kill()


class GuardedNamesrv(OurNamesrv):
    """The same with access control."""

    more_arguments = ("--access-key", ROOT[0])
    more_environment = MappingProxyType({"ESCAPEMENT_SECRET_KEY": ROOT[1]})


class ApacheNamesrv(ApacheServer):
    """Apache RocketMQ's name server without a broker."""

    def __init__(self, work: Path) -> None:
        super().__init__(work / "store", work, SMALL)

    def start(self) -> None:
        """Start the JVM and wait until it is up."""
        self.prepare()


class ApacheBroker(ApacheServer):
    """Apache RocketMQ's broker at name servers of somebody else."""

    def __init__(self, work: Path, at: str, name: str = "broker-a", broker_id: int = 0) -> None:
        super().__init__(work / "store", work, SMALL)
        self._at, self._name, self._broker_id = at, name, broker_id

    @property
    def namesrv(self) -> str:
        return self._at

    def start(self) -> None:
        """Start the JVM and wait for the broker's own word that it is up."""
        self.prepare()
        self.launch().wait_for(says("boot success"), START_TIMEOUT_S, "the broker")

    def _start_namesrv(self) -> None:
        """Start nothing, as the name servers are there."""

    def _settings(self) -> dict[str, object]:
        role = "SLAVE" if self._broker_id else "ASYNC_MASTER"
        own = {"brokerName": self._name, "brokerId": self._broker_id, "brokerRole": role}
        return super()._settings() | own


class GuardedBroker(ApacheBroker):
    """The same with access control; it signs what it asks name servers as root."""

    def _settings(self) -> dict[str, object]:
        own = {"innerClientAuthenticationCredentials": json.dumps({"accessKey": ROOT[0], "secretKey": ROOT[1]})}
        return super()._settings() | guarded_settings() | own


class OurBroker(EscapementServer):
    """Our broker, registered at name servers beside its own."""

    def __init__(self, work: Path, at: str, name: str) -> None:
        super().__init__(work / "store", work, SMALL)
        self.more_arguments = ("--register-at", at, "--name", name)
