"""Answers of Apache RocketMQ that strict JSON refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client._answers import Table, read_json, read_object
from broker.client.errors import BadAnswer

# as recorded from Apache RocketMQ 5.5.0
CLUSTER = b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:30911"},"brokerName":"broker-a"}}}'
STATS = (
    b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":1795249121212,'
    b'"maxOffset":3,"minOffset":0},{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"maxOffset":5}},'
    b'"topicPutTps":0.26666666666666666}'
)


def test_bare_integers_as_names_are_read_as_text() -> None:
    assert read_object(CLUSTER) == {
        "brokerAddrTable": {"broker-a": {"brokerAddrs": {"0": "127.0.0.1:30911"}, "brokerName": "broker-a"}}
    }


def test_objects_as_names_give_their_pairs_in_order() -> None:
    answer = read_object(STATS)
    table = answer["offsetTable"]
    assert isinstance(table, Table)
    assert [(key["queueId"], value["maxOffset"]) for key, value in table] == [(0, 3), (1, 5)]  # type: ignore[call-overload,index]  # plain values
    assert answer["topicPutTps"] == pytest.approx(0.2667, abs=1e-4)


def test_escapes_and_other_scripts_survive_the_lenient_way() -> None:
    assert read_json('{1:"a\\"\\u7ea2}:{红",2:[true,null,-1.5e3]}'.encode()) == {
        "1": 'a"红}:{红',
        "2": [True, None, -1500.0],
    }


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"{1:2", b'{1:"a}', b"{{}:", b"{1:1}x", b"{1:1,{}:2}", b"{[]:1}", b"{null:1}", b"\xff",
        b"[" * 100_000,
        b"{" * 100_000, b"{1:1,}", b"{1 1}", b"{1:nul}", b"[", b"[1", b"{1:[",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_json(body)


def test_something_else_than_an_object_is_a_bad_answer() -> None:
    with pytest.raises(BadAnswer, match="object"):
        read_object(b"[1]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_strict_json_inside_a_lenient_object_reads_as_it_is(value: object) -> None:
    assert read_json(b"{7:" + json.dumps(value).encode() + b"}") == {"7": value}


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    try:
        read_json(body)
    except BadAnswer:
        pass
