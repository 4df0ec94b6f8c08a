"""Processes that end with the one that started them, however that ended (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

#: prctl(2): the signal that a process gets when its parent dies, so that a killed supervisor leaves no orphans.
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child does between fork and exec, so that the kernel sends it this signal when its parent is gone."""

    def ask_kernel() -> None:
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, number)

    return ask_kernel
