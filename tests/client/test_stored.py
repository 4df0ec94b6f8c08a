"""The short way to read an answer agrees with the codec, and is really taken."""

from __future__ import annotations

from base64 import urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from broker.client._pipeline import Stored, read_stored
from broker.engine.log.ticket import Ticket
from broker.rocketmq.frame import BINARY, Command, decode, encode
from broker.rocketmq.message import pack_host
from broker.server.send_reply import binary_reply, json_reply, reply_command

HOST = pack_host("127.0.0.1", 10911)


def ticket(
    queue_id: int = 3, queue_offset: int = 7, position: int = 99, due_ms: int | None = None, key: str | None = "A" * 32
) -> Ticket:
    return Ticket(None, "t", queue_id, queue_offset, position, 100, 0, HOST, due_ms, key)


@given(
    st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1),
    st.sampled_from(["A" * 32, "", "key", "x" * 255]),
)  # fmt: skip
def test_both_ways_read_the_same(queue_id: int, queue_offset: int, position: int, opaque: int, key: str) -> None:
    sent = ticket(queue_id, queue_offset, position, key=key)
    frame = binary_reply(sent, opaque)[4:]
    long = decode(frame)
    assert read_stored(frame) == (opaque, Stored(sent.offset_message_id, queue_id, queue_offset))
    assert (long.opaque, long.ext["msgId"], int(long.ext["queueId"]), int(long.ext["queueOffset"])) == (
        opaque, sent.offset_message_id, queue_id, queue_offset,
    )  # fmt: skip


@given(
    st.integers(1, 2**62), st.none() | st.binary(min_size=1, max_size=400), st.integers(0, 2**63 - 1),
    st.sampled_from(["A" * 32, "", "x" * 300]),
)  # fmt: skip
def test_both_ways_read_the_same_of_what_waits(due_ms: int, name: bytes | None, position: int, key: str) -> None:
    handle = urlsafe_b64encode(name) if name is not None else None
    sent = ticket(3, 7, position, due_ms, key)
    frame = binary_reply(sent, 5, handle)[4:]
    long = decode(frame)
    assert long == decode(encode(json_command(sent, handle))[4:])
    expected = Stored(sent.offset_message_id, 3, 7, due_ms, handle.decode() if handle else None)
    assert read_stored(frame) == (5, expected)


def json_command(sent: Ticket, handle: bytes | None) -> Command:
    """The answer as the slow way makes it, with a binary header."""
    command = reply_command(sent, 5, BINARY, sent.unique_key or "")
    if handle is not None:
        command.ext["recallHandle"] = handle.decode()
    return command


def test_answers_that_say_more_or_are_json_take_the_long_way() -> None:
    taken = ticket(due_ms=1_795_249_116_470)
    taken.conflict = "replaced"
    frame = binary_reply(taken, 1, b"aGFuZGxl")[4:]
    assert read_stored(frame) is None
    assert decode(frame).ext["escConflict"] == "replaced"
    assert read_stored(json_reply(ticket(), 1)[4:]) is None


def test_a_refusal_is_not_taken_for_a_success() -> None:
    frame = bytearray(binary_reply(ticket(), 1)[4:])
    frame[5] = 13
    assert read_stored(bytes(frame)) is None


@given(st.binary(max_size=200))
def test_other_bytes_are_left_to_the_codec(frame: bytes) -> None:
    assert read_stored(frame) is None
