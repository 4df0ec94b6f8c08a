"""The audit as a stream to a collector: each entry as JSON, in the order of the chain, at least once.

    ESCAPEMENT_AUDIT_STREAM=syslog+udp://logs.example:514      RFC 5424, an entry a datagram (RFC 5426)
                            syslog+tcp://logs.example:601      RFC 5424, octet counting (RFC 6587)
                            syslog+tls://logs.example:6514     the same by TLS (RFC 5425)
                            syslog+unix:///dev/log             RFC 5424 to a socket of this machine
                            https://siem.example/audit         POST of lines of JSON, any 2xx is a yes

Operations write their entry and know nothing of this: the worker sends what is new every five seconds. How far it came
stands in `var/audit-stream.json`, and moves when the receiver has taken the entries: a webhook says so, by TCP (and
TLS) the receiver has read everything up to the end of the connection and closed it in turn. Datagrams are answered by
nobody: by UDP what is lost on the way is not known, and entries that no datagram holds are sent without their result.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
from django.conf import settings
from django.db import connection

from console.operations.chain import Link, links
from console.operations.models import AuditEnd
from console.run.private_files import write_private

logger = logging.getLogger(__name__)

#: entries that are sent before the position moves, and how many such rounds one turn has
BATCH, ROUNDS = 200, 50
TIMEOUT_S = 10.0
#: log audit (13), notice (5)
PRIORITY = 13 * 8 + 5
#: ports where none is named; of datagrams 514
_PORTS = {"syslog+tcp": 601, "syslog+tls": 6514}
#: what no datagram holds more than
_DATAGRAM_BYTES = 60_000
_APPLICATION = "escapement"

Send = Callable[[Sequence[Link]], None]


class StreamFailed(Exception):
    """The collector did not take the entries; the message says why."""


class StreamRefused(ValueError):
    """The setting names no collector; the message says what it may be."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far the stream came: the collector, and the last number that it took."""

    collector: str = ""
    number: int = 0
    trouble: str = ""

    @classmethod
    def read(cls, path: Path) -> Position:
        """Return what is kept; from the beginning where nothing is."""
        try:
            told = json.loads(path.read_text())
            return cls(str(told["collector"]), int(told["number"]), str(told.get("trouble", "")))
        except FileNotFoundError:
            return cls()
        except (ValueError, KeyError, TypeError) as error:
            logger.error("%s is no position of the audit's stream, it begins anew: %s", path, error)
            return cls()

    def keep(self, path: Path) -> None:
        """Write it, whole or not at all."""
        told = {"collector": self.collector, "number": self.number, "trouble": self.trouble}
        write_private(path, json.dumps(told))


def position_file() -> Path:
    """Return where it is kept how far the stream came."""
    return Path(settings.VAR) / "audit-stream.json"


def stream() -> int:
    """Send what the collector does not have yet; return how many entries. Says once that it cannot, and once that it
    can again; where another process is at it, it is left to that."""
    path = position_file()
    with _alone(path.with_suffix(".lock")) as is_ours:
        return _stream(path) if is_ours else 0


class Beside:
    """A thread that sends beside the worker's jobs: a collector that hangs keeps none of them waiting."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin a turn, unless the one before goes on."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._turn, name="audit-stream", daemon=True)
            self._thread.start()

    def join(self) -> None:
        """Wait for the turn that is under way."""
        if self._thread is not None:
            self._thread.join()

    def _turn(self) -> None:
        try:
            stream()
        finally:
            connection.close()  # this thread's own


beside = Beside()


def _stream(path: Path) -> int:
    known = Position.read(path)
    collector = without_secrets(settings.AUDIT_STREAM)
    at = known if known.collector == collector else Position(collector)
    count = 0
    try:
        send = sender_to(settings.AUDIT_STREAM)
        end = AuditEnd.objects.first()
        if at.number > (0 if end is None else end.number):
            raise StreamFailed(f"it has entries up to {at.number}, which this database does not have: remove {path}")
        entries = links(at.number)
        for _round in range(ROUNDS):
            batch = list(islice(entries, BATCH))
            if not batch:
                break
            send(batch)
            count += len(batch)
            at = replace(at, number=batch[-1].number, trouble="")
            at.keep(path)
    except (StreamFailed, StreamRefused) as error:
        if at.trouble != str(error):
            logger.error("the audit cannot be sent to %s (said once): %s", collector, error)
        at = replace(at, trouble=str(error))
    else:
        if known.trouble:
            logger.warning("the audit is sent to %s again", collector)
        at = replace(at, trouble="")
    if at != Position.read(path):
        at.keep(path)
    return count


def without_secrets(address: str) -> str:
    """Return the address as it may be told: without a password, a path and a query, which may be secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2] or parts.path}"


def sender_to(address: str) -> Send:
    """Return what sends a batch to this address, or raises StreamFailed. Raises StreamRefused."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise StreamRefused(f"ESCAPEMENT_AUDIT_STREAM: {error}.") from None
    makers: dict[str, Callable[[SplitResult, int], Send]] = {
        "syslog+udp": lambda parts, port: _by_datagrams(socket.AF_INET, (parts.hostname or "", port)),
        "syslog+tcp": lambda parts, port: _by_tcp(parts.hostname or "", port),
        "syslog+tls": lambda parts, port: _by_tcp(parts.hostname or "", port, _trusting(settings.AUDIT_STREAM_CA)),
        "syslog+unix": lambda parts, port: _by_datagrams(socket.AF_UNIX, parts.path),
        "https": lambda parts, port: _by_post(address),
        "http": lambda parts, port: _by_post(address),
    }
    is_whole = parts.path if parts.scheme == "syslog+unix" else parts.hostname
    if parts.scheme not in makers or not is_whole:
        known = ", ".join(f"{scheme}://" for scheme in makers)
        raise StreamRefused(f"ESCAPEMENT_AUDIT_STREAM is {without_secrets(address)!r}: it has to begin with {known}.")
    return makers[parts.scheme](parts, port or _PORTS.get(parts.scheme, 514))


# What an entry looks like.


def as_json(link: Link) -> str:
    """Return an entry as one line of ASCII, in which no character orders a terminal."""
    return json.dumps(json.loads(link.line()), ensure_ascii=True).replace("\x7f", "\\u007f")


def as_syslog(link: Link, *, host: str, told: str | None = None) -> bytes:
    """Return an entry as a message of RFC 5424 whose text is its JSON."""
    message = as_json(link) if told is None else told
    return f"<{PRIORITY}>1 {link.at} {host} {_APPLICATION} - audit - {message}".encode("ascii")


def _datagram(link: Link, host: str) -> bytes:
    whole = as_syslog(link, host=host)
    if len(whole) <= _DATAGRAM_BYTES:
        return whole
    short = json.loads(as_json(link)) | {"result": None, "reason": link.reason[:1000], "is_cut": True}
    return as_syslog(link, host=host, told=json.dumps(short, ensure_ascii=True).replace("\x7f", "\\u007f"))


def _host() -> str:
    """Return this machine's name as syslog has names: printable ASCII without blanks."""
    name = "".join(each for each in socket.gethostname() if each.isascii() and each.isprintable() and each != " ")
    return name[:255] or "-"


# How it gets there.


def _by_datagrams(family: socket.AddressFamily, address: tuple[str, int] | str) -> Send:
    def send(batch: Sequence[Link]) -> None:
        host = _host()
        try:
            found: Any = address
            kind = family
            if isinstance(address, tuple):
                kind, _type, _protocol, _name, found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
            with closing(socket.socket(kind, socket.SOCK_DGRAM)) as out:
                out.settimeout(TIMEOUT_S)
                out.connect(found)
                for link in batch:
                    out.send(_datagram(link, host))
        except OSError as error:
            raise StreamFailed(str(error)) from error

    return send


def _by_tcp(host: str, port: int, trusting: ssl.SSLContext | None = None) -> Send:
    def send(batch: Sequence[Link]) -> None:
        name = _host()
        frames = (as_syslog(link, host=name) for link in batch)
        sent = b"".join(b"%d %b" % (len(frame), frame) for frame in frames)
        try:
            with closing(socket.create_connection((host, port), TIMEOUT_S)) as plain:
                if trusting is None:
                    plain.sendall(sent)
                    plain.shutdown(socket.SHUT_WR)
                    _await_end(plain)
                    return
                with closing(trusting.wrap_socket(plain, server_hostname=host)) as secure:
                    secure.sendall(sent)
                    # many end the connection and leave out TLS's own word of it, which means what TCP's end means
                    with suppress(ssl.SSLEOFError):
                        _await_end(secure.unwrap())
        except OSError as error:
            raise StreamFailed(str(error)) from error

    return send


def _await_end(connection: socket.socket) -> None:
    """Wait until the other side closes: it has read everything then, whatever it says."""
    while connection.recv(4096):
        pass


def _trusting(authorities: str) -> ssl.SSLContext:
    """Return what a collector's certificate is checked with: these authorities (PEM), or the machine's."""
    try:
        return ssl.create_default_context(cafile=authorities or None)
    except OSError as error:
        raise StreamFailed(f"ESCAPEMENT_AUDIT_STREAM_CA: {authorities}: {error}") from error


def _by_post(address: str) -> Send:
    def send(batch: Sequence[Link]) -> None:
        lines = "".join(f"{as_json(link)}\n" for link in batch)
        headers = {"content-type": "application/x-ndjson"}
        if settings.AUDIT_STREAM_TOKEN:
            headers["authorization"] = f"Bearer {settings.AUDIT_STREAM_TOKEN}"
        try:
            answer = httpx.post(address, content=lines, headers=headers, timeout=TIMEOUT_S, follow_redirects=False)
        except httpx.HTTPError as error:
            raise StreamFailed(str(error) or type(error).__name__) from error
        if not answer.is_success:
            raise StreamFailed(f"it answered {answer.status_code}")

    return send


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Tell whether no other process is at it; none begins meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
