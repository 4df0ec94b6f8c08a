"""What is held of one connection, and of all: decided before a header is read and before a frame is whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import BadFrame, HeaderRefused
from broker.rocketmq.frame import (
    BINARY,
    JSON,
    MAX_FIELDS,
    MAX_FRAME_BYTES,
    Command,
    decode,
    encode,
    encode_fields,
)
from broker.server.broker import BrokerService
from broker.server.budgets import Budget
from broker.server.connection import Limits
from broker.server.incoming import MAX_HEADER_BYTES, MAX_JSON_HEADER_BYTES, Incoming, RefusedFrame
from tests.server.peer import send_ext
from tests.server.stranger import Stranger, stranger_at
from tests.waiting import until_true

MEBIBYTE = 1 << 20


def long_binary(header_bytes: int, opaque: int = 5, flag: int = 0) -> bytes:
    """A frame whose binary header has so many bytes, all of them empty fields."""
    ext = encode_fields({"x": ""}) * ((header_bytes - 21) // 7)
    header = (
        encode(Command(310, opaque=opaque, flag=flag, serialization=BINARY))[8:-4] + len(ext).to_bytes(4, "big") + ext
    )
    return (4 + len(header)).to_bytes(4, "big") + (len(header) | 1 << 24).to_bytes(4, "big") + header


def long_json(properties: str, *, is_first: bool = False, opaque: int = 5) -> bytes:
    """A send whose JSON header escapes its properties, with its number before or behind them."""
    number = {"opaque": opaque}
    head = {"code": 310, **(number if is_first else {}), "extFields": send_ext("T", properties), **number}
    header = json.dumps(head).encode()
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


NEXT = encode(Command(Request.GET_BROKER_CONFIG, opaque=6))


def many_fields(count: int, serialization: int) -> bytes:
    return encode(Command(Request.GET_BROKER_CONFIG, {f"f{n}": "" for n in range(count)}, opaque=5,
                          serialization=serialization))  # fmt: skip


@pytest.mark.parametrize("serialization", [JSON, BINARY])
def test_a_header_has_so_many_fields_and_no_more(serialization: int) -> None:
    assert len(decode(many_fields(MAX_FIELDS, serialization)[4:]).ext) == MAX_FIELDS
    with pytest.raises(HeaderRefused) as refused:
        decode(many_fields(MAX_FIELDS + 1, serialization)[4:])
    assert (refused.value.opaque, refused.value.serialization) == (5, serialization)


@pytest.mark.parametrize("value", ["null", "1", "[1]", r'"\ud800"', '{"a":{}}'])
def test_fields_are_counted_before_anything_of_them_is_written_out(value: str) -> None:
    """What only lenient reading takes: the number of fields is the reason, whatever else is wrong with them."""

    def frame(count: int) -> bytes:
        fields = ",".join(f'"f{n}":{value}' for n in range(count))
        header = f'{{"code":{Request.GET_BROKER_CONFIG},"extFields":{{{fields}}},"language":3,"opaque":5}}'.encode()
        return len(header).to_bytes(4, "big") + header

    with pytest.raises(HeaderRefused, match=f"{MAX_FIELDS + 1} fields") as refused:
        decode(frame(MAX_FIELDS + 1))
    assert (refused.value.opaque, refused.value.is_final) == (5, False)
    if "ud800" not in value:
        assert len(decode(frame(MAX_FIELDS)).ext) == (0 if value == "null" else MAX_FIELDS)


TOO_LONG = {
    "binary of one byte more": long_binary(MAX_HEADER_BYTES + 8),
    "binary of 15 MiB": long_binary(15 * MEBIBYTE),
    "JSON": long_json("a\x01" + "v" * MAX_HEADER_BYTES + "\x02"),
    "JSON, its number first": long_json("a\x01" + "v" * MAX_HEADER_BYTES + "\x02", is_first=True),
    "JSON longer than escapes make it": long_json("a\x01" + "v" * MAX_JSON_HEADER_BYTES + "\x02"),
    "JSON that quotes a number": long_json("a\x01" + '"opaque":77,' * 30_000 + "\x02"),
}


@pytest.mark.parametrize("frame", TOO_LONG.values(), ids=TOO_LONG.keys())
@pytest.mark.parametrize("size", [1, 7, 1000, 65_536, 1 << 30])
def test_a_header_that_is_too_long_is_passed_over_and_its_number_known(frame: bytes, size: int) -> None:
    if size < 1000:
        frame_start, step = frame[:3000], size
        incoming = Incoming()
        for at in range(0, len(frame_start), step):
            assert incoming.feed(frame_start[at : at + step]) == []
        frames = incoming.feed(frame[3000:] + NEXT)
    else:
        incoming, frames, stream = Incoming(), [], frame + NEXT
        for at in range(0, len(stream), size):
            frames += incoming.feed(stream[at : at + size])
            assert incoming.held_bytes < MAX_JSON_HEADER_BYTES * 2
    cut, following = frames
    assert type(cut) is RefusedFrame
    assert (cut.refusal.opaque, cut.refusal.is_final) == (5, False)
    assert decode(following).opaque == 6
    assert not incoming.is_partial


def test_properties_as_long_as_rocketmq_takes_them_fit_however_they_are_written() -> None:
    for properties in ("a\x01b\x02" * 8_191, "\x03" * 32_767, "\u4e2d" * 10_922):
        for frame in (long_json(properties), encode(Command(310, send_ext("T", properties), serialization=BINARY))):
            (taken,) = Incoming().feed(frame)
            assert decode(taken).ext["i"] == properties


def test_who_wants_no_answer_to_a_header_that_is_too_long_gets_none() -> None:
    (cut,) = Incoming().feed(long_binary(100_000, flag=2))
    assert isinstance(cut, RefusedFrame)
    assert (cut.refusal.opaque, cut.refusal.is_final) == (None, False)
    (cut,) = Incoming().feed(long_binary(100_000, flag=1))
    assert isinstance(cut, RefusedFrame)
    assert cut.refusal.is_final


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_frames_are_found_wherever_the_stream_is_cut(cuts: list[int], bodies: list[int]) -> None:
    commands = [
        Command(7, {"n": str(size)}, b"b" * size, opaque=n, serialization=n % 2) for n, size in enumerate(bodies)
    ]
    stream = b"".join(map(encode, commands))
    incoming, found, position = Incoming(), [], 0
    for size in [*cuts, len(stream)]:
        found += incoming.feed(stream[position : position + size])
        position += size
    assert [decode(frame) for frame in found] == commands
    assert (incoming.held_bytes, incoming.is_partial) == (0, False)


def test_small_pieces_of_a_frame_cost_no_more_than_their_bytes() -> None:
    incoming = Incoming()
    incoming.feed(MAX_FRAME_BYTES.to_bytes(4, "big") + bytes(4))
    for _ in range(100_000):
        incoming.feed(b"ab")
    assert 200_000 < incoming.held_bytes < 300_000


def short() -> Incoming:
    """What a stranger says, who is one of root's if he says so."""

    def names_somebody(beginning: bytes) -> bool:
        name = decode(beginning).ext.get("AccessKey")
        if name is None:
            raise BadFrame("nobody")
        return name == "root"

    incoming = Incoming()
    incoming.be_short(names_somebody)
    return incoming


def big(name: str | None, size: int = MEBIBYTE) -> bytes:
    ext = {"AccessKey": name, "Signature": "x"} if name else {}
    return encode(Command(310, ext, b"b" * size, opaque=5))


@pytest.mark.parametrize("size", [1000, 70_000, 1 << 30])
def test_a_long_frame_of_a_stranger_is_taken_only_if_it_names_somebody(size: int) -> None:
    def said(name: str | None) -> tuple[list[bytes], int]:
        incoming, stream, frames, most = short(), big(name) + NEXT, [], 0
        for at in range(0, len(stream), size):
            frames += incoming.feed(stream[at : at + size])
            most = max(most, incoming.held_bytes)
        return frames, most

    frames, _ = said("root")
    assert [len(decode(frame).body) for frame in frames] == [MEBIBYTE, 0]
    frames, most = said("mallory")
    assert [(decode(frame).opaque, len(decode(frame).body)) for frame in frames] == [(5, MEBIBYTE), (6, 0)]
    assert not any(decode(frames[0]).body), "what nobody has signed is not held: zeros stand for it"
    assert most < 100_000
    with pytest.raises(BadFrame, match="nobody"):
        said(None)


@pytest.mark.parametrize("size", [1000, 70_000, 1 << 30])
def test_a_long_frame_looks_the_same_whether_there_is_one_of_that_name(size: int) -> None:
    def seen(name: str) -> list[tuple[int, bool, int]]:
        incoming, stream, found = short(), big(name) + NEXT, []
        for at in range(0, len(stream), size):
            frames = incoming.feed(stream[at : at + size])
            found.append((len(frames), incoming.is_partial, incoming.counted_bytes))
        return found

    known, unknown = seen("root"), seen("toor")
    assert known == unknown
    assert [frames for frames, _, _ in known if frames] in ([2], [1, 1]), "nothing before the whole frame has come"


def test_who_is_known_may_say_as_much_as_ever() -> None:
    incoming = short()
    incoming.be_usual()
    (frame,) = incoming.feed(big(None))
    assert len(decode(frame).body) == MEBIBYTE


class Pocket:
    """A connection that holds something."""

    def __init__(self, budget: Budget, *, is_unauthenticated: bool = False) -> None:
        self.is_unauthenticated = is_unauthenticated
        self.gave_up = ""
        self._budget = budget

    def give_up_partial(self, reason: str) -> None:
        self.gave_up = reason


def test_those_who_began_first_give_up_when_the_budget_is_spent_strangers_before_others() -> None:
    budget = Budget(100)
    known, older, younger = (
        Pocket(budget),
        Pocket(budget, is_unauthenticated=True),
        Pocket(budget, is_unauthenticated=True),
    )
    budget.hold(known, 40)
    budget.hold(older, 30)
    budget.hold(younger, 30)
    assert not (known.gave_up or older.gave_up or younger.gave_up)
    budget.hold(known, 50)
    assert older.gave_up
    assert budget.held_bytes == 80
    budget.hold(known, 90)
    assert younger.gave_up
    assert not known.gave_up
    budget.hold(known, 101)
    assert known.gave_up
    assert (budget.held_bytes, budget.freed_bytes) == (0, 161)


async def test_a_header_that_is_not_taken_is_answered_and_the_connection_lives(service: BrokerService) -> None:
    async with stranger_at(service.address) as stranger:
        for frame in (*TOO_LONG.values(), many_fields(300, JSON), many_fields(300, BINARY)):
            await stranger.say(NEXT + frame + NEXT)
            answers = [await stranger.hear() for _ in range(3)]
            assert [(one.opaque, one.code) for one in answers if one] == [
                (6, Answer.SUCCESS), (5, Answer.INVALID_PARAMETER), (6, Answer.SUCCESS)]  # fmt: skip
            assert answers[1]
            assert "are allowed" in (answers[1].remark or "") or "fields" in (answers[1].remark or "")


@pytest.mark.parametrize("escape", ["\\ud800", "\\udcff", "\\udfff\\ud800"])
@pytest.mark.parametrize("field", ["AccessKey", "i", "language", "remark"])
async def test_half_a_character_is_refused_and_never_met_by_a_handler(
    service: BrokerService, escape: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = {"code": 310, "opaque": 5, "extFields": send_ext("T") | {"AccessKey": "x"}}
    (head if field in ("language", "remark") else head["extFields"])[field] = "HALF"  # type: ignore[index]  # a dict
    header = json.dumps(head).replace("HALF", escape).encode()
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    for address in (service.address, service.namesrv_address):
        async with stranger_at(address) as stranger:
            await stranger.say(frame + NEXT)
            refused, following = await stranger.hear(), await stranger.hear()
            assert refused
            assert following
            assert (refused.code, refused.opaque) == (Answer.INVALID_PARAMETER, 5)
            assert "half a character" in (refused.remark or "")
            assert following.opaque == 6
    assert "Traceback" not in caplog.text


@given(st.text(st.characters(exclude_categories=()), max_size=40), st.sampled_from([JSON, BINARY]))
def test_answering_never_fails(text: str, serialization: int) -> None:
    frame = encode(Command(1, {"a": text}, remark=text, opaque=5, serialization=serialization))
    assert decode(frame[4:]).opaque == 5


async def fill(stranger: Stranger, size: int, claimed: int = 15 * MEBIBYTE) -> None:
    await stranger.say((claimed + 100).to_bytes(4, "big") + b"\0\0\0\x02{}" + b"x" * size)


async def test_unfinished_frames_of_all_share_one_budget_and_leave_nothing_behind(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(Limits(), most_partial_bytes=6 * MEBIBYTE)
    service = BrokerService(config, broker_port=0, namesrv_port=0, limits=limits)
    await service.start()
    budget = service.servers[0].budget
    try:
        async with stranger_at(service.address) as one, stranger_at(service.namesrv_address) as two:
            await fill(one, 2 * MEBIBYTE)
            await until_true(lambda: budget.held_bytes >= 2 * MEBIBYTE)
            await fill(two, MEBIBYTE)
            await until_true(lambda: budget.held_bytes >= 3 * MEBIBYTE)
            async with stranger_at(service.address) as three:
                await fill(three, 4 * MEBIBYTE)
                assert await one.is_closed()
                await until_true(lambda: budget.held_bytes >= 5 * MEBIBYTE)
                assert budget.held_bytes <= limits.most_partial_bytes
        await until_true(lambda: budget.held_bytes == 0)
        assert "its own was the oldest" in caplog.text
        async with stranger_at(service.address) as after:
            await after.say(NEXT)
            assert await after.hear()
    finally:
        await service.stop()
