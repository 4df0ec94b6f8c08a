"""JSON files in RocketMQ's shape, and what all tables share that are kept in memory and in such a file.

RocketMQ's writer leaves whole numbers as object keys unquoted (``{0:11}``): such files are read, strict JSON is written
(RocketMQ reads that too). What is written here carries a checksum under a key of its own, which RocketMQ ignores and
leaves out when it writes: a flipped digit in an offset would lose messages without a trace.

A change of a table (``Kept``) is in memory and in the file when the call returns, or in neither.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from json.encoder import encode_basestring
from typing import Any, ClassVar, Protocol, TypeVar
from zlib import crc32

from ...rocketmq.values import byte_count
from ..disk import Files, load_file, load_valid_file, save_file

T = TypeVar("T")

#: CRC32 of the file as it would be without this key.
CHECKSUM_KEY = "escapementCrc32"
#: Bytes that stand around a row and its name.
_AROUND_ROW = len(',\n  "": ')
#: A text without its end is one as well: to look at each of its quotes anew would take its length squared.
_STRING_OR_BARE_KEY = re.compile(r'(?s)"(?:[^"\\]|\\.)*+"?|((?<!\d)-?\d++)(?=\s*:)')


def parse(content: bytes) -> dict[str, Any]:
    """Return the object; raises ValueError for anything else, and where a checksum does not match."""
    text = content.decode()
    try:
        value = _loaded(text)
    except RecursionError:
        raise ValueError("The file is nested too deeply.") from None
    if not isinstance(value, dict):
        raise ValueError("The file holds no JSON object.")
    checksum = value.pop(CHECKSUM_KEY, None)
    if checksum is not None and checksum != crc32(_encode(value)):
        raise ValueError("The file is not what was written: its checksum differs.")
    return _writable(value) if "\\ud" in text or "\\uD" in text else value


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_STRING_OR_BARE_KEY.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], text))


def _writable(value: Any) -> Any:
    """Return the value without halves of surrogate pairs, which another writer may have escaped: they are no text, and
    a table that holds one could never be saved again."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_writable(name): _writable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_writable(member) for member in value]
    return value


def load(files: Files, path: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what ``read`` makes of the file's object or, where that cannot be read, of its ``.bak``'s; else None."""

    def parse_and_read(content: bytes) -> T:
        try:
            return read(parse(content))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"The file has not the shape it must have: {error!r}.") from None

    return load_valid_file(files, path, parse_and_read)


def is_readable(files: Files, path: str) -> bool:
    """Tell whether the file itself, not only its ``.bak``, can be read."""
    content = load_file(files, path)
    try:
        return content is not None and bool(parse(content))
    except (ValueError, RecursionError):
        return False


class Row(str):
    """A value of a table as it stands in a file: ready text, so that a table of thousands is not written out anew
    whenever one of its rows has changed."""

    __slots__ = ()


class Written(Protocol):
    """A row of a table that is never changed, only replaced."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the row, by RocketMQ's names."""


class Rows:
    """The rows of one table, each written out when it is new and not again while the same stands there."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Written, Row]] = {}

    def of(self, table: Mapping[str, Written]) -> dict[str, Row]:
        """Return the whole table for ``dump``."""
        known, self._known = self._known, {}
        for name, value in table.items():
            last = known.get(name)
            self._known[name] = last if last is not None and last[0] is value else (value, row(value.to_json()))
        return {name: text for name, (_, text) in self._known.items()}

    def size_of(self, name: str, value: Written) -> int:
        """Return how many bytes a row takes in a file, with its name."""
        last = self._known.get(name)
        text = last[1] if last is not None and last[0] is value else row(value.to_json())
        return byte_count(name) + byte_count(text) + _AROUND_ROW


def row(value: Any) -> Row:
    """Return a value as it stands in ``{"table": {"name": value}}``; it belongs there and nowhere else."""
    return Row(_text(value, "  "))


def dump(value: dict[str, Any]) -> bytes:
    """Return the object as strict JSON, with its checksum."""
    members = {name: _text(member, " ") for name, member in value.items()}
    checksum = crc32(_object(members, "").encode())
    return _object({**members, CHECKSUM_KEY: str(checksum)}, "").encode()


def _encode(value: dict[str, Any]) -> bytes:
    return _text(value, "").encode()


def _text(value: Any, indent: str) -> str:
    """Return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True), at a level of that indent; json's own
    writer of indented text is not the fast one: it takes a tenth of a second for some thousand topics."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is Row:
        return str(value)
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    inner = indent + " "
    if isinstance(value, dict):
        return _object({name: _text(member, inner) for name, member in value.items()}, indent)
    if isinstance(value, list | tuple) and value:
        return f"[\n{inner}" + f",\n{inner}".join([_text(member, inner) for member in value]) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def _object(members: Mapping[Any, str], indent: str) -> str:
    if not members:
        return "{}"
    lines = [f"{_name(name)}: {members[name]}" for name in sorted(members)]
    return f"{{\n{indent} " + f",\n{indent} ".join(lines) + f"\n{indent}}}"


def _name(name: Any) -> str:
    return encode_basestring(name if isinstance(name, str) else json.dumps(name))


# A table in memory and in its file.


class Kept(ABC):
    """The base of the small tables' owners. ``_memory`` names the attributes that a change may touch."""

    _memory: ClassVar[tuple[str, ...]] = ()

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def load(self) -> bool:
        """Read the file, or the version before; False if there is none that can be read."""
        return load(self._files, self._path, self._read) or False

    @abstractmethod
    def _read(self, value: dict[str, Any]) -> bool:
        """Take over what the file holds; raises what ``load`` takes for unreadable."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return what the file shall hold."""

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Save what the block changed in memory. Whatever goes wrong, in the block or while saving (a disk that is
        full, a value that cannot be written), memory is as it was, and the error goes on."""
        before = {name: _copy(getattr(self, name)) for name in self._memory}
        try:
            yield
            save_file(self._files, self._path, dump(self._content()))
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise


def _copy(value: Any) -> Any:
    """Copy a table, which is changed in place; its values are only ever replaced and need no copy."""
    return dict(value) if isinstance(value, dict) else value
