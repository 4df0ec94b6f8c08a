"""`python -m broker.server.namesrv`: a name service by itself, for brokers that register at it, ours and Apache's.

It keeps the values that it is given (100) and, with access control, its users. Who is registered is kept nowhere:
brokers come again by themselves, those that lost their connection within seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import log_lines
from ..engine.disk import Files, OsFiles, join
from ..engine.errors import BrokerError
from ..engine.tables.key_values import OWN_PREFIX, KeyValues
from ..namesrv.requests import NameService
from ..namesrv.routes import RouteTable
from ..rocketmq.acl import AccessConfig, User
from ..rocketmq.message import written_address
from .access.accounts import FILE_NAME, AccessProcessor
from .access.demands import Demands
from .access.gate import Gate, gate_of
from .clock import wall_clock_ms
from .connection import Handler, Hooks, Limits, Server, Shared
from .listener import Listening, ListeningRefused, Remedies, bound, raise_descriptor_limit, refuse_exposed
from .sniffing import front
from .tls import Certificates, TlsConfig, is_plaintext_allowed, own_certificates

logger = logging.getLogger(__name__)

REMEDIES = Remedies(
    access="Give --access-key and set ESCAPEMENT_SECRET_KEY",
    host="--host",
    advertise="give --host",
    tls="Give --tls-cert and --tls-key",
)
STOP_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """What a name service by itself is started with. `cluster`: of which policies speak, where access is controlled."""

    root: str
    host: str = "127.0.0.1"
    port: int = 9876
    cluster: str = "DefaultCluster"
    access: AccessConfig | None = None
    tls: TlsConfig | None = field(default=None)


class NamesrvService:
    """A name service that is served until it is stopped; a port of 0 takes a free one."""

    def __init__(
        self,
        config: NamesrvConfig,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._config = config
        self._files = files or OsFiles()
        self._limits = limits or Limits()
        self._clock = clock
        self._port = config.port
        self._gate: Gate | None = None
        self._server: Server | None = None
        self._names: NameService | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The address (host:port) where it listens."""
        return written_address(self._config.host, self._port)

    @property
    def codes(self) -> frozenset[int]:
        """The requests that it answers."""
        return frozenset() if self._server is None else frozenset(self._server.codes)

    async def start(self) -> None:
        """Begin to serve. Raises OSError if the port is taken, or values, users or certificates cannot be read."""
        config = self._config
        certificates = None if config.tls is None else Certificates(config.tls, self._clock)
        listening = bound(config.host, config.port)
        try:
            self._port = listening.getsockname()[1]
            self._server = self._assemble(certificates)
            await self._server.start(listening)
        except BaseException:
            listening.close()
            raise
        self._sweep()
        logger.info("the name service listens on %s", self.address)

    def _assemble(self, certificates: Certificates | None) -> Server:
        config, files = self._config, self._files
        files.make_directory(config.root)
        values = KeyValues(files, join(config.root, "kvConfig.json"))
        values.load()
        settings = {"listenPort": self._port, "rocketmqHome": config.root, "enableTopicList": "true"}
        names = self._names = NameService(RouteTable(), values, self._clock, settings, OWN_PREFIX)
        handlers: dict[int, Handler] = dict(names.handlers())
        if config.access is not None:
            demands = Demands(config.cluster, lambda _position: None)
            path = join(config.root, FILE_NAME)
            gate = self._gate = gate_of(path, demands, files, config.access, lambda: server.connections)
            handlers |= AccessProcessor(gate.table).handlers()
        hooks = Hooks(gate=self._gate, connection=front(certificates), closed=(names.connection_ended,))
        server = Server("name service", handlers, self._clock, self._limits, hooks, Shared.within(self._limits))
        return server

    def _sweep(self) -> None:
        server, names = self._server, self._names
        assert server is not None and names is not None
        self._sweep_timer = asyncio.get_running_loop().call_later(self._limits.sweep_interval_ms / 1000, self._sweep)
        now_ms = self._clock()
        server.sweep(now_ms)
        names.expire(now_ms)
        server.places.recount(now_ms)
        if self._gate is not None:
            self._gate.unauthenticated.sweep(now_ms)

    async def stop(self) -> None:
        """Take nothing new and close all connections; stopping twice is fine."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        server.stop_accepting()
        server.stop_reading()
        server.close_connections()
        await asyncio.sleep(0)  # what was answered goes out
        server.abort_connections()


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return 1 if it could not start, else 0."""
    os.umask(0o077)
    parser = argparse.ArgumentParser(prog="python -m escapement_mq namesrv", description="A name service alone.")
    parser.add_argument(
        "--store", "--root", dest="root", metavar="DIRECTORY", required=True, help="directory of its values and users"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; beyond loopback only with access control and TLS"
    )
    parser.add_argument("--port", type=int, default=9876, help="port (0: a free one)")
    parser.add_argument("--cluster", default="DefaultCluster", help="the cluster that policies of its users name")
    parser.add_argument(
        "--access-key", help="only signed requests; this user (secret: ESCAPEMENT_SECRET_KEY) may do everything"
    )
    parser.add_argument("--open-routes", action="store_true", help="requests for routes need no signature")
    parser.add_argument("--tls-cert", help="certificate chain (PEM) for TLS; without TLS from this machine only")
    parser.add_argument("--tls-key", help="its private key, if that is a separate file")
    log_lines.add_options(parser)
    options = parser.parse_args(arguments)
    log_lines.take_options(vars(options))
    log_lines.begin()
    raise_descriptor_limit()
    try:
        import uvloop  # here, as tests of others serve names without it

        return uvloop.run(_serve(_config(options)))
    except (BrokerError, OSError, ListeningRefused) as error:
        sys.stderr.write(f"{log_lines.escaped(str(error))}\n")
        return 1


def _config(options: argparse.Namespace) -> NamesrvConfig:
    """Return what was asked for; raises ListeningRefused for what a broker is refused, too."""
    name, secret = options.access_key, os.environ.get("ESCAPEMENT_SECRET_KEY")
    if name and not secret:
        raise ListeningRefused(f"{name} has no secret: set ESCAPEMENT_SECRET_KEY.")
    listening = Listening(
        options.host,
        options.host,
        has_access=bool(name),
        has_tls=bool(options.tls_cert),
        is_plaintext_allowed=is_plaintext_allowed(),
    )
    refuse_exposed(listening, REMEDIES)
    return NamesrvConfig(
        root=options.root,
        host=options.host,
        port=options.port,
        cluster=options.cluster,
        access=AccessConfig(User(name, secret, is_super=True), options.open_routes) if name and secret else None,
        tls=own_certificates(options.tls_cert, options.tls_key) if options.tls_cert else None,
    )


async def _serve(config: NamesrvConfig) -> int:
    ended = asyncio.Event()
    service = NamesrvService(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await service.start()
    sys.stdout.write(f"name service {service.address}\n")
    sys.stdout.flush()
    await ended.wait()
    await service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
