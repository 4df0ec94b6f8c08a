"""Short ways to read a send (310) with a JSON header, Java's default: its fields in one go, without a table of them.

It decides nothing about what is valid: whatever does not look like a plain send is read the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ..codes import ONEWAY_FLAG
from ..frame import Int32
from ..signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from .send import QuickSend, SignedSend

#: How Java begins the header of every 310.
_BEGINNING = b'{"code":310,'
#: Digits of a number (of 32 bits, of 64 bits) that is taken: more are the long way's.
_MOST_INT_DIGITS, _MOST_DIGITS = 9, 18

_NAMES = {"fields": "extFields", "serial": "serializeTypeCurrentRPC"}


class _Fields(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The fields of a V2 header (sendheader.py); one that is missing is none of a plain send, nor is one more."""

    a: str
    b: str
    e: str
    f: str
    g: str
    h: str
    i: str
    c: str = ""
    d: str = "0"
    k: Literal["true", "false", ""] = "false"
    n: str = ""
    j: Literal["0", ""] = "0"
    m: Literal["false", ""] = "false"
    most: str | None = msgspec.field(default=None, name="l")


class _SignedFields(_Fields, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The fields of a V2 header that is signed. What is not said is not signed either: it is empty here."""

    user: str = msgspec.field(default="", name=ACCESS_KEY)
    signature: str = msgspec.field(default="", name=SIGNATURE)
    token: str = msgspec.field(default="", name=SECURITY_TOKEN)
    d: str = ""
    k: Literal["true", "false", ""] = ""
    j: Literal["0", ""] = ""
    m: Literal["false", ""] = ""


class _Head(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True, rename=_NAMES):
    """All that a header has: nothing in it goes by unread, as the long way would find fault with it."""

    code: int
    fields: _Fields
    flag: Int32 = 0
    language: Literal["JAVA", "CPP", "DOTNET", "PYTHON", "GO", "RUST", "OTHER"] = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    serial: Literal["JSON"] = "JSON"
    version: Int32 = 0


class _SignedHead(_Head, gc=False, forbid_unknown_fields=True, kw_only=True, rename=_NAMES):
    """The header of a send that is signed."""

    fields: _SignedFields


_decode = msgspec.json.Decoder(_Head).decode
_decode_signed = msgspec.json.Decoder(_SignedHead).decode


def read_json_send(frame: bytes, decode: Callable[[bytes], _Head] = _decode) -> QuickSend | None:
    """Return a plain send; None if it is anything else."""
    if not frame.startswith(_BEGINNING, 4) or frame[0]:
        return None
    body_at = 4 + int.from_bytes(frame[1:4], "big")
    try:
        head = decode(frame[4:body_at])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    fields = head.fields
    numbers = fields.d + fields.e + fields.f + fields.g + fields.h
    if (
        head.code != 310
        or fields.most is not None
        or head.remark is not None
        or head.flag & ~ONEWAY_FLAG
        or body_at > len(frame)
        or not (numbers.isascii() and numbers.isdigit())
        or not (fields.e and fields.f and fields.g and fields.h)
        or max(len(fields.d), len(fields.e), len(fields.f), len(fields.h)) > _MOST_INT_DIGITS
        or len(fields.g) > _MOST_DIGITS
        or fields.b.startswith("%")
        or not fields.b.isprintable()
    ):
        return None
    return (
        head.opaque, head.flag, fields.b, int(fields.e), int(fields.f), int(fields.g), int(fields.h),
        fields.i.encode(), frame[body_at:],
    )  # fmt: skip


def read_signed_json_send(frame: bytes) -> SignedSend | None:
    """Return a plain send that is signed; None if it is anything else."""
    read: list[_SignedFields] = []

    def decode(header: bytes) -> _Head:
        head = _decode_signed(header)
        read.append(head.fields)
        return head

    send = read_json_send(frame, decode)
    if send is None:
        return None
    said = read[0]
    signed = "".join([
        said.user, said.token, said.a, said.b, said.c, said.d, said.e, said.f, said.g, said.h, said.i, said.j, said.k,
        said.m, said.n,
    ])  # fmt: skip
    return SignedSend(send, said.user, said.signature.encode(), signed.encode() + send[-1])
