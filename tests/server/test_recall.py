"""The recall handle: what the official broker wrote is read, what we write is the same text."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.ids import BadHandle, RecallHandle, read_handle
from tests.server.frames import recorded_frames

word = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1, max_size=40)


def test_recorded_handles_are_read_and_written_alike() -> None:
    asked = [frame.header["extFields"] for frame in recorded_frames() if frame.code == 370 and frame.kind == "request"]
    assert len(asked) == 3
    for ext in asked:
        handle = read_handle(ext["recallHandle"])
        assert (handle.topic, handle.broker) == (ext["topic"], "broker-a")
        assert handle.timestamp_ms % 1000 == 1
        assert len(handle.unique_key) == 32
        assert str(handle) == ext["recallHandle"]
        assert read_handle(ext["recallHandle"].rstrip("=")) == handle


@given(topic=word, broker=word, ms=st.integers(0, 2**59), key=word)
def test_every_handle_is_read_as_it_was_written(topic: str, broker: str, ms: int, key: str) -> None:
    handle = RecallHandle(topic, broker, ms, key)
    assert read_handle(str(handle)) == handle


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    ["", "x", "=", "djE", "\u7ea2", "A" * 5000, "a b", encoded("v1 T broker-a 5"), encoded("v2 T broker-a 5 KEY"),
     encoded("v1 T broker-a five KEY"), encoded("v1 T broker-a -5 KEY"), encoded("v1  broker-a 5 KEY"),
     encoded("v1 T broker-a 99999999999999999999 KEY"), encoded("v1 T broker-a \u0665 KEY"),
     base64.urlsafe_b64encode(b"v1 T \xff 5 KEY").decode()],
)  # fmt: skip
def test_other_text_is_no_handle(text: str) -> None:
    with pytest.raises(BadHandle):
        read_handle(text)
