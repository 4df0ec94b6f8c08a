"""A short cut to the header of END_TRANSACTION (37) in its binary form.

A client writes the fields of all its requests of a kind in one order, and their values keep their lengths for a long
time. A form is what was seen once in full: the names with all lengths, as one struct. Where the names of another
request are at the same places, its values are; anything else is read the long way, so the short cut decides nothing
about what is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from .codes import ONEWAY_FLAG
from .frame import Command

#: header length with serialisation, code, language, version, opaque, flag, remark length, length of the fields
_START = Struct(">Ihbhiiii").unpack_from
_FIELDS_AT = 25
_NAMES = (
    "commitOrRollback",
    "tranStateTableOffset",
    "commitLogOffset",
    "producerGroup",
    "transactionId",
    "fromTransactionCheck",
)
#: MessageSysFlag: what field commitOrRollback says.
_COMMITS: Mapping[bytes, bool | None] = {b"0": None, b"8": True, b"12": False}
_TRUTHS: Mapping[bytes, bool] = {b"false": False, b"true": True}
_MOST_DIGITS = 18
#: Lengths of a whole header remembered, and forms of one length.
_MOST_LENGTHS, _MOST_FORMS = 1_024, 4


QuickEnding = tuple[int, int, bool | None, int, int, str, str, bool]
"""A producer's word about a half: opaque, flag of the frame, commit (None: not known yet), offset, position, group,
transaction id, whether it answers a check."""


class _Form(NamedTuple):
    struct: Struct
    names: tuple[bytes, ...]
    pick: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]


class EndShortcut:
    """Reads decisions whose form was learned."""

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[int, list[_Form]] = {}

    def read(self, frame: bytes) -> QuickEnding | None:
        """Return what a frame without a body says; None if its form is not known, or a value is not as usual."""
        size = len(frame)
        forms = self._forms.get(size)
        if forms is None:
            return None
        word, _, _, _, opaque, frame_flag, remark_length, fields_length = _START(frame)
        if (
            word != 0x1000000 | size - 4
            or frame_flag & ~ONEWAY_FLAG
            or remark_length
            or fields_length != size - _FIELDS_AT
        ):
            return None
        for form in forms:
            parts = form.struct.unpack_from(frame, _FIELDS_AT)
            if parts[::2] == form.names:
                break
        else:
            return None
        said, offset, position, group, transaction_id, from_check = form.pick(parts)
        is_check = _TRUTHS.get(from_check)
        if said not in _COMMITS or not (offset.isdigit() and position.isdigit()) or is_check is None:
            return None
        try:
            return (
                opaque, frame_flag, _COMMITS[said], int(offset), int(position), group.decode(),
                transaction_id.decode(), is_check,
            )  # fmt: skip
        except UnicodeDecodeError:
            return None

    def learn(self, frame: bytes, command: Command) -> None:
        """Remember the form of a frame that was read in full and without fault."""
        ext = command.ext
        if command.remark or command.body or any(name not in ext for name in _NAMES):
            return
        if max(len(ext["tranStateTableOffset"]), len(ext["commitLogOffset"])) > _MOST_DIGITS:
            return
        layout, names = ">", []
        at = _FIELDS_AT
        while at < len(frame):
            value_at = at + 6 + int.from_bytes(frame[at : at + 2], "big")
            length = int.from_bytes(frame[value_at - 4 : value_at], "big")
            names.append(frame[at:value_at])
            layout += f"{value_at - at}s{length}s"
            at = value_at + length
        order = [name[2:-4].decode("utf-8", "surrogateescape") for name in names]
        if len(order) != len(ext):
            return
        if len(self._forms) >= _MOST_LENGTHS:
            self._forms.clear()
        forms = self._forms.setdefault(len(frame), [])
        places = [2 * order.index(name) + 1 for name in _NAMES]
        forms.insert(0, _Form(Struct(layout), tuple(names), itemgetter(*places)))
        del forms[_MOST_FORMS:]
