"""The self-test of a broker: how fast it can release is measured once where nothing was, and whenever somebody asks.

Another process measures an engine of its own in a directory of the store (measuring.py): what comes meanwhile is
answered as ever, and a clock that is simulated or set by hand does not count. The engine says when it is quiet enough
(timer/pace.py) and keeps the figure.

    look ── every second, until there is a figure ──► the engine wants one ──┐
    14016 MEASURE_RELEASES ──────────────────────────────────────────────────┴─► Trial.run (thread) ──► answers
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

from ..engine.disk import Files, OsFiles, join
from ..engine.engine import Engine
from ..engine.timer.pace import SCRATCH, Measured, measured_json
from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import RequestRefused
from ..rocketmq.fields import json_body
from ..rocketmq.frame import Command
from .connection import Connection, Handler
from .pump import Done, JobThread

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often the engine is asked whether it wants a figure."""

PATIENCE_S = 25.0
"""A measuring process that takes longer is ended."""

AGAIN_S = 10.0
"""Who asks so soon after it was measured is told that: a broker does not measure all the time, whoever asks."""

_PROGRAM = f"{__package__}.measuring"
_MOST_SAID = 300


class Trial:
    """One measurement, as a job of a thread: a process that is waited for. `per_s` is None where it failed."""

    def __init__(self, root: str, flush: str) -> None:
        self.per_s: float | None = None
        self.why = ""
        self._scratch = join(root, SCRATCH)
        self._flush = flush
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Measure; raises OSError if the process cannot be begun."""
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        with self._lock:
            if self._is_ended:
                return
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, self._scratch, self._flush],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        try:
            said, wrong = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.why = f"It took longer than {PATIENCE_S:g} s."
        else:
            self._read(process.returncode, said, wrong)
        finally:
            OsFiles().remove_directory(self._scratch)

    def _read(self, code: int, said: str, wrong: str) -> None:
        try:
            self.per_s = float(json.loads(said)["perS"])
        except (ValueError, KeyError, TypeError):
            self.why = " ".join(wrong.split())[-_MOST_SAID:] or f"The measuring process ended with {code}."

    def end(self) -> None:
        """End it, wherever it is; fine if it has ended."""
        with self._lock:
            self._is_ended = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()


class SelfTest:
    """Measures how fast the broker can release: by itself where it `is_on`, and for who asks (14016).

    Of a simulated clock `speed` seconds pass in one, so that fewer are released in each of them.
    """

    def __init__(
        self, engine: Engine, files: Files, clock: Callable[[], int], *, is_on: bool, speed: float = 1.0
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._speed = speed
        #: a store that is no directory of this machine cannot be measured by another process
        self._is_possible = isinstance(files, OsFiles)
        self._is_on = is_on and self._is_possible
        self._loop = asyncio.get_running_loop()
        self._trials: JobThread[Trial] = JobThread("self-test", self._loop, self._tried)
        self._trial: Trial | None = None
        self._asked: list[tuple[Connection, Command]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._measured_s: float | None = None

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.MEASURE_RELEASES: self._measure}

    def start(self) -> None:
        """Look from now on whether a figure is wanted, until there is one."""
        if self._is_on and self._engine.timers.pace.measured is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._engine.wants_self_test(self._clock()):
            self._begin()
        else:
            self.start()

    def _measure(self, connection: Connection, request: Command) -> Command | None:
        """Measure now; who asks while it is measured, or shortly afterwards, is answered with the same."""
        if not self._is_possible:
            raise RequestRefused(Answer.REQUEST_CODE_NOT_SUPPORTED, "The store of this broker is on no disk.")
        self._engine.admit_self_test()
        if self._measured_s is not None and self._loop.time() - self._measured_s < AGAIN_S:
            return request.answer(body=self._told(self._engine.timers.pace.measured))
        self._asked.append((connection, request))
        self._begin()
        return None

    def _begin(self) -> None:
        if self._trial is None and not self._is_stopped:
            config = self._engine.config
            self._trial = Trial(config.root, config.flush)
            self._trials.submit(self._trial)

    def _tried(self, trial: Trial, done: Done) -> None:
        self._trial = None
        asked, self._asked = [(peer, request) for peer, request in self._asked if peer.is_open], []
        if trial.per_s is None:
            why = trial.why or str(done.error or "the broker stops")
            if not self._is_stopped:
                logger.warning("how fast timers can be released could not be measured: %s", why)
            for connection, request in asked:
                connection.send(request.answer(code=Answer.SYSTEM_ERROR, remark=f"It could not be measured: {why}"))
            return
        measured = self._engine.self_tested(trial.per_s / self._speed, self._clock())
        self._measured_s = self._loop.time()
        logger.info("a self-test released %.0f timers a second", measured.per_s)
        body = self._told(measured)
        for connection, request in asked:
            connection.send(request.answer(body=body))

    def _told(self, measured: Measured | None) -> bytes:
        return json_body({"nowMs": self._clock(), **measured_json(measured)})

    def stop(self) -> None:
        """End what is measured, and look no more; fine if nothing was begun."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._trial is not None:
            self._trial.end()
        self._trials.stop()
