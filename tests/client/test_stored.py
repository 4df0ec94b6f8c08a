"""The short way to read an answer agrees with the codec, and is really taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.client.stored import Stored, read_stored
from broker.engine.message import pack_host
from broker.engine.store.ticket import Ticket
from broker.remoting.codec import decode
from broker.remoting.sendreply import binary_reply, json_reply

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


def test_answers_that_say_more_or_are_json_take_the_long_way() -> None:
    assert read_stored(binary_reply(ticket(due_ms=1_795_249_116_470), 1)[4:]) is None
    assert read_stored(json_reply(ticket(), 1)[4:]) is None


def test_a_refusal_is_not_taken_for_a_success() -> None:
    frame = bytearray(binary_reply(ticket(), 1)[4:])
    frame[5] = 13
    assert read_stored(bytes(frame)) is None


@given(st.binary(max_size=200))
def test_other_bytes_are_left_to_the_codec(frame: bytes) -> None:
    assert read_stored(frame) is None
