"""The short way to read a send with a JSON header reads what the long way reads, or leaves it alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.log.ticket import Ticket
from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.frame import JSON, Command, decode, encode
from broker.rocketmq.sends import QuickSend, read_json_send, read_send_header
from broker.server.send_reply import json_reply, reply_command
from tests.server.frames import recorded_frames
from tests.server.peer import send_ext


def frame_of(
    ext: dict[str, str], *, flag: int = 0, remark: str | None = None, body: bytes = b"body", code: int = 310
) -> bytes:
    return encode(Command(code, ext, body, remark, flag, opaque=7, serialization=JSON))[4:]


def read_the_long_way(frame: bytes) -> QuickSend:
    command = decode(frame)
    header = read_send_header(command.ext)
    assert not header.reconsume_times
    return (
        command.opaque, command.flag, header.topic, header.queue_id, header.sys_flag, header.born_ms, header.flag,
        header.properties, command.body, header.is_batch or command.code == 320,
    )  # fmt: skip


@given(
    changes=st.dictionaries(
        st.sampled_from("abdefghijlm"),
        st.sampled_from(
            ["", "0", "1", "-1", "+2", "1.5", "true", "false", "\u0661", "9" * 10, "9" * 19, "\udcff", "%RETRY%g"]
        )
        | st.text(max_size=30),
    ),
    body=st.binary(max_size=60),
    code=st.sampled_from([310, 320]),
)
def test_the_short_way_reads_what_the_long_way_reads(changes: dict[str, str], body: bytes, code: int) -> None:
    frame = frame_of(send_ext("orders", "UNIQ_KEY\x01A\x02", **changes), body=body, code=code)
    read = read_json_send(frame)
    if read is not None:
        assert read == read_the_long_way(frame)


def test_a_plain_send_goes_the_short_way() -> None:
    frame = frame_of(send_ext("orders", "UNIQ_KEY\x01A\x02WAIT\x01true\x02", e="3", k="false"))
    properties = b"UNIQ_KEY\x01A\x02WAIT\x01true\x02"
    assert read_json_send(frame) == (7, 0, "orders", 3, 0, 1795249116470, 0, properties, b"body", False)


@pytest.mark.parametrize(("code", "m", "is_batch"), [(310, "true", True), (320, "true", True), (320, "false", True)])
def test_a_batch_goes_the_short_way(code: int, m: str, *, is_batch: bool) -> None:
    frame = frame_of(send_ext("orders", "", m=m), code=code)
    assert read_json_send(frame) == (7, 0, "orders", 0, 0, 1795249116470, 0, b"", b"body", is_batch)


@pytest.mark.parametrize("changes", [{"m": "yes"}, {"j": "1"}, {"l": "16"}, {"b": "%RETRY%g"}, {"e": "x"}, {"i": None}])
def test_what_is_no_plain_send_goes_the_long_way(changes: dict[str, str | None]) -> None:
    ext = {
        name: value for name, value in (send_ext("orders", "UNIQ_KEY\x01A\x02") | changes).items() if value is not None
    }
    assert read_json_send(frame_of(ext)) is None


def test_an_answer_and_a_frame_cut_short_go_the_long_way() -> None:
    ext = send_ext("orders", "UNIQ_KEY\x01A\x02")
    assert read_json_send(frame_of(ext, flag=1)) is None
    frame = frame_of(ext)
    assert all(read_json_send(frame[:length]) is None for length in range(len(frame) - len(b"body")))


@given(st.data())
def test_a_damaged_frame_is_read_like_the_long_way_or_left_alone(data: st.DataObject) -> None:
    frame = bytearray(frame_of(send_ext("orders", "UNIQ_KEY\x01A\x02")))
    frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read = read_json_send(bytes(frame))
    if read is not None:
        try:
            expected = read_the_long_way(bytes(frame))
        except RequestRefused as error:
            raise AssertionError("the long way refuses it") from error
        assert read == expected


def test_what_java_sends_by_default_goes_the_short_way() -> None:
    sends = [
        recorded.frame[4:]
        for recorded in recorded_frames()
        if recorded.code == 310 and recorded.kind == "request" and recorded.serialize == "JSON"
    ]
    plain = [frame for frame in sends if decode(frame).ext.get("m") != "true"]
    assert plain
    for frame in plain:
        assert read_json_send(frame) == read_the_long_way(frame)


@given(
    queue_id=st.integers(0, 100_000),
    queue_offset=st.integers(0, 1 << 60),
    position=st.integers(0, 1 << 62),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    due_ms=st.none() | st.integers(0, 1 << 60),
    unique_key=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.just("C00002024A5C.-:_"),
    host=st.sampled_from([bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]), bytes(range(20))]),
)
def test_the_quick_answer_is_the_slow_one(
    queue_id: int,
    queue_offset: int,
    position: int,
    opaque: int,
    due_ms: int | None,
    unique_key: str | None,
    host: bytes,
) -> None:
    ticket = Ticket(None, "T", queue_id, queue_offset, position, 100, 1, host, due_ms, unique_key)
    slow = encode(reply_command(ticket, opaque, JSON, unique_key or ""))
    assert decode(json_reply(ticket, opaque)[4:]) == decode(slow[4:])
    named = decode(json_reply(ticket, opaque, b"aGFuZGxl-_=")[4:])
    assert named.ext == decode(slow[4:]).ext | {"recallHandle": "aGFuZGxl-_="}
