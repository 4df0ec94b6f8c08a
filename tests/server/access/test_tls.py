"""TLS on the port of plain clients: who speaks it is served, who breaks it harms himself."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from broker.client import AsyncConsumer, AsyncProducer, BrokerUnreachable, InvalidArgument, Tls
from broker.client.credentials import Security
from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Request
from broker.rocketmq.errors import ConnectFailed
from broker.rocketmq.frame import Command, encode
from broker.server.broker import BrokerService, Protection
from broker.server.connection import Connection, Hooks, Limits, Server
from broker.server.sniffing import front
from broker.server.tls import Certificates, TlsConfig
from tests.server.peer import Peer, records
from tests.server.stranger import Stranger, stranger_at
from tests.server.test_server import Clock

ECHO = 7
ALERT = b"\x15"
BODY = b"x" * (3 << 20)


def give_out(authority: trustme.CA, cert_file: str, key_file: str, *identities: str) -> None:
    made = authority.issue_cert(*identities)
    Path(cert_file).write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    made.private_key_pem.write_to_path(key_file)


class Papers:
    """An authority and the certificate files it has given out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.ca_file = str(directory / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca_file)
        self.cert_file, self.key_file = self.issue("broker", "127.0.0.1", "broker.example")

    def issue(self, name: str, *identities: str) -> tuple[str, str]:
        """Certificate and key files."""
        cert, key = str(self.directory / f"{name}.pem"), str(self.directory / f"{name}.key")
        give_out(self.authority, cert, key, *identities)
        return cert, key

    @property
    def config(self) -> TlsConfig:
        return TlsConfig(self.cert_file, self.key_file)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


class Door:
    """A server that echoes, over TLS for those who speak it."""

    def __init__(self, config: TlsConfig) -> None:
        self.clock = Clock()
        self.certificates = Certificates(config, self.clock)
        hooks = Hooks(connection=front(self.certificates))
        self.server = Server("door", {ECHO: self._echo}, self.clock, Limits(), hooks)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"

    def _echo(self, _: Connection, request: Command) -> Command:
        return request.answer(request.ext, request.body)

    async def echoes(self, tls: Tls | None, body: bytes = b"hello", *, over: RemotingClient | None = None) -> bytes:
        """What comes back to a client of its own (or the one given)."""
        client = over or RemotingClient(secure=Security(tls=tls).of_host)
        try:
            return (await client.invoke(self.address, ECHO, {}, body, 10_000)).body
        finally:
            if over is None:
                await client.close()


Opener = Callable[[TlsConfig], Awaitable[Door]]


@pytest.fixture
async def open_door() -> AsyncIterator[Opener]:
    opened: list[Door] = []

    async def open_one(config: TlsConfig) -> Door:
        door = Door(config)
        await door.server.start(door.listening)
        opened.append(door)
        return door

    yield open_one
    for door in opened:
        door.server.stop_accepting()
        door.server.abort_connections()


async def test_both_kinds_of_client_are_served_on_one_port(papers: Papers, open_door: Opener) -> None:
    door = await open_door(papers.config)
    assert await door.echoes(Tls(ca_file=papers.ca_file)) == b"hello"
    assert await door.echoes(None) == b"hello"
    assert await door.echoes(Tls(ca_file=papers.ca_file), BODY) == BODY


async def test_in_enforcing_mode_a_plain_client_is_closed(papers: Papers, open_door: Opener) -> None:
    door = await open_door(TlsConfig(papers.cert_file, papers.key_file, is_required=True))
    async with stranger_at(door.address) as plain:
        await plain.say(encode(Command(ECHO)))
        assert await plain.is_closed()
    assert await door.echoes(Tls(ca_file=papers.ca_file)) == b"hello"


class Line(asyncio.Transport):
    """A connection from an address to another one of this machine, as far as a peer sees it."""

    def __init__(self, peer: str, own: str) -> None:
        super().__init__({"peername": (peer, 4711), "sockname": (own, 10911)})
        self.writes: list[bytes] = []
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is held back."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep each write by itself."""
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


@pytest.mark.parametrize(
    ("peer", "own", "is_served"),
    [
        ("127.0.0.1", "127.0.0.1", True), ("::1", "::1", True), ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.6", "10.0.0.5", False), ("192.0.2.7", "127.0.0.1", False), ("2001:db8::7", "2001:db8::5", False),
    ],
)  # fmt: skip
async def test_usually_a_plain_client_is_served_on_this_machine_only(
    papers: Papers, peer: str, own: str, is_served: bool
) -> None:
    clock = Clock()
    certificates = Certificates(replace(papers.config, is_required_elsewhere=True), clock)
    line, connection = Line(peer, own), front(certificates)(Server("door", {}, clock, Limits()))
    connection.connection_made(line)
    connection.data_received(encode(Command(ECHO)))
    assert line.is_closed is not is_served


async def test_the_client_checks_whom_it_speaks_with(papers: Papers, open_door: Opener) -> None:
    door = await open_door(papers.config)
    with pytest.raises(ConnectFailed, match="certificate verify failed"):
        await door.echoes(Tls())
    with pytest.raises(ConnectFailed, match="certificate verify failed"):
        await door.echoes(Tls(ca_file=papers.ca_file, server_name="other.example"))
    assert await door.echoes(Tls(ca_file=papers.ca_file, server_name="broker.example")) == b"hello"
    assert await door.echoes(Tls(verify=False)) == b"hello"


async def test_clients_must_show_a_certificate_where_one_is_wanted(papers: Papers, open_door: Opener) -> None:
    door = await open_door(TlsConfig(papers.cert_file, papers.key_file, client_ca_file=papers.ca_file))
    cert, key = papers.issue("client", "client.example")
    assert await door.echoes(Tls(ca_file=papers.ca_file, cert_file=cert, key_file=key)) == b"hello"
    with pytest.raises(Exception, match=r"ended before the answer came|certificate required"):
        await door.echoes(Tls(ca_file=papers.ca_file))


async def test_a_handshake_that_is_none_and_one_that_does_not_end_close_their_connection_alone(
    papers: Papers, open_door: Opener
) -> None:
    door = await open_door(papers.config)
    client = RemotingClient(secure=Security(tls=Tls(ca_file=papers.ca_file)).of_host)
    assert await door.echoes(None, over=client) == b"hello"
    host, _, port = door.address.rpartition(":")
    reader, rude = await asyncio.open_connection(host, int(port))
    rude.write(b"\x16\x03\x01\xff\xff" + b"nonsense")
    assert (await reader.read())[:1] == ALERT
    rude.close()
    async with stranger_at(door.address) as slow:
        await slow.say(b"\x16\x03\x01\x02\x00\x01")
        assert await door.echoes(None, over=client) == b"hello"
        door.clock.now_ms += 29_999
        door.server.sweep(door.clock.now_ms)
        assert len(door.server.connections) == 2
        door.clock.now_ms += 1
        door.server.sweep(door.clock.now_ms)
        assert await slow.is_closed()
    assert await door.echoes(None, over=client) == b"hello"
    await client.close()


async def test_bytes_after_the_handshake_are_no_less_strict(papers: Papers, open_door: Opener) -> None:
    door = await open_door(papers.config)
    host, _, port = door.address.rpartition(":")
    context = ssl.create_default_context(cafile=papers.ca_file)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    hidden = Stranger(reader, writer)
    await hidden.say(encode(Command(ECHO, opaque=3))[:10])
    await hidden.say(encode(Command(ECHO, opaque=3))[10:] + encode(Command(ECHO, opaque=4)))
    assert [(await hidden.hear()).opaque for _ in range(2)] == [3, 4]
    await hidden.say(b"\xff" * 8)
    assert await hidden.is_closed()
    await hidden.close()


async def test_a_connection_is_ended_properly(papers: Papers, open_door: Opener) -> None:
    """An end without TLS's own good-bye would be an error to whoever reads to the end."""
    door = await open_door(papers.config)
    host, _, port = door.address.rpartition(":")
    context = ssl.create_default_context(cafile=papers.ca_file)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(encode(Command(ECHO)))
    await reader.readexactly(4)
    door.server.close_connections()
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_renewed_certificates_are_taken_up_and_broken_ones_are_not(tmp_path: Path, open_door: Opener) -> None:
    old = Papers(tmp_path)
    door = await open_door(old.config)
    shutil.copy(old.key_file, old.cert_file)  # a key is no certificate
    door.clock.now_ms += 10_000
    assert await door.echoes(Tls(ca_file=old.ca_file)) == b"hello"
    authority, new_ca = trustme.CA(), str(tmp_path / "new-ca.pem")
    authority.cert_pem.write_to_path(new_ca)
    give_out(authority, old.cert_file, old.key_file, "127.0.0.1")
    assert await door.echoes(Tls(ca_file=old.ca_file)) == b"hello"
    door.clock.now_ms += 10_000
    assert await door.echoes(Tls(ca_file=new_ca)) == b"hello"


async def test_a_broker_whose_certificate_cannot_be_read_does_not_start(config: EngineConfig, papers: Papers) -> None:
    for broken in (TlsConfig("/nowhere.pem"), TlsConfig(papers.cert_file, papers.ca_file)):
        service = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(tls=broken))
        with pytest.raises(OSError):
            await service.start()


async def test_the_python_clients_speak_tls_with_both_doors(config: EngineConfig, papers: Papers) -> None:
    service = BrokerService(
        config,
        broker_port=0,
        namesrv_port=0,
        protection=Protection(tls=TlsConfig(papers.cert_file, papers.key_file, is_required=True)),
    )
    await service.start()
    tls = Tls(ca_file=papers.ca_file)
    got: asyncio.Queue[bytes] = asyncio.Queue()
    try:
        async with AsyncProducer(namesrv=service.namesrv_address, tls=tls) as producer:
            await producer.send("order", b"over TLS")
            consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first", tls=tls)

            async def handle(message: object) -> None:
                got.put_nowait(message.body)

            consumer.subscribe("order", "*", handle)
            await consumer.start()
            assert await asyncio.wait_for(got.get(), 10) == b"over TLS"
            await consumer.stop()
        async with AsyncProducer(namesrv=service.namesrv_address) as plain:
            with pytest.raises(BrokerUnreachable):
                await plain.send("order", b"plain")
    finally:
        await service.stop()


async def test_a_large_pull_comes_whole_over_tls(config: EngineConfig, papers: Papers) -> None:
    config = replace(config, pull_most_bytes=4 << 20)
    service = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(tls=papers.config))
    await service.start()
    client = RemotingClient(secure=Security(tls=Tls(ca_file=papers.ca_file)).of_host)
    peer = Peer(client, service.address)
    try:
        bodies = [bytes([number]) * 1_000_000 for number in range(3)]
        for body in bodies:
            assert (await peer.send("large", body)).code == 0
        pulled = await peer.pull("large", maxMsgBytes=str(4 << 20))
        assert [message.body for message in records(pulled.body)] == bodies
        assert (await peer.ask(Request.GET_BROKER_RUNTIME_INFO)).code == 0
    finally:
        await client.close()
        await service.stop()


def test_files_that_are_no_certificates_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidArgument):
        Security(tls=Tls(ca_file="/nowhere.pem")).of_host("127.0.0.1")
