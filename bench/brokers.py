"""Several brokers of ours, a process each, registered at name services by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.client import Admin
from tests.interop.names import OurNamesrv
from tests.interop.servers import EscapementServer, StoreShape
from tests.interop.waiting import wait_until

REGISTERED_S = 60


class Registered(EscapementServer):
    """Our broker, of this name, registered at name servers."""

    def __init__(self, directory: Path, shape: StoreShape, at: str, name: str) -> None:
        super().__init__(directory / "store", directory / "work", shape)
        self.more_arguments = ("--register-at", at, "--name", name)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers by name, and the addresses of their name servers as clients are given them."""

    namesrv: str
    servers: dict[str, Registered]

    def __getitem__(self, name: str) -> Registered:
        return self.servers[name]

    @property
    def names(self) -> list[str]:
        """The names in order."""
        return list(self.servers)


@contextmanager
def several(count: int, base: Path, shape: StoreShape, *, name_services: int = 2) -> Iterator[Brokers]:
    """Start name services, and brokers from broker-a on; at the end all are killed."""
    with ExitStack() as stack:
        services = [OurNamesrv(base / f"names-{number}") for number in range(name_services)]
        for service in services:
            stack.callback(service.kill)
            service.start()
        at = ";".join(service.namesrv for service in services)
        names = [f"broker-{chr(ord('a') + number)}" for number in range(count)]
        servers = {name: Registered(base / name, shape, at, name) for name in names}
        for server in servers.values():
            stack.callback(server.kill)
            server.start()
        await_registrations(at, names)
        yield Brokers(at, servers)


def await_registrations(at: str, names: list[str]) -> None:
    """Wait until the name servers list these brokers."""
    with Admin(at) as admin:
        if not wait_until(lambda: {each.name for each in admin.brokers()} >= set(names), timeout_s=REGISTERED_S):
            raise RuntimeError(f"the name servers do not list all of {', '.join(names)} after {REGISTERED_S} s")


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
