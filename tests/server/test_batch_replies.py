"""Answers to batches: those of one sync leave together, and say what the long way would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.log.ticket import BatchTicket
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import BINARY, JSON, Command, decode, encode
from broker.server.connection import Connection, Limits, Server
from broker.server.send_reply import BatchOwner, SendReplies, batch_reply, reply_command
from broker.server.sniffing import front
from broker.server.statistics import row_labels
from tests.server.access.test_tls import Line
from tests.server.test_server import Clock

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


@dataclass
class Caller:
    """A client of a server, as the server sees it."""

    connection: Connection
    line: Line

    def asks(self, opaque: int, positions: Sequence[int], *, serialization: int = JSON, key: str = "K1") -> BatchTicket:
        """The ticket of a batch whose messages stand at these positions."""
        owner = BatchOwner(self.connection, opaque, serialization, Clock().now_ms, key)
        return BatchTicket(owner, "T", 3, 40, positions, [100] * len(positions), 1, HOST)

    def answers(self) -> list[list[Command]]:
        """What was written, frame by frame, for each write."""
        return [frames_of(data) for data in self.line.writes]


def frames_of(data: bytes) -> list[Command]:
    found = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(decode(data[4:size]))
        data = data[size:]
    return found


@pytest.fixture
def server() -> Server:
    return Server("broker", {}, Clock(), Limits())


def caller_of(server: Server) -> Caller:
    made = Caller(front(None)(server), Line("127.0.0.1", "127.0.0.1"))
    made.connection.connection_made(made.line)
    return made


async def test_batches_of_one_sync_are_answered_in_one_write(server: Server) -> None:
    one, other = caller_of(server), caller_of(server)
    SendReplies("broker-a").write(
        [one.asks(1, [0, 100]), other.asks(7, [200], serialization=BINARY), one.asks(2, [300])]
    )
    (ours,), (theirs,) = one.answers(), other.answers()
    host = HOST.hex().upper()
    assert [(answer.opaque, answer.ext["msgId"]) for answer in ours] == [
        (1, f"{host}{0:016X},{host}{100:016X}"),
        (2, f"{host}{300:016X}"),
    ]
    assert [(answer.opaque, answer.serialization) for answer in theirs] == [(7, BINARY)]
    ((labels, times),) = server.times.rows()
    assert labels == row_labels(Request.SEND_BATCH_MESSAGE, Answer.SUCCESS)
    assert [*times.buckets()][-1] == (None, 3)


@given(
    positions=st.lists(st.integers(0, 1 << 62), min_size=1, max_size=5),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    serialization=st.sampled_from([JSON, BINARY]),
    key=st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.just("C00002024A5C.-:_,C00002024A5D"),
)
def test_the_quick_answer_is_the_slow_one(positions: list[int], opaque: int, serialization: int, key: str) -> None:
    ticket = caller_of(Server("broker", {}, Clock(), Limits())).asks(
        opaque, positions, serialization=serialization, key=key
    )
    slow = encode(reply_command(ticket, opaque, serialization, key))
    assert isinstance(ticket.owner, BatchOwner)
    assert decode(batch_reply(ticket, ticket.owner)[4:]) == decode(slow[4:])


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_ids_that_no_header_can_hold_are_told_of(
    server: Server, serialization: int, caplog: pytest.LogCaptureFixture
) -> None:
    caller = caller_of(server)
    large = caller.asks(1, list(range(0, 52_000_000, 100)), serialization=serialization)
    SendReplies("broker-a").write([large, caller.asks(2, [0], serialization=serialization)])
    assert f"The answer to request {Request.SEND_BATCH_MESSAGE:d} cannot be written" in caplog.text
    ((refusal, answer),) = caller.answers()
    assert (refusal.opaque, refusal.code) == (1, Answer.SYSTEM_ERROR)
    assert "a header of 17," in (refusal.remark or "")
    assert (answer.opaque, answer.code) == (2, Answer.SUCCESS)
