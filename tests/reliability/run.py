"""One run: a broker, its clients, the faults of a seed, and what the checker says of it."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.reliability.checker import Verdict, check, missing
from tests.reliability.faults import KINDS, Fault, drawn
from tests.reliability.history import Recorder, now_ms
from tests.reliability.lives import Promises
from tests.reliability.rig import Lasting, Rig
from tests.reliability.workload import Clients, read_topics

#: What each broker says of itself. Apache RocketMQ keeps timers by the second, only notes the wish to recall one, and
#: may release and commit again what it had not noted when it was killed.
PROMISES = {
    "escapement": Promises(),
    "apache": Promises(tick_ms=1_000, cancels_are_definite=False, releases_once=False),
}
SETTLE_S = 75.0
#: So long after the last moment of a timer what must not come has come, if it does.
QUIET_MS = 2_500


@dataclass(frozen=True, slots=True)
class Course:
    """What to run."""

    broker: str
    seed: int
    faults: int = 5
    kinds: tuple[str, ...] = KINDS
    flush: str = "sync"
    has_java: bool = False
    together: bool = False
    """Whether two faults come together."""
    members: int = 1
    """Members of each group that is pushed to or pops; all but one come and go."""

    @property
    def command(self) -> str:
        """The line that repeats it."""
        flush = "" if self.flush == "sync" else f" --flush {self.flush}"
        kinds = "" if self.kinds == KINDS else f" --kinds {','.join(self.kinds)}"
        more = " --java" if self.has_java else ""
        more += " --together" if self.together else ""
        more += f" --members {self.members}" if self.members > 1 else ""
        plan = f"--seed {self.seed} --faults {self.faults}"
        return f"python -m tests.reliability {self.broker} {plan}{kinds}{flush}{more}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    course: Course
    faults: Sequence[Fault]
    deaths: int
    took_s: float
    verdict: Verdict
    history: Path

    def line(self) -> str:
        """One line: what was run, the counts, the violations."""
        counts, bad = self.verdict.counts, self.verdict.kinds()
        done = Counter(fault.kind if fault.into is None else f"{fault.kind}+{fault.into.kind}" for fault in self.faults)
        faults = " ".join(f"{kind} {count}" for kind, count in sorted(done.items())) or "none"
        numbers = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()) if count)
        wrong = ", ".join(f"{kind} {count}" for kind, count in sorted(bad.items())) or "none"
        return (
            f"{self.course.broker} seed {self.course.seed} flush {self.course.flush}: faults {faults}"
            f"{f', ended by itself {self.deaths}' if self.deaths else ''}; {numbers}; {self.took_s:.0f} s; "
            f"violations: {wrong}"
        )

    def details(self) -> str:
        """The line, each violation, and how to repeat it."""
        shown = [f"  {violation}" for violation in self.verdict.violations[:30]]
        return "\n".join([self.line(), *shown, f"  history: {self.history}", f"  again: {self.course.command}"])


async def live(course: Course, work: Path) -> Report:
    """Run it once below this directory, which keeps the history and the broker's logs."""
    began_s = time.monotonic()
    recorder = Recorder(work / "history.jsonl")
    knows_keys = course.broker == "escapement"
    promises = PROMISES[course.broker]
    faults = drawn(course.seed, course.faults, course.kinds, together=course.together)
    rig = Rig(
        course.broker, work, recorder, flush=course.flush, has_disk=not {"full", "starved"}.isdisjoint(course.kinds)
    )
    clients: Clients | None = None
    try:
        await rig.start()
        clients = Clients(rig.namesrv, recorder, course.seed, knows_keys=knows_keys, members=course.members)
        await clients.prepare()
        if course.has_java:
            await clients.start_java(work)
        await clients.start()
        lasting = Lasting()
        for fault in faults:
            await lasting(fault.pause_s)
            await rig.do(fault, lasting)
        await lasting(1.0)
        await clients.stop_sending()
        await rig.revive()
        rig.heal()
        if left := await settle(recorder, clients, promises, lasting):
            # what comes after a restart was not lost: it stood still
            recorder.note("rig", "stood", f"{len(left)} messages", said=", ".join(left[:3]))
            await rig.do(Fault("restart", 0, 0), lasting)
            await settle(recorder, clients, promises, lasting)
        await read_topics(rig.namesrv, recorder, knows_keys=knows_keys)
        await clients.close()
        await rig.stop()
    finally:
        if clients is not None:
            await clients.close()
        await rig.clear()
        recorder.close()
    verdict = check(recorder.events, promises)
    return Report(course, faults, rig.deaths, time.monotonic() - began_s, verdict, recorder.path)


async def settle(recorder: Recorder, clients: Clients, promises: Promises, lasting: Lasting) -> list[str]:
    """Wait until readers have what they are to get, and for what they must not get, but not for ever; what is left."""
    ends_s = time.monotonic() + SETTLE_S
    while True:
        clients.collect()
        left = missing(recorder.events, promises)
        if (not left and now_ms() >= clients.last_due_ms + QUIET_MS) or time.monotonic() >= ends_s:
            return left
        await lasting(0.5)


def forget(report: Report) -> None:
    """Remove what a run has left that found nothing."""
    shutil.rmtree(report.history.parent, ignore_errors=True)
