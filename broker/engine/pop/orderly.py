"""Popping in order: one pop of a queue is out at a time, and what it did not finish comes first the next time.

    todo     offsets below ``next_offset`` that are not over and not out
    block    the pop that is out: nothing else leaves the queue until all of it is acknowledged or visible again
    counts   how often an offset that is not over was handed out before

The same attempt (a client that asks again because it got no answer) gets the same messages again at once.
"""

from __future__ import annotations

from typing import Any


class Block:
    """One pop. ``visible_ms`` holds offsets whose time was changed; ``open`` those that are not acknowledged."""

    __slots__ = ("attempt", "invisible_ms", "open", "pop_ms", "visible_ms")

    def __init__(self, pop_ms: int, invisible_ms: int, attempt: str, offsets: list[int]) -> None:
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.attempt = attempt
        self.open = offsets
        self.visible_ms: dict[int, int] = {}

    def free_ms(self) -> int:
        """Return the moment from which all that is open is visible again."""
        usual_ms = self.pop_ms + self.invisible_ms
        return max((self.visible_ms.get(offset, usual_ms) for offset in self.open), default=0)


class Orderly:
    """What is out and to be handed out again in one queue of one group."""

    __slots__ = ("block", "counts", "todo")

    def __init__(self) -> None:
        self.block: Block | None = None
        self.todo: list[int] = []
        self.counts: dict[int, int] = {}

    def blocked_until(self, attempt: str, now_ms: int) -> int | None:
        """Return when the queue gives out something again, None if it does now."""
        block = self.block
        if block is None or not block.open or (attempt and attempt == block.attempt):
            return None
        free_ms = block.free_ms()
        return free_ms if free_ms > now_ms else None

    def release(self, attempt: str) -> None:
        """Take what is out back: it is to be handed out again, before everything else."""
        block = self.block
        if block is None:
            return
        if not attempt or attempt != block.attempt:
            for offset in block.open:
                self.counts[offset] = self.counts.get(offset, 0) + 1
        self.todo = sorted(block.open + self.todo)
        self.block = None

    def hand_out(self, block: Block, until_offset: int) -> None:
        """Note a pop that looked at every offset below ``until_offset``: what it left out there is over."""
        self.block = block
        self.todo = [offset for offset in self.todo if offset >= until_offset]
        alive = {*block.open, *self.todo}
        self.counts = {offset: count for offset, count in self.counts.items() if offset in alive}

    def ack(self, pop_ms: int, offset: int) -> bool:
        """Note that a message is done; False if this pop does not speak for it."""
        block = self.block
        if block is None or block.pop_ms != pop_ms or offset not in block.open:
            return False
        block.open.remove(offset)
        self.counts.pop(offset, None)
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
        self.todo = [known for known in self.todo if known < offset]
        if self.block is not None:
            self.block.open = [known for known in self.block.open if known < offset]

    def lowest(self) -> int | None:
        """Return the lowest offset that is not over, None if all are."""
        known = self.todo[:1] + (self.block.open[:1] if self.block is not None else [])
        return min(known, default=None)

    def offsets(self) -> list[int]:
        """Return what is not over, in no order."""
        return [*self.todo, *(self.block.open if self.block is not None else ())]

    def clamp(self, now_ms: int) -> None:
        """The clock was set back: nobody waits longer than was asked for."""
        block = self.block
        if block is not None and block.pop_ms > now_ms:
            limit_ms = now_ms + block.invisible_ms
            block.visible_ms = {offset: min(block.visible_ms.get(offset, limit_ms), limit_ms) for offset in block.open}

    def to_json(self) -> dict[str, Any]:
        """Return everything as a plain value."""
        block = self.block
        return {
            "todo": self.todo,
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

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Orderly:
        """Read what ``to_json`` returned. Raises ValueError, KeyError, TypeError."""
        orderly = cls()
        orderly.todo = [int(offset) for offset in value["todo"]]
        orderly.counts = {int(offset): int(count) for offset, count in value["counts"].items()}
        if (kept := value["block"]) is not None:
            offsets = [int(offset) for offset in kept["open"]]
            block = orderly.block = Block(int(kept["pop"]), int(kept["invisible"]), str(kept["attempt"]), offsets)
            block.visible_ms = {int(offset): int(visible_ms) for offset, visible_ms in kept["visible"].items()}
        return orderly
