"""Opening a store: the marks of the last stop, the tables, recovery, then the progress of the delay levels."""

from __future__ import annotations

from typing import Any

from .disk import json_file
from .disk.files import Files, join
from .schedule import Schedule
from .store.checkpoint import Checkpoint
from .store.recovery import Recovery
from .store.store import Store


def open_store(store: Store, schedule: Schedule) -> int:
    """Bring a store and its delay levels to the state the log says; return how many records were walked.

    Raises StoreUnsupported, OSError.
    """
    files, root = store.files, store.config.root
    abort = join(root, "abort")
    checkpoint = store.checkpoints.load()
    was_clean = checkpoint is not None and checkpoint.clean and not files.exists(abort)
    if not files.exists(abort):
        files.open(abort, create=True).close()
        files.sync_directory(root)
    topics_known = store.topics.load()
    store.groups.load()
    store.offsets.load()
    recovery = Recovery(store, schedule.heard)
    recovery.run(checkpoint, was_clean=was_clean, topics_known=topics_known)
    schedule.resume(saved_offsets(files, root, checkpoint))
    schedule.start()
    return recovery.records_walked


def saved_offsets(files: Files, root: str, checkpoint: Checkpoint | None) -> dict[int, int]:
    """Return the next offset to release by level: what ``delayOffset.json`` or the checkpoint says, the further one."""

    def read(saved: dict[str, Any]) -> dict[int, int]:
        return {int(level): int(offset) for level, offset in (saved.get("offsetTable") or {}).items()}

    offsets = json_file.load(files, join(root, "config", "delayOffset.json"), read) or {}
    for level, offset in (checkpoint.level_offsets if checkpoint else {}).items():
        offsets[int(level)] = max(offset, offsets.get(int(level), 0))
    return offsets
