"""The settings of one connection: what its address and Celery's `broker_transport_options` say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..client import Access, InvalidArgument, Tls
from ..client.names import check_group, check_number

DEFAULT_PORT = 9876
#: Our options and their types; those of other transports, which a project may still have, mean nothing here.
_NUMBER = (int, float)
_OPTIONS: Mapping[str, tuple[type, ...]] = {
    "group": (str,), "prefix": (str,), "visibility_timeout": _NUMBER, "poll_timeout": _NUMBER,
    "send_timeout": _NUMBER, "queues": (int,), "namesrv": (str,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """The cluster to speak with, and how."""

    namesrv: str
    access_key: str | None = None
    secret_key: str | None = None
    tls: Tls | bool = False
    #: the consumer group in whose name all workers receive
    group: str = "celery"
    #: before the names of all topics
    prefix: str = ""
    #: how long a task is its worker's unless the worker says again that it is at it
    invisible_ms: int = 60_000
    #: how long the broker holds a question for tasks
    poll_ms: int = 15_000
    send_ms: int = 5_000
    #: queues of a topic that is made; with one, tasks begin in the order in which they were sent
    queues: int = 1

    @property
    def access(self) -> Access:
        """The arguments that every client takes."""
        if self.access_key is None and not self.tls:
            return {}  # what the project said once, if it did
        return {"access_key": self.access_key, "secret_key": self.secret_key, "tls": self.tls}


def settings_of(client: Any) -> Settings:
    """Return what a kombu Connection says; raises InvalidArgument."""
    options: Mapping[str, Any] = client.transport_options or {}
    for name, kind in _OPTIONS.items():
        if name in options and (isinstance(options[name], bool) or not isinstance(options[name], kind)):
            raise InvalidArgument(
                f"broker_transport_options[{name!r}] is {options[name]!r:.100}; it is a {kind[0].__name__}.", field=name
            )
    prefix = (client.virtual_host or "").strip("/")
    settings = Settings(
        options.get("namesrv") or _namesrv(client),
        client.userid or None,
        client.password or None,
        _tls(client.ssl),
        options.get("group", "celery"),
        options.get("prefix", f"{prefix}-" if prefix else ""),
        _ms(options, "visibility_timeout", 60, 1, 43_200),
        _ms(options, "poll_timeout", 15, 0.1, 60),
        _ms(options, "send_timeout", 5, 0.1, 600),
        options.get("queues", 1),
    )
    check_group(settings.group)
    check_number("queues", settings.queues, 1, 64)
    return settings


def _namesrv(client: Any) -> str:
    """Return the name servers: all hosts of the connection's addresses, ``escapement://a;escapement://b``."""
    first = f"{client.hostname or '127.0.0.1'}:{client.port or DEFAULT_PORT}"
    others = [_host(address) for address in client.alt or ()]
    return ";".join(dict.fromkeys([first, *filter(None, others)]))


def _host(address: str) -> str:
    host = address.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if not host:
        return ""
    return host if host.rpartition(":")[2].isdigit() and ":" in host else f"{host}:{DEFAULT_PORT}"


def _ms(options: Mapping[str, Any], name: str, default: float, low: float, high: float) -> int:
    seconds = options.get(name, default)
    check_number(name, seconds, low, high)
    return int(seconds * 1000)


def _tls(given: Any) -> Tls | bool:
    """Read Celery's `broker_use_ssl`: True, or the names that it has for RabbitMQ and Redis."""
    if not isinstance(given, Mapping):
        return bool(given)
    known = {name.removeprefix("ssl_"): value for name, value in given.items()}
    return Tls(
        ca_file=known.get("ca_certs"),
        server_name=known.get("server_hostname"),
        verify=known.get("cert_reqs") not in (0, "none", "CERT_NONE"),
        cert_file=known.get("certfile"),
        key_file=known.get("keyfile"),
    )
