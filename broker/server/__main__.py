"""`python -m broker.server`: a bare broker without Django, for tests and measurements."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from .. import log_lines
from ..client.credentials import Signer
from ..engine.config import EngineConfig
from ..engine.disk import OsFiles
from ..engine.errors import BrokerError
from ..engine.fsck.survey import sizes_of
from ..rocketmq.acl import AccessConfig, User
from .broker import BrokerService, Protection
from .clock import Clocks, Simulation
from .connection import Limits
from .listener import (
    Listening,
    ListeningRefused,
    Remedies,
    is_loopback,
    limit_free_memory,
    raise_descriptor_limit,
    refuse_exposed,
)
from .registrar import NameServers
from .slow_requests import SLOW_MS
from .tls import is_plaintext_allowed, own_certificates

#: what a store keeps as it was made
SIZES = ("segment_size_bytes", "queue_file_entries", "index_slots", "index_entries")
REMEDIES = Remedies(
    access="Give --access-key and set ESCAPEMENT_SECRET_KEY",
    host="--host",
    advertise="give --advertise",
    tls="Give --tls-cert and --tls-key",
)
TRANSACTIONS = ("transaction_timeout_ms", "transaction_interval_ms", "transaction_checks")


def main(arguments: list[str] | None = None) -> int:
    """Serve a store until SIGTERM or SIGINT; return 1 if it could not start, 2 if the store has FAILED, else 0."""
    os.umask(0o077)
    parser = argparse.ArgumentParser(
        prog="python -m escapement_mq broker", description="A broker and its name service."
    )
    parser.add_argument("--store", "--root", dest="root", metavar="DIRECTORY", required=True, help="store directory")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; beyond loopback only with access control and TLS"
    )
    parser.add_argument("--advertise", help="address to tell clients, if it is another")
    parser.add_argument("--port", type=int, default=10911, help="port of the broker (0: a free one)")
    parser.add_argument("--namesrv-port", type=int, default=9876, help="port of the name service (0: a free one)")
    parser.add_argument("--flush", choices=("sync", "async"), default="sync")
    parser.add_argument("--delay-levels", default=None, help="messageDelayLevel, such as '1s 5s 10s'")
    parser.add_argument("--no-auto-create", action="store_true", help="do not create topics on their first message")
    parser.add_argument(
        "--access-key", help="only signed requests; this user (secret: ESCAPEMENT_SECRET_KEY) may do everything"
    )
    parser.add_argument("--register-at", default="", help="name servers to register at: host:port;host:port")
    parser.add_argument("--no-vip", action="store_true", help="no second port, two below the broker's")
    parser.add_argument("--open-routes", action="store_true", help="requests for routes need no signature")
    parser.add_argument("--tls-cert", help="certificate chain (PEM) for TLS; without TLS from this machine only")
    parser.add_argument("--tls-key", help="its private key, if that is a separate file")
    parser.add_argument("--name", default="broker-a", help="name of the broker")
    parser.add_argument("--cluster", default="DefaultCluster", help="name of its cluster")
    for name in (*SIZES, *TRANSACTIONS):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=None, help=f"{name} of EngineConfig")
    parser.add_argument(
        "--slow-ms", type=int, default=int(os.environ.get("ESCAPEMENT_SLOW_MS") or SLOW_MS),
        help="log requests that take this long (0: none)",
    )  # fmt: skip
    parser.add_argument(
        "--simulated-clock", type=_simulated_clock, metavar="SPEED",
        help="let the broker's clock run faster, for demonstrations and tests: 60, or 2026-01-01T00:00:00Z@60",
    )  # fmt: skip
    log_lines.add_options(parser)
    parser.add_argument(
        "--no-self-test", action="store_true", default=os.environ.get("ESCAPEMENT_SELF_TEST", "1") != "1",
        help="how fast timers can be released is not measured by itself, where it never was",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    log_lines.take_options(vars(options))
    log_lines.begin()
    raise_descriptor_limit()
    limit_free_memory()
    names = (*SIZES, *TRANSACTIONS, "delay_levels")
    chosen = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    try:
        chosen = sizes_of(OsFiles(), options.root) | chosen
        _refuse_exposed(options)
        config = EngineConfig(
            root=options.root, cluster_name=options.cluster, broker_name=options.name,
            host=options.advertise or options.host, port=options.port, flush=options.flush,
            auto_create_topics=not options.no_auto_create, **chosen,
        )  # fmt: skip
        return uvloop.run(_serve(config, options))
    except (BrokerError, OSError, ListeningRefused, ValueError) as error:
        sys.stderr.write(f"{log_lines.escaped(str(error))}\n")
        return 1


def _simulated_clock(text: str) -> Simulation:
    try:
        return Simulation.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _refuse_exposed(options: argparse.Namespace) -> None:
    """Raise ListeningRefused for what the hosted broker (broker/hosting) refuses, too."""
    if options.access_key and not os.environ.get("ESCAPEMENT_SECRET_KEY"):
        raise ListeningRefused(f"{options.access_key} has no secret: set ESCAPEMENT_SECRET_KEY.")
    if options.simulated_clock and not is_loopback(options.host):
        raise ListeningRefused(
            f"A simulated clock is for one machine, and the broker would listen on {options.host}: give --host a"
            " loopback address, or leave --simulated-clock out."
        )
    listening = Listening(
        options.host,
        options.advertise or options.host,
        has_access=bool(options.access_key),
        has_tls=bool(options.tls_cert),
        is_plaintext_allowed=is_plaintext_allowed(),
    )
    refuse_exposed(listening, REMEDIES)


async def _serve(config: EngineConfig, options: argparse.Namespace) -> int:
    ended = asyncio.Event()
    failures: list[str] = []

    def failed(reason: str) -> None:
        failures.append(reason)
        ended.set()

    name = options.access_key
    inner = User(name, os.environ["ESCAPEMENT_SECRET_KEY"], is_super=True) if name else None
    service = BrokerService(
        config,
        listen_host=options.host,
        broker_port=config.port,
        namesrv_port=options.namesrv_port,
        on_failed=failed,
        vip_channel=not options.no_vip,
        register_at=NameServers(
            NameServers.parsed(options.register_at), Signer(inner.name, inner.secret).sign if inner else None
        ),
        limits=Limits(slow_ms=options.slow_ms),
        clocks=Clocks(simulation=options.simulated_clock),
        self_test=not options.no_self_test,
        protection=Protection(
            access=AccessConfig(inner, options.open_routes) if inner else None,
            tls=own_certificates(options.tls_cert, options.tls_key) if options.tls_cert else None,
            metrics_token=os.environ.get("ESCAPEMENT_METRICS_TOKEN", ""),
        ),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await service.start()
    log_lines.tell_of_levels(lambda levels: loop.call_soon_threadsafe(service.levels_changed, levels))
    sys.stdout.write(f"broker {service.address} name service {service.namesrv_address}\n")
    sys.stdout.flush()
    await ended.wait()
    await service.stop()
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
