"""The short ways to read a signed send decide nothing: what they read, signature included, the long way reads, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.acl import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from broker.rocketmq.frame import BINARY, JSON, Command, decode, encode
from broker.rocketmq.sends import (
    SignedSend,
    SignedSendShortcut,
    read_json_send,
    read_send_header,
    read_signed_json_send,
)
from tests.server.peer import send_ext
from tests.server.signing import SECRET, assert_as_the_long_way, doubled, signed, signed_frame

KEY = "UNIQ_KEY\x01A\x02"
#: What a send may have that others have not; some of it only the long way understands.
CHANGES = [{}, {"j": "1"}, {"m": "true"}, {"l": "16"}, {"b": "orders2"}, {"a": "others"}, {"z": "9"}, {"c": ""}]
CHANGES += [{SECURITY_TOKEN: "t"}, {ACCESS_KEY: "bob"}, {"k": ""}, {"h": "x"}, {"n": "ü"}]
BINARY_FORMS = [signed_frame, doubled]


@dataclass(frozen=True)
class Way:
    """How a send is written, and the short way that reads it after one like it was read in full."""

    write: Callable[[dict[str, str], bytes], bytes]
    read: Callable[[bytes], SignedSend | None]


def shortcut_after(frame: bytes) -> SignedSendShortcut:
    shortcut = SignedSendShortcut()
    command = decode(frame)
    shortcut.learn(frame, command, read_send_header(command.ext))
    return shortcut


def ways() -> list[Way]:
    binary = [Way(form, shortcut_after(form(signed("orders", KEY), b"body")).read) for form in BINARY_FORMS]
    return [*binary, Way(lambda ext, body: signed_frame(ext, body, JSON), read_signed_json_send)]


@pytest.mark.parametrize("way", ways())
def test_a_signed_send_like_one_seen_before_is_read_the_short_way(way: Way) -> None:
    frame = way.write(signed("orders", "UNIQ_KEY\x01B\x02", b"other", e="13", g="1795249116999"), b"other")
    found = way.read(frame)
    assert found is not None
    assert_as_the_long_way(frame, found)
    assert sign(SECRET, found.content) == found.signature


@given(
    queue_id=st.sampled_from(["0", "13", "007", "-1", "x", "1" * 9]),
    born_ms=st.sampled_from(["1795249116999", "5", "0795249116999"]),
    sys_flag=st.sampled_from(["0", "8", "12"]),
    properties=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    body=st.binary(max_size=100),
    changes=st.sampled_from(CHANGES),
    left_out=st.sets(st.sampled_from("acdehjkmn"), max_size=3),
)
def test_the_short_ways_read_what_the_long_way_reads(
    queue_id: str,
    born_ms: str,
    sys_flag: str,
    properties: str,
    body: bytes,
    changes: dict[str, str],
    left_out: set[str],
) -> None:
    ext = send_ext("orders", properties, e=queue_id, f=sys_flag, g=born_ms) | changes
    ext = {name: value for name, value in ext.items() if name not in left_out}
    ext = {ACCESS_KEY: "alice", **ext, SIGNATURE: "x" * 28}
    for way in ways():
        frame = way.write(ext, body)
        if (found := way.read(frame)) is not None:
            assert_as_the_long_way(frame, found)


@pytest.mark.parametrize("name", ["e", "g", "i", "b", "j"])
def test_what_is_said_twice_is_to_be_the_same_twice(name: str) -> None:
    """The last one counts: what is not the same goes the long way, whichever came first."""
    usual = doubled(signed("orders", KEY), b"body")
    other = {"e": "3", "g": "1795249116000", "i": "UNIQ_KEY\x01C\x02", "b": "salaries", "j": "1"}[name]
    odd = doubled(signed("orders", KEY), b"body", again={name: other})
    assert shortcut_after(usual).read(odd) is None
    learned = shortcut_after(odd)
    for frame in (odd, usual):
        if (found := learned.read(frame)) is not None:
            assert_as_the_long_way(frame, found)


def test_two_topics_that_begin_alike_are_told_apart() -> None:
    """The constant parts are known together: the first topic said is the same in both, and the last one counts."""
    frames = [doubled(signed("orders", KEY), b"body", again={"b": topic}) for topic in ("one", "two")]
    shortcut = SignedSendShortcut()
    for frame in frames:
        command = decode(frame)
        shortcut.learn(frame, command, read_send_header(command.ext))
    for frame in frames:
        if (found := shortcut.read(frame)) is not None:
            assert_as_the_long_way(frame, found)


@pytest.mark.parametrize("ext", [send_ext("orders", KEY), {**send_ext("orders", KEY), SIGNATURE: "x" * 27}])
def test_what_carries_no_whole_signature_is_not_read(ext: dict[str, str]) -> None:
    for way in ways():
        found = way.read(way.write(ext, b"body"))
        assert found is None or (not found.user and len(found.signature) != 28)


def test_where_access_is_open_what_is_signed_goes_the_long_way() -> None:
    """It would fill the table of shapes with signatures."""
    assert read_json_send(signed_frame(signed("orders", KEY), b"body", JSON)) is None
    frame = encode(Command(310, signed("orders", KEY), b"body", serialization=BINARY))[4:]
    assert decode(frame).ext[ACCESS_KEY] == "alice"
