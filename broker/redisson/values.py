"""The answers of a queue: receipts, waiting values, pages of them, and the values under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .codecs import Codec, Packing, Shown, show


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of an offer: the member as it waits, and when it is due."""

    member: bytes
    due_ms: int
    packing: Packing


@dataclass(frozen=True, slots=True)
class Handle:
    """Names one waiting member without carrying its value; as text `score-id-size`."""

    score: str
    identity: bytes
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.score}~{self.identity.hex()}~{self.size_bytes}"

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Read a handle from its text; raises ValueError."""
        score, identity, size = text.split("~")
        float(score)
        return cls(score, bytes.fromhex(identity), int(size))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting member. `value` may be cut: `value_bytes` is its whole length. Of poison it is the member itself."""

    due_ms: float
    handle: Handle
    packing: Packing | None
    value: bytes
    value_bytes: int

    @property
    def is_poison(self) -> bool:
        """Tell whether the member has neither of the two packings."""
        return self.packing is None

    @property
    def is_whole(self) -> bool:
        """Tell whether `value` holds all bytes of the value."""
        return len(self.value) == self.value_bytes

    def shown(self, codec: Codec | None = None) -> Shown:
        """Return the value as readable text; what is cut or does not decode comes as hex."""
        if self.is_poison or not self.is_whole:
            return Shown(codec.name if codec else "", self.value.hex(), is_hex=True)
        return show(self.value, codec)


@dataclass(frozen=True, slots=True)
class Page:
    """Waiting members in the order in which they are due; `cursor` gives the next page, None at the end."""

    now_ms: int
    items: Sequence[Waiting]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Damaged:
    """A member that is in the list only (it never comes due) or in the set only (it comes due unseen)."""

    kind: str
    place: int
    score: str
    identity: bytes
    size_bytes: int
    first_bytes: bytes


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The findings of a full comparison of list and set, and what a repair would do."""

    list_only: Sequence[Damaged]
    set_only: Sequence[Damaged]
    compared: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of a queue, known without reading all of it. All `_ms` are by the server's clock, in epoch ms."""

    name: str
    now_ms: int
    list_size: int
    set_size: int
    overdue: int
    never_due: int
    oldest_due_ms: int | None
    next_due_ms: int | None
    target_size: int
    index_size: int
    values_size: int
    aside: int
    listeners: int
    packings: Sequence[Packing]
    #: The packing that the newest member has: what clients of today write.
    written: Packing | None
    sampled_poison: int
    codec_guess: str | None

    @property
    def foreign(self) -> Packing | None:
        """The other packing, where both wait: its members stop the transfer of clients that write the newest one."""
        others = [packing for packing in self.packings if packing is not self.written]
        return others[0] if others and self.written is not None else None

    @property
    def is_damaged(self) -> bool:
        """Tell whether list and set differ in size; equal sizes may hide differences that only a repair plan finds."""
        return self.list_size != self.set_size

    @property
    def stuck_ms(self) -> int:
        """For how long the oldest due value has not moved, 0 when none is overdue."""
        return self.now_ms - self.oldest_due_ms if self.oldest_due_ms is not None else 0
