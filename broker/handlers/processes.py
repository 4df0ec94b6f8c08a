"""Several processes of one command: made by forking before anything has begun, kept running, ended together."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable

from ..client import StopSignals

logger = logging.getLogger(__name__)

#: A process that ended sooner is not begun again at once.
SOON_S, PAUSE_S, LOOK_S = 5.0, 1.0, 0.1


def run_in_processes(count: int, run: Callable[[int], int], *, is_kept: bool) -> int:
    """Run `run(number)` in `count` children until a signal; return the largest code that one ended with at the end.

    `is_kept`: one that ends by itself is begun again; else all are waited for.
    """
    children: dict[int, tuple[int, float]] = {}
    with StopSignals() as stop:
        for number in range(count):
            _fork(number, run, children)
        worst = 0
        while children and not stop.is_set:
            stop.wait(LOOK_S)
            for number, code, lived_s in _ended(children):
                if not is_kept:
                    worst = max(worst, code)
                elif not stop.is_set:
                    logger.error("process %d of %d ended with %d and is restarted", number + 1, count, code)
                    if lived_s < SOON_S:
                        stop.wait(PAUSE_S)
                    _fork(number, run, children)
        for pid in children:
            os.kill(pid, signal.SIGTERM)
        while children:
            worst = max([worst, *(code for _, code, _ in _ended(children))])
            if children:
                # a second signal does not end the children: they drain, and their own time-out ends that
                time.sleep(LOOK_S)
    return worst


def _fork(number: int, run: Callable[[int], int], children: dict[int, tuple[int, float]]) -> None:
    pid = os.fork()
    if pid:
        children[pid] = (number, time.monotonic())
        return
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        code = run(number)
    except BaseException:
        logger.exception("process %d failed", number + 1)
    finally:
        logging.shutdown()
        os._exit(code)


def _ended(children: dict[int, tuple[int, float]]) -> list[tuple[int, int, float]]:
    """Return number, code and age of those that have ended, and forget them."""
    found = []
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            number, began_s = children.pop(pid)
            found.append((number, abs(os.waitstatus_to_exitcode(status)), time.monotonic() - began_s))
    return found
