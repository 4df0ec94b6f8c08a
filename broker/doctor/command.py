"""`python -m escapement_mq doctor DIRECTORY`: the machine, a store and the ports of its broker, without Django."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from . import Check, as_json, chosen, examine, exit_code, machine, ports, store, told


def checks_of(root: Path, host: str, port: int, namesrv_port: int) -> dict[str, Check]:
    """Return all checks of a broker by itself."""
    steps = machine.ClockSteps()
    start = f"python -m escapement_mq broker --store {root} --port {port} --namesrv-port {namesrv_port}"
    return {
        **store.checks(root),
        "port.broker": partial(ports.port, "broker", host, port, "--port"),
        "port.namesrv": partial(ports.port, "name service", host, namesrv_port, "--namesrv-port"),
        "broker": partial(ports.broker_ready, host, port, start),
        "permissions.umask": partial(ports.umask, port),
        **machine.checks(steps),
    }


def main(arguments: list[str]) -> int:
    """Examine and print; return 1 if something is to be changed, 2 for a check that is none, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m escapement_mq doctor", description="Check a machine, a store and its broker; change nothing."
    )
    parser.add_argument("store", type=Path, help="store directory, there or not")
    parser.add_argument("--host", default="127.0.0.1", help="where the broker listens")
    parser.add_argument("--port", type=int, default=10911, help="port of the broker")
    parser.add_argument("--namesrv-port", type=int, default=9876, help="port of the name service")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="only checks that begin so")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(arguments)
    try:
        checks = chosen(checks_of(options.store, options.host, options.port, options.namesrv_port), options.only)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    found = list(examine(checks))
    sys.stdout.write((as_json(found) if options.json else "\n".join(told(found))) + "\n")
    return exit_code(found)
