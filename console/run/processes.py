"""The processes of one machine, in the order in which they start; they stop in the opposite order."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import psycopg
from django.conf import settings
from django.core.management import get_commands

from broker.hosting import HostingRefused, refuse_open_listening
from console.run.addresses import answers, database_url, owner_url, taken
from console.run.supervisor import ChildSpec
from console.site.checks import ServingRefused, refuse_open_serving

#: Django's command line: `-m console`, or under its name in a wheel.
MANAGE = ("-m", __name__.removesuffix(".run.processes"))
#: Workers of ours have nothing to say to each other; each is looked after by who started it.
SILENT = ("--without-gossip", "--without-mingle", "--without-heartbeat")
#: One that hosts something has no tasks but its own queue.
HOSTING_WORKER = ("-P", "threads", "-c", "1", *SILENT)
#: The broker drains and closes within 10 s of SIGTERM; a little more before it is killed.
BROKER_STOP_S = 15.0
#: ports from one broker to the next: each has its VIP channel two below its own
BROKERS_APART = 10


def processes() -> list[ChildSpec]:
    """Return all children of `make run`, without those that DATABASE_URL, REDIS_URL or ESCAPEMENT_NAMESRV replaces."""
    return [*_servers(), _prepare(), *served(), *_demo()]


def served() -> list[ChildSpec]:
    """Return those of them that go on for good and are ours; `manage.py serve NAME` becomes one of these."""
    return [*_name_services(), *_brokers(), _worker_of_all(), _web()]


def taken_ports(specs: list[ChildSpec]) -> list[str]:
    """Return a sentence for each port that a child needs and another program occupies."""
    wanted = [("console", settings.WEB_HOST, settings.WEB_PORT, "ESCAPEMENT_WEB_PORT")]
    if settings.WEB_REDIRECT_PORT:
        wanted += [("way to HTTPS", settings.WEB_HOST, settings.WEB_REDIRECT_PORT, "ESCAPEMENT_WEB_REDIRECT_PORT")]
    for number in range(len(_broker_names())):
        wanted += [
            ("broker", settings.BROKER_HOST, _broker_port(number), "ESCAPEMENT_BROKER_PORT"),
            ("name service", settings.BROKER_HOST, _namesrv_port(number), "ESCAPEMENT_NAMESRV_PORT"),
        ]
    wanted += [
        ("name service", settings.BROKER_HOST, port, "ESCAPEMENT_NAMESRV_PORTS") for port in settings.NAMESRV_PORTS
    ]
    return [
        f"Port {port} on {host}, wanted for the {what}, is taken by another program: stop it, or set {variable}."
        for what, host, port, variable in wanted
        if taken(host, port)
    ]


def exposed(specs: list[ChildSpec]) -> list[str]:
    """Return why web process and broker would refuse to listen where they are told to, before anything starts."""
    refusals = []
    try:
        refuse_open_serving(settings)
    except ServingRefused as refusal:
        refusals.append(str(refusal))
    if settings.NAMESRV_PORTS or _broker_names():
        try:
            refuse_open_listening()
        except HostingRefused as refusal:
            refusals.append(str(refusal))
    return refusals


def _servers() -> list[ChildSpec]:
    embedded = (sys.executable, "-m", "console.run.embedded")
    servers = []
    if "DATABASE_URL" not in os.environ:
        servers.append(
            ChildSpec(
                "postgres",
                (*embedded, "postgres"),
                _database_answers,
                # the first start makes the directory, which takes a busy machine half a minute
                ready_timeout_s=120.0,
                stop_timeout_s=30.0,
                quiet=True,
            )
        )
    if "REDIS_URL" not in os.environ:
        servers.append(ChildSpec("valkey", (*embedded, "valkey"), _valkey_answers, quiet=True))
    return servers


def _prepare() -> ChildSpec:
    return ChildSpec("prepare", (sys.executable, *MANAGE, "prepare"), runs_once=True, ready_timeout_s=120.0)


def _name_services() -> list[ChildSpec]:
    return [
        ChildSpec(
            name := f"namesrv-{port}",
            _worker(name, *HOSTING_WORKER, "-Q", name, "--namesrv", str(port)),
            partial(answers, settings.BROKER_HOST, port),
            ready_timeout_s=60.0,
        )
        for port in settings.NAMESRV_PORTS
    ]


def _broker_names() -> list[str]:
    """Return the brokers that run here; none where ESCAPEMENT_NAMESRV says where others are."""
    return [] if "ESCAPEMENT_NAMESRV" in os.environ else settings.BROKER_NAMES


def _broker_port(number: int) -> int:
    return settings.BROKER_PORT + BROKERS_APART * number


def _namesrv_port(number: int) -> int:
    return settings.NAMESRV_PORT + number


def _brokers() -> list[ChildSpec]:
    names = _broker_names()
    return [
        ChildSpec(
            "broker" if len(names) == 1 else name,
            _worker(name, *HOSTING_WORKER, "-Q", name, "--engine", name),
            partial(_broker_answers, number),
            ready_timeout_s=60.0,
            stop_timeout_s=BROKER_STOP_S,
            environment={} if number == 0 else _environment_of(name, number),
        )
        for number, name in enumerate(names)
    ]


def _environment_of(name: str, number: int) -> dict[str, str]:
    """Return what makes another broker beside the first one of it."""
    return {
        "ESCAPEMENT_BROKER": name,
        "ESCAPEMENT_BROKER_PORT": str(_broker_port(number)),
        "ESCAPEMENT_NAMESRV_PORT": str(_namesrv_port(number)),
        "ESCAPEMENT_BROKERS": name,
        "ESCAPEMENT_STORE": str(settings.OTHER_STORES[name]),
    }


def _worker_of_all() -> ChildSpec:
    """Return the one worker of all that mostly waits: it has a thread for dashboards beside that for all else."""
    hosts = ("--mirror", "--transfer", "--checkback", "--timetable")
    command = _worker("worker", "-P", "threads", "-c", "2", "-Q", "jobs,dashboards", *SILENT, *hosts)
    return ChildSpec("worker", command, stop_timeout_s=15.0)


def _web() -> ChildSpec:
    command = (sys.executable, "-m", "console.site.web")
    return ChildSpec("web", command, lambda: answers(settings.WEB_HOST, settings.WEB_PORT))


def _demo() -> list[ChildSpec]:
    if os.environ.get("ESCAPEMENT_DEMO") == "0" or "demo" not in get_commands():
        return []
    return [ChildSpec("demo", (sys.executable, *MANAGE, "demo", "flights"))]


def _worker(name: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "console.site", "worker", "-n", f"{name}@%h", "-l", "INFO", *options)


def _database_answers() -> bool:
    try:
        # the owner, as the other roles are made only then
        psycopg.connect(owner_url() or database_url(), connect_timeout=1).close()
    except psycopg.OperationalError:
        return False
    return True


def _valkey_answers() -> bool:
    port = Path(settings.VAR / "valkey" / "port")
    return port.exists() and answers("127.0.0.1", int(port.read_text()))


def _broker_answers(number: int) -> bool:
    ports = (_broker_port(number), _namesrv_port(number))
    return all(answers(settings.BROKER_HOST, port) for port in ports)
