"""A signed send goes the short way, and is answered there as the long way answers it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.rocketmq.codes import Answer
from broker.rocketmq.frame import BINARY, JSON, Command
from broker.server.broker import BrokerService
from broker.server.connection import Connection
from tests.server.access.clients import People, policy
from tests.server.peer import send_ext
from tests.server.signing import SECRET, doubled, signed, signed_frame
from tests.server.stranger import Stranger, stranger_at

ALICE, BOB = ("alice", SECRET), ("bob", b"bob-secret")
Write = Callable[[dict[str, str], bytes], bytes]
WAYS: dict[str, Write] = {
    "binary": lambda ext, body: signed_frame(ext, body, BINARY),
    "json": lambda ext, body: signed_frame(ext, body, JSON),
    "java": doubled,
}


class Producer:
    """One connection that sends signed messages, and the broker's end of it."""

    def __init__(self, service: BrokerService, socket: Stranger, write: Write) -> None:
        self._service = service
        self._socket = socket
        self._write = write
        self._known: set[Connection] = set()
        self.frame = b""

    @property
    def connection(self) -> Connection:
        (found,) = [each for each in self._service.servers[0].connections if each.user == "alice"]
        return found

    @property
    def goes_the_short_way(self) -> bool:
        """Whether what was sent last does, if it comes again."""
        server = self._service.servers[0]
        assert server.express is not None
        connection, now_ms = self.connection, server.clock()
        is_short = server.express(connection, self.frame, now_ms)
        server.held(connection, now_ms)
        return is_short

    async def send(self, ext: dict[str, str], body: bytes = b"body") -> Command:
        """The answer of the broker."""
        self.frame = self._write(ext, body)
        await self._socket.say(len(self.frame).to_bytes(4, "big") + self.frame)
        answer = await self._socket.hear()
        assert answer is not None
        return answer


@pytest.fixture(params=list(WAYS))
async def alice(request: Any, service: BrokerService, people: People) -> AsyncIterator[Producer]:
    """A Normal user who may send to topics that begin with order, known to the broker and with sends behind her."""
    await people.normal("alice", policy("Topic:order*", "Pub"))
    await people.normal("bob", policy("*", "All"))
    await people.root.create_topic("salaries")
    async with stranger_at(service.address) as socket:
        producer = Producer(service, socket, WAYS[request.param])
        for topic in ("order-a", "order-a"):
            assert (await producer.send(usual(topic))).code == Answer.SUCCESS
        yield producer


def usual(
    topic: str = "order-a", body: bytes = b"body", by: tuple[str, bytes] = ALICE, **changes: str
) -> dict[str, str]:
    return signed(topic, "UNIQ_KEY\x01A\x02", body, by=by, **changes)


def refused(people: People) -> dict[str, tuple[dict[str, str], str]]:
    """What is not to be carried out, and what the broker says to it."""
    mistaken = "check signature failed."
    denied = "User:alice has no permission to access Topic:salaries (Pub) from 127.0.0.1."
    unsigned = "This broker accepts signed requests only: give the client an access key and a secret key."
    return {
        "denied": (usual("salaries"), denied),
        "wrong secret": (usual(by=("alice", b"guessed")), mistaken),
        "other body": (usual(body=b"other"), mistaken),
        "other topic": (usual() | {"b": "order-b"}, mistaken),
        "other queue": (usual() | {"e": "1"}, mistaken),
        "other properties": (usual() | {"i": "UNIQ_KEY\x01B\x02"}, mistaken),
        "nobody's": (usual(by=("mallory", SECRET)), mistaken),
        "another's": (usual() | {"AccessKey": "bob"}, mistaken),
        "unsigned": (send_ext("order-a", "UNIQ_KEY\x01A\x02"), unsigned),
    }


async def test_a_signed_send_goes_the_short_way_after_the_first(alice: Producer, service: BrokerService) -> None:
    before = service.engine.health().log_end_position
    answer = await alice.send(usual(body=b"third"), b"third")
    assert (answer.code, answer.ext["queueOffset"]) == (Answer.SUCCESS, "2")
    assert service.engine.health().log_end_position > before
    assert alice.goes_the_short_way


@pytest.mark.parametrize("case", list(refused(None)))  # type: ignore[arg-type]  # the names only
async def test_what_is_refused_is_refused_as_the_long_way_does(
    alice: Producer, service: BrokerService, people: People, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    ext, remark = refused(people)[case]
    end = service.engine.health().log_end_position
    with caplog.at_level(logging.WARNING):
        answer = await alice.send(ext)
    assert (answer.code, answer.remark) == (Answer.NO_PERMISSION, remark)
    assert f"refused request 310 of {alice.connection.address}: " in caplog.text
    assert remark in caplog.text
    assert not alice.goes_the_short_way
    assert service.engine.health().log_end_position == end
    # the same by one who comes first of all: the long way
    async with stranger_at(service.address) as socket:
        first = await Producer(service, socket, alice._write).send(ext)
    assert (first.code, first.remark) == (answer.code, answer.remark)


async def test_another_user_on_the_same_connection_goes_the_long_way(alice: Producer, people: People) -> None:
    answer = await alice.send(usual("salaries", by=BOB))
    assert answer.code == Answer.SUCCESS
    alice.frame = alice._write(usual(), b"body")
    assert (await alice.send(usual())).code == Answer.SUCCESS
    assert alice.goes_the_short_way


async def test_a_policy_that_allows_more_counts_at_once(alice: Producer, people: People) -> None:
    assert (await alice.send(usual("salaries"))).code == Answer.NO_PERMISSION
    assert not alice.goes_the_short_way
    await people.allow("alice", policy("Topic:salaries", "Pub"))
    assert (await alice.send(usual("salaries"))).code == Answer.SUCCESS
    assert alice.goes_the_short_way


@pytest.mark.parametrize("change", ["policy", "secret", "disabled"])
async def test_who_may_do_less_is_let_go_and_refused(
    alice: Producer, service: BrokerService, people: People, change: str
) -> None:
    if change == "policy":
        await people.allow("alice", policy("Topic:order-a", "Pub", decision="Deny"))
    elif change == "secret":
        await people.update("alice", password="new-secret")
    else:
        await people.update("alice", userStatus="disable")
    frame, server = alice.frame, service.servers[0]
    assert await alice._socket.is_closed()
    assert server.express is not None
    assert not server.express(Known(server), frame, server.clock())
    async with stranger_at(service.address) as socket:
        again = Producer(service, socket, alice._write)
        assert (await again.send(usual())).code == Answer.NO_PERMISSION


class Known(Connection):
    """A connection of one who had signed before his rights were changed, and is still there."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.host = "127.0.0.1"
        self.identify("alice")
