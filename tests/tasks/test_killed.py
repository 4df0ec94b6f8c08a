"""Workers and the broker are killed: every task is over in the end, and what ran twice was running when it happened."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Admin
from tests.interop.servers import EscapementServer, StoreShape, served
from tests.tasks.project import START_S, Project, project
from tests.waiting import until

COUNT = 120
THREADS = 4
HELD = ("--held", "2")
KILLS = 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EscapementServer]:
    with served(EscapementServer(tmp_path / "store", tmp_path / "broker", StoreShape())) as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path, postgres: str, server: EscapementServer) -> Iterator[Project]:
    with project(tmp_path / "project", postgres, server.namesrv, sys.executable, "killed_tasks") as made:
        yield made


def test_no_task_is_lost_and_none_that_is_over_runs_again(shop: Project, server: EscapementServer) -> None:
    workers = [shop.worker("--threads", str(THREADS), *HELD) for _ in range(2)]
    shop.manage("fill", str(COUNT))
    for number in range(KILLS):
        reached = (number + 1) * COUNT // (KILLS + 2)
        until(lambda reached=reached: shop.states()["SUCCESSFUL"] >= reached, START_S)
        workers[number % 2].kill()
        if number % 2:
            server.kill()
            server.start()
        workers[number % 2] = shop.worker("--threads", str(THREADS), *HELD)
    until(lambda: shop.states() == {"SUCCESSFUL": COUNT}, START_S * 2)
    ran = shop.ran()
    assert sorted(ran) == list(range(COUNT))
    twice = [number for number, times in ran.items() if times > 1]
    assert len(twice) <= KILLS * THREADS
    assert [worker.stop() for worker in workers] == [0, 0]


def test_a_task_whose_worker_is_killed_after_it_finished_does_not_run_again(
    shop: Project, server: EscapementServer
) -> None:
    worker = shop.worker("--threads", "1", *HELD)
    shop.database.execute("SELECT pg_advisory_lock(1)")
    shop.manage("fill", "1", "--hold")
    until(lambda: shop.ran()[0] == 1, START_S)
    server.kill()  # so that the acknowledgement cannot arrive
    shop.database.execute("SELECT pg_advisory_unlock(1)")
    until(lambda: shop.states() == {"SUCCESSFUL": 1}, START_S)
    worker.kill()
    server.start()
    again = shop.worker("--threads", "1", *HELD)
    shop.manage("fill", "2")
    until(lambda: shop.states() == {"SUCCESSFUL": 3}, START_S)
    with Admin(server.namesrv) as admin:  # the first message came again, too
        until(lambda: admin.consume_stats("tasks_workers").lag == 0, START_S)
    assert again.stop() == 0
    assert shop.ran() == {0: 2, 1: 1}  # the one that was held, and those of the second filling


def test_a_task_whose_worker_is_killed_in_it_runs_again(shop: Project) -> None:
    worker = shop.worker("--threads", "1", *HELD)
    shop.database.execute("SELECT pg_advisory_lock(1)")
    shop.manage("fill", "1", "--hold")
    until(lambda: shop.ran()[0] == 1, START_S)
    worker.kill()
    shop.database.execute("SELECT pg_advisory_unlock(1)")
    again = shop.worker("--threads", "1", *HELD)
    until(lambda: shop.states() == {"SUCCESSFUL": 1}, START_S)
    assert again.stop() == 0
    assert shop.ran() == {0: 2}
    (attempts,) = shop.database.execute("SELECT jsonb_array_length(worker_ids) FROM escapement_task").fetchone() or ()
    assert attempts == 2


def test_a_worker_that_is_told_to_stop_finishes_its_task(shop: Project) -> None:
    worker = shop.worker("--threads", "1")
    shop.database.execute("SELECT pg_advisory_lock(1)")
    shop.manage("fill", "1", "--hold")
    until(lambda: shop.ran()[0] == 1, START_S)
    worker.process.terminate()
    shop.database.execute("SELECT pg_advisory_unlock(1)")
    assert worker.process.wait(START_S) == 0
    assert (worker.stop(), shop.states()) == (0, {"SUCCESSFUL": 1})


def test_a_task_that_does_not_end_in_time_is_left_behind_and_runs_again(shop: Project) -> None:
    worker = shop.worker("--threads", "1", "--drain-timeout", "0.1", *HELD)
    shop.database.execute("SELECT pg_advisory_lock(1)")
    shop.manage("fill", "1", "--hold")
    until(lambda: shop.ran()[0] == 1, START_S)
    worker.process.terminate()
    assert worker.process.wait(START_S) == 1
    worker.stop()
    assert "1 tasks did not end within the drain timeout" in shop.log()
    shop.database.execute("SELECT pg_advisory_unlock(1)")
    again = shop.worker("--threads", "1", *HELD)
    until(lambda: shop.states() == {"SUCCESSFUL": 1}, START_S)
    assert again.stop() == 0


def test_processes_are_started_again_and_end_together(shop: Project) -> None:
    workers = shop.worker("--processes", "2", "--threads", "2", *HELD)
    until(lambda: sum("runs tasks of" in line for line in workers.lines) == 2, START_S)
    shop.manage("fill", "20")
    until(lambda: shop.states() == {"SUCCESSFUL": 20}, START_S)
    killed = int(workers.lines[0].split("-")[-2])
    os.kill(killed, signal.SIGKILL)
    until(lambda: sum("runs tasks of" in line for line in workers.lines) == 3, START_S)
    assert workers.stop() == 0
    assert sorted(shop.ran()) == list(range(20))


def test_processes_end_when_the_one_that_watches_them_is_killed(shop: Project) -> None:
    workers = shop.worker("--processes", "2", "--threads", "2", *HELD)
    until(lambda: sum("runs tasks of" in line for line in workers.lines) == 2, START_S)
    children = [Path(f"/proc/{line.split('-')[-2]}") for line in workers.lines]
    assert all(child.exists() for child in children)
    os.kill(workers.pid, signal.SIGKILL)
    until(lambda: not any(child.exists() for child in children), START_S)
    workers.stop()
