"""Questions to producers about their halves: one, and many that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from ...rocketmq.layout import HEAD_V4
from ...rocketmq.message import Message, decode

#: Where a record with IPv4 addresses says how long its body is.
_LENGTH_BEGIN, _LENGTH_END = HEAD_V4.size - 4, HEAD_V4.size


class Check(NamedTuple):
    """One question: about which half (its whole record), whose producers to ask, and how often they were asked."""

    offset: int
    position: int
    record: bytes
    group: str
    checks: int

    @property
    def half(self) -> Message:
        """The half, decoded."""
        return decode(self.record, verify=False)


@dataclass(frozen=True, slots=True)
class Checks:
    """Questions to the producers of one group, asked equally often before, about halves whose records are equally long,
    and so are their bodies. The records stand one behind the other in ``records``."""

    group: str
    checks: int
    offsets: Sequence[int]
    positions: Sequence[int]
    records: bytes

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """How long each record is."""
        return len(self.records) // len(self.offsets)

    def __iter__(self) -> Iterator[Check]:
        size = self.size
        for number, (offset, position) in enumerate(zip(self.offsets, self.positions, strict=True)):
            record = self.records[number * size : (number + 1) * size]
            yield Check(offset, position, record, self.group, self.checks)

    def part(self, begin: int, end: int) -> Checks:
        """Return those from one number to another."""
        size, part = self.size, slice(begin, end)
        records = self.records[begin * size : end * size]
        return Checks(self.group, self.checks, self.offsets[part], self.positions[part], records)

    def pick(self, selectors: Sequence[object]) -> Checks:
        """Return those whose selector is true."""
        size = self.size
        records = [self.records[at : at + size] for at in range(0, len(self.records), size)]
        offsets = list(compress(self.offsets, selectors))
        positions = list(compress(self.positions, selectors))
        return Checks(self.group, self.checks, offsets, positions, b"".join(compress(records, selectors)))


#: What is equal in questions of a group that may stand in one piece: how often was asked, lengths of record and body.
Kind = tuple[int, int, bytes]


def kind_of(checks: int, size: int, records: bytes) -> Kind:
    """Return the kind of a question, from the first record of some that are alike."""
    return checks, size, records[_LENGTH_BEGIN:_LENGTH_END]
