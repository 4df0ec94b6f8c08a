"""A question made from the bytes of a half says what one made from the decoded half says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.transaction.check import Check, Checks, kind_of
from broker.rocketmq.frame import BINARY, JSON, decode
from broker.rocketmq.message import Message, encode, pack_host, record_size
from broker.rocketmq.message import decode as decode_record
from broker.rocketmq.topics import HALF_TOPIC
from broker.server.check_frames import FrameTemplate, Questions
from tests.watching import Calls

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
    offset: int = 70_000,
    position: int = 123_456_789,
) -> Check:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    born_host, store_host = pack_host(born, 5000), pack_host(stored, 10911)
    size = record_size(HALF_TOPIC.encode(), body, text, born_host, store_host)
    record = encode(
        HALF_TOPIC.encode(), 0, offset, position, body, text, 3, 1, 1_795_000_000_001, born_host, 1_795_000_000_002,
        store_host, 2, 0, size,
    )  # fmt: skip
    return Check(offset, position, record, "payers", count)


def together(checks: Iterable[Check]) -> list[Checks]:
    """The checks by kind, as the engine hands them out."""
    kinds: dict[tuple[object, ...], list[Check]] = {}
    for check in checks:
        kinds.setdefault((check.group, kind_of(check.checks, len(check.record), check.record)), []).append(check)
    return [
        Checks(
            group, members[0].checks, [check.offset for check in members], [check.position for check in members],
            b"".join(check.record for check in members),
        )
        for (group, _), members in kinds.items()
    ]  # fmt: skip


def assert_says_all(check: Check, serialization: int) -> None:
    """The frame names the half, and its body is the half but for topic, queue and two properties."""
    (alike,) = QUESTIONS.alike(together([check]))
    assert_is_said(check, alike.topic, QUESTIONS.frames(alike, serialization), serialization)


def assert_is_said(check: Check, topic: str, frame: bytes, serialization: int) -> None:
    half = check.half
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    command = decode(frame[4:])
    assert (command.code, command.is_oneway, command.serialization) == (39, True, serialization)
    key = half.unique_key or ""
    assert command.ext == {
        "topic": HALF_TOPIC, "bname": NAME,
        "tranStateTableOffset": str(check.offset), "commitLogOffset": str(check.position),
        "msgId": key, "transactionId": key, "offsetMsgId": half.offset_message_id,
    }  # fmt: skip
    message = decode_record(command.body)
    real = {"REAL_TOPIC": "", "REAL_QID": "0"} | half.properties
    assert message.topic == real["REAL_TOPIC"] == topic
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


def test_the_usual_half_takes_the_short_way() -> None:
    with Calls(Questions._plain, most=0):
        for number, body in enumerate((b"pay", b"", b"pay more" * 100)):
            for serialization in (JSON, BINARY):
                halves = USUAL | {"KEYS": f"order-{number:04}", "REAL_TOPIC": "orders", "REAL_QID": "3"}
                assert_says_all(check_of(halves, body=body, count=9), serialization)


@pytest.mark.parametrize("serialization", [JSON, BINARY])
def test_halves_alike_are_made_together(serialization: int) -> None:
    usual = USUAL | {"KEYS": "order-1", "REAL_TOPIC": "orders"}
    numbers = [0, 1, 9, 10, 11, 99, 100, 2**40, 2**62]
    checks = [
        check_of(
            usual | {"KEYS": f"order-{number % 10}", "REAL_QID": str(number % 3), "UNIQ_KEY": f"B{number % 7}"},
            offset=number, position=numbers[-1 - at], stored=f"37.37.37.{37 + at % 2}", count=at // 3,
        )
        for at, number in enumerate(numbers)
    ]  # fmt: skip
    parts = list(QUESTIONS.alike(together(checks)))
    assert sorted(check.offset for part in parts for check in part.checks) == numbers
    assert any(len(part.checks) > 1 for part in parts)
    for part in parts:
        with Calls(Questions._plain, most=0):
            frames = QUESTIONS.frames(part, serialization)
        for check in part.checks:
            end = 4 + int.from_bytes(frames[:4], "big")
            assert_is_said(check, part.topic, frames[:end], serialization)
            frames = frames[end:]
        assert not frames


def test_many_alike_are_made_at_once() -> None:
    halves = USUAL | {"REAL_TOPIC": "orders%d", "REAL_QID": "3"}
    checks = [
        check_of(halves | {"UNIQ_KEY": f"B{number}"}, offset=number, position=9_000 + 300 * number)
        for number in range(10, 70)
    ]
    for part in QUESTIONS.alike(together(checks)):
        with Calls(Questions._plain, FrameTemplate.fill, most=0):
            frames = QUESTIONS.frames(part, BINARY)
        for check in part.checks:
            end = 4 + int.from_bytes(frames[:4], "big")
            assert_is_said(check, part.topic, frames[:end], BINARY)
            frames = frames[end:]


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
