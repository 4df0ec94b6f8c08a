"""The mark of a store that lives by a simulated clock: the file ``simulatedClock`` in its directory.

It holds a moment (epoch ms, 20 digits, a line feed) that its clock has not passed. A store has the mark from before its
first message on, or never: moments of a simulated clock among those of the wall clock would make timers leave at once,
or in years.
"""

from __future__ import annotations

from ..disk.files import Files, join
from ..errors import StoreUnsupported

MARK = "simulatedClock"
_DIGITS = 20


def admit(files: Files, root: str, now_ms: int, *, is_simulated: bool) -> None:
    """Let a broker have the store, which it has locked, and mark a new one. Raises StoreUnsupported, OSError."""
    is_marked = files.exists(join(root, MARK))
    if is_marked and not is_simulated:
        raise StoreUnsupported(
            f"The store {root} lived by a simulated clock, its moments are made up: open it with"
            " ESCAPEMENT_SIMULATED_CLOCK set, or give this broker another directory (ESCAPEMENT_STORE)."
        )
    if is_simulated and not is_marked:
        if files.list(join(root, "commitlog")):
            raise StoreUnsupported(
                f"The store {root} lived by the real clock, a simulated one would spoil its moments: give the"
                " demonstration a directory of its own (ESCAPEMENT_STORE), or leave ESCAPEMENT_SIMULATED_CLOCK out."
            )
        note_reached(files, root, now_ms)


def reached_ms(files: Files, root: str) -> int | None:
    """Return the moment that the store's clock has not passed; None without a mark."""
    if not files.exists(join(root, MARK)):
        return None
    file = files.open(join(root, MARK))
    try:
        written = file.read(_DIGITS, 0)
    finally:
        file.close()
    return int(written) if written.isdigit() else 0


def note_reached(files: Files, root: str, moment_ms: int) -> None:
    """Write, durably, that the clock has not passed a moment; makes the mark where there is none."""
    path = join(root, MARK)
    is_new = not files.exists(path)
    file = files.open(path, create=True)
    try:
        file.write(f"{moment_ms:0{_DIGITS}d}\n".encode(), 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        files.sync_directory(root)
