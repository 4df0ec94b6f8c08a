"""How Redisson packs a value into a member of its set and list.

Since 3.21.1 (`Packing.NEW`, Lua struct format "Bc0Lc0"), little-endian, no padding:

    | 1  n, nearly always 8 | n  random | 8  length of the value, u64 | value |

Up to 3.21.0 (`Packing.OLD`, "dLc0"):

    | 8  random double | 8  length of the value, u64 | value |

The random part only makes equal values distinct. Members written here hold a counter in it, big-endian, so that values
due in the same millisecond keep the order in which they were offered.

A random part of another length counts only where the old form does not fit: the first byte of an old member is chance.

A member that fits neither is poison: Java's transfer stops at it and repeats what came before it without end.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .errors import MemberUnreadable

RANDOM_BYTES = 8
LENGTH_BYTES = 8
#: Bytes before the value.
NEW_HEAD_BYTES = 1 + RANDOM_BYTES + LENGTH_BYTES
OLD_HEAD_BYTES = RANDOM_BYTES + LENGTH_BYTES
_LENGTH = struct.Struct("<Q")


class Packing(StrEnum):
    """Which of the two forms a member has."""

    NEW = "new"
    OLD = "old"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A member taken apart."""

    packing: Packing
    random: bytes
    value: bytes


def pack(value: bytes, random: bytes, packing: Packing = Packing.NEW) -> bytes:
    """The member of this value; `random` has 8 bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"the random part has {RANDOM_BYTES} bytes, not {len(random)}")
    head = bytes([RANDOM_BYTES]) if packing is Packing.NEW else b""
    return head + random + _LENGTH.pack(len(value)) + value


def detect(member: bytes, likely: Packing = Packing.NEW, size_bytes: int | None = None) -> Packing | None:
    """The packing of a member, None for poison. Its first bytes are enough when `size_bytes` says how long it is.

    One kind of member fits both: 17 bytes that begin with 08 and end with 00. There `likely`, the packing of the rest
    of the queue, decides.
    """
    size = len(member) if size_bytes is None else size_bytes
    new_head, is_old = _new_head(member, size), _old_head(member, size) > 0
    if new_head == NEW_HEAD_BYTES:
        return likely if is_old else Packing.NEW
    if is_old:
        return Packing.OLD
    return Packing.NEW if new_head else None


def certain(member: bytes, size_bytes: int | None = None) -> Packing | None:
    """The packing of a member that fits only one, None for all others."""
    first, second = (detect(member, likely, size_bytes) for likely in Packing)
    return first if first is second else None


def likely_packing(members: Sequence[bytes], sizes: Sequence[int] | None = None) -> Packing:
    """The packing of the last of these members that fits only one; new when none does. `sizes` where they are cut."""
    lengths = sizes or [len(member) for member in members]
    told = (certain(member, size) for member, size in zip(reversed(members), reversed(lengths), strict=True))
    return next((packing for packing in told if packing), Packing.NEW)


def unpack(member: bytes, likely: Packing = Packing.NEW) -> Unpacked:
    """Take a member apart; raises MemberUnreadable for poison."""
    packing = detect(member, likely)
    if packing is None:
        raise MemberUnreadable(member)
    if packing is Packing.OLD:
        return Unpacked(packing, member[:RANDOM_BYTES], member[OLD_HEAD_BYTES:])
    head = _new_head(member, len(member))
    return Unpacked(packing, member[1 : head - LENGTH_BYTES], member[head:])


def _new_head(member: bytes, size: int) -> int:
    """Bytes before the value in the new form, 0 when it is not one; the length byte of the random part is honoured."""
    head = 1 + member[0] + LENGTH_BYTES if member else 0
    if not head or len(member) < head or member[0] == 0:
        return 0
    return head if _LENGTH.unpack_from(member, head - LENGTH_BYTES)[0] == size - head else 0


def _old_head(member: bytes, size: int) -> int:
    if len(member) < OLD_HEAD_BYTES:
        return 0
    return OLD_HEAD_BYTES if _LENGTH.unpack_from(member, RANDOM_BYTES)[0] == size - OLD_HEAD_BYTES else 0
