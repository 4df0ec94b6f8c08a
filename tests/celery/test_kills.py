"""What becomes of tasks when workers and brokers are killed, stopped, or take their time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Admin
from broker.testing import BrokerThread, small_store
from tests.celery.running import PATIENCE_S, Shop
from tests.waiting import until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(small_store(tmp_path)) as running:
        yield running


@pytest.fixture
def shop(broker: BrokerThread, tmp_path: Path) -> Shop:
    return Shop(broker.namesrv, tmp_path, visibility_s=1.5)


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_task_that_runs_longer_than_the_time_out_runs_once(shop: Shop, pool: str) -> None:
    """https://github.com/celery/celery/issues/5935"""
    with shop.worker("-P", pool, "-c", "1"), shop.worker("-P", pool, "-c", "1"):
        shop.run("hold.delay('long')")
        until(lambda: shop.lines("long.begun"), PATIENCE_S)
        until(lambda: _is_past(shop, "long", 4), PATIENCE_S)  # nearly three times the time-out
        shop.go("long")
        until(lambda: shop.lines("long.done"), PATIENCE_S)
    assert len(shop.lines("long.begun")) == 1


def _is_past(shop: Shop, name: str, seconds: float) -> bool:
    began = (shop.path / f"{name}.begun").stat().st_mtime
    (shop.path / "clock").touch()
    return (shop.path / "clock").stat().st_mtime - began > seconds


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_tasks_of_a_killed_worker_run_in_another(shop: Shop, pool: str) -> None:
    first = shop.worker("-P", pool, "-c", "1")
    with first:
        shop.run("hold.delay('begun'); [write.delay('fetched', str(number)) for number in range(3)]")
        until(lambda: shop.lines("begun.begun"), PATIENCE_S)
        first.kill()
    shop.go("begun")
    with shop.worker("-P", pool, "-c", "1"):
        until(lambda: shop.lines("begun.done") and len(shop.lines("fetched")) == 3, PATIENCE_S)
    assert sorted(shop.lines("fetched")) == ["0", "1", "2"]
    assert len(shop.lines("begun.begun")) == 2


def test_the_task_of_a_killed_child_runs_again_at_once(shop: Shop) -> None:
    with shop.worker("-P", "prefork", "-c", "1"):
        shop.run("hold.delay('child')")
        (pid,) = until(lambda: shop.lines("child.begun"), PATIENCE_S)
        os.kill(int(pid), signal.SIGKILL)
        until(lambda: len(shop.lines("child.begun")) == 2, PATIENCE_S)
        shop.go("child")
        until(lambda: shop.lines("child.done"), PATIENCE_S)


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_that_is_stopped_ends_its_task_and_leaves_the_rest(
    broker: BrokerThread, tmp_path: Path, pool: str
) -> None:
    shop = Shop(broker.namesrv, tmp_path)  # a time-out longer than the test: what is left must not wait for it
    with shop.worker("-P", pool, "-c", "1") as worker:
        shop.run("hold.delay('begun'); [hold.delay(f'fetched-{number}') for number in range(3)]")
        until(lambda: shop.lines("begun.begun"), PATIENCE_S)
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: "shutdown" in worker.log.read_text().lower(), PATIENCE_S)
        for name in ("begun", *(f"fetched-{number}" for number in range(3))):
            shop.go(name)
        assert worker.stop() == 0
    with shop.worker("-P", pool, "-c", "1"):
        until(lambda: all(shop.lines(f"fetched-{number}.done") for number in range(3)), PATIENCE_S)
        shop.run("write.apply_async(('last', 'ran'))")
        until(lambda: shop.lines("last"), PATIENCE_S)
    assert [len(shop.lines(f"{name}.begun")) for name in ("begun", "fetched-0", "fetched-1", "fetched-2")] == [1] * 4


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_broker_that_is_away_for_a_while_loses_and_repeats_nothing(
    broker: BrokerThread, tmp_path: Path, pool: str
) -> None:
    shop = Shop(broker.namesrv, tmp_path, visibility_s=20)
    with shop.worker("-P", pool, "-c", "2") as worker:
        shop.run(
            "[hold.delay(f'held-{number}') for number in range(2)]\n"
            "[write.apply_async(('later', str(number)), countdown=2) for number in range(5)]"
        )
        until(lambda: all(shop.lines(f"held-{number}.begun") for number in range(2)), PATIENCE_S)
        broker.stop()
        for number in range(2):
            shop.go(f"held-{number}")
        until(lambda: all(shop.lines(f"held-{number}.done") for number in range(2)), PATIENCE_S)
        broker.start()
        until(lambda: len(shop.lines("later")) == 5, PATIENCE_S)
        shop.run("write.delay('after', 'ran')")
        until(lambda: shop.lines("after"), PATIENCE_S)
        assert worker.process.poll() is None
    assert sorted(shop.lines("later")) == [str(number) for number in range(5)]
    assert [len(shop.lines(f"held-{number}.begun")) for number in range(2)] == [1, 1]
    with Admin(broker.namesrv) as admin:
        assert admin.consume_stats("celery").lag == 0


def test_tasks_that_wait_cost_a_worker_nothing_and_outlive_it(broker: BrokerThread, tmp_path: Path) -> None:
    """https://github.com/celery/celery/issues/2218"""
    shop = Shop(broker.namesrv, tmp_path)
    many = 2_000
    with shop.worker("-P", "threads", "-c", "2") as worker:
        shop.run("add.delay(1, 1).get(timeout=20)")
        before_kib = worker.memory_kib
        shop.run(f"[write.apply_async(('due', str(n)), countdown=3600) for n in range({many})]")
        shop.run("add.delay(1, 1).get(timeout=20)")
        assert worker.memory_kib - before_kib < 4 * 1024
        worker.kill()
    broker.stop()
    broker.start()
    with Admin(broker.namesrv) as admin:
        assert admin.timer_status().pending == many
        now_ms = admin.timer_status().now_ms
        page = admin.timers(now_ms, now_ms + 7_200_000, limit=1000)
        admin.steer_timers("deliver_now", [{"position": timer.position} for timer in page.items])
    with shop.worker("-P", "threads", "-c", "2"):
        until(lambda: len(shop.lines("due")) == len(page.items), PATIENCE_S)
    assert len(set(shop.lines("due"))) == len(page.items)


def test_children_that_come_and_go_send_tasks_themselves(broker: BrokerThread, tmp_path: Path) -> None:
    shop = Shop(broker.namesrv, tmp_path)
    with shop.worker("-P", "prefork", "-c", "2", "--max-tasks-per-child", "1"):
        shop.run("[passed_on.delay('handed', n) for n in range(6)]")
        until(lambda: len(shop.lines("handed")) == 6, PATIENCE_S)
    assert sorted(shop.lines("handed")) == [str(number) for number in range(6)]


def test_a_program_that_forks_sends_in_parent_and_child(broker: BrokerThread, tmp_path: Path) -> None:
    shop = Shop(broker.namesrv, tmp_path)
    shop.run(
        "write.delay('forked', 'before')\n"
        "pid = os.fork()\n"
        "write.delay('forked', 'parent' if pid else 'child')\n"
        "os._exit(0) if not pid else os.waitpid(pid, 0)\n"
        "write.delay('forked', 'after')"
    )
    with shop.worker("-P", "solo"):
        until(lambda: len(shop.lines("forked")) == 4, PATIENCE_S)
    assert sorted(shop.lines("forked")) == ["after", "before", "child", "parent"]
