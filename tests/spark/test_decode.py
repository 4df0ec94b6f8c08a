"""The columnar reader says about every record what the engine's codec says."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spark.segment
from broker.rocketmq.layout import MAGIC_BLANK
from spark.columns import Selection
from spark.segment import WINDOW_BYTES
from tests.crash.golden import folders, load
from tests.spark import plain
from tests.spark.logs import ALL, log_of, read, record

WORDS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), max_size=12)
NAMES = st.sampled_from(
    [
        "KEYS",
        "TAGS",
        "UNIQ_KEY",
        "DELAY",
        "REAL_QID",
        "ESC_SOURCE",
        "ESC_DUE_MS",
        "TIMER_DELIVER_MS",
        "TIMER_DEQUEUE_MS",
    ]
)
HOSTS = st.sampled_from([("127.0.0.1", 10911), ("10.1.2.3", 1), ("::1", 65535), ("fe80::1:2", 30911)])
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "%RETRY%g", "t" * 130, "pago"]),
        "body": st.binary(max_size=80),
        "properties": st.dictionaries(NAMES | WORDS, WORDS | st.integers(-99, 99).map(str), max_size=6),
        "born": HOSTS,
        "store": HOSTS,
        "sys_flag": st.sampled_from([0, 8]),
        "checksum": st.booleans(),
        "queue_id": INTS,
        "queue_offset": LONGS,
        "flag": INTS,
        "born_ms": LONGS,
        "store_ms": LONGS,
        "times": INTS,
        "prepared": LONGS,
    }
)


@pytest.mark.parametrize("name", sorted(folders()))
def test_a_store_of_apache_rocketmq_reads_as_the_codec_reads_it(name: str) -> None:
    files = load(name).files
    segments = {int(path[-20:]): data for path, data in files.items() if "/commitlog/" in path}
    expected = [plain.row(message) for message in plain.messages(segments)]
    assert expected
    assert read(segments) == expected


@settings(max_examples=80, deadline=None)
@given(parts=st.lists(RECORDS, max_size=12), window=st.sampled_from([64, 300, 1 << 20]))
def test_random_records_read_as_the_codec_reads_them(parts: list[dict[str, Any]], window: int) -> None:
    for part in parts:
        part["properties"].pop("", None)
        # without a checksum the codec takes a zero at the end for an end that was never written
        part["properties"]["end"] = "."
    data = log_of(*parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark.segment, "WINDOW_BYTES", window)
        assert read({0: data}) == [plain.row(message) for message in plain.messages({0: data})]


def test_properties_that_the_codec_alone_understands_are_read_by_it() -> None:
    parts = [
        {"properties": b"KEYS\x01a\x01b\x02", "checksum": True},
        {"properties": {"KEYS": "plain"}},
        {"properties": b"\x02KEYS\x01c\x02"},
        {"properties": b"KEYS\x01last", "checksum": False},
        {"properties": {"__CRC32#": "", "KEYS": "no sum"}, "checksum": False},
    ]
    rows = read({0: log_of(*parts)})
    assert [row["keys"] for row in rows] == ["a\x01b", "plain", "c", "last", "no sum"]
    assert [row["corrupt"] for row in rows] == [None] * 5
    assert rows[-1]["properties"] == [("KEYS", "no sum")]


def test_sound_bytes_that_are_no_layout_are_reported_and_the_next_record_is_read() -> None:
    rows = read({0: log_of({}, {"properties": b"\xff\x01a\x02"}, {})})
    assert [row["corrupt"] is None for row in rows] == [True, False, True]
    assert "not UTF-8" in rows[1]["corrupt"]


@given(bit=st.integers(0, 8 * len(record(0)) - 1), checksum=st.booleans())
def test_every_flipped_bit_is_one_row_that_says_so(bit: int, checksum: bool) -> None:
    first = record(0, properties={"a": "b"}, checksum=checksum)
    second, third = (record(len(first) * n, properties={"a": "b"}, checksum=checksum) for n in (1, 2))
    damaged = bytearray(first + second + third + bytes(500))
    damaged[len(first) + bit % (8 * len(second)) // 8] ^= 1 << bit % 8
    rows = read({0: bytes(damaged)})
    assert [row["position"] for row in rows] == [0, len(first), 2 * len(first)]
    assert [row["size"] for row in rows] == [len(first)] * 3
    if plain.is_record(bytes(damaged[len(first) : 2 * len(first)]), len(first)):
        assert rows[1]["corrupt"] is None  # no checksum covers that bit
    else:
        assert rows[1]["corrupt"] and rows[1]["topic"] is None
    assert rows[0]["corrupt"] is None and rows[2]["corrupt"] is None


def test_the_torn_end_of_a_log_is_no_row() -> None:
    whole = record(0)
    for cut in (1, 7, 8, 60, len(whole) - 1):
        data = whole + record(len(whole))[:cut]
        assert len(read({0: data.ljust(4096, b"\0")})) == 1
        assert len(read({0: data})) == 1


def test_what_was_durable_and_is_gone_is_a_row() -> None:
    whole = record(0)
    rows = read({0: whole.ljust(4096, b"\0")}, end=len(whole) * 3)
    assert [(row["position"], row["size"]) for row in rows] == [(0, len(whole)), (len(whole), 2 * len(whole))]
    assert rows[1]["corrupt"] == "no record starts here"


def test_bytes_behind_the_durable_end_are_not_read() -> None:
    data = log_of({}, {}, {})
    assert len(read({0: data}, end=2 * len(record(0)))) == 2


def test_a_blank_ends_a_segment_and_the_next_one_is_read() -> None:
    size = 2048
    whole = record(0)
    first = whole + (size - len(whole)).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    junk = first + b"\xda\xa3\x20\xa7" * 8
    segments = {0: junk.ljust(size, b"\0"), size: record(size).ljust(size, b"\0"), 2 * size: bytes(size)}
    assert [row["position"] for row in read(segments)] == [0, size]


def test_a_lost_blank_is_no_damage_but_lost_records_are() -> None:
    size = 2048
    later = record(size).ljust(size, b"\0")
    assert [row["position"] for row in read({0: record(0).ljust(size, b"\0"), size: later})] == [0, size]
    damaged = (record(0) + b"\x17" * 300).ljust(size, b"\0")
    rows = read({0: damaged, size: later})
    assert [row["position"] for row in rows] == [0, len(record(0)), size]
    assert rows[1]["size"] == size - len(record(0))


def test_a_record_longer_than_a_window_is_read_whole() -> None:
    body = bytes(range(256)) * (WINDOW_BYTES // 200)
    rows = read({0: log_of({}, {"body": body}, {}, size=3 * WINDOW_BYTES)})
    assert [row["body_size"] for row in rows] == [1, len(body), 1]
    assert rows[1]["body"] == body


def test_compressed_bodies_stay_as_stored_unless_asked() -> None:
    text = b"a long story " * 100
    zstd = pa.compress(text, codec="zstd", asbytes=True)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(text)
    lz4 = sink.getvalue().to_pybytes()
    parts = [
        {"body": lz4, "sys_flag": 1 | 1 << 8},
        {"body": zstd, "sys_flag": 1 | 2 << 8},
        {"body": zlib.compress(text), "sys_flag": 1 | 3 << 8},
        {"body": zlib.compress(text), "sys_flag": 1},
        {"body": text},
        {"body": b"broken", "sys_flag": 1},
    ]
    data = {0: log_of(*parts)}
    assert [row["body"] for row in read(data)] == [part["body"] for part in parts]
    rows = read(data, selection=Selection(groups=frozenset({"body"}), inflate=True))
    assert [row["body"] for row in rows] == [text] * 5 + [b"broken"]
    assert [row["corrupt"] is None for row in rows] == [True] * 5 + [False]


def test_only_the_bodies_asked_for_are_read() -> None:
    data = {0: log_of({"topic": "a", "body": b"1"}, {"topic": "b", "body": b"2"})}
    rows = read(data, selection=Selection(groups=frozenset({"body"}), body_topics=frozenset({"b"})))
    assert [row["body"] for row in rows] == [None, b"2"]
    assert "keys" not in rows[0]


def test_any_property_can_be_a_column() -> None:
    data = {0: log_of({"properties": {"buyer": "ann", "buyer2": "bob"}}, {}, {"properties": {"buyer": ""}})}
    rows = read(data, selection=Selection(groups=frozenset(), extract=("buyer",)))
    assert [row["property_buyer"] for row in rows] == ["ann", None, ""]


def test_properties_whose_names_begin_alike_are_told_apart() -> None:
    names = ("TRANSACTION_ONE", "TRANSACTION_TWO", "TRANSACTION_SIX")
    data = {0: log_of({"properties": {name: name[-3:] for name in names}}, {"properties": {names[2]: "6"}})}
    rows = read(data, selection=Selection(groups=frozenset(), extract=names[:2]))
    assert [[row[f"property_{name.lower()}"] for name in names[:2]] for row in rows] == [["ONE", "TWO"], [None, None]]


def test_names_of_more_bytes_than_letters_are_told_apart() -> None:
    data = {0: log_of({"properties": {"ключи1": "one"}}, {"properties": {"ключи2": "two"}})}
    rows = read(data, selection=Selection(groups=frozenset(), extract=("ключи1",)))
    assert [row["property_ключи1"] for row in rows] == ["one", None]


def test_of_properties_with_one_name_the_last_counts_everywhere() -> None:
    twice = b"a\x011\x02b\x012\x02a\x013\x02"
    parts = [{"properties": twice}, {"properties": {"a": "0"}}, {}, {"properties": twice}, {"properties": {"b": "4"}}]
    rows = read({0: log_of(*parts)}, selection=Selection(groups=frozenset({"properties"}), extract=("a",)))
    both = [("a", "3"), ("b", "2")]
    assert [row["properties"] for row in rows] == [both, [("a", "0")], [], both, [("b", "4")]]
    assert [row["property_a"] for row in rows] == ["3", "0", None, "3", None]


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
def test_a_body_that_would_inflate_to_more_than_there_is_memory_for_says_so(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, sink = bytes(100_000), pa.BufferOutputStream()
    flag = {"lz4": 1 | 1 << 8, "zstd": 1 | 2 << 8, "zlib": 1}[codec]
    if codec == "zlib":
        body = zlib.compress(text)
    else:
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(text)
        body = sink.getvalue().to_pybytes()
    data, inflated = {0: log_of({"body": body, "sys_flag": flag})}, Selection(groups=frozenset({"body"}), inflate=True)
    assert read(data, selection=inflated)[0]["body"] == text
    monkeypatch.setattr("spark.decode.LARGEST_BYTES", 65_536)
    [row] = read(data, selection=inflated)
    assert row["body"] == body and "larger than" in row["corrupt"]


def test_the_schema_is_the_same_for_every_batch() -> None:
    assert ALL.schema.names[:3] == ["broker", "position", "size"]
    assert ALL.schema.names[-2:] == ["properties", "body"]
