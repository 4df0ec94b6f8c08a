"""One question over real sockets: what it looks like, and everything that is no proper answer."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from console.features.checkback.allowed import AddressRefused, AllowList, IPAddress, read_address
from console.features.checkback.request import Asker, HttpAnswer, HttpLimits, NoAnswer, Resolver
from tests.console.checkback.server import Question, Server, always, http
from tests.console.checkback.tricks import PLACES, UNREADABLE

RIGHT = http(b'{"decision": "COMMIT"}')
LIMITS = HttpLimits(timeout_s=5, answer_bytes=100)


class Names:
    """Gives what the test says a name leads to, one answer after another; counts the lookups."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.lookups = 0

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        found = self.answers[min(self.lookups, len(self.answers) - 1)]
        self.lookups += 1
        return [ipaddress.ip_address(text) for text in found]


@pytest.fixture
async def both() -> AsyncIterator[tuple[Server, Server]]:
    """Two on the same port, one that is free at both addresses."""
    for _ in range(20):
        async with Server(always(RIGHT), "127.0.0.1") as closed:
            with suppress(OSError):
                async with Server(always(RIGHT), port=closed.port) as allowed:
                    yield closed, allowed
                    return
    raise AssertionError("no port is free at 127.0.0.1 and 127.0.0.2")


@pytest.fixture
def canary(both: tuple[Server, Server]) -> Server:
    """Nobody may come here: 127.0.0.1."""
    return both[0]


@pytest.fixture
def server(both: tuple[Server, Server]) -> Server:
    """The one that is allowed: 127.0.0.2."""
    return both[1]


def asker(server: Server, names: Names, *, limits: HttpLimits = LIMITS, tls: ssl.SSLContext | None = None) -> Asker:
    scheme = "http" if tls is None else "https"
    origins = [
        f"{scheme}://hooks.example:{server.port}",
        f"{scheme}://127.0.0.1:{server.port}",
        "https://hooks.example",
    ]
    return Asker(AllowList(origins, ["127.0.0.2/32", "127.0.0.3/32"]), names, limits, tls)


async def ask(server: Server, names: Names | None = None, *, limits: HttpLimits = LIMITS) -> HttpAnswer:
    address = read_address(f"http://hooks.example:{server.port}/checks?a=b")
    return await asker(server, names or Names(["127.0.0.2"]), limits=limits).ask(address, {"X-Mark": "m"}, b'{"q":1}')


async def test_a_question_is_a_plain_post_to_the_pinned_address(server: Server) -> None:
    answer = await ask(server)
    assert (answer.status, answer.body) == (200, b'{"decision": "COMMIT"}')
    (question,) = server.questions
    assert question.line == "POST /checks?a=b HTTP/1.1"
    assert question.headers == {
        "host": f"hooks.example:{server.port}", "content-type": "application/json", "content-length": "7",
        "accept": "application/json", "accept-encoding": "identity", "connection": "close", "x-mark": "m",
    }  # fmt: skip
    assert question.body == b'{"q":1}'


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http(b"{}", status="301 Moved Permanently", Location="http://127.0.0.1/"), "status 301"),
        (http(b"{}", status="302 Found", Location="/again"), "status 302"),
        (http(b"", status="204 No Content"), "status 204"),
        (http(b"{}", status="201 Created"), "status 201"),
        (http(b"{}", status="404 Not Found"), "status 404"),
        (http(b"{}", status="500 Oops"), "status 500"),
        (http(b"", status="101 Switching Protocols", Upgrade="x", Connection="upgrade"), "no HTTP"),
        (http(b"x" * 101), "larger than 100"),
        (http(b"x" * 1_000_000), "larger than 100"),
        (http(b"{}", X_Filler="x" * 9_000), "larger than"),
        (http(b"{}", kind="text/html"), "text/html"),
        (http(b"{}", kind="application/json, text/html"), "Content-Type"),
        (http(b"{}", Content_Encoding="gzip"), "compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", "ended early"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}", "ended early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "no HTTP"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "no HTTP"),
        (b"", "ended early"),
    ],
)
async def test_what_is_no_proper_answer_is_none(server: Server, canary: Server, answer: bytes, words: str) -> None:
    server.speak = always(answer)
    with pytest.raises(NoAnswer, match=words):
        await ask(server)
    assert (server.connections, canary.connections) == (1, 0)


async def test_an_interim_answer_is_not_the_answer(server: Server) -> None:
    server.speak = always(b"HTTP/1.1 100 Continue\r\n\r\n" + RIGHT)
    assert (await ask(server)).status == 200


async def test_interim_answers_without_end_are_not_waited_for(server: Server) -> None:
    server.speak = always(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)
    with pytest.raises(NoAnswer, match="ended early"):
        await ask(server)


async def test_the_target_is_sent_as_it_is_written(server: Server) -> None:
    address = read_address(f"http://hooks.example:{server.port}/a/../b/%2e./'c?d=%zz'".replace("%zz", "%20"))
    await asker(server, Names(["127.0.0.2"])).ask(address, {}, b"")
    assert server.questions[0].line == "POST /a/../b/%2e./'c?d=%20' HTTP/1.1"


async def test_an_answer_in_chunks_is_one(server: Server) -> None:
    server.speak = always(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'2\r\n{"\r\n3\r\na":\r\n2\r\n1}\r\n0\r\n\r\n'
    )
    assert (await ask(server)).body == b'{"a":1}'


async def test_chunks_without_end_are_cut_off(server: Server) -> None:
    server.speak = always(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * 9_000
    )
    with pytest.raises(NoAnswer, match="larger than 100"):
        await ask(server)


async def test_who_answers_late_or_never_is_not_waited_for(server: Server) -> None:
    over = asyncio.Event()

    async def silent(question: Question) -> bytes:
        await over.wait()
        return RIGHT

    server.speak = silent
    with pytest.raises(NoAnswer, match=r"within 0\.2 s"):
        await ask(server, limits=HttpLimits(0.2, 100))
    over.set()


async def test_a_name_that_is_looked_up_for_long_is_not_waited_for(server: Server) -> None:
    over = asyncio.Event()

    class Slow(Names):
        async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
            await over.wait()
            return await super().__call__(host, port)

    with pytest.raises(NoAnswer, match=r"within 0\.2 s"):
        await ask(server, Slow(["127.0.0.2"]), limits=HttpLimits(0.2, 100))
    assert server.connections == 0


async def test_a_name_that_changes_its_mind_is_asked_once(server: Server, canary: Server) -> None:
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    assert (await ask(server, names)).status == 200
    assert (names.lookups, server.connections, canary.connections) == (1, 1, 0)
    with pytest.raises(NoAnswer, match="NETWORKS"):
        await asker(server, Names(["127.0.0.1"])).ask(read_address(f"http://hooks.example:{server.port}/"), {}, b"")
    assert canary.connections == 0


async def test_one_bad_address_of_a_name_and_nobody_is_asked(server: Server, canary: Server) -> None:
    for found in (["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "::ffff:127.0.0.1"], []):
        with pytest.raises(NoAnswer):
            await ask(server, Names(found))
    assert (server.connections, canary.connections) == (0, 0)


async def test_the_next_address_of_a_name_is_tried(server: Server) -> None:
    assert (await ask(server, Names(["127.0.0.3", "127.0.0.2"]))).status == 200
    with pytest.raises(NoAnswer, match="ConnectionRefusedError"):
        await ask(server, Names(["127.0.0.3"]))


@pytest.mark.parametrize("text", UNREADABLE)
async def test_no_trick_reaches_this_machine(server: Server, canary: Server, text: str) -> None:
    names = Names(["127.0.0.1"])
    with pytest.raises((AddressRefused, NoAnswer)):
        await asker(server, names).ask(read_address(text.replace("{port}", str(canary.port))), {}, b"")
    assert (canary.connections, server.connections) == (0, 0)


@pytest.mark.parametrize("place", PLACES)
async def test_no_place_is_connected_to_because_a_name_leads_there(server: Server, canary: Server, place: str) -> None:
    with pytest.raises(NoAnswer, match="NETWORKS"):
        await ask(server, Names([place]))
    assert (canary.connections, server.connections) == (0, 0)


async def test_proxies_of_the_environment_are_not_asked(
    server: Server, canary: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    assert (await ask(server)).status == 200
    assert canary.connections == 0


async def test_the_system_knows_this_machine() -> None:
    resolve = Resolver()
    assert ipaddress.ip_address("127.0.0.1") in await resolve("localhost", 80)
    for _ in range(3):  # more often than lookups may be under way
        with pytest.raises(OSError):
            await resolve("no-such-name.invalid", 80)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for hooks.example, signed by itself, in one file."""
    directory = tmp_path_factory.mktemp("tls")
    key, made = directory / "key.pem", directory / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    subprocess.run([*command, *names, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + key.read_bytes())
    return made


async def test_a_certificate_has_to_be_known_and_of_that_name(certificate: Path) -> None:
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)
    knows = ssl.create_default_context(cafile=str(certificate))
    async with Server(always(RIGHT), tls=serving) as server:
        right = read_address(f"https://hooks.example:{server.port}/")
        assert (await asker(server, Names(["127.0.0.2"]), tls=knows).ask(right, {}, b"")).status == 200
        stranger = ssl.create_default_context()
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
            await asker(server, Names(["127.0.0.2"]), tls=stranger).ask(right, {}, b"")
        other = AllowList([f"https://other.example:{server.port}"], ["127.0.0.2/32"])
        wrong = read_address(f"https://other.example:{server.port}/")
        with pytest.raises(NoAnswer, match="TLS"):
            await Asker(other, Names(["127.0.0.2"]), LIMITS, knows).ask(wrong, {}, b"")
        assert len(server.questions) == 1


async def test_a_server_that_speaks_no_tls_gives_no_answer(server: Server) -> None:
    address = read_address(f"https://hooks.example:{server.port}/")
    with pytest.raises(NoAnswer):
        await asker(server, Names(["127.0.0.2"]), tls=ssl.create_default_context()).ask(address, {}, b"")
    assert server.questions == []
