"""The short way to read a send decides nothing: it reads what the long way reads, or leaves it alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.frame import BINARY, Command, decode, encode
from broker.rocketmq.sends import SendShortcut, read_send_header
from tests.server.frames import recorded_frames
from tests.server.peer import send_ext

PLAIN = Command(310, send_ext("orders", "UNIQ_KEY\x01A\x02"), b"body", opaque=7, serialization=BINARY)


def learned(command: Command = PLAIN) -> SendShortcut:
    shortcut = SendShortcut()
    frame = encode(command)[4:]
    shortcut.learn(frame, decode(frame), read_send_header(command.ext))
    return shortcut


@given(
    queue_id=st.integers(0, 2000),
    born_ms=st.integers(0, 1 << 62),
    flag=st.integers(-10, 100),
    sys_flag=st.integers(0, 100),
    properties=st.binary(max_size=300),
    body=st.binary(max_size=100),
    topic=st.sampled_from(["orders", "order", "orders2", "\0\x01e\0\0\0"]),
    reconsumed=st.sampled_from(["0", "1"]),
)
def test_the_short_way_reads_what_the_long_way_reads(
    queue_id: int, born_ms: int, flag: int, sys_flag: int, properties: bytes, body: bytes, topic: str, reconsumed: str
) -> None:
    text = properties.decode("utf-8", "surrogateescape")
    ext = send_ext(topic, text, e=str(queue_id), f=str(sys_flag), g=str(born_ms), h=str(flag), j=reconsumed)
    frame = encode(Command(310, ext, body, opaque=3, serialization=BINARY))[4:]
    read = learned().read(frame)
    if read is not None:
        header = read_send_header(decode(frame).ext)
        assert read == (3, 0, header.topic, header.queue_id, header.sys_flag, header.born_ms, header.flag,
                        header.properties, body, False)  # fmt: skip
        assert header.reconsume_times == 0
        assert not header.is_batch


def test_a_plain_send_like_one_seen_before_goes_the_short_way() -> None:
    ext = send_ext("orders", "UNIQ_KEY\x01B\x02", e="3", g="1795249116999")
    frame = encode(Command(310, ext, b"other", opaque=8, serialization=BINARY))[4:]
    assert learned().read(frame) == (8, 0, "orders", 3, 0, 1795249116999, 0, b"UNIQ_KEY\x01B\x02", b"other", False)


@pytest.mark.parametrize("changes", [{"m": "true"}, {"j": "1"}, {"l": "16"}])
def test_sends_that_are_not_plain_are_not_learned(changes: dict[str, str]) -> None:
    command = Command(310, send_ext("orders", "UNIQ_KEY\x01A\x02", **changes), b"body", serialization=BINARY)
    assert learned(command).read(encode(command)[4:]) is None


@given(st.data())
def test_a_damaged_frame_is_read_like_the_long_way_or_left_alone(data: st.DataObject) -> None:
    frame = bytearray(encode(PLAIN)[4:])
    frame[data.draw(st.integers(21, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read = learned().read(bytes(frame))
    if read is not None:
        header = read_send_header(decode(bytes(frame)).ext)
        assert read[2:8] == (
            header.topic,
            header.queue_id,
            header.sys_flag,
            header.born_ms,
            header.flag,
            header.properties,
        )


def test_recorded_sends_are_read() -> None:
    sends = [decode(recorded.frame[4:]) for recorded in recorded_frames() if recorded.family == "310_send_message_v2"]
    headers = [read_send_header(command.ext) for command in sends if command.code == 310]
    assert {header.topic for header in headers} >= {"WireJSONTopic", "WireROCKETMQTopic"}
    assert all(header.born_ms > 1_795_000_000_000 and header.properties.endswith(b"\x02") for header in headers)


def test_the_long_names_of_request_10_mean_the_same() -> None:
    v1 = {"producerGroup": "g", "topic": "T", "defaultTopicQueueNums": "4", "queueId": "1", "sysFlag": "0",
          "bornTimestamp": "5", "flag": "0", "properties": "a\x01b\x02", "reconsumeTimes": "2"}  # fmt: skip
    header = read_send_header(v1, is_v1=True)
    assert (header.topic, header.queue_id, header.born_ms, header.reconsume_times) == ("T", 1, 5, 2)


@pytest.mark.parametrize(
    "changes", [{"e": "x"}, {"e": ""}, {"e": "99999999999"}, {"g": "-1"}, {"f": "1.5"}, {"b": "\udcff"}]
)
def test_fields_that_are_no_numbers_or_no_text_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(RequestRefused):
        read_send_header(send_ext("T", **changes))
