"""JSON for Java is what Jackson writes, byte for byte: `remove` and `contains` compare bytes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from broker.redisson.jackson import JsonJacksonCodec, TypedJsonJacksonCodec

CODECS = {"json": JsonJacksonCodec(), "typed_map": TypedJsonJacksonCodec()}
#: No half of a surrogate pair: UTF-8 has no form for it, and ours refuses it.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WHOLE = st.one_of(st.integers(-10, 10), st.integers(-(1 << 32), 1 << 32), st.integers(-(1 << 70), 1 << 70))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4)
PLAIN = st.one_of(TEXT, WHOLE, st.booleans(), DECIMALS, st.binary(max_size=12))
INSIDE = st.recursive(
    st.one_of(PLAIN, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=12,
)
VALUES = st.one_of(PLAIN, st.lists(INSIDE, max_size=6), st.dictionaries(TEXT, INSIDE, max_size=6))
HOUR_MS = 3_600_000
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def jackson(shared, codec: str, value: object) -> bytes:
    """What the real codec writes."""
    return bytes.fromhex(shared.java.call("encode", codec=codec, value=value))


@pytest.mark.parametrize("codec", CODECS)
def test_any_value_is_written_as_jackson_writes_it(shared, codec):
    @MANY
    @given(VALUES)
    def compare(value):
        assert CODECS[codec].encode(value) == jackson(shared, codec, value)

    compare()


@pytest.mark.parametrize("codec", CODECS)
def test_every_number_reads_back_and_the_shortest_ones_are_equal(shared, codec):
    """Before JDK 19 Double.toString does not always take the fewest digits (JDK-4511638): then the bytes differ."""

    @MANY
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def compare(value):
        ours, theirs = CODECS[codec].encode(value), jackson(shared, codec, value)
        assert float(ours) == float(theirs) == value
        assume(digits(theirs) <= digits(repr(value).encode()))
        assert ours == theirs

    compare()


def digits(number: bytes) -> int:
    """How many digits a number has before its exponent."""
    return len(Decimal(number.decode()).as_tuple().digits)


@pytest.mark.parametrize(
    "text",
    ["", "\x00\x1f\x7f\x80", '"\\/\b\f\n\r\t', "\u2028\u2029\ufeff\uffff", "a\U0001f600b\U0010ffff", "日本語"],
    ids=ascii,
)
@pytest.mark.parametrize("codec", CODECS)
def test_special_characters_are_written_as_jackson_writes_them(shared, codec, text):
    for value in (text, [text], {text: text}):
        assert CODECS[codec].encode(value) == jackson(shared, codec, value)


def test_any_value_of_java_is_read(shared):
    @MANY
    @given(VALUES)
    def compare(value):
        read = CODECS["json"].decode(jackson(shared, "json", value))
        assert CODECS["json"].encode(read) == jackson(shared, "json", value)

    compare()


@pytest.mark.parametrize(
    "value",
    [
        {"a": None},
        {"a": None, "b": 1, "c": None},
        {"a": {"b": None}},
        {"a": [None, {"b": None, "c": [None]}]},
        [{"a": None}, None, [None]],
        {"": None, "\u00e9\U0001f600": None, "last": ""},
    ],
    ids=ascii,
)
@pytest.mark.parametrize("codec", CODECS)
def test_a_map_with_nulls_is_the_same_value_on_both_sides(shared, queue, codec, value):
    if codec == "typed_map" and not isinstance(value, dict):
        value = {"list": value}
    written = CODECS[codec].encode(value)
    assert written == jackson(shared, codec, value)
    ours = shared.ours(queue, CODECS[codec])
    ours.offer(value, delay=HOUR_MS)
    shared.java.offer(queue, value, HOUR_MS, codec)
    assert list(ours.read_all_bytes()) == [written, written]
    assert shared.java.call("remove", queue, codec, value=value)
    assert ours.remove(value)
    assert ours.size() == 0
