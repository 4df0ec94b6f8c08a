"""Processes that compute for this one, and end with it: the console itself loads neither Spark nor DuckDB."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings

#: Held by the task that computes: one at a time in a worker, however many threads it has for other tasks. Who finds it
#: held tries again after so long.
_computing = threading.Lock()
AGAIN_S = 2.0
#: What this process started to compute, and whether it is about to end.
_processes: set[subprocess.Popen[str]] = set()
_is_ending = threading.Event()


def run_module(module: str, order: str, tell: Callable[[str], None] = lambda _line: None) -> None:
    """Run a module, give it an order on standard input and wait for its end; ``tell`` is called with each line that it
    answers. Raises CalledProcessError.
    """
    command = [sys.executable, "-m", module]
    with subprocess.Popen(
        command, text=True, cwd=settings.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        _processes.add(process)
        try:
            if _is_ending.is_set():
                process.terminate()
            _give(process, order)
            for line in process.stdout or ():
                tell(line)
            process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            _processes.discard(process)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


@contextmanager
def computing() -> Iterator[bool]:
    """Yield whether no other task of this process computes; none does meanwhile."""
    is_alone = _computing.acquire(blocking=False)
    try:
        yield is_alone
    finally:
        if is_alone:
            _computing.release()


def _give(process: subprocess.Popen[str], order: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(order)
        process.stdin.close()
    except BrokenPipeError:
        return  # it ended already; its exit code says so


def end_all() -> None:
    """End what computes for this process, which is about to end itself."""
    _is_ending.set()
    for process in list(_processes):
        process.terminate()


def is_ending() -> bool:
    """Tell whether this process is about to end."""
    return _is_ending.is_set()
