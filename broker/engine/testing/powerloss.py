"""What a power loss does to the operations that were not synced yet.

Each operation of a simulated disk has a sequence number. A PowerLoss decides from that number alone, so that the
same one applied to the same history gives the same disk: a failure is repeated from its kind, seed and limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The unit in which a disk writes; a write may be torn between two of them (reliability programme, R2).
SECTOR_BYTES = 512
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """Which un-synced operations survive.

    ``kill``: all (the process died, the operating system did not). ``all``: none. ``prefix``: those up to the
    sequence number ``until``, the next one torn. ``random``: each on its own, by ``seed``; writes may be
    torn, and garbled where the disk held nothing before (a sector that is overwritten is old or new, never neither).
    """

    kind: Literal["kill", "all", "prefix", "random"]
    seed: int = 0
    until: int = 0

    def keeps(self, sequence: int) -> bool:
        """Tell whether a change of names survives."""
        if self.kind == "prefix":
            return sequence <= self.until
        return self.kind == "kill" or (self.kind == "random" and self._chance(sequence, 1) < self._keep_share())

    def keeps_size(self, sequence: int) -> bool:
        """Tell whether a new file size survives."""
        if self.kind == "random":
            return self._chance(sequence, 2) < (1 + self._keep_share()) / 2
        return self.keeps(sequence)

    def surviving_sectors(self, sequence: int, data: bytes, at: int) -> list[tuple[int, bytes, bool]]:
        """Return the pieces of a write that reach the disk, as (address, bytes, garbled)."""
        if self.keeps(sequence):
            return [(at, data, False)]
        torn = self.kind == "prefix" and sequence == self.until + 1
        if self.kind == "random":
            torn = self._chance(sequence, 3) < 0.5
        if not torn:
            return []
        pieces = []
        begin = at
        while begin < at + len(data):
            end = min(at + len(data), (begin // SECTOR_BYTES + 1) * SECTOR_BYTES)
            fate = self._chance(sequence, begin + 4)
            if fate < 0.5:
                pieces.append((begin, data[begin - at : end - at], False))
            elif fate < 0.55:
                garbage = bytes(int(256 * self._chance(begin + place, sequence)) for place in range(end - begin))
                pieces.append((begin, garbage, True))
            begin = end
        return pieces

    def _keep_share(self) -> float:
        return (0.1, 0.5, 0.9)[self.seed % 3]

    def _chance(self, sequence: int, purpose: int) -> float:
        """Return a number in [0, 1) that depends on seed, operation and purpose alone (splitmix64)."""
        word = (self.seed * 0x9E3779B97F4A7C15 + sequence * 0xD1B54A32D192ED03 + purpose * 0x8CB92BA72F3D8DD7) & _MASK
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        return (word ^ (word >> 31)) / (1 << 64)
