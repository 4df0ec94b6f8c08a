"""The hold: while a backup copies what checkpoints write, the broker writes no checkpoint and removes no segment.

It is the lock on a file in the store, ``escapement.backup``, that broker and backup take in turn; so it ends with the
process that has it, however that ends. A broker that was kept waiting for minutes goes on without it
(``engine/log/upkeep.py``); the backup notices by the number of the checkpoint, and copies again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..engine.disk import Files, join
from ..engine.errors import StoreLocked
from ..engine.log.upkeep import BACKUP_LOCK
from .errors import BackupRefused

#: A checkpoint takes seconds at most; who has the lock for longer is another backup.
_PATIENCE_S = 600.0
_PAUSE_S = 0.02


def rest() -> None:
    """Let the broker get on for a moment."""
    time.sleep(_PAUSE_S)


@contextmanager
def held(files: Files, root: str, pause: Callable[[], None] = rest) -> Iterator[None]:
    """Hold the store's checkpoints off. Raises BackupRefused if another backup does so for too long."""
    path = join(root, BACKUP_LOCK)
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            lock = files.lock(path)
            break
        except StoreLocked:
            if time.monotonic() > end_s:
                raise BackupRefused(
                    f"Another backup of {root} has been running for minutes; wait for it, or end it."
                ) from None
            pause()
    try:
        yield
    finally:
        lock.close()
