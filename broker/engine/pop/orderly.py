"""Popping in order: one pop of a queue is out at a time, and the next one begins at the first message that is not done.

    block    the pop that is out: nothing else leaves the queue until all of it is acknowledged or visible again
    counts   how often an offset was handed out before, of those that a next pop may get

As in RocketMQ (ConsumerOrderInfoManager), progress is the first message that is not acknowledged: what was acknowledged
behind it is handed out again, in its place, if the pop ends before the rest of it is done. The same attempt (a client
that asks again because it got no answer) gets its messages again at once.
"""

from __future__ import annotations

from typing import Any


class Block:
    """One pop. ``offsets``: what it got; ``open``: what of that is not acknowledged; ``visible_ms`` holds offsets whose
    time is another than the usual one."""

    __slots__ = ("attempt", "invisible_ms", "offsets", "open", "pop_ms", "visible_ms")

    def __init__(self, pop_ms: int, invisible_ms: int, attempt: str, offsets: list[int]) -> None:
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.attempt = attempt
        self.offsets = offsets
        self.open = list(offsets)
        self.visible_ms: dict[int, int] = {}

    def free_ms(self) -> int:
        """Return the moment from which all that is open is visible again."""
        usual_ms = self.pop_ms + self.invisible_ms
        return max((self.visible_ms.get(offset, usual_ms) for offset in self.open), default=0)


class Orderly:
    """What is out in one queue of one group, and how often it was."""

    __slots__ = ("block", "counts")

    def __init__(self) -> None:
        self.block: Block | None = None
        self.counts: dict[int, int] = {}

    def blocked_until(self, attempt: str, now_ms: int) -> int | None:
        """Return when the queue gives out something again, None if it does now."""
        block = self.block
        if block is None or not block.open or (attempt and attempt == block.attempt):
            return None
        free_ms = block.free_ms()
        return free_ms if free_ms > now_ms else None

    def hand_out(self, block: Block, until_offset: int) -> list[int]:
        """Note the next pop, which looked at every offset below ``until_offset``; return how often each of its messages
        was handed out before. The same attempt is no other time."""
        before, counts = self.block, self.counts
        if before is not None and not (block.attempt and block.attempt == before.attempt):
            for offset in before.offsets:
                counts[offset] = counts.get(offset, 0) + 1
        first = block.offsets[0] if block.offsets else until_offset
        self.counts = {offset: count for offset, count in counts.items() if offset >= first}
        self.block = block
        return [counts.get(offset, 0) for offset in block.offsets]

    def ack(self, pop_ms: int, offset: int) -> bool:
        """Note that a message is done; False if this pop does not speak for it."""
        block = self.block
        if block is None or block.pop_ms != pop_ms or offset not in block.open:
            return False
        block.open.remove(offset)
        return True

    def change(self, pop_ms: int, offset: int, visible_ms: int) -> bool:
        """Say when a message is visible again; False if this pop does not speak for it."""
        block = self.block
        if block is None or block.pop_ms != pop_ms or offset not in block.open:
            return False
        block.visible_ms[offset] = visible_ms
        return True

    def cut(self, offset: int) -> None:
        """Forget everything from an offset on."""
        self.counts = {known: count for known, count in self.counts.items() if known < offset}
        if (block := self.block) is not None:
            block.offsets = [known for known in block.offsets if known < offset]
            block.open = [known for known in block.open if known < offset]

    def lowest(self) -> int | None:
        """Return the lowest offset that is out, None if nothing is."""
        return self.block.open[0] if self.block is not None and self.block.open else None

    def offsets(self) -> list[int]:
        """Return what is out and not acknowledged, lowest first."""
        return self.block.open if self.block is not None else []

    def clamp(self, now_ms: int) -> None:
        """The clock was set back: nobody waits longer than was asked for."""
        block = self.block
        if block is not None and block.pop_ms > now_ms:
            limit_ms = now_ms + block.invisible_ms
            block.visible_ms = {offset: min(block.visible_ms.get(offset, limit_ms), limit_ms) for offset in block.open}

    def to_json(self) -> dict[str, Any]:
        """Return everything as a plain value."""
        block = self.block
        value: dict[str, Any] = {
            "counts": {str(offset): count for offset, count in self.counts.items()},
            "block": block
            and {
                "pop": block.pop_ms,
                "invisible": block.invisible_ms,
                "attempt": block.attempt,
                "open": block.open,
                "visible": {str(offset): visible_ms for offset, visible_ms in block.visible_ms.items()},
            },
        }
        if block is not None and len(block.open) < len(block.offsets):
            value["block"]["offsets"] = block.offsets
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Orderly:
        """Read what ``to_json`` returned. Raises ValueError, KeyError, TypeError."""
        orderly = cls()
        orderly.counts = {int(offset): int(count) for offset, count in value["counts"].items()}
        if (kept := value["block"]) is not None:
            offsets = [int(offset) for offset in kept["open"]]
            block = orderly.block = Block(int(kept["pop"]), int(kept["invisible"]), str(kept["attempt"]), offsets)
            block.offsets = [int(offset) for offset in kept.get("offsets", offsets)]
            block.visible_ms = {int(offset): int(visible_ms) for offset, visible_ms in kept["visible"].items()}
        return orderly


def next_offset_in(value: dict[str, Any], next_offset: int) -> int:
    """Return where the queue of such a value goes on behind its pop.

    In stores of earlier versions what a pop had left stood in ``todo``, and the queue went on behind all of it. Raises
    ValueError, TypeError.
    """
    return min([next_offset, *map(int, value.get("todo", ()))])
