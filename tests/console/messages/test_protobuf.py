"""Bodies in Protobuf: read by a compiled descriptor, whatever set somebody uploads and whatever bytes come."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from console.features.messages import descriptor_sets
from console.features.messages.bodies import TEXT_LIMIT_BYTES, body_of, content_of
from console.features.messages.decoders import INFLATE_LIMIT_BYTES, BodyType, Decoder, Fit
from console.features.messages.descriptor_sets import SetRefused, packed, read_set, unpacked_set
from console.features.messages.protobuf_text import DEPTH, MOST_UNKNOWN, NotThatType, ReadMessage, reader_of
from console.features.messages.shapes import Body, BodyForm
from tests.console.messages.proto_shop import ORDER, SHOP, add, base64_of, made, order, set_of, shop_file

OF_ORDERS = BodyType("orders", ORDER, SHOP)
#: field 99, a number
UNKNOWN = b"\x98\x06\x01"


def read(content: bytes, most: int = INFLATE_LIMIT_BYTES) -> ReadMessage:
    return reader_of(SHOP, ORDER).read(content, most)


def told(**values: Any) -> Any:
    return json.loads(read(order(**values)).text)


def shown(stored: bytes, asked: str = "", body_type: BodyType | None = OF_ORDERS) -> Body:
    return body_of(stored, 0, {}, asked, body_type)


def nested(depth: int) -> bytes:
    """An order in an order in an order."""
    content = b""
    for _ in range(depth):
        content = order(id=1) + b"\x62" + length(len(content)) + content
    return content


def length(number: int) -> bytes:
    """A number as Protobuf writes lengths."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_a_set_says_its_types_those_that_nobody_imports_first() -> None:
    main = FileDescriptorProto(name="main.proto", package="m", syntax="proto3", dependency=["shop/v1/shop.proto"])
    add(main.message_type.add(name="Event"), 1, "order", ".shop.v1.Order")
    # the order of the files does not matter
    found = read_set(set_of(main, shop_file()))
    assert found.types == ("m.Event", "shop.v1.Order", "shop.v1.Order.Line")
    assert found.files == ("main.proto", "shop/v1/shop.proto")
    with pytest.raises(SetRefused, match=r"m\.Nothing.*m\.Event") as refused:
        found.kind("m.Nothing")
    assert refused.value.is_type
    with pytest.raises(SetRefused):
        found.kind("shop.v1.Order.LabelsEntry")


def test_a_file_may_be_called_anything() -> None:
    files = set_of(shop_file(name="商店/订单.proto"))
    assert json.loads(reader_of(files, ORDER).read(order(id=7), 99).text) == {"id": 7}
    main = FileDescriptorProto(name="main.proto", package="m", syntax="proto3", dependency=["商店/订单.proto"])
    add(main.message_type.add(name="Event"), 1, "order", ".shop.v1.Order")
    assert read_set(set_of(shop_file(name="商店/订单.proto"), main)).types[0] == "m.Event"


def test_files_of_protobuf_itself_are_those_of_the_library() -> None:
    lie = FileDescriptorProto(name="google/protobuf/timestamp.proto", package="google.protobuf", syntax="proto3")
    add(lie.message_type.add(name="Timestamp"), 1, "seconds", "string")
    files = set_of(lie, shop_file())
    content = made(files=files, placed={"seconds": 1}).SerializeToString()
    assert json.loads(reader_of(files, ORDER).read(content, 99).text) == {"placed": "1970-01-01T00:00:01Z"}


def bare(name: str, **more: Any) -> FileDescriptorProto:
    return FileDescriptorProto(name=name, syntax="proto3", **more)


def many_types(count: int) -> bytes:
    file = bare("a.proto")
    for number in range(count):
        file.message_type.add(name=f"M{number}")
    return set_of(file)


WRONG_FIELD = bare("a.proto")
add(WRONG_FIELD.message_type.add(name="M"), 1, "x", ".nowhere.Type")


ODD_NAME, LONG_NAME = bare("a.proto"), bare("a.proto")
add(ODD_NAME.message_type.add(name="M"), 1, "x\0y", "int32")
LONG_NAME.message_type.add(name="M" * 501)
ODD_ENTRY = shop_file()
ODD_ENTRY.message_type[0].nested_type[1].field[1].number = 3
BYTES_FOR_A_NAME = SHOP.replace(b"google/protobuf/any", b"\x80oogle/protobuf/any")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (set_of(ODD_ENTRY), "LabelsEntry"), (set_of(ODD_NAME), "not valid"), (BYTES_FOR_A_NAME, "not a compiled"),
        (set_of(shop_file(name="a\0b")), "not a compiled"),
        (b"", "not a compiled"), (b'syntax = "proto3";', "not a compiled"), (b"\xff" * 40, "not a compiled"),
        (SHOP[:-7], "not a compiled"), (b"\n" * (descriptor_sets.MOST_BYTES + 1), "larger than 256 kB"),
        (set_of(bare("a.proto", dependency=["b.proto"])), r"b\.proto.*--include_imports"),
        (set_of(bare("a.proto", dependency=["b.proto"]), bare("b.proto", dependency=["a.proto"])), "circle"),
        (set_of(bare("a.proto", dependency=["a.proto"])), "circle"), (set_of(shop_file(), shop_file()), "twice"),
        (set_of(bare("a.proto")), "no message type"), (set_of(bare("google/protobuf/any.proto")), "no message type"),
        (set_of(WRONG_FIELD), r"a\.proto is not valid"), (set_of(bare("")), "not valid|no message type"),
        (set_of(*(bare(f"{number}.proto") for number in range(501))), "more than 500 files"),
        (many_types(5_001), "more than 5000 message types"),
    ],
)  # fmt: skip
def test_a_set_that_cannot_be_used_is_refused_with_its_reason(content: bytes, why: str) -> None:
    with pytest.raises(SetRefused, match=why):
        read_set(content)


def test_a_type_whose_name_cannot_be_kept_is_none() -> None:
    found = read_set(set_of(LONG_NAME))
    with pytest.raises(SetRefused):
        found.kind(found.types[0])


def test_types_in_types_without_end_are_refused_or_cut() -> None:
    file = bare("a.proto")
    inner = file.message_type.add(name="M")
    for _ in range(40):
        inner = inner.nested_type.add(name="M")
    assert len(read_set(set_of(file)).types) < 40


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("%%%", "base64"), ("é", "base64"), (base64_of(b"\x1f\x8b\x08nonsense"), "gzip"),
        (base64_of(gzip.compress(SHOP)[:-9]), "gzip"), (base64_of(gzip.compress(b"x" * 9_000_000)), "larger than"),
        ("A" * 600_000, "larger than"),
    ],
)  # fmt: skip
def test_a_set_that_is_not_unpacked_is_refused(text: str, why: str) -> None:
    with pytest.raises(SetRefused, match=why):
        unpacked_set(text)


def test_a_set_is_kept_compressed() -> None:
    assert unpacked_set(packed(SHOP)) == unpacked_set(base64_of(SHOP)) == SHOP
    assert len(packed(SHOP)) < len(SHOP)


def test_a_message_is_written_with_the_names_of_its_fields() -> None:
    detail = made("shop.v1.Order.Line", sku="a")
    found = made(
        id=2**64 - 1, customer="Grüße", price=1.1, state=2, lines=[{"sku": "b", "count": -3}, {}], raw=b"\0\xff"
    )
    found.labels.update({"z": 2, "a": -(2**63)})
    found.placed.FromMilliseconds(1_700_000_000_123)
    found.took.FromMilliseconds(-1_500)
    found.free.update({"n": 1, "half": 0.5, "list": [None, True, {}], "none": []})
    found.detail.Pack(detail)
    found.numbers.extend([1, -2])
    found.gift.value = ""
    text = read(found.SerializeToString()).text
    assert json.loads(text) == {
        "id": 2**64 - 1, "customer": "Grüße", "price": 1.1, "state": "PAID",
        "lines": [{"sku": "b", "count": -3}, {}], "labels": {"a": -(2**63), "z": 2}, "raw": "AP8=",
        "placed": "2023-11-14T22:13:20.123Z", "took": "-1.500s",
        "free": {"n": 1, "half": 0.5, "list": [None, True, {}], "none": []},
        "detail": {"@type": "type.googleapis.com/shop.v1.Order.Line", "sku": "a"}, "numbers": [1, -2], "gift": "",
    }  # fmt: skip
    assert '"price":1.1,' in text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"state": 77}, 77), ({"price": float("nan")}, "NaN"), ({"rate": float("-inf")}, "-Infinity"),
        ({"price": 3.4028234663852886e38}, 3.4028234663852886e38), ({"rate": 1e300}, 1e300),
        ({"price": 1e-45}, 1.4013e-45), ({"placed": {"seconds": 2**60}}, {"seconds": 2**60}), ({"lines": [{}]}, [{}]),
        ({"took": {"seconds": 2**60}}, {"seconds": 2**60}), ({"free": {}}, {}),
        ({"placed": {}}, "1970-01-01T00:00:00Z"),
        ({"detail": {"type_url": "x/none.Such", "value": b"\1"}}, {"type_url": "x/none.Such", "value": "AQ=="}),
        ({"detail": {"type_url": f"x/{ORDER}", "value": b"\xff"}}, {"type_url": f"x/{ORDER}", "value": "/w=="}),
        ({"detail": {"type_url": "google.protobuf.Duration"}}, {"@type": "google.protobuf.Duration", "value": "0s"}),
        ({"detail": {"type_url": f"x/{ORDER}"}}, {"@type": f"x/{ORDER}"}),
    ],
)  # fmt: skip
def test_values_out_of_the_ordinary_are_written_as_they_are(values: dict[str, Any], expected: Any) -> None:
    (value,) = told(**values).values()
    assert value == expected


def test_strings_of_proto2_need_not_be_utf_8() -> None:
    file = FileDescriptorProto(name="old.proto", syntax="proto2")
    add(file.message_type.add(name="Old"), 1, "text", "string")
    file.message_type[0].extension_range.add(start=100, end=200)
    extension = file.extension.add(name="more", number=100, type=5, label=1, extendee=".Old")
    assert extension.label == 1
    found = reader_of(set_of(file), "Old").read(b"\x0a\x02\xff\xfe\xa0\x06\x05", 99)
    assert json.loads(found.text) == {"text": "\\xff\\xfe", "[more]": 5}


def test_unknown_fields_are_told_by_their_places() -> None:
    line = b"\x0a\x01b" + UNKNOWN
    found = read(order(id=1) + UNKNOWN + b"\x2a" + length(len(line)) + line)
    assert (found.has_unknown, found.unknown) == (True, ("99", "lines.99"))
    assert json.loads(found.text) == {"id": 1, "lines": [{"sku": "b"}]}
    many = b"".join(length(number << 3) + b"\1" for number in range(100, 300))
    assert len(read(order(id=1) + many).unknown) == MOST_UNKNOWN
    large = read(order(id=1) + UNKNOWN * 60_000)
    assert (large.has_unknown, large.unknown) == (True, ())


@pytest.mark.parametrize("content", [UNKNOWN, b"\xff", b'{"id": 1}', b"\x0a\x05ab", order(customer="a")[:-1], b"plain"])
def test_bytes_that_are_no_message_of_the_type_are_told_apart(content: bytes) -> None:
    with pytest.raises(NotThatType):
        read(content)


def test_a_field_that_was_written_with_nothing_in_it_is_a_message_all_the_same() -> None:
    assert read(b"\x08\x00").text == "{}"


def test_what_nests_without_end_is_cut_or_refused() -> None:
    deep = read(nested(DEPTH + 20))
    assert not deep.is_whole
    with pytest.raises(NotThatType):
        read(nested(150))
    chained = made(id=1)
    for _ in range(DEPTH + 20):
        outer = made(id=1)
        outer.detail.Pack(chained)
        chained = outer
    assert not read(chained.SerializeToString()).is_whole


BOMBS = {
    "empty lines": b"\x2a\x00" * 131_072, "numbers": b"\x5a" + length(262_000) + b"\x01" * 262_000,
    "unknown": order(id=1) + UNKNOWN * 87_000, "any": b"\x8a\x01\x00" * 87_000, "labels": b"\x32\x00" * 131_072,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_its_limit(name: str) -> None:
    begun = time.process_time()
    found = read(BOMBS[name], TEXT_LIMIT_BYTES)
    # some 30 ms where nothing else runs
    assert time.process_time() - begun < 0.5
    assert len(found.text) <= TEXT_LIMIT_BYTES


def test_a_body_is_shown_by_the_type_of_its_topic() -> None:
    body = shown(order(id=7, customer="a"))
    assert (body.form, body.decoders) == (BodyForm.JSON, ("Protobuf",))
    assert json.loads(body.text) == {"id": 7, "customer": "a"}
    assert body.typed is not None and (body.typed.name, body.typed.fit) == (ORDER, Fit.FITS)
    assert shown(gzip.compress(order(id=7))).decoders == ("gzip", "Protobuf")
    assert shown(gzip.compress(order(id=7)), "gzip").decoders == ("gzip", "Protobuf")
    as_stored = shown(order(id=7), "none")
    assert (as_stored.typed, as_stored.form) == (None, BodyForm.HEX)
    assert shown(order(id=7), body_type=None).typed is None


def test_a_body_that_does_not_fit_is_shown_as_it_is() -> None:
    body = shown(b'{"id": 7}')
    assert (body.form, body.has_failed, body.decoders) == (BodyForm.JSON, False, ())
    assert body.typed is not None and body.typed.fit is Fit.DIFFERS
    assert shown(b'{"id": 7}', Decoder.PROTOBUF).has_failed
    assert shown(order(id=7), Decoder.PROTOBUF).decoders == ("Protobuf",)
    nothing = shown(order(id=7), Decoder.PROTOBUF, None)
    assert nothing.has_failed and nothing.typed is None
    large = shown(order(raw=b"x" * INFLATE_LIMIT_BYTES))
    assert large.typed is not None and large.typed.fit is Fit.LARGE
    bomb = shown(gzip.compress(order(raw=b"x" * 9_000_000)))
    assert bomb.typed is not None and (bomb.typed.fit, bomb.truncated) == (Fit.LARGE, True)
    broken = shown(order(id=7), body_type=BodyType("orders", ORDER, b"no set"))
    assert broken.typed is not None and (broken.typed.fit, broken.form) == (Fit.UNUSABLE, BodyForm.HEX)


def test_a_long_message_is_cut_and_says_so() -> None:
    body = shown(order(customer="x" * 40_000))
    assert body.truncated and body.form is BodyForm.TEXT
    assert body.shown_bytes == TEXT_LIMIT_BYTES
    assert b"y" in content_of(order(customer="x" * 40_000 + "y"), 0, {}, OF_ORDERS)


FIELDS_OF_ORDERS = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([0, 1, 2, 5, 3, 4]), st.binary(max_size=24)), max_size=12
).map(
    lambda parts: b"".join(length(n << 3 | kind) + (length(len(b)) if kind == 2 else b"") + b for n, kind, b in parts)
)


@given(st.one_of(st.binary(max_size=200), FIELDS_OF_ORDERS), st.sampled_from([50, 1_000, INFLATE_LIMIT_BYTES]))
def test_no_bytes_raise_anything_but_the_one_error(content: bytes, most: int) -> None:
    try:
        found = read(content, most)
    except NotThatType:
        return
    found.text.encode()
    assert len(found.text) <= most
    if found.is_whole:
        json.loads(found.text)


@given(st.one_of(st.binary(max_size=200), FIELDS_OF_ORDERS), st.sampled_from(Decoder.values))
def test_any_bytes_are_shown_and_searched(stored: bytes, asked: str) -> None:
    body_of(stored, 0, {}, asked, OF_ORDERS).text.encode()
    assert isinstance(content_of(stored, 0, {}, OF_ORDERS), bytes)


@given(st.data())
def test_a_spoiled_set_is_refused_or_reads_any_bytes(data: st.DataObject) -> None:
    spoiled = bytearray(SHOP)
    for _ in range(data.draw(st.integers(1, 6))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    try:
        types = read_set(bytes(spoiled)).types
        reader = reader_of(bytes(spoiled), types[0])
        descriptor_sets.fields_of(read_set(bytes(spoiled)).kind(types[0]))
    except SetRefused:
        return
    try:
        reader.read(data.draw(FIELDS_OF_ORDERS), 1_000)
    except NotThatType:
        return


def test_the_set_of_the_tests_is_as_protoc_makes_it() -> None:
    (file,) = FileDescriptorSet.FromString(SHOP).file
    assert file.message_type[0].nested_type[1].options.map_entry
