"""The transaction producers of this process: one a group, made at first use, anew in a forked child.

Each answers checks too (`decisions.check`): a broker asks any live member of the group, so every member must know.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress

from ..client import ClientError, TransactionProducer
from .configuration import namesrv
from .decisions import check, confirmed

_lock = threading.Lock()
_kept: dict[tuple[int, str, str], TransactionProducer] = {}


def producer_of(group: str) -> TransactionProducer:
    """The producer of `group` at the configured name server."""
    address = namesrv()
    key = (os.getpid(), address, group)
    with _lock:
        kept = _kept.get(key)
        if kept is None:
            kept = _kept[key] = TransactionProducer(group, address, check=check, confirmed=confirmed)
        return kept


def close_all() -> None:
    """Sign off from the brokers, so that they ask others at once; idempotent."""
    with _lock:
        mine = [key for key in _kept if key[0] == os.getpid()]
        closing = [_kept.pop(key) for key in mine]
    for each in closing:
        with suppress(ClientError):
            each.close()


def _forget() -> None:
    """After a fork: connections and lock are the parent's."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)
