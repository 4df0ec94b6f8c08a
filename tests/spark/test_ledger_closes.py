"""The ledger closes on stores of our own engine, whatever crashed while they were written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.client import Admin
from broker.engine.testing import PowerLoss, SimulatedFiles
from broker.testing import BrokerThread, small_store
from console.run.replay import Options
from spark.jobs import JOBS
from spark.question import Question
from tests.console.run.playing import Run, write_days
from tests.crash.timerload import TimerLoad
from tests.crash.transactions import Simulation
from tests.crash.workload import Workload
from tests.spark import plain
from tests.spark.count import count_all
from tests.spark.figures import points_of
from tests.spark.test_jobs import view
from tests.spark.test_stores import segments_of
from tests.waiting import until

Store = tuple[dict[int, bytes], int]


def transactions(seed: int) -> Store:
    """Transactions, with power failures wherever something is written."""
    simulation = Simulation(seed)
    simulation.run(60)
    assert simulation.ledger.tried["crash"] and simulation.ledger.tried["cut while writing"]
    return segments_of(simulation.files), simulation.clock.now_ms


def timers(seed: int) -> Store:
    """Timers sent, moved, cancelled and delivered; the power fails in the middle, and all time passes."""
    files, draws = SimulatedFiles(), random.Random(seed)
    load = TimerLoad(seed, files)
    crashed: list[tuple[SimulatedFiles, int]] = []

    def at_boundary() -> None:
        if len(load.book.timers) > 15 and not crashed and draws.random() < 0.2:
            crashed.append((files.crash(PowerLoss("random", draws.randrange(1 << 30))), load.clock.now_ms))
            load.book.check(*crashed[0]).close()

    files.on_change = at_boundary
    load.run(40)
    [(disk, now_ms)] = crashed
    return segments_of(disk), now_ms + 400_000


def levels(seed: int) -> Store:
    """Delay levels, batches, restarts; then a killed process."""
    files = SimulatedFiles()
    load = Workload(seed, files)
    load.run(60)
    load.send_delayed()
    return segments_of(files.crash(PowerLoss("kill"))), load.clock.now_ms


def test_the_ledger_closes_on_the_demonstration(session: SparkSession, tmp_path: Path) -> None:
    with BrokerThread(small_store(tmp_path, "1s 30s 1m 10m 30m 1h 2h")) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, write_days(tmp_path / "demo"), speed=1440.0)):
            until(lambda: admin.timer_status().cancelled_total > 0)
            until(lambda: admin.timer_status().rescheduled_total > 0)
            until(lambda: admin.timer_status().released_total > 0)
        now_ms = admin.timer_status().now_ms
    segments = {int(path.name): path.read_bytes() for path in (tmp_path / "store" / "commitlog").iterdir()}
    frames = view(session, segments)
    rows = JOBS["ledger"](frames, Question(now_ms)).collect()
    frames.drop()
    found = points_of([tuple(row) for row in rows])
    totals = Counter[str]()
    for key, value in found.items():
        totals[key[0]] += int(value)
    assert totals["accepted"] > 200
    assert min(totals["pending"], totals["released"], totals["cancelled"]) > 0
    assert totals["difference"] == 0 and "alarm" not in totals
    expected = count_all(plain.messages(segments), now_ms, [], 1)["ledger"]
    assert {key: value for key, value in found.items() if value} == {k: v for k, v in expected.items() if v}


@pytest.mark.parametrize(
    ("write", "seed", "accepted"),
    [(transactions, 1, 40), (transactions, 6, 40), (timers, 3, 20), (timers, 5, 20), (levels, 2, 20)],
)
def test_the_ledger_closes_after_crashes(
    session: SparkSession, write: Callable[[int], Store], seed: int, accepted: int
) -> None:
    segments, now_ms = write(seed)
    frames = view(session, segments)
    rows = JOBS["ledger"](frames, Question(now_ms)).collect()
    frames.drop()
    found = points_of([tuple(row) for row in rows])
    assert sum(value for key, value in found.items() if key[0] == "accepted") >= accepted
    assert {value for key, value in found.items() if key[0] == "difference"} == {0.0}
    # where unanswered writes were torn, bytes are left without a record: nothing else may be wrong
    assert {key[3] for key in found if key[0] == "alarm"} <= {"lost"}
    expected = count_all(plain.salvaged(segments), now_ms, [], 1)["ledger"]
    sound = {key: value for key, value in found.items() if value and key[0] != "alarm"}
    assert sound == {key: value for key, value in expected.items() if value and key[0] != "alarm"}
