"""Filter expressions: RocketMQ's rules by example, the surprising ones first."""

from __future__ import annotations

import time

import pytest

from broker.rocketmq.message import encode, pack_host, record_size
from broker.rocketmq.properties import format_properties
from broker.rocketmq.sql92 import MOST_KEPT_LETTERS, Filter, properties_of
from broker.rocketmq.sql92_nodes import BadExpression

#: expression, properties of messages that are wanted, of messages that are not
SAYS: list[tuple[str, list[dict[str, str]], list[dict[str, str]]]] = [
    # a number is compared as what the expression says it is
    ("a > 5", [{"a": "6"}, {"a": "+6"}, {"a": "\u0666"}], [{}, {"a": "5"}, {"a": "5.5"}, {"a": "x"}, {"a": " 6"}]),
    ("a > 5.0", [{"a": "6"}, {"a": "5.5"}, {"a": " 1e3 "}, {"a": "6d"}], [{"a": "5"}, {"a": "x"}, {"a": "0x9"}]),
    ("a > 5", [{"a": "2147483647"}], [{"a": "2147483648"}, {"a": "99999999999"}]),
    ("a > 2147483648", [{"a": "99999999999"}], [{"a": "9223372036854775808"}]),
    ("a < b", [{"a": "9", "b": "10"}, {"a": "1e2", "b": "1000"}], [{"a": "x", "b": "y"}, {"a": "9"}, {"b": "9"}]),
    ("a = 5", [{"a": "5"}, {"a": "005"}], [{"a": "5.0"}, {}]),
    ("a = 5.0", [{"a": "5"}, {"a": "5.00"}], [{"a": "x"}]),
    ("a = '5'", [{"a": "5"}], [{"a": "5.0"}, {"a": "05"}]),
    ("a >= -5", [{"a": "-5"}], [{"a": "-6"}]),
    # what cannot be compared fails the whole expression, whatever else it says; unless that was clear before
    ("a <> 5", [{"a": "6"}], [{"a": "x"}, {}]),
    ("a > 5 OR b = 'y'", [{"a": "6"}, {"b": "y"}, {"a": "1", "b": "y"}], [{"a": "x", "b": "y"}]),
    ("b = 'y' OR a > 5", [{"a": "x", "b": "y"}], [{"a": "x"}]),
    # three values
    ("a = 'x' OR b = 'y'", [{"b": "y"}, {"a": "x"}], [{}, {"a": "z"}]),
    ("NOT (a = 'x')", [{"a": "y"}], [{}, {"a": "x"}]),
    ("NOT (a = 'x' AND b = 'y')", [{"a": "y"}, {"b": "z"}], [{}, {"a": "x"}]),
    ("a <> 'x'", [{"a": "y"}, {"a": ""}], [{}, {"a": "x"}]),
    # only the left side can be unknown in = and <>
    ("a <> b", [{"a": "1"}, {"a": "1", "b": "2"}], [{}, {"b": "1"}, {"a": "1", "b": "1"}]),
    ("a IS NULL", [{}, {"b": "1"}], [{"a": ""}]),
    ("a IS NOT NULL AND b IS NULL", [{"a": ""}], [{}, {"a": "", "b": ""}]),
    ("(a > 5) IS NULL", [{}], [{"a": "6"}, {"a": "x"}]),
    # ranges and lists
    ("a BETWEEN 1 AND 3", [{"a": "1"}, {"a": "3"}], [{"a": "0"}, {"a": "4"}, {}, {"a": "2.5"}]),
    ("a NOT BETWEEN 1 AND 3", [{"a": "0"}, {"a": "4"}], [{"a": "1"}, {}, {"a": "x"}]),
    ("a NOT BETWEEN 3 AND 1", [{"a": "2"}], []),
    ("a BETWEEN b AND 3", [{"a": "2", "b": "1"}], [{"a": "2"}, {"a": "2", "b": "3"}]),
    ("a IN ('x', 'it''s')", [{"a": "x"}, {"a": "it's"}], [{"a": "y"}, {}]),
    ("a NOT IN ('x')", [{"a": "y"}], [{"a": "x"}, {}]),
    # texts: false, not unknown, where there is none
    ("a CONTAINS 'b'", [{"a": "abc"}], [{"a": "B"}, {}]),
    ("a NOT CONTAINS 'b'", [{"a": "x"}], [{"a": "abc"}, {}]),
    ("a STARTSWITH 'ab'", [{"a": "abc"}], [{"a": "xab"}]),
    ("a NOT STARTSWITH 'ab'", [{"a": "xab"}], [{"a": "abc"}]),
    ("a ENDSWITH 'bc'", [{"a": "abc"}], [{"a": "bcx"}]),
    ("a NOT ENDSWITH 'bc'", [{"a": "bcx"}], [{"a": "abc"}]),
    ("a CONTAINS '' OR a NOT CONTAINS ''", [], [{"a": "x"}, {}]),
    ("NOT (a CONTAINS 'b')", [{}, {"a": "x"}], [{"a": "abc"}]),
    # a property is no condition: as one it is false where it is there
    ("a", [], [{"a": "true"}, {}]),
    ("NOT a", [{"a": "true"}], [{}]),
    ("a = TRUE", [{"a": "true"}, {"a": "TRUE"}], [{"a": "yes"}, {}]),
    ("a = FALSE", [{"a": "yes"}], [{"a": "true"}]),
    ("TRUE = a", [], [{"a": "true"}, {}]),
    # NOT binds tighter than a comparison
    ("NOT a = 'x'", [], [{"a": "x"}, {"a": "y"}, {}]),
    # words in any case, comments, blanks
    ("a bEtWeEn 1 aNd 3 /* three */ -- and no more", [{"a": "2"}], [{"a": "4"}]),
    ("a=1AND b='x'OR\tc\n=\r2", [{"a": "1", "b": "x"}, {"c": "2"}], [{}]),
    ("TRUE", [{}], []),
    ("NULL OR FALSE", [], [{}]),
    # Java's zeros and NaN
    ("a = b AND a > 0", [], [{"a": "NaN", "b": "NaN"}]),
    ("a > 1.0", [{"a": "NaN"}, {"a": "Infinity"}, {"a": "1e999"}], [{"a": "-Infinity"}]),
    ("a >= b", [{"a": "0", "b": "-0.0"}, {"a": "NaN", "b": "NaN"}], [{"a": "-0.0", "b": "0"}]),
]


@pytest.mark.parametrize(("expression", "wanted", "unwanted"), SAYS, ids=[row[0] for row in SAYS])
def test_what_an_expression_says(expression: str, wanted: list[dict[str, str]], unwanted: list[dict[str, str]]) -> None:
    ready = Filter(expression)
    assert [properties for properties in wanted if not ready.matches(properties)] == []
    assert [properties for properties in unwanted if ready.matches(properties)] == []


REFUSED = {
    "nothing": "",
    "a string": "'x'",
    "a number": "5",
    "a negative number": "-a",
    "strings in order": "a > 'x'",
    "a truth in order": "a > TRUE",
    "a condition in order": "(a = 1) > 2",
    "NULL compared": "a = NULL",
    "TRUE and a number": "TRUE = 5",
    "ends out of order": "a BETWEEN 3 AND 1",
    "ends that are strings": "a BETWEEN 'a' AND 'b'",
    "an end that is NULL": "a BETWEEN NULL AND 1",
    "a number in a list": "5 IN ('5')",
    "numbers in a list": "a IN (5)",
    "an empty list": "a IN ()",
    "0.0": "a > 0.0",
    "an infinite number": "a > 1e400",
    "more than 64 bits": "a > 9223372036854775808",
    "the lowest long": "a = -9223372036854775808",
    "a leading zero": "a = 007",
    "a word after the end": "a = 1 b = 2",
    "a parenthesis too many": "a = 1)",
    "a parenthesis too few": "(a = 1",
    "an operator of another language": "a != 1",
    "LIKE": "a LIKE 'x%'",
    "an open string": "a = 'x",
    "an open comment": "a = 1 /* x",
    "NOT without its word": "a NOT 5",
    "IS without NULL": "a IS 5",
    "a text test with a number": "a CONTAINS 5",
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression, match=r"\w"):
        Filter(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "a = 1" + ")" * 5000,
        "NOT " * 5000 + "a",
        "- " * 5000 + "a > 1",
        "a = 1" + " = TRUE" * 5000,
        "a" + " CONTAINS 'x'" * 3000,
        "a = '" + "x" * 70_000 + "'",
        "a = 1" + " OR a = 1" * 5000,
        "0" * 60_000,
        "1 " * 30_000,
    ],
)
def test_what_would_take_all_is_refused_soon(expression: str) -> None:
    began_s = time.perf_counter()
    with pytest.raises(BadExpression):
        Filter(expression)
    assert time.perf_counter() - began_s < 1


def test_a_long_chain_is_taken_and_asked_without_recursion() -> None:
    ready = Filter(" OR ".join(f"a = '{number}'" for number in range(2000)))
    assert ready.matches({"a": "1999"})
    assert not ready.matches({"a": "2000"})


@pytest.mark.parametrize(
    "text", ["9" * 30_000, "1" * 30_000 + "x", " " * 30_000 + "x", "0x" + "1" * 30_000, "+" * 30_000]
)
def test_long_values_are_read_in_no_time(text: str) -> None:
    began_s = time.perf_counter()
    for expression in ("a > 5", "a > 5.0", "a > b", "a = 99999999999"):
        Filter(expression).matches({"a": text, "b": text})
    assert time.perf_counter() - began_s < 0.5


def test_ready_expressions_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.rocketmq.sql92._MOST_KEPT", 2)
    first = Filter.of("limit = 1")
    assert Filter.of("limit = 1") is first
    for number in (2, 3):
        Filter.of(f"limit = {number}")
    assert Filter.of("limit = 1") is not first


def test_ready_expressions_are_kept_up_to_so_many_letters() -> None:
    for number in range(MOST_KEPT_LETTERS // 60_000 + 1):
        Filter.of(f"b = '{number}{'x' * 60_000}'")  # those of other tests have to go for these
    short = Filter.of("a = 1")
    long = [Filter.of(f"a = '{number}{'x' * 60_000}'") for number in range(MOST_KEPT_LETTERS // 60_000)]
    assert Filter.of(long[-1].expression) is long[-1]
    assert Filter.of(long[1].expression) is long[1]
    Filter.of(f"a = '{'y' * 60_000}'")
    assert Filter.of("a = 1") is not short, "what came first went first"


HOSTS = [pack_host("127.0.0.1", 10911), pack_host("::1", 10911)]


@pytest.mark.parametrize("born_host", HOSTS, ids=["v4", "v6"])
@pytest.mark.parametrize("store_host", HOSTS, ids=["v4", "v6"])
@pytest.mark.parametrize("topic", [b"T", b"%RETRY%" + b"g" * 200], ids=["short", "long"])
def test_properties_are_found_in_every_form_of_a_record(born_host: bytes, store_host: bytes, topic: bytes) -> None:
    stored = format_properties({"a": "5", "b": "x\u4e2d", "empty": ""})
    size = record_size(topic, b"body", stored, born_host, store_host)
    record = encode(topic, 0, 0, 0, b"body", stored, 0, 0, 1, born_host, 1, store_host, 0, 0, size)
    found = properties_of(record)
    assert found.pop("__CRC32#")
    assert found == {"a": "5", "b": "x\u4e2d", "empty": ""}
    assert Filter("a = 5 AND empty = ''").matches_record(record)
