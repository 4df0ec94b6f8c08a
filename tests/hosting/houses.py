"""A supervisor in a process of its own, as the tests drive it."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

DEADLINE_S = 30.0
POLL_S = 0.02
PROGRAM = """
import json, sys
from pathlib import Path
from console.run.supervisor import ChildSpec
from console.run.supervisor import Roster
from console.run.supervisor import Supervisor
specs, once, logs = json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
def say(name, text):
    print(f'{name} | {text}', flush=True)
children = [ChildSpec(name, tuple(command), runs_once=name in once) for name, *command in specs]
told = Roster(logs.parent / 'processes.json').write
raise SystemExit(Supervisor(children, logs, say, on_change=told).run(lambda: say('run', 'everything started')))
"""


class Run:
    """One supervisor and what it says."""

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "log"
        self.logs.mkdir()
        self.journal = directory / "journal"
        self.roster = directory / "processes.json"
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None

    def start(self, specs: list[list[str]], once: tuple[str, ...] = ()) -> None:
        """Run the supervisor with these children: name, then command."""
        arguments = [json.dumps(specs), json.dumps(once), str(self.logs)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        threading.Thread(target=self._read, args=[self._process], daemon=True).start()

    def await_line(self, part: str) -> str:
        """The next line that contains `part`."""
        end_s = monotonic() + DEADLINE_S
        while True:
            line = self._lines.get(timeout=max(end_s - monotonic(), 0.001))
            if part in line:
                return line

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def end(self) -> None:
        """Stop it if a test did not."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
            self.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        # children of one that was killed keep the pipe open, so `end` closes it while it is read
        with suppress(ValueError):
            for line in process.stdout:
                self._lines.put(line.rstrip("\n"))
