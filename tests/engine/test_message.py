"""The codec: what is written is read, and damage is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.errors import CorruptRecord, InvalidProperties
from broker.rocketmq.message import (
    decode,
    encode,
    is_sound,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    record_size,
    string_hash,
)
from broker.rocketmq.properties import format_properties, parse_properties

WORDS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), max_size=20)
HOSTS = st.sampled_from([("127.0.0.1", 10911), ("10.1.2.3", 1), ("::1", 65535), ("fe80::1:2", 30911)])


def made(topic: str = "orders", body: bytes = b"x", position: int = 4096, properties: bytes = b"") -> bytes:
    host, name = pack_host("127.0.0.1", 10911), topic.encode()
    size = record_size(name, body, properties, host, host)
    return encode(name, 3, 7, position, body, properties, 5, 0, 1_000, host, 2_000, host, 1, 9, size)


@given(
    topic=st.from_regex(r"[A-Za-z0-9_%|-]{1,255}", fullmatch=True),
    body=st.binary(max_size=300),
    properties=st.dictionaries(WORDS.filter(bool), WORDS, max_size=6),
    born=HOSTS,
    store=HOSTS,
    numbers=st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 3),
)
def test_a_record_read_is_the_record_written(topic, body, properties, born, store, numbers) -> None:
    properties.pop("__CRC32#", None)
    stored = format_properties(properties)
    born_host, store_host, name = pack_host(*born), pack_host(*store), topic.encode()
    size = record_size(name, body, stored, born_host, store_host)
    queue_id, flag, times = numbers
    record = encode(name, queue_id, 8, 123, body, stored, flag, 0, 1, born_host, 2, store_host, times, 77, size)
    message = decode(record)
    assert len(record) == size == message.size
    assert (message.topic, message.body, message.properties) == (topic, body, properties)
    assert (message.queue_id, message.flag, message.reconsume_times) == numbers
    assert (message.born_host, message.store_host, message.prepared_position) == (born, store, 77)


@given(bit=st.integers(0, 8 * len(made()) - 1))
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    record = bytearray(made())
    record[bit // 8] ^= 1 << bit % 8
    assert is_sound(bytes(record), 4096) is not None


def test_a_record_at_another_position_is_not_taken_for_the_one_asked() -> None:
    assert is_sound(made(position=4096), 8192) == "it says it belongs elsewhere"


def test_bytes_that_are_no_record_are_refused() -> None:
    with pytest.raises(CorruptRecord):
        decode(b"\0" * 200)


@given(st.text(max_size=80))
def test_the_hash_is_the_one_of_java(text: str) -> None:
    expected = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        expected = (31 * expected + int.from_bytes(raw[at : at + 2], "big")) & 0xFFFFFFFF
    assert string_hash(text) & 0xFFFFFFFF == expected


def test_known_hashes_of_java() -> None:
    assert string_hash("AaAa") == string_hash("BBBB") == 2031744
    assert string_hash("polygenelubricants") == -(2**31)


def test_an_offset_message_id_names_host_and_position() -> None:
    text = offset_message_id(pack_host("127.0.0.1", 30911), 0x145)
    assert text == "7F000001000078BF0000000000000145"
    assert parse_offset_message_id(text) == ("127.0.0.1", 30911, 0x145)
    with pytest.raises(ValueError, match="hex digits"):
        parse_offset_message_id("7F00")


def test_properties_without_a_final_separator_are_read() -> None:
    assert parse_properties(b"a\x01b\x02c\x01d e") == {"a": "b", "c": "d e"}


def test_a_value_may_hold_the_separator_that_ends_a_name() -> None:
    raw = b"note\x01a\x01b\x02"
    assert parse_properties(raw) == {"note": "a\x01b"}
    assert format_properties({"note": "a\x01b"}) == raw


@pytest.mark.parametrize("raw", [b"\xff\xfe\x01a\x02", b"noseparator\x02"])
def test_bytes_that_are_no_properties_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidProperties):
        parse_properties(raw)


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}, {"": "b"}, {"a": "\ud800"}])
def test_properties_that_cannot_be_stored_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidProperties):
        format_properties(properties)
