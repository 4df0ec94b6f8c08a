"""The audit as a stream: to syslog and to a webhook, in order, each entry at least once, beside what is audited."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from console import tasks
from console.operations import audit_stream, chain
from console.operations.audit_stream import StreamRefused, sender_to, stream, without_secrets
from console.operations.models import AuditEntry
from tests.console.operations.test_audit_chain import HARD, entries
from tests.hosting.test_log_lines import HOSTILE
from tests.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGE = re.compile(rb"<109>1 (\S+Z) (\S+) escapement - audit - (\{.*\})", re.DOTALL)
Taken = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def place(settings: Any, tmp_path: Path) -> Path:
    settings.VAR = tmp_path
    return tmp_path


def of_message(data: bytes) -> dict[str, Any]:
    """What a message of RFC 5424 tells."""
    found = MESSAGE.fullmatch(data)
    assert found is not None, data
    assert data.isascii() and data.decode().isprintable()
    told: dict[str, Any] = json.loads(found[3])
    assert told["at"].encode() == found[1]
    return told


class TcpCollector:
    """A collector by TCP: `closes_after` messages of one connection it goes away, without reading on."""

    scheme = "syslog+tcp"

    def __init__(self, port: int = 0) -> None:
        self.taken: Taken = []
        self.closes_after: int | None = None
        self._listening = socket.create_server(("127.0.0.1", port))
        self.address = f"{self.scheme}://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connected = self._over(self._listening.accept()[0])
            except ssl.SSLError:
                continue
            except OSError:
                return
            with connected, connected.makefile("rb") as lines:
                self._read(connected, lines)

    def _over(self, connected: socket.socket) -> socket.socket:
        return connected

    def _read(self, connected: socket.socket, lines: Any) -> None:
        count = 0
        while size := self._size(lines):
            if count == self.closes_after:
                # what was not read makes the end a reset
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                return
            self.taken.append(of_message(lines.read(size)))
            count += 1

    @staticmethod
    def _size(lines: Any) -> int:
        digits = b""
        while (digit := lines.read(1)) not in (b" ", b""):
            digits += digit
        return int(digits or 0)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class TlsCollector(TcpCollector):
    """The same by TLS, with a certificate of an authority that no machine knows, whose file is `authority`."""

    scheme = "syslog+tls"

    def __init__(self, place: Path) -> None:
        ca = trustme.CA()
        self.authority = place / "authority.pem"
        ca.cert_pem.write_to_path(self.authority)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(self._context)
        super().__init__()

    def _over(self, connected: socket.socket) -> socket.socket:
        return self._context.wrap_socket(connected, server_side=True)


@contextmanager
def datagrams(family: socket.AddressFamily, address: Any) -> Iterator[tuple[Taken, socket.socket]]:
    """A collector by datagrams, and its socket."""
    taken: Taken = []
    with socket.socket(family, socket.SOCK_DGRAM) as listening:
        listening.bind(address)

        def read() -> None:
            while data := listening.recv(1 << 17):
                taken.append(of_message(data))

        threading.Thread(target=read, daemon=True).start()
        yield taken, listening
        with socket.socket(family, socket.SOCK_DGRAM) as last:
            last.sendto(b"", listening.getsockname())


class Hook:
    """A webhook that answers what it is told to."""

    def __init__(self) -> None:
        self.taken: Taken = []
        self.tokens: list[str | None] = []
        self.code = 204
        hook = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.tokens.append(self.headers["authorization"])
                if hook.code == 204:
                    hook.taken += [json.loads(line) for line in body.splitlines()]
                self.send_response(hook.code)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/audit"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def numbers(taken: Taken) -> list[int]:
    return [told["number"] for told in taken]


def test_every_entry_as_it_is_by_datagrams_to_this_machine(settings: Any, place: Path) -> None:
    path = str(place / "log")
    settings.AUDIT_STREAM = f"syslog+unix://{path}"
    entries("one", HARD, HOSTILE.replace("\0", "").replace("\ud800", ""))
    with datagrams(socket.AF_UNIX, path) as (taken, _listening):
        assert stream() == 3
        until(lambda: len(taken) == 3)
        assert taken == [json.loads(link.line()) for link in chain.links()]
        assert stream() == 0
        entries("two")
        assert stream() == 1
        until(lambda: numbers(taken) == [1, 2, 3, 4])


def test_by_udp_and_what_no_datagram_holds(settings: Any) -> None:
    entries("one", "x" * 100_000, "three")
    with datagrams(socket.AF_INET, ("127.0.0.1", 0)) as (taken, listening):
        settings.AUDIT_STREAM = f"syslog+udp://127.0.0.1:{listening.getsockname()[1]}"
        assert stream() == 3
        until(lambda: numbers(taken) == [1, 2, 3])
    assert taken[1]["is_cut"] is True
    assert taken[1]["digest"] == list(chain.links())[1].digest


def test_by_tcp_in_order_after_an_outage_and_a_collector_that_ends_in_the_middle(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    settings.AUDIT_STREAM = f"syslog+tcp://127.0.0.1:{port}"
    entries("one", "two")
    assert stream() == stream() == 0
    assert caplog.text.count("cannot be sent") == 1
    collector = TcpCollector(port)
    try:
        assert stream() == 2
        assert "is sent to syslog+tcp://127.0.0.1:" in caplog.text
        assert numbers(collector.taken) == [1, 2]
        collector.closes_after = 1
        entries(*("x" * 50_000 for _ in range(40)))
        assert stream() == 0
        collector.closes_after = None
        assert stream() == 40
        # what had come before it went away comes again: nothing is left out
        assert numbers(collector.taken) == [1, 2, 3, *range(3, 43)]
    finally:
        collector.close()


def test_by_tls_only_to_a_collector_whose_certificate_is_known(
    settings: Any, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector = TlsCollector(place)
    settings.AUDIT_STREAM = collector.address
    try:
        entries("one", "two")
        assert stream() == 0
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
        settings.AUDIT_STREAM_CA = str(place / "none.pem")
        assert stream() == 0
        assert f"ESCAPEMENT_AUDIT_STREAM_CA: {place / 'none.pem'}" in caplog.text
        settings.AUDIT_STREAM_CA = str(collector.authority)
        assert stream() == 2
        assert numbers(collector.taken) == [1, 2]
        collector.closes_after = 1
        entries(*("x" * 50_000 for _ in range(40)))
        assert stream() == 0
        collector.closes_after = None
        assert stream() == 40
        assert numbers(collector.taken) == [1, 2, 3, *range(3, 43)]
    finally:
        collector.close()


def test_to_a_webhook_with_its_token_until_it_says_yes(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = Hook()
    settings.AUDIT_STREAM, settings.AUDIT_STREAM_TOKEN = hook.address, "hook-secret"
    try:
        entries("one", "two")
        hook.code = 500
        assert stream() == 0
        assert "it answered 500" in caplog.text
        hook.code = 307  # a redirect is not followed: the token is for this address
        assert stream() == 0
        hook.code = 204
        assert stream() == 2
        assert numbers(hook.taken) == [1, 2]
        assert set(hook.tokens) == {"Bearer hook-secret"}
        assert "hook-secret" not in caplog.text + audit_stream.position_file().read_text()
    finally:
        hook.close()


def test_another_collector_is_told_all_and_another_database_is_noticed(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Hook(), Hook()
    try:
        settings.AUDIT_STREAM = one.address
        entries("one", "two")
        assert stream() == 2
        settings.AUDIT_STREAM = other.address
        assert stream() == 2
        kept = json.loads(audit_stream.position_file().read_text())
        audit_stream.position_file().write_text(json.dumps(kept | {"number": 99}))
        assert stream() == 0
        assert "entries up to 99, which this database does not have" in caplog.text
        audit_stream.position_file().write_text("nonsense")
        assert stream() == 2
    finally:
        one.close()
        other.close()


def test_a_collector_that_hangs_delays_neither_jobs_nor_operations(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.AUDIT_STREAM = f"syslog+tcp://127.0.0.1:{silent.getsockname()[1]}"
        entries("one")
        tasks.stream_audit()
        connected, _ = silent.accept()
        tasks.stream_audit()  # a second turn does not begin, and nobody waits for the first
        assert stream() == 0
        entries("two")
        assert AuditEntry.objects.count() == 2
        with connected, connected.makefile("rb") as lines:
            assert lines.read()
        audit_stream.beside.join()
    assert json.loads(audit_stream.position_file().read_text())["number"] == 1


@pytest.mark.parametrize(
    "address",
    [
        "syslog://x:514",
        "syslog+udp://",
        "ftp://user:word@x/y",
        "syslog+tcp://x:70000",
        "syslog+unix://",
        "x",
        "syslog+tls://",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(address: str, settings: Any) -> None:
    with pytest.raises(StreamRefused) as refused:
        sender_to(address)
    assert "word" not in str(refused.value)
    settings.AUDIT_STREAM = address
    assert stream() == 0


def test_what_is_told_of_an_address_has_no_secret() -> None:
    told: Callable[[str], str] = without_secrets
    assert told("https://u:p@siem.example:8443/services/TOKEN?key=1") == "https://siem.example:8443"
    assert told("syslog+unix:///dev/log") == "syslog+unix:///dev/log"
