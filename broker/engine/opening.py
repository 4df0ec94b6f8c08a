"""Opening a store: the marks of the last stop, the tables, recovery, then the services."""

from __future__ import annotations

from collections.abc import Sequence

from .derived import Derived
from .disk.files import join
from .log.recovery import Recovery
from .store import Store


def open_store(store: Store, services: Sequence[Derived], now_ms: int) -> int:
    """Bring a store and its services to the state the log says; return how many records were walked.

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
    store.key_values.load()
    recovery = Recovery(store, services)
    recovery.run(checkpoint, was_clean=was_clean, topics_known=topics_known)
    for service in services:
        service.start(now_ms)
    return recovery.records_walked
