"""Frames: what was recorded, what is made up, what is broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.rocketmq.errors import BadFrame
from broker.rocketmq.frame import BINARY, JSON, MAX_FRAME_BYTES, Command, FrameBuffer, decode, encode
from tests.server.frames import Recorded, recorded_frames

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
COMMANDS = st.builds(
    Command,
    code=st.integers(-0x8000, 0x7FFF),
    ext=st.dictionaries(TEXT, TEXT, max_size=6),
    body=st.binary(max_size=200),
    remark=st.none() | TEXT.filter(bool),
    flag=INT32,
    opaque=INT32,
    language=st.sampled_from(["JAVA", "PYTHON", "GO", "OTHER"]),
    version=st.integers(0, 0x7FFF),
    serialization=st.sampled_from([JSON, BINARY]),
)


@pytest.mark.parametrize("recorded", recorded_frames(), ids=lambda recorded: f"{recorded.family}-{recorded.kind}")
def test_every_recorded_frame_is_read_and_written_with_its_meaning(recorded: Recorded) -> None:
    (frame,) = FrameBuffer().feed(recorded.frame)
    command = decode(frame)
    header = recorded.header
    assert (command.code, command.opaque, command.flag) == (header["code"], header["opaque"], header["flag"])
    assert command.ext == (header.get("extFields") or {})
    assert command.remark == header.get("remark") or (command.remark is None and header.get("remark") is None)
    assert (command.language, command.version) == (header["language"], header["version"])
    assert decode(encode(command)[4:]) == command


def test_recorded_binary_frames_are_written_byte_for_byte() -> None:
    binary = [recorded for recorded in recorded_frames() if recorded.serialize == "ROCKETMQ"]
    assert len(binary) > 100
    for recorded in binary:
        assert encode(decode(recorded.frame[4:])) == recorded.frame


@given(COMMANDS)
def test_what_is_written_is_read(command: Command) -> None:
    frame = encode(command)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(frame[4:]) == command


@given(st.lists(COMMANDS, min_size=1, max_size=5), st.lists(st.integers(1, 300), min_size=1, max_size=50))
def test_frames_are_found_wherever_the_stream_is_cut(commands: list[Command], cuts: list[int]) -> None:
    stream = b"".join(encode(command) for command in commands)
    buffer, found, position = FrameBuffer(), [], 0
    for cut in [*cuts, len(stream)]:
        found += buffer.feed(stream[position : position + cut])
        position += cut
    assert [decode(frame) for frame in found] == commands
    assert buffer.partial_bytes == 0


@given(st.binary(max_size=300))
@example(b"\x01\0\0\x19" + b"\0" * 13 + b"\x7f\xff\xff\xff" + b"\0" * 8)
@example(b"\x01\0\0\x19" + b"\0" * 17 + b"\x7f\xff\xff\xff" + b"\0" * 4)
@example(b"\0\0\0\x02[]")
@example(b"\0\0\0\x08" + b'{"code":')
def test_anything_else_is_refused_as_a_bad_frame(frame: bytes) -> None:
    try:
        decode(frame)
    except BadFrame:
        return


@given(COMMANDS.filter(lambda command: command.serialization == BINARY), st.data())
def test_a_damaged_binary_header_is_read_or_refused_but_never_crashes(command: Command, data: st.DataObject) -> None:
    frame = bytearray(encode(command)[4:])
    for _ in range(3):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(frame))
    except BadFrame:
        return


@pytest.mark.parametrize("length", [0, 3, MAX_FRAME_BYTES + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_lengths_that_cannot_be_are_refused_before_anything_is_kept(length: int) -> None:
    buffer = FrameBuffer()
    with pytest.raises(BadFrame, match=f"claims {length} bytes"):
        buffer.feed(length.to_bytes(4, "big") + b"x")


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(BadFrame, match="header of 100 bytes in a frame of 14 bytes"):
        decode(b"\0\0\0\x64" + b"0123456789")


def test_an_unknown_serialisation_is_refused() -> None:
    with pytest.raises(BadFrame, match="serialisation 7"):
        decode(b"\x07\0\0\x02{}")


def test_a_json_header_with_bare_numbers_and_a_numbered_language_is_understood() -> None:
    header = json.dumps({"code": 30, "language": 9, "opaque": 1, "extFields": {"queueId": 3, "gone": None, "b": True}})
    command = decode(len(header).to_bytes(4, "big") + header.encode())
    assert command.ext == {"queueId": "3", "b": "true"}
    assert command.language == "GO"


@pytest.mark.parametrize("serialization", [JSON, BINARY])
def test_text_that_is_not_utf8_survives_for_its_reader_to_refuse(serialization: int) -> None:
    command = Command(310, {"b": b"\xff\xfe".decode("utf-8", "surrogateescape")}, serialization=serialization)
    assert decode(encode(command)[4:]).ext["b"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_code_beyond_two_bytes_cannot_leave_with_a_binary_header() -> None:
    with pytest.raises(BadFrame, match="200050"):
        encode(Command(200050, serialization=BINARY))


@pytest.mark.parametrize("serialization", [JSON, BINARY])
def test_a_header_longer_than_its_length_can_say_is_not_written(serialization: int) -> None:
    """Three bytes hold the length; a frame with another one would end the connection at the other end."""
    fits = Command(0, {"a": "x" * ((1 << 24) - 300)}, serialization=serialization)
    assert decode(encode(fits)[4:]).ext == fits.ext
    with pytest.raises(BadFrame, match="16,777,215 are allowed"):
        encode(Command(0, {"a": "x" * (1 << 24)}, b"body", serialization=serialization))
