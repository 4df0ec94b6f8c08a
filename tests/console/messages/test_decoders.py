"""Bodies that their senders packed: recognised, chosen by hand, and never more than a limit of them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import msgpack
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from lz4 import frame

from console.features.messages.bodies import TEXT_LIMIT_BYTES, body_of
from console.features.messages.decoders import INFLATE_LIMIT_BYTES, Decoder, opened
from console.features.messages.shapes import Body, BodyForm
from tests.console.stage import Stage

try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # from Python 3.14 on
except ImportError:
    from backports import zstd

TEXT = b'{"order": 12345678901234567890, "price": 1.10}'


def deflated(content: bytes) -> bytes:
    return zlib.compress(content)[2:-4]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "zlib": zlib.compress, "zstd": zstd.compress, "lz4": frame.compress, "deflate": deflated,
}  # fmt: skip
RECOGNISED = ("gzip", "zlib", "zstd", "lz4")


def shown(stored: bytes, asked: str = "", **properties: str) -> Body:
    return body_of(stored, 0, {name.replace("_", "-"): text for name, text in properties.items()}, asked)


@pytest.mark.parametrize("name", RECOGNISED)
def test_what_the_first_bytes_say_is_opened(name: str) -> None:
    body = shown(PACKERS[name](TEXT))
    assert (body.form, body.decoders, body.full_bytes) == (BodyForm.JSON, (name,), len(TEXT))
    assert "12345678901234567890" in body.text
    assert "1.10" in body.text


@pytest.mark.parametrize("name", PACKERS)
def test_what_is_chosen_or_told_by_its_sender_is_opened(name: str) -> None:
    stored = PACKERS[name](TEXT)
    assert shown(stored, name).form is BodyForm.JSON
    assert shown(stored, Content_Encoding=name).form is BodyForm.JSON
    as_stored = shown(stored, "none", Content_Encoding=name)
    assert (as_stored.decoders, as_stored.form) == ((), BodyForm.HEX)


@pytest.mark.parametrize(("flag", "name"), [(1 | 1 << 8, "lz4"), (1 | 2 << 8, "zstd"), (1 | 3 << 8, "zlib")])
def test_what_rocketmq_compressed_is_opened_by_its_flag(flag: int, name: str) -> None:
    body = body_of(PACKERS[name](TEXT), flag)
    assert (body.form, body.compression, body.decoders) == (BodyForm.JSON, name, ())


@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_is_cut_at_the_limit(name: str) -> None:
    bomb = PACKERS[name](b"x" * 60_000_000)
    found = opened(bomb, {}, name)
    assert len(found.content) <= INFLATE_LIMIT_BYTES
    assert not found.is_whole
    body = shown(bomb, name)
    assert body.truncated
    assert body.full_bytes is None
    assert len(body.text) <= TEXT_LIMIT_BYTES


def test_a_window_of_gigabytes_is_refused() -> None:
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    machine = zstd.ZstdCompressor(options=options)
    wide = machine.compress(b"x" * 1_000) + machine.flush()
    assert shown(wide, "zstd").has_failed


@pytest.mark.parametrize("asked", ["gzip", "zlib", "deflate", "zstd", "lz4", "msgpack"])
def test_what_is_not_what_was_chosen_is_shown_as_stored(asked: str) -> None:
    body = shown(b"plainly no such thing, \xff", asked)
    assert (body.has_failed, body.decoders) == (True, ())


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_stream_that_only_begins_like_one_is_no_such_thing(name: str) -> None:
    body = shown(PACKERS[name](TEXT * 99)[:14] + b"\xff" * 40)
    assert (body.decoders, body.has_failed) == ((), False)


def test_messagepack_is_read_with_its_keys_and_numbers() -> None:
    packed = msgpack.packb({"id": 2**63, "raw": b"\x00\xff", 7: [None, True, -1.5], "at": msgpack.Timestamp(1, 2)})
    body = shown(packed)
    assert body.decoders == ("MessagePack",)
    assert json.loads(body.text) == {
        "id": 2**63, "raw": "0x00ff", "7": [None, True, -1.5], "at": {"timestamp": "1.000000002"},
    }  # fmt: skip
    twice = b"\x82\xa1a\x01\xa1a\x02"
    assert shown(twice, "msgpack").text.count('"a"') == 2
    assert shown(gzip.compress(packed)).decoders == ("gzip", "MessagePack")


@pytest.mark.parametrize(
    "stored",
    [
        b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff" * 50, b"\x91" * 100_000 + b"\x01", b"\x81\x91\x01\x02\x03",
        b"\xc9\xff\xff\xff\xff\x01", b"\x81\xa1a", b"\x90\x90",
    ],
)  # fmt: skip
def test_messagepack_that_lies_about_its_size_is_none(stored: bytes) -> None:
    assert shown(stored).decoders == ()
    assert shown(stored, "msgpack").has_failed


def test_a_text_is_not_taken_for_messagepack() -> None:
    assert shown("grüße".encode()).decoders == ()
    assert shown(b"x^2 + y").form is BodyForm.TEXT


@given(
    st.binary(max_size=200),
    st.sampled_from(["", *(magic for magic, _ in (("\x1f\x8b\x08", 0), ("x\x9c", 0)))]),
    st.sampled_from(Decoder.values),
    st.dictionaries(st.sampled_from(["content-type", "Content_Encoding"]), st.text(max_size=20)),
)
def test_any_bytes_are_shown(stored: bytes, magic: str, asked: str, properties: dict[str, str]) -> None:
    body = body_of(magic.encode("latin-1") + stored, 0, properties, asked)
    body.text.encode()


def test_the_page_opens_a_body_and_lets_one_choose(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", gzip.compress(b'{"<b>": [1.10, {"deep": "<script>"}]}'))
    stage.mirror.run_once()
    page = f"/messages/{sent.offset_message_id}/"
    html = operator.get(page).content.decode()
    assert "· gzip" in " ".join(html.split())
    assert "<script>alert" not in html and "&lt;script&gt;" in html
    assert html.count("<details") == html.count("</details>")
    assert 'class="tree mono"' in html
    stored = operator.get(page, {"decode": "none"}).content.decode()
    assert 'class="tree mono"' not in stored
    assert '<option value="none" selected>' in " ".join(stored.split())
    refused = operator.get(page, {"decode": "zstd"}).content.decode()
    assert "not of this format" in refused
    assert operator.get(page, {"decode": "<nothing>"}).status_code == 200
