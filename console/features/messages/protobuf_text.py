"""A Protobuf message as JSON for people, written up to a limit, whatever its bytes are.

It is Protobuf's own mapping to JSON with the names of the `.proto` file, and with 64-bit integers as numbers: pages
keep every digit. Fields that are not set are not there, as in the bytes. What the type does not know is told by its
numbers.

The library reads the bytes, at most a hundred messages deep. The text is written piece by piece, so that a body that
would become a text of many megabytes costs no more than the limit.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from console.features.messages.descriptor_sets import is_map_entry, read_set

#: messages in messages that are written, and all of them; the library itself stops at a depth of a hundred, to which a
#: chain of Any is none
DEPTH, MOST_MESSAGES = 64, 5_000
#: distinct places of unknown fields that are told, and bytes of messages that are looked through for them: the library
#: makes an object of each one
MOST_UNKNOWN, _UNKNOWN_BYTES = 20, 64 * 1024
#: numbers of a list that are written at once
_AT_ONCE = 500
#: types of messages that are kept ready
_READY = 8
#: integers that a double holds exactly
_EXACT = 2**53


class NotThatType(ValueError):
    """The bytes are no message of the type."""


class _Full(Exception):
    """The text, the depth or the number of messages has reached its limit."""


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message in words. `unknown` are places of fields that the type does not have: "7", "lines.12"; of a large
    message not all of them, or none."""

    text: str
    is_whole: bool
    has_unknown: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Field:
    """A field as it is written: `scalar` writes one value, None stands for messages."""

    name: str
    #: what a member begins with
    key: str
    is_repeated: bool
    scalar: Callable[[Any], str] | None
    #: of a map its values
    values: _Field | None = None


class MessageReader:
    """A type of a set, ready to read messages of it; safe for threads."""

    def __init__(self, kind: Descriptor) -> None:
        self._class: type[Message] = GetMessageClass(kind)
        self._fields: dict[FieldDescriptor, _Field] = {}
        self._special: dict[Descriptor, _Special | None] = {}

    def read(self, content: bytes, most_characters: int) -> ReadMessage:
        """Return the message that the bytes are, as JSON; raises NotThatType and nothing else.

        Bytes of which the type knows no field at all are none of its messages: nearly any bytes could be read so.
        """
        try:
            message = self._class.FromString(content)
            has_unknown = self._has_unknown(message)
            if has_unknown and not message.ListFields():
                raise NotThatType
            writer = _Writer(self, most_characters, has_unknown=has_unknown)
            is_whole = writer.write(message)
        except (DecodeError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError) as error:
            # the library's own ways to say so: a hostile descriptor brings out the rarer ones
            raise NotThatType from error
        return ReadMessage("".join(writer.pieces), is_whole, has_unknown, tuple(writer.unknown))

    def field(self, of: FieldDescriptor) -> _Field:
        """Return how a field is written."""
        found = self._fields.get(of)
        if found is None:
            found = self._fields[of] = self._made(of)
        return found

    def special(self, kind: Descriptor) -> _Special | None:
        """Return what writes messages of this type, where JSON has a form of its own for them."""
        try:
            return self._special[kind]
        except KeyError:
            is_own = kind.file.name.startswith("google/protobuf/")
            found = self._special[kind] = _SPECIAL.get(kind.full_name) if is_own else None
            return found

    def _made(self, field: FieldDescriptor) -> _Field:
        name, entry = (f"[{field.full_name}]" if field.is_extension else field.name), field.message_type
        values = self.field(entry.fields_by_number[2]) if entry is not None and is_map_entry(entry) else None
        return _Field(name, f"{_quoted(name)}:", field.is_repeated, _scalar_of(field), values)

    def _has_unknown(self, message: Message) -> bool:
        known = self._class()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        return known.ByteSize() != message.ByteSize()


@lru_cache(maxsize=_READY)
def reader_of(files: bytes, name: str) -> MessageReader:
    """Return what reads messages of a type of a set; raises SetRefused."""
    return MessageReader(read_set(files).kind(name))


class _Writer:
    """The text so far, and what is left of the limit."""

    __slots__ = ("_left", "_messages_left", "_reader", "_unknown_bytes", "pieces", "unknown")

    def __init__(self, reader: MessageReader, most_characters: int, *, has_unknown: bool) -> None:
        self.pieces: list[str] = []
        self.unknown: dict[str, None] = {}
        self._reader = reader
        self._left = most_characters
        self._messages_left = MOST_MESSAGES
        self._unknown_bytes = _UNKNOWN_BYTES if has_unknown else 0

    def write(self, message: Message) -> bool:
        """Write a message; return False where it had to be cut."""
        try:
            self._message(message, "", 0)
        except _Full:
            return False
        return True

    def _put(self, text: str) -> None:
        if len(text) > self._left:
            self.pieces.append(text[: self._left])
            raise _Full
        self.pieces.append(text)
        self._left -= len(text)

    def _message(self, message: Message, path: str, depth: int) -> None:
        self._messages_left -= 1
        if depth > DEPTH or self._messages_left < 0:
            raise _Full
        if self._unknown_bytes > 0:
            self._note_unknown(message, path)
        special = self._reader.special(message.DESCRIPTOR)
        if special is None or not special(self, message, path, depth):
            self._members(message, path, depth, "{")
            self._put("}")

    def _members(self, message: Message, path: str, depth: int, sign: str) -> None:
        """Write the fields that are set, the first behind `sign`, which stands there in any case."""
        for number, (field, value) in enumerate(message.ListFields()):
            how = self._reader.field(field)
            self._put(("," if number else sign) + how.key)
            self._value(how, value, path, depth)
            sign = ""
        self._put(sign)

    def _value(self, field: _Field, value: Any, path: str, depth: int) -> None:
        if field.values is not None:
            self._map(field.values, value, f"{path}{field.name}.", depth)
        elif not field.is_repeated:
            self._single(field, value, path, depth)
        elif field.scalar is not None:
            self._scalars(field.scalar, value)
        else:
            sign = "["
            for each in value:
                self._put(sign)
                self._message(each, f"{path}{field.name}.", depth + 1)
                sign = ","
            self._put("[]" if sign == "[" else "]")

    def _scalars(self, scalar: Callable[[Any], str], values: Iterable[Any]) -> None:
        rest, sign = iter(values), "["
        while some := ",".join(map(scalar, islice(rest, _AT_ONCE))):
            self._put(sign + some)
            sign = ","
        self._put("[]" if sign == "[" else "]")

    def _map(self, field: _Field, value: Mapping[Any, Any], path: str, depth: int) -> None:
        sign = "{"
        for key in sorted(value):
            self._put(f"{sign}{_quoted(key if isinstance(key, str) else json.dumps(key))}:")
            self._single(field, value[key], path, depth)
            sign = ","
        self._put("{}" if sign == "{" else "}")

    def _single(self, field: _Field, value: Any, path: str, depth: int) -> None:
        if field.scalar is None:
            self._message(value, f"{path}{field.name}.", depth + 1)
        else:
            self._put(field.scalar(value))

    def _note_unknown(self, message: Message, path: str) -> None:
        size_bytes = message.ByteSize()
        if size_bytes > self._unknown_bytes:
            return
        self._unknown_bytes -= size_bytes + 1
        for field in islice(UnknownFieldSet(message), 1_000):
            if len(self.unknown) >= MOST_UNKNOWN:
                return
            self.unknown[f"{path}{field.field_number}"] = None

    # messages of Protobuf's own files that JSON has a form for; each says whether it wrote it

    def _by_library(self, message: Any, _path: str, _depth: int) -> bool:
        """Write a moment, a span or a mask of fields; one out of its range is shown as it is."""
        try:
            text = message.ToJsonString()
        except (ValueError, OverflowError):
            return False
        self._put(_quoted(text))
        return True

    def _wrapper(self, message: Any, path: str, depth: int) -> bool:
        self._single(self._own(message, 1), message.value, path, depth)
        return True

    def _any(self, message: Any, path: str, depth: int) -> bool:
        """Write what is packed, if the set knows its type and the bytes are of it."""
        try:
            kind = message.DESCRIPTOR.file.pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
            inner = GetMessageClass(kind).FromString(message.value)
        except (KeyError, DecodeError):
            return False
        self._put(f'{{"@type":{_quoted(message.type_url)}')
        if self._reader.special(kind) is not None:
            self._put(',"value":')
            self._message(inner, path, depth + 1)
        elif depth >= DEPTH:
            raise _Full
        else:
            if self._unknown_bytes > 0:
                self._note_unknown(inner, path)
            if inner.ListFields():
                self._members(inner, path, depth + 1, ",")
        self._put("}")
        return True

    def _struct(self, message: Any, path: str, depth: int) -> bool:
        self._value(self._own(message, 1), message.fields, path, depth)
        return True

    def _list(self, message: Any, path: str, depth: int) -> bool:
        self._value(self._own(message, 1), message.values, path, depth)
        return True

    def _free_value(self, message: Any, path: str, depth: int) -> bool:
        which = message.WhichOneof("kind")
        value = None if which in (None, "null_value") else getattr(message, which)
        if value is None:
            self._put("null")
        elif isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
            self._put(str(int(value)))
        else:
            self._single(self._reader.field(message.DESCRIPTOR.fields_by_name[which]), value, path, depth)
        return True

    def _own(self, message: Message, number: int) -> _Field:
        return self._reader.field(message.DESCRIPTOR.fields_by_number[number])


_Special = Callable[[_Writer, Any, str, int], bool]
_SPECIAL: Mapping[str, _Special] = {
    **{f"google.protobuf.{name}": _Writer._by_library for name in ("Timestamp", "Duration", "FieldMask")},
    **{
        f"google.protobuf.{name}Value": _Writer._wrapper
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
    "google.protobuf.Any": _Writer._any,
    "google.protobuf.Struct": _Writer._struct,
    "google.protobuf.ListValue": _Writer._list,
    "google.protobuf.Value": _Writer._free_value,
}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _scalar_of(field: FieldDescriptor) -> Callable[[Any], str] | None:
    """Return what writes one value of the field; None for messages."""
    if field.message_type is not None:
        return None
    if field.enum_type is not None:
        names = {value.number: _quoted(value.name) for value in reversed(field.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    return _SCALARS.get(field.type, str)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _text(value: str | bytes) -> str:
    """Return a string; one of proto2 need not be UTF-8."""
    return _quoted(value if isinstance(value, str) else value.decode("utf-8", "backslashreplace"))


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode("ascii")}"'


def _double(value: float) -> str:
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value)


def _float(value: float) -> str:
    """Return the fewest digits that are this number of 32 bits: 1.1, not 1.100000023841858."""
    if not math.isfinite(value):
        return _double(value)
    stored = struct.pack("f", value)
    found = (float(f"{value:.{digits}g}") for digits in range(6, 9))
    # the shortened largest one is past the range of 32 bits
    return json.dumps(next((each for each in found if abs(each) < 3.4e38 and struct.pack("f", each) == stored), value))


_SCALARS: Mapping[int, Callable[[Any], str]] = {
    FieldDescriptor.TYPE_BOOL: _boolean,
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: _bytes,
    FieldDescriptor.TYPE_DOUBLE: _double,
    FieldDescriptor.TYPE_FLOAT: _float,
}
