"""SIGTERM and SIGINT as a wish to stop, noticed whenever they come; used by commands and by `Consumer.run`."""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Within `with`, signals set `is_set` and end `wait()`; for the main thread.

    A `threading.Event` set by a handler is not enough: Python runs handlers in the main thread only, and when the
    system gives the signal to another thread, or just before the wait begins, nothing wakes the main thread. The
    interpreter's wake-up descriptor is written by whichever thread is interrupted.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)

    @property
    def is_set(self) -> bool:
        """Whether to stop."""
        return self._asked.is_set()

    def set(self) -> None:
        """Ask to stop, from any thread."""
        self._asked.set()
        try:
            self._wake.send(b"\0")
        except OSError:  # full: it is awake already; closed: nobody waits
            return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether to stop, as soon as that is known or after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._asked.is_set():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if select.select([self._woken], [], [], left)[0]:
                self._woken.recv(4096)
        return True

    def __enter__(self) -> Self:
        self._descriptor = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        self._wake.close()
        self._woken.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()
