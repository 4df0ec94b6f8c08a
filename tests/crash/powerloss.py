"""Power loss at every write boundary of a workload: each boundary, many ways to lose what was not synced."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from broker.engine.fsck.store import check_store
from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import open_engine

from .oracle import Found, open_and_read
from .workload import Workload

#: Many losses leave the same disk, mostly those of one boundary and the next ones.
OPENED_KEPT = 256


@dataclass(slots=True)
class Campaign:
    """Counts of what was tried.

    ``random_losses``: per boundary. ``nested_share``, ``rebuilt_share``: of states, those whose recovery is cut too,
    and those that are compared with a store rebuilt from the log alone.
    """

    random_losses: int = 3
    nested_share: float = 0.02
    rebuilt_share: float = 0.05
    config: dict[str, Any] = field(default_factory=dict)
    states: int = 0
    distinct: int = 0
    nested: int = 0
    rebuilt: int = 0
    boundaries: int = 0
    workloads: int = 0
    health: Counter[str] = field(default_factory=Counter)
    _opened: dict[Hashable, Found] = field(default_factory=dict)

    def run(self, seed: int, steps: int) -> None:
        """Run one workload and try every boundary of it. Raises AssertionError that says how to repeat it."""
        self.workloads += 1
        self._opened.clear()
        files = SimulatedFiles()
        workload = Workload(seed, files, **self.config)
        draws = random.Random(seed + 1)

        def at_boundary() -> None:
            self.boundaries += 1
            for loss in self._losses(files.sequence, draws):
                try:
                    self._try(workload, files.crash(loss), draws)
                except Exception as error:
                    where = f"seed {seed}, steps {steps}, operation {files.sequence}, {loss}, {self.config}"
                    raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error

        files.on_change = at_boundary
        workload.run(steps)

    def _losses(self, sequence: int, draws: random.Random) -> list[PowerLoss]:
        recent = max(0, sequence - draws.randint(1, 8))
        losses = [PowerLoss("kill"), PowerLoss("all"), PowerLoss("prefix", draws.randrange(1 << 30), recent)]
        return losses + [PowerLoss("random", draws.randrange(1 << 30)) for _ in range(self.random_losses)]

    def _try(self, workload: Workload, disk: SimulatedFiles, draws: random.Random) -> None:
        """Check one disk; some recoveries are themselves cut at every boundary, some are compared with a rebuild."""
        now_ms = workload.clock.now_ms + draws.choice((0, 1, 700, 5_000))
        if draws.random() < self.nested_share:
            self._cut_recovery(workload, disk.crash(PowerLoss("kill")), now_ms, draws)
        if draws.random() < self.rebuilt_share:
            self._compare_with_rebuilt(workload, disk.crash(PowerLoss("kill")), now_ms)
        self.health[self._judge(workload, disk, now_ms).health.state] += 1

    def _judge(self, workload: Workload, disk: SimulatedFiles, now_ms: int) -> Found:
        """Check the promises of one disk; one that was opened at this moment before is not opened again."""
        oracle = workload.oracle
        key = (hash(tuple(disk.contents().items())), now_ms, tuple(oracle.queues.items()))
        found = self._opened.get(key)
        if found is None:
            found = open_and_read(disk, now_ms, oracle.queues, **self.config)
            if len(self._opened) == OPENED_KEPT:
                del self._opened[next(iter(self._opened))]
            self._opened[key] = found
            self.distinct += 1
        oracle.judge(found)
        self.states += 1
        return found

    def _cut_recovery(self, workload: Workload, disk: SimulatedFiles, now_ms: int, draws: random.Random) -> None:
        halves: list[SimulatedFiles] = []
        disk.on_change = lambda: halves.append(disk.crash(self._losses(disk.sequence, draws)[draws.randrange(4)]))
        driver = open_engine(disk, clock=ManualClock(now_ms), **self.config)
        driver.tick()
        driver.upkeep()
        disk.on_change = None
        for half in halves:
            self._judge(workload, half, now_ms)
        self.nested += len(halves)

    def _compare_with_rebuilt(self, workload: Workload, disk: SimulatedFiles, now_ms: int) -> None:
        """I8: what recovery made of the derived files is what the log alone says."""
        self._judge_derived(disk, "before the start")
        recovered = open_engine(disk, clock=ManualClock(now_ms), **self.config)
        self._judge_derived(disk, "after the start")
        bare = disk.crash(PowerLoss("kill"))
        for path in bare.contents():
            if path.startswith(("/store/consumequeue/", "/store/index/")) or "checkpoint" in path:
                bare.remove(path)
        bare.sync_directory("/store")
        rebuilt = open_engine(bare, clock=ManualClock(now_ms), **self.config)
        for topic, queues in workload.oracle.queues.items():
            for queue_id in range(queues):
                assert recovered.readable(topic, queue_id) == rebuilt.readable(topic, queue_id), (
                    f"I8: {topic} {queue_id}"
                )
        for body in workload.oracle.acknowledged:
            sent = workload.oracle.sent[body]
            if (key := sent.properties.get("UNIQ_KEY")) and sent.ticket.due_ms is None:
                for driver in (recovered, rebuilt):
                    found = driver.engine.find(sent.topic, key, begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=now_ms)
                    assert found == [sent.ticket.position], f"I8: key {key} leads to {found}"
        if recovered.engine.health().state == "OK":
            recovered.close()
            report = check_store(disk, "/store")
            assert not report.damages, f"I8: fsck after a clean stop finds {report.damages}"
        self.rebuilt += 1

    def _judge_derived(self, disk: SimulatedFiles, when: str) -> None:
        """I8: of queues and index nothing is damaged that the checkpoint vouches for."""
        damages = check_store(disk, "/store").damages
        bad = [damage for damage in damages if damage.path.startswith(("/store/consumequeue", "/store/index"))]
        assert not bad, f"I8: fsck finds {when} {bad}"

    def report(self, name: str) -> str:
        """Return the line that every run prints."""
        return (
            f"{name}: {self.states:,} crash states ({self.distinct:,} different) at {self.boundaries:,} boundaries"
            f" of {self.workloads} workloads ({self.nested:,} during recovery, {self.rebuilt:,} rebuilt), 0 violations,"
            f" health {dict(self.health)}"
        )
