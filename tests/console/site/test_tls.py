"""HTTPS on the console's own port: what is served by it, what is not, and what a handshake may cost."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvloop

from broker.hosting import Certificates, TlsConfig
from console.site.bounds import Bounds
from console.site.tls import LeadsToHttps
from tests.console.site.listening import DEADLINE_S, Serving, serving
from tests.ports import free_port as another_port
from tests.waiting import until

ROOT = Path(__file__).parents[3]
ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@dataclass
class Papers:
    """An authority, a certificate of it, and when somebody looks at the files."""

    directory: Path
    authority: trustme.CA
    now_ms: int = 0

    def issue(self, name: str = "localhost") -> int:
        """Write a certificate over the one before; returns its number."""
        made = self.authority.issue_cert(name, "127.0.0.1")
        (self.directory / "cert.pem").write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(self.directory / "key.pem"))
        (self.directory / "ca.pem").write_bytes(self.authority.cert_pem.bytes())
        self.now_ms += 60_000
        return len(list(self.directory.iterdir()))

    def certificates(self) -> Certificates:
        """As the web process has them."""
        cert, key = (str(self.directory / name) for name in ("cert.pem", "key.pem"))
        return Certificates(TlsConfig(cert, key), lambda: self.now_ms)

    def trusting(self) -> ssl.SSLContext:
        """A client that trusts the authority."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    made = Papers(tmp_path, trustme.CA())
    made.issue()
    return made


async def said(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the scheme that it was asked by, also by websocket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": scope["scheme"]})
        await send({"type": "websocket.close"})
        return
    body = scope["scheme"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def asked(
    port: int, context: ssl.SSLContext, sent: bytes = ASKED, until: bytes | None = None
) -> tuple[bytes, Any]:
    """What is answered, up to these bytes or the end, and the certificate that was shown."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        shown = writer.get_extra_info("peercert")
        writer.write(sent)
        answer = await reader.readuntil(until) if until else await reader.read()
        writer.close()
        return answer, shown


@asynccontextmanager
async def secured(papers: Papers, bounds: Bounds | None = None) -> AsyncIterator[Serving]:
    """The server with TLS."""
    async with serving(said, bounds, certificates=papers.certificates().context) as site:
        yield site


async def test_pages_and_websockets_come_by_tls_and_by_nothing_else(papers: Papers) -> None:
    async with secured(papers) as site:
        answer, _shown = await asked(site.port, papers.trusting())
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\nhttps")
        upgraded, _shown = await asked(site.port, papers.trusting(), UPGRADE, until=b"\x81\x03wss")
        assert upgraded.startswith(b"HTTP/1.1 101 ")
        plain = await site.ask(ASKED)
        assert b"HTTP" not in plain


async def test_a_large_answer_and_what_comes_with_the_handshake_arrive_whole(papers: Papers) -> None:
    async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part["body"], part["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    body = os.urandom(1 << 20)
    sent = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with serving(echo, certificates=papers.certificates().context) as site:
        for _ in range(5):
            answer, _shown = await asked(site.port, papers.trusting(), sent)
            assert answer.endswith(b"\r\n\r\n" + body)


async def test_a_renewed_certificate_is_taken_up_and_one_that_is_none_is_not(papers: Papers) -> None:
    async with secured(papers) as site:
        _answer, before = await asked(site.port, papers.trusting())
        papers.issue()
        _answer, after = await asked(site.port, papers.trusting())
        assert after["serialNumber"] != before["serialNumber"]
        (papers.directory / "cert.pem").write_text("no certificate")
        papers.now_ms += 60_000
        answer, kept = await asked(site.port, papers.trusting())
        assert kept["serialNumber"] == after["serialNumber"]
        assert answer.endswith(b"https")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_hello_that_is_there_before_its_connection_is_taken_is_answered(papers: Papers, new_loop: Any) -> None:
    """uvloop, which the console runs on where it is, reads from a connection before its first task begins."""
    written = ssl.MemoryBIO()
    client = papers.trusting().wrap_bio(ssl.MemoryBIO(), written, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()

    async def course() -> bytes:
        async with secured(papers, Bounds(head_s=1)) as site:
            with socket.create_connection(("127.0.0.1", site.port)) as line:
                line.sendall(written.read())
                line.setblocking(False)
                return await asyncio.get_running_loop().sock_recv(line, 1)

    loop = new_loop()
    try:
        assert loop.run_until_complete(course()) == b"\x16"
    finally:
        loop.close()


async def test_a_handshake_that_does_not_come_ends_in_its_time(papers: Papers) -> None:
    async with secured(papers, Bounds(head_s=0.2)) as site:
        assert await site.ask(b"") == b""
        assert await site.ask(b"\x16\x03\x01") == b""
        await site.until(lambda: not site.server.server_state.connections)


async def test_silent_handshakes_make_room_and_are_counted_for_their_address(papers: Papers) -> None:
    async with secured(papers, Bounds(connections=5)) as site:
        silent = [await site.connect() for _ in range(5)]
        await site.until(lambda: len(site.server.server_state.connections) == 5)
        answer, _shown = await asked(site.port, papers.trusting())
        assert answer.endswith(b"https")
        assert await silent[0].rest() == b""
    async with secured(papers, Bounds(connections_each=3, uncounted=())) as site:
        for _ in range(3):
            await site.connect()
        await site.until(lambda: len(site.server.server_state.connections) == 3)
        with pytest.raises((ssl.SSLError, OSError)):
            await asked(site.port, papers.trusting())


async def test_old_versions_of_tls_are_refused(papers: Papers) -> None:
    old = papers.trusting()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with secured(papers) as site:
        with pytest.raises((ssl.SSLError, OSError)):
            await asked(site.port, old)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET /a%20b/?q=1&r=%0d HTTP/1.1\r\nHost: localhost:8000\r\n", b"https://localhost:8443/a%20b/?q=1&r=%0d"),
        (b"HEAD / HTTP/1.1\r\nHost: localhost\r\n", b"https://localhost:8443/"),
        (b"GET //evil.example/ HTTP/1.1\r\nHost: localhost\r\n", b"https://localhost:8443//evil.example/"),
        (b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", None),
    ],
)
async def test_the_plain_port_leads_to_the_other_one_and_nowhere_else(
    settings: Any, sent: bytes, expected: bytes | None
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    async with serving(LeadsToHttps(8443)) as site:
        answer = await site.ask(sent + b"Connection: close\r\n\r\n")
        refused = await site.ask(UPGRADE)
    if expected is None:
        assert answer[9:12] in (b"400", b"403")
        assert b"location" not in answer
    else:
        assert answer.startswith(b"HTTP/1.1 301 ")
        assert b"\r\nlocation: " + expected + b"\r\n" in answer
    assert b" 101 " not in refused


def started(papers: Papers, var: Path, port: int, **more: str) -> subprocess.Popen[bytes]:
    environment = {
        "ESCAPEMENT_VAR": str(var), "ESCAPEMENT_WEB_PORT": str(port), "ESCAPEMENT_NAMESRV": "127.0.0.1:1",
        "ESCAPEMENT_WEB_TLS_CERT": str(papers.directory / "cert.pem"),
        "ESCAPEMENT_WEB_TLS_KEY": str(papers.directory / "key.pem"),
    }  # fmt: skip
    command = [sys.executable, "-m", "console.site.web"]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment | more, stderr=subprocess.PIPE)


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_the_console_with_a_certificate_keeps_browsers_to_https(papers: Papers, var_dir: Path, free_port: int) -> None:
    plain = another_port()
    process = started(papers, var_dir, free_port, ESCAPEMENT_WEB_REDIRECT_PORT=str(plain))
    try:
        until(lambda: answers(free_port) and answers(plain), timeout_s=60)
        with httpx.Client(verify=papers.trusting(), timeout=DEADLINE_S) as browser:
            led = browser.get(f"http://localhost:{plain}/login/?next=/timers/")
            assert (led.status_code, led.headers["location"]) == (
                301,
                f"https://localhost:{free_port}/login/?next=/timers/",
            )
            page = browser.get(led.headers["location"])
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            assert "; Secure" in page.headers["set-cookie"]
            token = browser.get(f"https://localhost:{free_port}/api/v1/topics")
            assert token.status_code == 401
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def test_a_certificate_that_cannot_be_used_is_told_and_nothing_starts(papers: Papers, var_dir: Path) -> None:
    (papers.directory / "key.pem").write_text("no key")
    process = started(papers, var_dir, another_port())
    _out, told = process.communicate(timeout=60)
    assert process.returncode == os.EX_CONFIG
    assert b"ERROR The console cannot serve HTTPS" in told
    assert b"Traceback" not in told
