"""Compiled sets of Protobuf descriptors, as `protoc --descriptor_set_out --include_imports` writes them.

A set is somebody's upload: it is read within bounds, into a pool of its own, and refused with a sentence. Protobuf's
own files (`google/protobuf/timestamp.proto` and its like) are those of the library whatever the set says, so that their
messages are what their names promise; they may be left out.

This module loads the library, some 7 MB of a process: it is imported where a set is at hand.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

#: bytes, files and message types of a set
MOST_BYTES, MOST_FILES, MOST_TYPES = 256 * 1024, 500, 5_000
#: characters of a type's full name
MOST_NAME = 500
#: how deep message types may stand in each other: beyond it nobody's names can be read
_MOST_NESTED = 32

_OWN: Mapping[str, bytes] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2,
        timestamp_pb2, type_pb2, wrappers_pb2,
    )
}  # fmt: skip


class SetRefused(ValueError):
    """The set, or the type that is asked of it, cannot be used; the text says why, to people."""

    def __init__(self, message: str, *, is_type: bool = False) -> None:
        super().__init__(message)
        #: the set is in order, and has no such type
        self.is_type = is_type


@dataclass(frozen=True, slots=True)
class DescriptorSet:
    """A set that was read. `types` are full names, those of files that no other file imports first."""

    pool: DescriptorPool
    files: tuple[str, ...]
    types: tuple[str, ...]

    def kind(self, name: str) -> Descriptor:
        """Return the message type with this full name; raises SetRefused."""
        try:
            found = self.pool.FindMessageTypeByName(name)
        except KeyError:
            found = None
        if found is None or is_map_entry(found) or len(name) > MOST_NAME:
            known = ", ".join(self.types[:5]) + (", …" if len(self.types) > 5 else "")
            words = _("The set has no message type %(name)s. It has: %(known)s")
            raise SetRefused(words % {"name": name[:MOST_NAME], "known": known}, is_type=True)
        return found


def read_set(content: bytes) -> DescriptorSet:
    """Return what a compiled set holds; raises SetRefused."""
    if len(content) > MOST_BYTES:
        raise SetRefused(_("The set is larger than %(most)s kB.") % {"most": MOST_BYTES // 1024})
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except DecodeError:
        files = ()
    if not files or not all(_is_named(file) for file in files):
        raise SetRefused(
            _("This is not a compiled descriptor set. Compile one with protoc --include_imports --descriptor_set_out.")
        )
    if len(files) > MOST_FILES:
        raise SetRefused(_("The set has more than %(most)s files.") % {"most": MOST_FILES})
    pool, added = _pool_of(files)
    names = tuple(file.name for file in files)
    imported = {name for file in files for name in file.dependency}
    in_order = sorted((name for name in names if name not in _OWN), key=lambda name: name in imported)
    types: list[str] = []
    for name in in_order:
        for top in added[name].message_types_by_name.values():
            types += _types_below(top, 0)
            if len(types) > MOST_TYPES:
                raise SetRefused(_("The set has more than %(most)s message types.") % {"most": MOST_TYPES})
    if not types:
        raise SetRefused(_("The set has no message type."))
    return DescriptorSet(pool, names, tuple(types))


def is_map_entry(kind: Descriptor) -> bool:
    """Tell whether the type stands for the entries of a map, and for no message of anybody's."""
    return bool(kind.has_options and kind.GetOptions().map_entry)


def fields_of(kind: Descriptor) -> list[list[object]]:
    """Return number, name and type of each field, in the order in which they are written down."""
    return [[field.number, field.name, _type_of(field)] for field in kind.fields]


def packed(content: bytes) -> str:
    """Return a set as operations keep it: compressed, in base64."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def unpacked_set(text: str) -> bytes:
    """Return the bytes of a set that is given in base64, compressed by gzip or not; raises SetRefused."""
    too_large = _("The set is larger than %(most)s kB.") % {"most": MOST_BYTES // 1024}
    if len(text) > 2 * MOST_BYTES:
        raise SetRefused(too_large)
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SetRefused(_("The set is not valid base64.")) from None
    if not content.startswith(b"\x1f\x8b"):
        return content
    machine = zlib.decompressobj(31)
    try:
        found = machine.decompress(content, MOST_BYTES + 1)
    except zlib.error:
        raise SetRefused(_("The set is not valid gzip.")) from None
    if len(found) > MOST_BYTES:
        raise SetRefused(too_large)
    if not machine.eof:
        raise SetRefused(_("The set is not valid gzip."))
    return found


def _is_named(file: descriptor_pb2.FileDescriptorProto) -> bool:
    """Tell whether names of files are texts that can be kept: the library gives bytes that are no UTF-8 as they are."""
    return all(isinstance(name, str) and name.isprintable() for name in (file.name, *file.dependency))


def _pool_of(
    files: Sequence[descriptor_pb2.FileDescriptorProto],
) -> tuple[DescriptorPool, Mapping[str, FileDescriptor]]:
    """Return a pool with all files, each behind what it imports, and those of the set; raises SetRefused.

    They are kept, as the library finds none again whose name is not ASCII.
    """
    pool, waiting, there = DescriptorPool(), {}, set[str]()
    added: dict[str, FileDescriptor] = {}
    for file in files:
        if file.name in waiting:
            raise SetRefused(_("The set has %(name)s twice.") % {"name": file.name[:MOST_NAME]})
        waiting[file.name] = file
    for name in _OWN:
        waiting.pop(name, None)
    if not waiting:
        raise SetRefused(_("The set has no message type."))
    _add_own(pool, {name for file in files for name in file.dependency if name in _OWN}, there)
    while waiting:
        ready = [file for file in waiting.values() if there.issuperset(file.dependency)]
        if not ready:
            raise _unresolved(waiting)
        for file in ready:
            _check_entries(file.name, file.message_type)
            added[file.name] = _add(pool, file.name, file.SerializeToString())
            there.add(waiting.pop(file.name).name)
    return pool, added


def _check_entries(file: str, kinds: Iterable[descriptor_pb2.DescriptorProto]) -> None:
    """Raise SetRefused for entries of maps that no compiler writes: the library takes them as they are."""
    for kind in kinds:
        if kind.options.map_entry and [field.number for field in kind.field] != [1, 2]:
            words = _("%(name)s is not valid: %(error)s")
            raise SetRefused(words % {"name": file[:MOST_NAME], "error": kind.name[:MOST_NAME]})
        _check_entries(file, kind.nested_type)


def _add_own(pool: DescriptorPool, names: set[str], there: set[str]) -> None:
    for name in names - there:
        needed = set(descriptor_pb2.FileDescriptorProto.FromString(_OWN[name]).dependency)
        _add_own(pool, needed, there)
        _add(pool, name, _OWN[name])
        there.add(name)


def _add(pool: DescriptorPool, name: str, content: bytes) -> FileDescriptor:
    try:
        return pool.AddSerializedFile(content)
    except (TypeError, DecodeError, RecursionError) as error:
        words = _("%(name)s is not valid: %(error)s")
        raise SetRefused(words % {"name": name[:MOST_NAME], "error": str(error)[:300]}) from None


def _unresolved(waiting: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> SetRefused:
    missing = sorted({name for file in waiting.values() for name in file.dependency if name not in waiting})
    missing = [name for name in missing if name not in _OWN]
    if not missing:
        return SetRefused(_("The files of the set import each other in a circle."))
    words = ngettext(
        "The set imports a file that it does not have: %(names)s. Compile it with --include_imports.",
        "The set imports files that it does not have: %(names)s. Compile it with --include_imports.",
        len(missing),
    )
    return SetRefused(words % {"names": ", ".join(missing[:5])[:MOST_NAME]})


def _types_below(kind: Descriptor, depth: int) -> Iterator[str]:
    if is_map_entry(kind) or depth > _MOST_NESTED:
        return
    yield kind.full_name
    for nested in kind.nested_types:
        yield from _types_below(nested, depth + 1)


_NAMES: Mapping[int, str] = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def _type_of(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    if field.message_type is not None and is_map_entry(field.message_type):
        key, value = field.message_type.fields_by_number[1], field.message_type.fields_by_number[2]
        return f"map<{_type_of(key)}, {_type_of(value)}>"
    name = kind.full_name if kind is not None else _NAMES.get(field.type, str(field.type))
    return f"repeated {name}" if field.is_repeated else name
