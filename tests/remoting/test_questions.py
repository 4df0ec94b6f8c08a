"""A question made from the bytes of a half says what one made from the decoded half says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.message import Message, encode, pack_host, record_size
from broker.engine.message import decode as decode_record
from broker.engine.store.topics import HALF_TOPIC
from broker.engine.transaction.checking import Check
from broker.remoting.codec import BINARY, JSON, decode
from broker.remoting.questions import Questions

NAME = 'broker "%d" é'
QUESTIONS = Questions(NAME)
USUAL = {"UNIQ_KEY": "A0", "TRAN_MSG": "true", "PGROUP": "payers", "WAIT": "true", "__transactionId__": "A0"}


def check_of(
    properties: dict[str, str],
    *,
    body: bytes = b"pay",
    born: str = "10.0.0.7",
    stored: str = "10.0.0.1",
    count: int = 0,
) -> Check:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    born_host, store_host = pack_host(born, 5000), pack_host(stored, 10911)
    size = record_size(HALF_TOPIC.encode(), body, text, born_host, store_host)
    record = encode(
        HALF_TOPIC.encode(), 0, 70_000, 123_456_789, body, text, 3, 1, 1_795_000_000_001, born_host, 1_795_000_000_002,
        store_host, 2, 0, size,
    )  # fmt: skip
    return Check(70_000, 123_456_789, record, "payers", count)


def assert_says_all(check: Check, serialization: int) -> None:
    """The frame names the half, and its body is the half but for topic, queue and two properties."""
    half = check.half
    place = QUESTIONS.place(check)
    frame = QUESTIONS.frame(check, QUESTIONS.mould(place, serialization), serialization)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    command = decode(frame[4:])
    assert (command.code, command.is_oneway, command.serialization) == (39, True, serialization)
    key = half.unique_key or ""
    assert command.ext == {
        "topic": HALF_TOPIC, "bname": NAME, "tranStateTableOffset": "70000", "commitLogOffset": "123456789",
        "msgId": key, "transactionId": key, "offsetMsgId": half.offset_message_id,
    }  # fmt: skip
    message = decode_record(command.body)
    real = {"REAL_TOPIC": "", "REAL_QID": "0"} | half.properties
    assert message.topic == real["REAL_TOPIC"] == place.topic
    assert message.queue_id == (int(real["REAL_QID"]) if real["REAL_QID"].isdigit() else 0)
    more = {"TRANSACTION_CHECK_TIMES": str(check.checks + 1), "WAIT": "false"}
    assert message.properties == half.properties | more
    kept = set(Message.__dataclass_fields__) - {"size", "properties", "topic", "queue_id"}
    assert {name: getattr(message, name) for name in kept} == {name: getattr(half, name) for name in kept}


@pytest.mark.parametrize("serialization", [JSON, BINARY])
@pytest.mark.parametrize(
    "more",
    [
        {}, {"TRANSACTION_CHECK_TIMES": "3"}, {"UNIQ_KEY": 'A"\\0'}, {"UNIQ_KEY": ""}, {"a": "REAL_TOPIC"},
        {"XUNIQ_KEY": "B1"}, {"zh": "中文"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("topic", ["orders", "o" * 127, "o" * 128, "orders%d"])
def test_a_question_in_bytes_is_the_question(serialization: int, more: dict[str, str], topic: str) -> None:
    assert_says_all(check_of(USUAL | more | {"REAL_TOPIC": topic, "REAL_QID": "3"}, count=7), serialization)


@pytest.mark.parametrize(("born", "stored"), [("::1", "10.0.0.1"), ("10.0.0.7", "::1"), ("::1", "::1")])
def test_halves_with_ipv6_addresses_are_asked_about_too(born: str, stored: str) -> None:
    assert_says_all(check_of(USUAL | {"REAL_TOPIC": "orders", "REAL_QID": "3"}, born=born, stored=stored), BINARY)


def test_a_half_of_apache_rocketmq_is_asked_about_too() -> None:
    check = check_of({"REAL_TOPIC": "orders", "REAL_QID": "3"} | USUAL)
    assert_says_all(check, JSON)


def test_the_usual_half_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Questions, "_slow")
    for number, body in enumerate((b"pay", b"", b"pay more" * 100)):
        for serialization in (JSON, BINARY):
            halves = USUAL | {"KEYS": f"order-{number:04}", "REAL_TOPIC": "orders", "REAL_QID": "3"}
            assert_says_all(check_of(halves, body=body, count=9), serialization)


names = st.sampled_from(["UNIQ_KEY", "REAL_TOPIC", "REAL_QID", "WAIT", "KEYS", "TRANSACTION_CHECK_TIMES"])
values = st.sampled_from(["", "3", "A0", "orders", "\x01", "UNIQ_KEY\x01B", "REAL_TOPIC\x01x"])


@given(
    st.dictionaries(names, values), st.binary(max_size=40) | st.just(b"\x02REAL_TOPIC\x01x\x02REAL_QID\x013\x02"),
    st.sampled_from([JSON, BINARY]),
)  # fmt: skip
def test_whatever_a_half_says_the_question_says_it_too(
    properties: dict[str, str], body: bytes, serialization: int
) -> None:
    assert_says_all(check_of(properties, body=body), serialization)
