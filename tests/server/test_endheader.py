"""The short way to read a decision decides nothing: it reads what the long way reads, or leaves it alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.end_transaction import EndShortcut, QuickEnding
from broker.rocketmq.fields import text, truth, whole
from broker.rocketmq.frame import BINARY, Command, decode, encode

PLAIN = {
    "producerGroup": "payers", "bname": "broker-a", "commitLogOffset": "1668", "topic": "orders", "msgId": "ABCD",
    "tranStateTableOffset": "3", "commitOrRollback": "8", "transactionId": "ABCD", "fromTransactionCheck": "false",
}  # fmt: skip


def framed(ext: dict[str, str], **more: object) -> bytes:
    return encode(Command(37, ext, opaque=7, flag=2, serialization=BINARY, **more))[4:]  # type: ignore[arg-type]  # any field


def learned(*exts: dict[str, str]) -> EndShortcut:
    shortcut = EndShortcut()
    for ext in exts:
        shortcut.learn(framed(ext), decode(framed(ext)))
    return shortcut


def long_way(frame: bytes) -> QuickEnding:
    command = decode(frame)
    ext = command.ext
    said = whole(ext, "commitOrRollback")
    return (
        command.opaque, command.flag, {0: None, 8: True, 12: False}[said], whole(ext, "tranStateTableOffset", low=0),
        whole(ext, "commitLogOffset", low=0), text(ext, "producerGroup"), ext["transactionId"],
        truth(ext, "fromTransactionCheck"),
    )  # fmt: skip


def test_a_decision_like_one_seen_before_goes_the_short_way() -> None:
    other = PLAIN | {"commitLogOffset": "9021", "transactionId": "WXYZ", "producerGroup": "givers"}
    assert learned(PLAIN).read(framed(other)) == (7, 2, True, 3, 9021, "givers", "WXYZ", False)


def test_forms_of_one_length_live_side_by_side() -> None:
    longer = PLAIN | {"commitLogOffset": "166", "tranStateTableOffset": "13"}
    shortcut = learned(PLAIN, longer)
    for ext in (PLAIN, longer):
        assert shortcut.read(framed(ext)) == long_way(framed(ext))


@pytest.mark.parametrize(
    "changes",
    [
        {"commitLogOffset": "1x68"}, {"commitLogOffset": "+168"}, {"commitOrRollback": "9"}, {"bname2": "b"},
        {"commitLogOffset": "16689"}, {"fromTransactionCheck": "False"}, {"producerGroup": "pay\udcffrs"},
    ],
)  # fmt: skip
def test_what_is_not_as_usual_goes_the_long_way(changes: dict[str, str]) -> None:
    assert learned(PLAIN).read(framed(PLAIN | changes)) is None


@pytest.mark.parametrize("missing", ["producerGroup", "transactionId", "commitOrRollback"])
def test_a_decision_that_lacks_a_field_is_not_learned(missing: str) -> None:
    ext = {name: value for name, value in PLAIN.items() if name != missing}
    assert learned(ext).read(framed(ext)) is None


def test_a_remark_or_a_body_goes_the_long_way() -> None:
    shortcut = learned(PLAIN)
    assert shortcut.read(framed(PLAIN, remark="x")) is None
    assert shortcut.read(framed(PLAIN, body=b"x")) is None


@given(st.data())
def test_a_damaged_frame_is_read_like_the_long_way_or_left_alone(data: st.DataObject) -> None:
    frame = bytearray(framed(PLAIN))
    for _ in range(data.draw(st.integers(1, 2))):
        frame[data.draw(st.integers(9, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read = learned(PLAIN).read(bytes(frame))
    if read is not None:
        assert read == long_way(bytes(frame))


@given(
    offset=st.integers(0, 1 << 62),
    position=st.integers(0, 1 << 62),
    group=st.text(max_size=8),
    said=st.sampled_from(["0", "8", "12"]),
)
def test_the_short_way_reads_what_the_long_way_reads(offset: int, position: int, group: str, said: str) -> None:
    ext = PLAIN | {
        "tranStateTableOffset": str(offset), "commitLogOffset": str(position), "producerGroup": group,
        "commitOrRollback": said,
    }  # fmt: skip
    shortcut = learned(PLAIN, ext)
    read = shortcut.read(framed(ext))
    assert read == (long_way(framed(ext)) if max(len(str(offset)), len(str(position))) <= 18 else None)
