"""`python -m tests.crash.reference_run DIRECTORY NOTES`: a store on a real disk that does all it can, then a backup.

What was promised is noted in NOTES, a line each, before the next step: it is what a run that was killed is judged by.
It is always the same, so that the Nth system call of it is, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from broker.backup.directory import BackupDirectory
from broker.backup.taking import Origin, take
from broker.engine.disk import OsFiles
from broker.engine.testing import ManualClock, open_engine
from broker.engine.timer.steer import Target
from broker.engine.transaction.decision import Ending

TOPIC = "orders"


def run(directory: Path, notes: int) -> None:
    """Send, delay, time, cancel, decide, keep up, stop, start, keep up, back up."""
    root, clock = str(directory / "store"), ManualClock()

    def note(line: str) -> None:
        os.write(notes, f"{line}\n".encode())

    for part in range(2):
        driver = open_engine(OsFiles(), clock=clock, root=root)
        driver.engine.topics.ensure(TOPIC, 1)
        for number in range(4):
            body = f"sent-{part}-{number}"
            ticket = driver.send(TOPIC, body.encode().ljust(900, b"."), UNIQ_KEY=body)
            note(f"sent {ticket.queue_offset} {body}")
        for kind, asked in (
            ("level", {"DELAY": "1"}),
            ("timer", {"TIMER_DELAY_MS": "20000"}),
            ("gone", {"TIMER_DELAY_MS": "9000"}),
        ):
            body = f"{kind}-{part}"
            driver.send(TOPIC, body.encode(), UNIQ_KEY=body, **asked)
            note(f"waits {body}")
        driver.engine.steer_timer("cancel", Target(topic=TOPIC, unique_key=f"gone-{part}"), now_ms=clock.now_ms)
        driver.settle()
        note(f"cancelled gone-{part}")
        half = driver.send(TOPIC, b"half-%d" % part, UNIQ_KEY=f"half-{part}", TRAN_MSG="true", PGROUP="payers")
        driver.engine.transactions.end(Ending(half.queue_offset, half.position, True, "producer"), clock.now_ms)
        driver.settle()
        note(f"waits half-{part}")
        driver.engine.offsets.commit("readers", TOPIC, 0, 2 + part)
        clock.advance(6_000)
        driver.tick()
        driver.upkeep()
        note(f"offset {2 + part}")
        driver.close()
    back_up(root, str(directory / "backup"), clock.now_ms)
    note("backup")


def back_up(root: str, directory: str, now_ms: int) -> None:
    """Take a backup of a store that nobody has open."""
    target = BackupDirectory(OsFiles(), directory)
    take(OsFiles(), Origin(root, "broker-a", "test", lambda line: None, pause=lambda: None), target, now_ms)
    target.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
