"""Values as the real codecs write them, byte for byte where Python writes too."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.redisson import BytesCodec, JavaObject, JsonJacksonCodec, Long, StringCodec, TypedJsonJacksonCodec
from broker.redisson.codecs import codec_named, guess_codec, show
from broker.redisson.errors import CodecNotReadable, CodecNotWritable, ValueRefused, ValueUnreadable
from broker.redisson.java_codecs import double_text
from tests.redisson.fixtures import Offer, offers_of

#: What a Python service would offer for each of the samples of the real client.
SAMPLES: dict[tuple[str, str], object] = {
    ("java.lang.Integer", "42"): 42,
    ("java.lang.Integer", "-1"): -1,
    ("java.lang.Long", "42"): Long(42),
    ("java.lang.Long", "1700000000000"): 1_700_000_000_000,
    ("java.lang.Double", "19.9"): 19.9,
    ("java.lang.Boolean", "true"): True,
    ("java.math.BigDecimal", "19.90"): Decimal("19.90"),
    ("java.util.LinkedHashMap", "{id=o-7, qty=3, due=1700000000000, price=19.9, paid=true, tags=[x, y]}"): {
        "id": "o-7", "qty": 3, "due": 1_700_000_000_000, "price": 19.9, "paid": True, "tags": ["x", "y"],
    },
    ("java.util.ArrayList", "[x, 1, 2]"): ["x", 1, Long(2)],
    ("java.util.HashMap", "{k=v}"): JavaObject("java.util.HashMap", {"k": "v"}),
    ("[B", "byte[] 00 01 ff"): b"\x00\x01\xff",
    ("RedissonProbe$Order", "Order id=o-7 due=1700000000000 pad= amount=19.90"): JavaObject(
        "RedissonProbe$Order", {"pad": "", "id": "o-7", "due": 1_700_000_000_000, "amount": Decimal("19.90"), "x": None}
    ),
    ("java.util.UUID", "00112233-4455-6677-8899-aabbccddeeff"): uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
    ("java.util.Date", "Tue Nov 14 22:13:20 UTC 2023"): datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    ("java.util.LinkedHashMap", "{}"): {},
}  # fmt: skip


def sample(offer: Offer) -> object:
    return offer.text if offer.java_type == "java.lang.String" else SAMPLES[offer.java_type, offer.text]


def label(offer: Offer) -> str:
    return f"{offer.source}-{offer.java_type}-{offer.text[:8]!r}"


@pytest.mark.parametrize("offer", offers_of("json"), ids=label)
def test_json_is_written_as_jackson_writes_it(offer: Offer) -> None:
    codec = JsonJacksonCodec(typed_uuid=offer.source.startswith("4."))
    assert codec.encode(sample(offer)) == offer.encoded


@pytest.mark.parametrize("offer", offers_of("json"), ids=label)
def test_json_that_is_read_and_written_again_keeps_its_bytes(offer: Offer) -> None:
    codec = JsonJacksonCodec()
    read = codec.decode(offer.encoded)
    assert codec.encode(read) == offer.encoded
    if offer.java_type == "java.lang.String":
        assert read == offer.text


@pytest.mark.parametrize("offer", [*offers_of("typed_map"), *offers_of("typed_order")], ids=label)
def test_typed_json_has_no_types(offer: Offer) -> None:
    codec = TypedJsonJacksonCodec()
    read = codec.decode(offer.encoded)
    assert codec.encode(read) == offer.encoded
    if offer.java_type == "java.util.LinkedHashMap":
        assert codec.encode(sample(offer)) == offer.encoded
        assert read == sample(offer)


@pytest.mark.parametrize("offer", [o for o in offers_of("string") if o.java_type == "java.lang.String"], ids=label)
def test_strings_are_plain_utf8(offer: Offer) -> None:
    assert StringCodec().encode(offer.text) == offer.encoded
    assert StringCodec().decode(offer.encoded) == offer.text


SIMPLE = {"java.lang.String", "java.lang.Integer", "java.lang.Long", "java.lang.Double", "java.lang.Boolean"}


def java_only(offer: Offer) -> str:
    version, codec = offer.source.split("-", 1)
    if codec == "jdk":
        return "SerializationCodec"
    return "MarshallingCodec" if version.startswith("3.16") else "Kryo5Codec"


@pytest.mark.parametrize("offer", [*offers_of("default"), *offers_of("jdk")], ids=label)
def test_what_only_java_writes_is_read_where_it_is_simple(offer: Offer) -> None:
    codec = codec_named(java_only(offer))
    readable = {"java.lang.String"} if codec.name == "SerializationCodec" else SIMPLE
    if offer.java_type in readable:
        assert codec.decode(offer.encoded) == sample(offer)
    else:
        with pytest.raises(CodecNotReadable, match=codec.name):
            codec.decode(offer.encoded)
    with pytest.raises(CodecNotWritable, match=codec.name):
        codec.encode("x")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("string", "StringCodec"), ("json", "JsonJacksonCodec"), ("typed_map", "TypedJsonJacksonCodec"),
        ("jdk", "SerializationCodec"),
    ],
)  # fmt: skip
def test_the_codec_of_a_queue_is_guessed(source: str, name: str) -> None:
    assert guess_codec([offer.encoded for offer in offers_of(source)]) == name


def test_the_default_codec_is_guessed_by_version() -> None:
    kryo = [offer.encoded for offer in offers_of("default") if not offer.source.startswith("3.16")]
    marshalling = [offer.encoded for offer in offers_of("default") if offer.source.startswith("3.16")]
    assert guess_codec(kryo) == "Kryo5Codec"
    assert guess_codec(marshalling) == "MarshallingCodec"


def test_what_nothing_reads_is_shown_as_hex() -> None:
    assert guess_codec([b"\xff\xfe\x00"]) == "ByteArrayCodec"
    assert show(b"\xff\xfe\x00").text == "fffe00"
    assert show(b"\xff\xfe\x00", StringCodec()).is_hex
    assert guess_codec([]) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (19.9, "19.9"), (1.0, "1.0"), (-0.0, "-0.0"), (0.0, "0.0"), (1e7, "1.0E7"), (12345678.5, "1.23456785E7"),
        (9999999.0, "9999999.0"), (0.001, "0.001"), (0.00001, "1.0E-5"), (1.5e300, "1.5E300"),
        (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_doubles_look_as_in_java(number: float, text: str) -> None:
    assert double_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_its_text(number: float) -> None:
    assert float(double_text(number)) == number
    assert JsonJacksonCodec().decode(JsonJacksonCodec().encode(number)) == number


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            TEXT.filter(lambda key: key != "@class"), inner.filter(lambda each: each is not None), max_size=4
        )
    ),
    max_leaves=12,
).filter(lambda value: value is not None)


@given(TREE)
def test_any_tree_comes_back_from_typed_json(value: object) -> None:
    codec = JsonJacksonCodec()
    assert codec.decode(codec.encode(value)) == value


@given(TEXT)
def test_text_in_json_is_utf8_with_upper_case_escapes_beyond_the_bmp(text: str) -> None:
    encoded = JsonJacksonCodec().encode(text)
    assert JsonJacksonCodec().decode(encoded) == text
    assert not any(character > "\uffff" for character in encoded.decode())
    assert TypedJsonJacksonCodec().encode(text) == encoded


@pytest.mark.parametrize(
    "value",
    [None, object(), {"k": object()}, {1.5: "x"}, "\ud800", datetime(2020, 1, 1), Decimal("NaN")],  # noqa: DTZ001 - that is the point
)
def test_what_jackson_cannot_carry_is_refused_before_it_is_sent(value: object) -> None:
    with pytest.raises(ValueRefused, match="JsonJacksonCodec"):
        JsonJacksonCodec().encode(value)


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_says_so_and_keeps_the_bytes(value: bytes) -> None:
    for codec in (JsonJacksonCodec(), TypedJsonJacksonCodec()):
        with pytest.raises(ValueUnreadable, match=codec.name) as caught:
            codec.decode(value)
        assert caught.value.value == value


def test_each_codec_takes_its_own_kind_only() -> None:
    with pytest.raises(ValueRefused, match="bytes"):
        BytesCodec().encode("x")
    with pytest.raises(ValueRefused, match="text"):
        StringCodec().encode(b"x")
    with pytest.raises(ValueUnreadable):
        StringCodec().decode(b"\xff")
    with pytest.raises(ValueError, match="known are"):
        codec_named("FstCodec")
