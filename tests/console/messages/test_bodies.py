"""Bodies for people: within limits, exact, and whatever the bytes are."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.features.messages.bodies import (
    HEX_LIMIT_BYTES,
    TEXT_LIMIT_BYTES,
    body_of,
    set_out,
)
from console.features.messages.decoders import INFLATE_LIMIT_BYTES
from console.features.messages.shapes import BodyForm

ZLIB, OLD_ZLIB, LZ4, ZSTD = 1 | 3 << 8, 1, 1 | 1 << 8, 1 | 2 << 8
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@pytest.mark.parametrize(
    ("stored", "form"),
    [
        (b"", BodyForm.EMPTY),
        (b"hello", BodyForm.TEXT),
        ("grüße 你好".encode(), BodyForm.TEXT),
        (b'{"a": 1}', BodyForm.JSON),
        (b"[]", BodyForm.JSON),
        (b"42", BodyForm.TEXT),
        (b"\xff\xfe\x00", BodyForm.HEX),
        (b"a\x00b", BodyForm.HEX),
        (b"\x1b[31mred", BodyForm.HEX),
        (b"{" * 5_000, BodyForm.TEXT),
        (b"[" * 5_000 + b"]" * 5_000, BodyForm.TEXT),
    ],
)
def test_form(stored: bytes, form: BodyForm) -> None:
    assert body_of(stored, 0).form is form


def test_json_keeps_every_digit_and_every_key() -> None:
    text = body_of(b'{"id":12345678901234567890123,"p":1.10,"p":2e400,"u":"\\u003cb\\u003e"}', 0).text
    assert '"id": 12345678901234567890123,' in text
    assert '"p": 1.10,' in text
    assert '"p": 2e400,' in text
    assert "\\u003cb\\u003e" in text


@given(JSON_VALUES)
def test_setting_out_changes_blanks_only(value: object) -> None:
    written = json.dumps(value)
    laid = set_out(written)
    if isinstance(value, list | dict) and laid is not None:
        assert json.loads(laid) == value
        assert "\n" in laid or not value


def test_an_empty_member_stays_on_its_line() -> None:
    assert set_out('{"a":[],"b":{"c":[1]}}') == '{\n  "a": [],\n  "b": {\n    "c": [\n      1\n    ]\n  }\n}'


@pytest.mark.parametrize("sys_flag", [ZLIB, OLD_ZLIB])
def test_compressed_bodies_are_opened(sys_flag: int) -> None:
    body = body_of(zlib.compress(b'{"a": 1}'), sys_flag)
    assert (body.form, body.compression, body.full_bytes) == (BodyForm.JSON, "zlib", 8)


def test_a_bomb_is_opened_up_to_the_limit() -> None:
    body = body_of(zlib.compress(b"x" * 50_000_000), ZLIB)
    assert body.truncated
    assert body.full_bytes is None
    assert body.shown_bytes <= TEXT_LIMIT_BYTES < INFLATE_LIMIT_BYTES


@pytest.mark.parametrize(("sys_flag", "name"), [(LZ4, "lz4"), (ZSTD, "zstd"), (ZLIB, "zlib")])
def test_what_cannot_be_opened_is_said(sys_flag: int, name: str) -> None:
    body = body_of(b"not compressed at all", sys_flag)
    assert (body.form, body.compression) == (BodyForm.UNREADABLE, name)
    assert body.hex.startswith("00000000  6e 6f 74")


def test_long_text_is_cut_between_characters() -> None:
    body = body_of("é".encode() * TEXT_LIMIT_BYTES + b"x", 0)
    assert body.form is BodyForm.TEXT
    assert body.truncated
    odd = body_of(b"x" + "é".encode() * TEXT_LIMIT_BYTES, 0)
    assert odd.form is BodyForm.TEXT
    assert odd.shown_bytes == TEXT_LIMIT_BYTES - 1


@given(st.binary(max_size=300), st.sampled_from([0, ZLIB, OLD_ZLIB, LZ4, ZSTD, 0x7FFFFFFF, -1]))
def test_any_bytes_give_a_body(stored: bytes, sys_flag: int) -> None:
    body = body_of(stored, sys_flag)
    assert body.stored_bytes == len(stored)
    assert len(body.hex) <= HEX_LIMIT_BYTES * 6
