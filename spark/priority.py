"""Reading gives way to the broker: processors and disk serve everybody else first."""

from __future__ import annotations

import contextlib
import os

import psutil

#: Of 19, which is the lowest priority there is.
NICENESS = 15


def give_way(*, is_patient: bool = False) -> None:
    """Lower the priority of this process and of all that it starts; where that is not allowed, nothing changes.

    ``is_patient``: it may wait as long as anything else wants a processor. A process that is only nice finishes its
    slice, some ms, before it makes room for one that wakes up; a patient one makes room at once.
    """
    mine = psutil.Process()
    with contextlib.suppress(psutil.Error, OSError):
        mine.nice(max(NICENESS, mine.nice()))
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        mine.ionice(psutil.IOPRIO_CLASS_IDLE)
    if is_patient and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
