"""What a service keeps that follows from the log: progress, wheels, open transactions.

The log is the truth. A service hears of its records when they become visible (``synced``), saves what it made of them
with each checkpoint (``state`` and ``writes``), and after a crash hears of every record behind the checkpoint again
(``walked``, ``heard``), so that it comes to the same state whatever was lost.

    open:   resume(saved, whole)  walked(...) heard(...) in order of position  start(now_ms)
    run:    synced(notes)  tick(now_ms)  ...  state() writes() -> run() in a thread -> saved() | not saved
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..rocketmq.message import Message
from .disk.files import Files


class DerivedWrite(Protocol):
    """Files of a service that a checkpoint vouches for."""

    def run(self, files: Files) -> None:
        """Write and sync them; any thread, after the log was synced and before the checkpoint. Raises OSError."""

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Take over the outcome, in the engine's thread; ``saved`` says that the checkpoint stands."""


class Derived(Protocol):
    """One service. ``topics``: whose records it wants to hear of; parked ones stand in one of them."""

    name: str
    topics: frozenset[str]

    @property
    def may_checkpoint(self) -> bool:
        """False while only the log can tell what was done, so that no checkpoint may pass it."""

    def resume(self, saved: Any | None, *, whole: bool) -> None:
        """Take over what the last checkpoint kept, None without one; ``whole``: all of the log is walked now."""

    def walked(self, message: Message) -> None:
        """Hear from recovery of a record of its topics."""

    def heard(self, parked: Message) -> None:
        """Hear from recovery that this parked record went out: a record that names it (ESC_SOURCE) is in the log."""

    def start(self, now_ms: int) -> None:
        """Begin to work, as recovery is over."""

    def synced(self, notes: Sequence[Any], now_ms: int) -> None:
        """Take over what it noted (``Store.note``) on records that are visible now."""

    def tick(self, now_ms: int) -> int | None:
        """Do what is due; return the moment of the next thing to do, None without any."""

    def state(self) -> Any:
        """Return what the checkpoint shall keep: small, JSON, equal as long as nothing changed."""

    def writes(self, *, clean: bool) -> DerivedWrite | None:
        """Return the files to write with a checkpoint taken now; ``clean``: it is the last one."""

    def oldest_position(self) -> int | None:
        """Return the lowest position of a record that is still needed, None if none is."""
