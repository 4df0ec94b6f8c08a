"""What Java's own codecs write: text, numbers and booleans are shown, everything else names its codec."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.redisson.codecs import codec_named
from broker.redisson.errors import CodecNotReadable, CodecNotWritable
from tests.interop.redisson import LEGACY, Typed

#: No half of a surrogate pair: what Java does with one differs by codec.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
NUMBERS = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
VALUES = st.one_of(TEXT, NUMBERS, st.booleans(), st.floats(allow_nan=False))
MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def java_only(shared, which: str) -> str:
    """Redisson's name for the driver's codec; the default one changed in 3.19."""
    if which == "jdk":
        return "SerializationCodec"
    return "MarshallingCodec" if shared.java.version == LEGACY else "Kryo5Codec"


@pytest.mark.parametrize(("which", "values"), [("default", VALUES), ("jdk", TEXT)], ids=["default", "jdk"])
def test_texts_are_read_and_numbers_where_they_are_no_objects(shared, which, values):
    codec = codec_named(java_only(shared, which))

    @MANY
    @given(values)
    def compare(value):
        written = bytes.fromhex(shared.java.call("encode", codec=which, value=value))
        read = codec.decode(written)
        assert (type(read), read) == (type(value), value)

    compare()


@pytest.mark.parametrize("which", ["default", "jdk"])
def test_an_object_names_the_codec_and_nothing_is_written(shared, which):
    codec = codec_named(java_only(shared, which))
    written = bytes.fromhex(shared.java.call("encode", codec=which, value=["a", {"b": 1}]))
    with pytest.raises(CodecNotReadable, match=codec.name) as refused:
        codec.decode(written)
    assert refused.value.value == written
    with pytest.raises(CodecNotWritable, match=codec.name):
        codec.encode("a")


@pytest.mark.parametrize("value", ["", "a", "order-1", "日本\U0001f600"], ids=ascii)
def test_plain_text_is_the_same_on_both_sides(shared, value):
    written = bytes.fromhex(shared.java.call("encode", codec="string", value=value))
    assert codec_named("StringCodec").encode(value) == written
    assert codec_named("StringCodec").decode(written) == value


def test_an_object_of_the_applications_own_survives(shared):
    order = Typed("order", {"id": "order-1", "amount": 5_000_000_000, "note": None})
    written = bytes.fromhex(shared.java.call("encode", codec="json", value=order))
    codec = codec_named("JsonJacksonCodec")
    assert codec.encode(codec.decode(written)) == written
