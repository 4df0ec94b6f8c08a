"""Checking a store without changing it: every checksum of the log, queues and index against the log, the tables.

    report = check_store(OsFiles(), directory)

It takes no lock and writes nothing, so it may run beside a broker: what that broker has not written yet (queues and
index follow the log by some seconds, the last record may be under way) is counted as unfinished, not as damage; so is
what a kill or a power loss left of them behind the last checkpoint (``vouched.py``).
Read ``store.py`` first. The walk through the log is written anew here on purpose, so that the store is not judged by
the code that wrote it; only the record codec is shared.
"""

from __future__ import annotations

from .report import Damage, Report
from .store import check_store

__all__ = ["Damage", "Report", "check_store"]
