"""Send requests: the header of one, in all forms that clients write, and the body of a batch.

RocketMQ's V1 has long names, V2 one letter a field: a group, b topic, c default topic, d default queues, e queue id,
f sysFlag, g born ms, h flag, i properties, j reconsume times, k unit mode, l most reconsume times, m batch, n broker.

The short cut (`SendShortcut`): a client repeats the fields before `e` and after `i` in all its sends to a topic. Once
they were read in full they are recognised by their bytes, and what is between them has one fixed form. A JSON header
(`read_json_send`) is read in one go, without a table of its fields. Anything else is read the long way, so the short
cuts decide nothing about what is valid.

The body of a batch (request 320) has messages one after another (MessageDecoder.encodeMessages), each, big endian:

| size 4 | magic 4 | CRC 4 | flag 4 | body length 4 | body | properties length 2 | properties |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct, iter_unpack
from typing import Literal, NamedTuple

import msgspec

from .acl import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from .codes import ONEWAY_FLAG, Answer, Request
from .compiled import FAST
from .errors import RequestRefused
from .fields import INT_MAX, text, truth, whole
from .frame import Command, Int32
from .layout import MOST_IN_BATCH

_V1_NAMES = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m", "bname": "n",
}  # fmt: skip

#: serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">Ihbhiiii").unpack_from
_FIELDS_AT = 25
_QUEUE_NAME = b"\0\x01e\0\0\0"
#: what follows the digits of the queue id: f of one digit, g of 13, h of one, i shorter than 64 KiB
_MIDDLE = Struct(">7sB7s13s7sB5sH")
_MIDDLE_NAMES = (b"\0\x01f\0\0\0\x01", b"\0\x01g\0\0\0\r", b"\0\x01h\0\0\0\x01", b"\0\x01i\0\0")
_MOST_SHAPES = 4096


@dataclass(slots=True)
class SendHeader:
    """The header of a send: what is said about a message (or a batch of them)."""

    group: str
    topic: str
    default_queues: int
    queue_id: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: bytes
    reconsume_times: int
    most_reconsume_times: int | None
    is_batch: bool


def read_send_header(ext: Mapping[str, str], *, is_v1: bool = False) -> SendHeader:
    """Return the header of request 10 (V1), 310 or 320; refused if a field is missing or out of range."""
    if is_v1:
        ext = {_V1_NAMES[name]: value for name, value in ext.items() if name in _V1_NAMES}
    return SendHeader(
        group=text(ext, "a"),
        topic=text(ext, "b"),
        default_queues=whole(ext, "d", 0, high=INT_MAX),
        queue_id=whole(ext, "e", low=-INT_MAX - 1, high=INT_MAX),
        sys_flag=whole(ext, "f", 0, low=0, high=INT_MAX),
        born_ms=whole(ext, "g", low=0),
        flag=whole(ext, "h", 0, low=-INT_MAX - 1, high=INT_MAX),
        properties=ext.get("i", "").encode("utf-8", "surrogateescape"),
        reconsume_times=whole(ext, "j", 0, low=0, high=INT_MAX),
        most_reconsume_times=whole(ext, "l", low=-1, high=INT_MAX) if ext.get("l") else None,
        is_batch=truth(ext, "m"),
    )


QuickSend = tuple[int, int, str, int, int, int, int, bytes, bytes, bool]
"""A plain send: opaque, flag of the frame, topic, queue id, sysFlag, born ms, flag, properties, body, whether this is
a batch."""


class SendShortcut:
    """Reads binary V2 headers of plain sends whose constant parts are known by their bytes."""

    __slots__ = ("_prefixes", "_suffixes")

    def __init__(self) -> None:
        self._prefixes: dict[bytes, str] = {}
        self._suffixes: set[bytes] = set()

    def read(self, frame: bytes) -> QuickSend | None:
        """Return what a frame says; None if its constant parts are not known, or a value is not as usual."""
        prefix_end = frame.find(_QUEUE_NAME, _FIELDS_AT) + 6
        topic = self._prefixes.get(frame[_FIELDS_AT:prefix_end])
        if topic is None or prefix_end >= len(frame):
            return None
        middle = prefix_end + 1 + frame[prefix_end]
        start = middle + _MIDDLE.size
        if start > len(frame):
            return None
        f, sys_flag, g, born_ms, h, flag, i, length = _MIDDLE.unpack_from(frame, middle)
        queue_id = frame[prefix_end + 1 : middle]
        end = start + length
        word, _, _, _, opaque, frame_flag, remark_length, ext_length = _START(frame)
        body_at = 4 + (word & 0xFFFFFF)
        if (
            (f, g, h, i) != _MIDDLE_NAMES
            or not (queue_id.isdigit() and born_ms.isdigit() and 48 <= sys_flag <= 57 and 48 <= flag <= 57)
            or frame[end:body_at] not in self._suffixes
            or not end <= body_at <= len(frame)
            or frame_flag & ~ONEWAY_FLAG
            or remark_length
            or ext_length != body_at - _FIELDS_AT
        ):
            return None
        return (
            opaque, frame_flag, topic, int(queue_id), sys_flag - 48, int(born_ms), flag - 48, frame[start:end],
            frame[body_at:], False,
        )  # fmt: skip

    def learn(self, frame: bytes, command: Command, header: SendHeader) -> None:
        """Remember the constant parts of a plain send that was read in full and accepted."""
        places = _changing_part(frame)
        if places is None or not _is_plain(command, header) or SIGNATURE in command.ext:
            return
        prefix_end, end = places
        if len(_field_names(frame, _FIELDS_AT, len(frame) - len(command.body))) != len(command.ext):
            return  # a name that comes twice: the last one counts, and it may be in another sender's other part
        self.remember(frame[_FIELDS_AT:prefix_end], frame[end : len(frame) - len(command.body)], header.topic)

    def remember(self, prefix: bytes, suffix: bytes, topic: str) -> None:
        """Know the fields before the queue id from now on, which name a topic, and those after the properties."""
        if max(len(self._prefixes), len(self._suffixes)) >= _MOST_SHAPES:
            self._prefixes.clear()
            self._suffixes.clear()
        self._prefixes[prefix] = topic
        self._suffixes.add(suffix)


def _is_plain(command: Command, header: SendHeader) -> bool:
    """Tell whether a send has nothing about it that only the long way understands."""
    is_first_try = not header.reconsume_times and header.most_reconsume_times is None
    return is_first_try and not header.is_batch and not command.remark


def _changing_part(frame: bytes) -> tuple[int, int] | None:
    """Return where the name of the queue id ends in a frame, and where the properties do; None if it has neither."""
    prefix_end = frame.find(_QUEUE_NAME, _FIELDS_AT) + 6
    if not _FIELDS_AT <= prefix_end < len(frame):
        return None
    start = prefix_end + 1 + frame[prefix_end] + _MIDDLE.size
    return None if start > len(frame) else (prefix_end, start + int.from_bytes(frame[start - 2 : start], "big"))


def _field_names(frame: bytes, at: int, end: int) -> list[bytes]:
    """Return the names of all fields between two places of a header that was read in full, as often as they come."""
    names: list[bytes] = []
    while at < end:
        value_at = at + 6 + int.from_bytes(frame[at : at + 2], "big")
        names.append(frame[at + 2 : value_at - 4])
        at = value_at + int.from_bytes(frame[value_at - 4 : value_at], "big")
    return names


# Sends that are signed.

#: The name of the signature's field, and the length of its value: 20 bytes in base64.
_SIGNATURE_NAME = b"\0\x09Signature\0\0\0\x1c"
_SIGNATURE_BYTES = 28
_BEFORE_QUEUE, _AFTER_PROPERTIES = "abcd", "jklmn"
_CHANGING_NAMES = frozenset((b"e", b"f", b"g", b"h", b"i"))
_SIGNED_NAMES = frozenset({*_V1_NAMES.values(), ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})


class SignedSend(NamedTuple):
    """A plain send, the user that it names, its signature, and the bytes that this must be of."""

    send: QuickSend
    user: str
    signature: bytes
    content: bytes


class _Signer(NamedTuple):
    """The user that the constant parts of a header name, and the bytes that he signs before the queue id and after the
    properties."""

    user: str
    topic: str
    before: bytes
    after: bytes


class SignedSendShortcut:
    """Reads binary V2 headers of plain sends that are signed.

    Beside the signature nothing in them changes but what changes in every send (`SendShortcut`). Java's client says
    each field once in the order of the letters, and once more in that of a hash table, where those that change follow
    one another, too: the second time they must be as the first time.
    """

    __slots__ = ("_known", "_plain")

    def __init__(self) -> None:
        self._plain = SendShortcut()
        #: by the constant parts, before the queue id and after the properties: only seen together they mean something
        self._known: dict[tuple[bytes, bytes], _Signer] = {}

    def read(self, frame: bytes) -> SignedSend | None:
        """Return what a frame says; None if its constant parts are not known, or a value is not as usual."""
        parts = _signed_parts(frame)
        if parts is None:
            return None
        prefix, suffix, signature, plain = parts
        signer = self._known.get((prefix, suffix))
        if signer is None or (send := self._plain.read(plain)) is None:
            return None
        _, _, topic, queue_id, sys_flag, born_ms, flag, properties, body, _ = send
        if topic != signer.topic:
            return None
        # in as many digits as were said: signed are the values as they were written
        digits = frame[_FIELDS_AT + len(prefix)]
        numbers = b"%0*d%d%013d%d" % (digits, queue_id, sys_flag, born_ms, flag)
        content = b"".join((signer.before, numbers, properties, signer.after, body))
        return SignedSend(send, signer.user, signature, content)

    def learn(self, frame: bytes, command: Command, header: SendHeader) -> None:
        """Remember the constant parts of a plain send that was read in full."""
        ext = command.ext
        parts = _signed_parts(frame)
        if parts is None or not _is_plain(command, header) or not ext.keys() <= _SIGNED_NAMES:
            return
        prefix, suffix, _, _ = parts
        if not _CHANGING_NAMES.isdisjoint(_field_names(suffix, 0, len(suffix))):
            return  # the last one of a name counts
        before, after = (
            "".join([ext.get(name, "") for name in names]).encode("utf-8", "surrogateescape")
            for names in ((ACCESS_KEY, SECURITY_TOKEN, *_BEFORE_QUEUE), _AFTER_PROPERTIES)
        )
        if len(self._known) >= _MOST_SHAPES:
            self._known.clear()
        self._known[prefix, suffix] = _Signer(ext.get(ACCESS_KEY, ""), header.topic, before, after)
        self._plain.remember(prefix, b"", header.topic)


def _signed_parts(frame: bytes) -> tuple[bytes, bytes, bytes, bytes] | None:
    """Return the fields before the queue id, those after the properties but the signature and what is said again, the
    signature, and the frame as it would be without all of these; None if it has another form."""
    places = _changing_part(frame)
    if places is None:
        return None
    prefix_end, end = places
    body_at = 4 + int.from_bytes(frame[1:4], "big")
    if not end <= body_at <= len(frame) or int.from_bytes(frame[21:_FIELDS_AT], "big") != body_at - _FIELDS_AT:
        return None
    suffix = frame[end:body_at]
    at = suffix.rfind(_SIGNATURE_NAME)
    if at < 0:
        return None
    value_at = at + len(_SIGNATURE_NAME)
    signature = suffix[value_at : value_at + _SIGNATURE_BYTES]
    suffix = suffix[:at] + suffix[value_at + _SIGNATURE_BYTES :]
    again = suffix.find(_QUEUE_NAME)
    if again >= 0:
        said = frame[prefix_end - len(_QUEUE_NAME) : end]
        if not suffix.startswith(said, again):
            return None
        suffix = suffix[:again] + suffix[again + len(said) :]
    start = frame[:1] + (end - 4).to_bytes(3, "big") + frame[4:21] + (end - _FIELDS_AT).to_bytes(4, "big")
    return frame[_FIELDS_AT:prefix_end], suffix, signature, start + frame[_FIELDS_AT:end] + frame[body_at:]


# JSON headers, Java's default.

#: How Java begins the header of every 310, and of a batch (320).
_BEGINNINGS = (b'{"code":310,', b'{"code":320,')
#: Digits of a number (of 32 bits, of 64 bits) that is taken: more are the long way's.
_MOST_INT_DIGITS, _MOST_DIGITS = 9, 18

_Language = Literal["JAVA", "CPP", "DOTNET", "PYTHON", "GO", "RUST", "OTHER"]
_NAMES = {"fields": "extFields", "serial": "serializeTypeCurrentRPC"}


class _Fields(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The fields of a V2 header; one that is missing is none of a plain send, nor is one more."""

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
    m: Literal["true", "false", ""] = "false"
    most: str | None = msgspec.field(default=None, name="l")


class _SignedFields(_Fields, gc=False, forbid_unknown_fields=True):
    """The fields of a V2 header that is signed. What is not said is not signed either: it is empty here."""

    user: str = msgspec.field(default="", name=ACCESS_KEY)
    signature: str = msgspec.field(default="", name=SIGNATURE)
    token: str = msgspec.field(default="", name=SECURITY_TOKEN)
    d: str = ""
    k: Literal["true", "false", ""] = ""
    j: Literal["0", ""] = ""
    m: Literal["false", ""] = ""


class _Head(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename=_NAMES):
    """The whole of a header: no field goes by unread, as the slow path would find fault with it."""

    code: int
    fields: _Fields
    flag: Int32 = 0
    language: _Language = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    serial: Literal["JSON"] = "JSON"
    version: Int32 = 0


class _SignedHead(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename=_NAMES):
    """The header of a send that is signed: as `_Head`, whose fields come first and cannot be made anew."""

    code: int
    fields: _SignedFields
    flag: Int32 = 0
    language: _Language = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    serial: Literal["JSON"] = "JSON"
    version: Int32 = 0


_decode = msgspec.json.Decoder(_Head).decode
_decode_signed = msgspec.json.Decoder(_SignedHead).decode


def read_json_send(frame: bytes, decode: Callable[[bytes], _Head | _SignedHead] = _decode) -> QuickSend | None:
    """Return a plain send, or a batch; None if it is anything else."""
    if not frame.startswith(_BEGINNINGS, 4) or frame[0]:
        return None
    if FAST is not None and decode is _decode and (quick := FAST.read_send(frame)) is not None:
        return quick
    body_at = 4 + int.from_bytes(frame[1:4], "big")
    try:
        head = decode(frame[4:body_at])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    fields = head.fields
    numbers = fields.d + fields.e + fields.f + fields.g + fields.h
    if (
        head.code not in (Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE)
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
        fields.i.encode(), frame[body_at:], fields.m == "true" or head.code == Request.SEND_BATCH_MESSAGE,
    )  # fmt: skip


def read_signed_json_send(frame: bytes) -> SignedSend | None:
    """Return a plain send that is signed; None if it is anything else."""
    read: list[_SignedFields] = []

    def decode(header: bytes) -> _SignedHead:
        head = _decode_signed(header)
        read.append(head.fields)
        return head

    send = read_json_send(frame, decode)
    if send is None:
        return None
    said = read[0]
    # in the order of the fields' names
    before = said.user + said.token + said.a + said.b + said.c + said.d
    after = said.e + said.f + said.g + said.h + said.i + said.j + said.k + said.m + said.n
    return SignedSend(send, said.user, said.signature.encode(), (before + after).encode() + send[-2])


# Batches.

_ITEM = Struct(">I8xiI").unpack_from
_ITEM_BYTES = 20
_LENGTH_BYTES = 2
_SEPARATOR = b"\x02"

Item = tuple[bytes, bytes, int]
"""Body, properties in stored form, flag."""


def split_batch(body: bytes) -> list[Item]:
    """Return the messages of a batch; refused if they do not fit it exactly, or there is none."""
    quick = _alike(body) if FAST is None else FAST.split_batch(body, MOST_IN_BATCH)
    return quick or _one_by_one(body)


def _alike(body: bytes) -> list[Item] | None:
    """Return the messages if all have the same lengths, as in many batches; else None."""
    if len(body) < _ITEM_BYTES:
        return None
    size, _, length = _ITEM(body)
    count, rest = divmod(len(body), max(size, 1))
    properties_length = size - _ITEM_BYTES - length - _LENGTH_BYTES
    if rest or not 0 < count <= MOST_IN_BATCH or properties_length <= 0:
        return None
    sizes, flags, lengths, bodies, properties_lengths, properties = zip(
        *iter_unpack(f">I8xiI{length}sH{properties_length}s", body), strict=True
    )
    if (
        sizes.count(size) != count
        or lengths.count(length) != count
        or properties_lengths.count(properties_length) != count
        or bytes([each[-1] for each in properties]).strip(_SEPARATOR)
    ):
        return None
    return list(zip(bodies, properties, flags, strict=True))


def _one_by_one(body: bytes) -> list[Item]:
    parts: list[Item] = []
    position, end = 0, len(body)
    while position < end:
        if end - position < _ITEM_BYTES or len(parts) >= MOST_IN_BATCH:
            raise RequestRefused(Answer.MESSAGE_ILLEGAL, "The batch is cut off, or holds too many messages.")
        size, flag, length = _ITEM(body, position)
        body_at = position + _ITEM_BYTES
        properties_at = body_at + length + _LENGTH_BYTES
        item_end = position + size
        if item_end > end or properties_at > item_end:
            raise RequestRefused(Answer.MESSAGE_ILLEGAL, "A message of the batch reaches beyond its end.")
        properties_length = body[properties_at - 2] << 8 | body[properties_at - 1]
        if properties_at + properties_length != item_end:
            raise RequestRefused(
                Answer.MESSAGE_ILLEGAL, "The properties of a message of the batch do not fit its size."
            )
        properties = body[properties_at:item_end]
        if properties and properties[-1] != 2:
            properties += b"\x02"
        parts.append((body[body_at : properties_at - _LENGTH_BYTES], properties, flag))
        position = item_end
    if not parts:
        raise RequestRefused(Answer.MESSAGE_ILLEGAL, "The batch holds no message.")
    return parts
