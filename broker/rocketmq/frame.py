"""Remoting frames <-> bytes, in both of RocketMQ's header serialisations.

    +--------+--------+------------------+----------------+------+
    | length | serial | header length    | header         | body |
    | 4      | 1      | 3                | header length  |      |
    +--------+--------+------------------+----------------+------+
    length = of all that follows it; serial = 0 JSON, 1 binary ("ROCKETMQ"); big endian

    binary header:
    | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark | ext length 4 | ext |
    ext = entries of | name length 2 | name | value length 4 | value |

Text that is not UTF-8 is carried as surrogates, so that whoever looks at a field can refuse it by name and the
connection lives on. A header that can be told from others but not be taken raises HeaderRefused, which can be answered;
everything else that is no frame raises BadFrame. How long a header may be is decided before it is read (incoming.py).
"""

from __future__ import annotations

import json
import re
from struct import Struct
from typing import Annotated, Any

import msgspec

from .codes import ONEWAY_FLAG, PROTOCOL_VERSION, RESPONSE_FLAG, Answer
from .errors import BadFrame, HeaderRefused

JSON = 0
BINARY = 1

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest value of the length field (com.rocketmq.remoting.frameMaxLength of RocketMQ)."""

MAX_HEADER_BYTES = (1 << 24) - 1
"""Longest header: its length has three bytes."""

MAX_FIELDS = 256
"""Most named fields of a header: RocketMQ's richest request has about thirty."""

LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""Names by number (LanguageCode)."""

_LANGUAGE_NUMBERS = {name: number for number, name in enumerate(LANGUAGES)}
_OTHER = LANGUAGES.index("OTHER")
_FIXED = Struct(">hbhiii")
_LENGTHS = Struct(">II")
_SHORT = Struct(">H")
_INT = Struct(">i")
#: half of a pair of escapes, which alone is no character
_SURROGATE = re.compile("[\ud800-\udfff]")

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class Command(msgspec.Struct):
    """A request, an answer or a one-way message.

    `ext` are the header's named fields (all strings), `serialization` is JSON or BINARY: an answer uses that of its
    request. `opaque` joins an answer to its request. `asked_ms` is when a request was read, 0 where nobody counts how
    long it takes; its answer has it too, and as `asked_code` what it answers.
    """

    code: int
    ext: dict[str, str] = {}
    body: bytes = b""
    remark: str | None = None
    flag: int = 0
    opaque: int = 0
    language: str = "PYTHON"
    version: int = PROTOCOL_VERSION
    serialization: int = JSON
    asked_code: int = 0
    asked_ms: int = 0

    @property
    def is_response(self) -> bool:
        """Tell whether this is an answer."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Tell whether no answer is wanted."""
        return bool(self.flag & ONEWAY_FLAG)

    def answer(
        self,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        code: int = Answer.SUCCESS,
        remark: str | None = None,
    ) -> Command:
        """Return the answer to this request, in its serialisation."""
        return Command(
            code, {} if ext is None else ext, body, remark, RESPONSE_FLAG, self.opaque,
            serialization=self.serialization, asked_code=self.code, asked_ms=self.asked_ms,
        )  # fmt: skip


class _JsonHeader(msgspec.Struct, rename={"ext": "extFields", "serial": "serializeTypeCurrentRPC"}):
    code: Int32
    ext: dict[str, str] | None = None
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    serial: str = "JSON"
    version: Int32 = 0


_decode_json = msgspec.json.Decoder(_JsonHeader).decode
_encode_json = msgspec.json.Encoder().encode


def decode(frame: bytes) -> Command:
    """Return the command in one whole frame, without the leading length field; raises BadFrame, HeaderRefused."""
    if len(frame) < 4:
        raise BadFrame(f"a frame of {len(frame)} bytes has no room for the header's length")
    serialization = frame[0]
    body_start = 4 + int.from_bytes(frame[1:4], "big")
    if body_start > len(frame):
        raise BadFrame(f"header of {body_start - 4} bytes in a frame of {len(frame)} bytes")
    if serialization == BINARY:
        return _binary_command(frame, body_start)
    if serialization == JSON:
        return _json_command(frame[4:body_start], frame[body_start:])
    raise BadFrame(f"unknown header serialisation {serialization}")


def _json_command(header: bytes, body: bytes) -> Command:
    try:
        head = _decode_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head = _lenient_json(header)
    ext = head.ext or {}
    if len(ext) > MAX_FIELDS:
        raise _too_many(len(ext), head)
    language = head.language if head.language in _LANGUAGE_NUMBERS else "OTHER"
    return Command(head.code, ext, body, head.remark, head.flag, head.opaque, language, head.version)


def _too_many(fields: int, head: _JsonHeader) -> HeaderRefused:
    return _refused(f"{fields} fields in a header ({MAX_FIELDS} are allowed)", JSON, head.opaque, head.flag)


def _refused(reason: str, serialization: int, opaque: int, flag: int) -> HeaderRefused:
    is_answered = not flag & (RESPONSE_FLAG | ONEWAY_FLAG)
    return HeaderRefused(reason, serialization, opaque if is_answered else None, is_final=bool(flag & RESPONSE_FLAG))


def _lenient_json(header: bytes) -> _JsonHeader:
    """Read a header that strict reading refuses: not UTF-8, bare numbers as field values, a language given as
    number."""
    try:
        fields = json.loads(header.decode("utf-8", "surrogateescape"))
        if isinstance(fields.get("language"), int):
            fields["language"] = language_name(fields["language"])
        ext = fields.get("extFields")
        if isinstance(ext, dict):
            # counted before any of them is written out, which is what costs
            if len(ext) > MAX_FIELDS:
                raise _too_many(len(ext), msgspec.convert({**fields, "extFields": None}, _JsonHeader))
            fields["extFields"] = {name: _text(value) for name, value in ext.items() if value is not None}
        head = msgspec.convert(fields, _JsonHeader)
    except (ValueError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise BadFrame(f"the JSON header cannot be read: {error}") from None
    if _has_lone_escapes(header):
        raise _refused("an escape in the header stands for half a character", JSON, head.opaque, head.flag)
    return head


def _has_lone_escapes(header: bytes) -> bool:
    r"""Tell whether an escape such as \ud800 stands alone: no UTF-8 can say that, so nobody could pass it on. Bytes
    that are not UTF-8 are not meant: they are carried, and given back, as they came."""
    if b"\\u" not in header:
        return False
    text = json.dumps(json.loads(header.decode("utf-8", "replace")), ensure_ascii=False)
    return _SURROGATE.search(text) is not None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _binary_command(frame: bytes, end: int) -> Command:
    if end < 25:
        raise BadFrame(f"a binary header of {end - 4} bytes is too short")
    code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(frame, 4)
    position = 21 + remark_length
    if remark_length < 0 or position + 4 > end:
        raise BadFrame(f"remark of {remark_length} bytes in a header of {end - 4} bytes")
    remark = frame[21:position].decode("utf-8", "surrogateescape") if remark_length else None
    (ext_length,) = _INT.unpack_from(frame, position)
    position += 4
    if ext_length < 0 or position + ext_length > end:
        raise BadFrame(f"fields of {ext_length} bytes in a header of {end - 4} bytes")
    ext = _binary_fields(frame, position, position + ext_length)
    if ext is None:
        raise _refused(f"more than {MAX_FIELDS} fields in a header", BINARY, opaque, flag)
    return Command(code, ext, frame[end:], remark, flag, opaque, language_name(language), version, BINARY)


def _binary_fields(frame: bytes, position: int, end: int) -> dict[str, str] | None:
    """Return the fields; None if there are too many."""
    ext: dict[str, str] = {}
    for _ in range(MAX_FIELDS + 1):
        if position >= end:
            return ext
        name_end = position + 2 + int.from_bytes(frame[position : position + 2], "big")
        value_start = name_end + 4
        value_end = value_start + int.from_bytes(frame[name_end:value_start], "big")
        if value_end > end or value_start > end:
            raise BadFrame("a field reaches beyond the header's end")
        ext[frame[position + 2 : name_end].decode("utf-8", "surrogateescape")] = frame[value_start:value_end].decode(
            "utf-8", "surrogateescape"
        )
        position = value_end
    return None


def language_name(number: int) -> str:
    """Return RocketMQ's name of a client language."""
    return LANGUAGES[number] if 0 <= number < len(LANGUAGES) else "OTHER"


def encode(command: Command) -> bytes:
    """Return the whole frame, its length field included. Raises BadFrame for what no frame can say."""
    header = _binary_header(command) if command.serialization == BINARY else _json_header(command)
    header_length = len(header)
    if header_length > MAX_HEADER_BYTES:
        raise BadFrame(
            f"a header of {header_length:,} bytes ({MAX_HEADER_BYTES:,} are allowed): put less into its fields"
        )
    return b"".join(
        (
            _LENGTHS.pack(4 + header_length + len(command.body), header_length | command.serialization << 24),
            header,
            command.body,
        )
    )


def _json_header(command: Command) -> bytes:
    fields: dict[str, object] = {"code": int(command.code)}
    if command.ext:
        fields["extFields"] = command.ext
    fields["flag"] = command.flag
    fields["language"] = command.language
    fields["opaque"] = command.opaque
    if command.remark is not None:
        fields["remark"] = command.remark
    fields["serializeTypeCurrentRPC"] = "JSON"
    fields["version"] = command.version
    try:
        return _encode_json(fields)
    except UnicodeEncodeError:
        return raw_text(json.dumps(fields, separators=(",", ":"), ensure_ascii=False))


def _binary_header(command: Command) -> bytes:
    if not -0x8000 <= command.code < 0x8000:
        raise BadFrame(f"code {command.code} does not fit the two bytes of a binary header: send it with JSON headers")
    ext = encode_fields(command.ext)
    remark = raw_text(command.remark or "")
    language = _LANGUAGE_NUMBERS.get(command.language, _OTHER)
    return b"".join(
        (
            _FIXED.pack(command.code, language, command.version, command.opaque, command.flag, len(remark)),
            remark,
            _INT.pack(len(ext)),
            ext,
        )
    )


def raw_text(text: str) -> bytes:
    """Return the bytes of a text, as they came if they were no UTF-8; it never fails: what no bytes can say becomes
    `?`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _SURROGATE.sub("?", text).encode()


def encode_fields(ext: dict[str, str]) -> bytes:
    """Return named fields in the binary form."""
    parts: list[bytes] = []
    for name, value in ext.items():
        raw_name, raw_value = raw_text(name), raw_text(value)
        parts += (_SHORT.pack(len(raw_name)), raw_name, _INT.pack(len(raw_value)), raw_value)
    return b"".join(parts)


class FrameBuffer:
    """Cuts a stream of bytes into frames, for clients: of a broker nothing is asked but that its frames have an end."""

    __slots__ = ("_held", "_need", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._held = bytearray()
        self._need = 4

    @property
    def partial_bytes(self) -> int:
        """The bytes held of a frame that is not whole yet."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames (without length field) that are whole now; raises BadFrame on a length that cannot be."""
        if self._held:
            self._held += chunk
            if len(self._held) < self._need:
                return []
            chunk, self._held = bytes(self._held), bytearray()
        frames: list[bytes] = []
        position, end = 0, len(chunk)
        self._need = 4
        while end - position >= 4:
            length = int.from_bytes(chunk[position : position + 4], "big")
            if not 4 <= length <= self.max_frame_bytes:
                raise BadFrame(f"a frame that claims {length} bytes (4 to {self.max_frame_bytes} are allowed)")
            if end - position - 4 < length:
                self._need = 4 + length
                break
            frames.append(chunk[position + 4 : position + 4 + length])
            position += 4 + length
        if position < end:
            self._held += chunk[position:]
        return frames
