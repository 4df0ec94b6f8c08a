"""Celery's own workers, unchanged, in each pool: results, canvas, remote control, events, time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, chain, chord, group

import broker.celery as transport
from broker.client import Admin
from broker.testing import BrokerThread, small_store
from tests.celery.running import Shop, Worker
from tests.waiting import until

PATIENCE_S = 20


@pytest.fixture(scope="module", params=["prefork", "threads", "solo"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, valkey: str) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("shop")
    with BrokerThread(small_store(directory)) as broker:
        shop = Shop(broker.namesrv, directory, results=valkey)
        with (
            shop.worker("-P", request.param, "-c", "2", "-E") as worker,
            closing(Stage(broker, shop, worker, valkey)) as made,
        ):
            yield made


class Stage:
    """A broker, a worker, and an app in the tests' own process."""

    def __init__(self, broker: BrokerThread, shop: Shop, worker: Worker, results: str) -> None:
        self.broker, self.shop, self.worker = broker, shop, worker
        self.app = Celery(
            "caller", broker=f"{transport.SCHEME}://{broker.namesrv}", backend=results, set_as_current=False
        )

    def close(self) -> None:
        """End what the app's backend keeps open: it would be found by a test of another module, as garbage."""
        self.app.backend.result_consumer.stop()
        self.app.backend.client.connection_pool.disconnect()
        self.app.close()

    def task(self, name: str, *args: object, **options: object) -> Any:
        return self.app.signature(f"tests.celery.shop.{name}", args, app=self.app, **options)

    def get(self, result: Any) -> Any:
        return result.get(timeout=PATIENCE_S)


def test_results_come_back(stage: Stage) -> None:
    assert [stage.get(stage.task("add", number, 1).delay()) for number in range(20)] == list(range(1, 21))


def test_groups_chains_and_chords(stage: Stage) -> None:
    add = [stage.task("add", number, number) for number in range(10)]
    assert stage.get(group(add, app=stage.app).apply_async()) == list(range(0, 20, 2))
    assert stage.get(chain(stage.task("add", 1, 1), stage.task("add", 2), app=stage.app).apply_async()) == 4
    assert stage.get(chord(add, app=stage.app)(stage.task("total"))) == 90


def test_results_over_the_broker_itself(stage: Stage) -> None:
    shop = Shop(stage.broker.namesrv, stage.shop.path)
    with shop.worker("-P", "threads", "-c", "2", "-Q", "over-rpc"):
        said = shop.run(
            "results = [add.apply_async((n, n), queue='over-rpc') for n in range(50)]\n"
            "print(sum(result.get(timeout=20) for result in results))"
        )
    assert said == "2450"


def test_remote_control_reaches_a_worker_and_its_answer_the_caller(stage: Stage) -> None:
    name = f"{stage.worker.log.stem}@tests"
    assert stage.app.control.ping(limit=1, timeout=PATIENCE_S) == [{name: {"ok": "pong"}}]
    inspect = stage.app.control.inspect(destination=[name], timeout=PATIENCE_S)
    assert inspect.active_queues()[name][0]["name"] == "celery"
    assert "tests.celery.shop.add" in inspect.registered()[name]


def test_events_tell_of_a_task(stage: Stage) -> None:
    kinds: list[str] = []
    with stage.app.connection_for_read() as connection:
        receiver = stage.app.events.Receiver(connection)

        def heard(event: dict[str, str]) -> None:
            kinds.append(event["type"])
            receiver.should_stop = "task-succeeded" in kinds

        receiver.handlers = {"*": heard}
        receiver.on_consume_ready = lambda *_, **__: stage.task("add", 1, 1).delay()
        receiver.capture(timeout=PATIENCE_S)
    assert kinds.index("task-received") < kinds.index("task-started") < kinds.index("task-succeeded")


def test_a_countdown_waits_at_the_broker_under_the_tasks_name_and_id(stage: Stage) -> None:
    task_id = f"far-{os.urandom(4).hex()}"
    result = stage.task("add", 1, 2).apply_async(countdown=3600, task_id=task_id)
    with Admin(stage.broker.namesrv) as admin:
        now_ms = admin.timer_status().now_ms
        (timer,) = admin.timers(now_ms, now_ms + 7_200_000, key=task_id).items
        assert (timer.topic, timer.tag, timer.keys) == ("celery", "tests.celery.shop.add", [task_id])
        assert 3_590_000 < timer.due_ms - now_ms <= 3_600_000
        assert transport.reschedule(task_id, countdown=0.2, app=stage.app).outcome == "rescheduled"
        assert stage.get(result) == 3
        assert transport.revoke(task_id, app=stage.app).outcome == "already_delivered"


def test_a_task_knows_the_moment_that_it_waited_for(stage: Stage) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=0.3)
    told = stage.get(stage.task("about").apply_async(eta=eta))
    assert told == {"eta": eta.isoformat(), "redelivered": False}
    assert stage.get(stage.task("about").delay())["eta"] is None


def test_a_retry_waits_at_the_broker_as_well(stage: Stage) -> None:
    name = f"flaky-{os.urandom(4).hex()}"
    assert stage.get(stage.task("flaky", name).delay()) == 2
    assert stage.shop.lines(name) == ["0", "1", "2"]


def test_a_revoked_task_that_waits_is_cancelled_and_its_caller_hears_of_it(stage: Stage) -> None:
    """https://github.com/celery/celery/issues/1246"""
    result = stage.task("add", 1, 2).apply_async(countdown=3600)
    assert transport.revoke(result.id, app=stage.app).outcome == "cancelled"
    until(lambda: result.state == "REVOKED", PATIENCE_S)
    assert transport.revoke(result.id, app=stage.app).outcome == "already_cancelled"


def test_celerys_own_revoke_cancels_it_too(stage: Stage) -> None:
    """https://github.com/celery/celery/issues/4300"""
    result = stage.task("add", 1, 2).apply_async(countdown=3600)
    stage.app.control.revoke(result.id)
    assert transport.revoke(result.id, app=stage.app).outcome == "already_cancelled"
    until(lambda: result.state == "REVOKED", PATIENCE_S)


def test_a_task_that_expires_is_not_run(stage: Stage) -> None:
    name = f"expired-{os.urandom(4).hex()}"
    result = stage.task("write", name, "ran").apply_async(countdown=0.3, expires=0.1)
    until(lambda: result.state == "REVOKED", PATIENCE_S)
    assert stage.shop.lines(name) == []


def test_a_queue_is_added_and_taken_away_while_the_worker_runs(stage: Stage) -> None:
    stage.app.control.add_consumer("added", reply=True, timeout=PATIENCE_S, limit=1)
    assert stage.get(stage.task("add", 2, 2).apply_async(queue="added")) == 4
    stage.app.control.cancel_consumer("added", reply=True, timeout=PATIENCE_S, limit=1)
    name = f"{stage.worker.log.stem}@tests"
    inspect = stage.app.control.inspect(destination=[name], timeout=PATIENCE_S)
    until(lambda: [each["name"] for each in inspect.active_queues()[name]] == ["celery"], PATIENCE_S)
    waiting = stage.task("add", 3, 3).apply_async(queue="added")
    assert stage.get(stage.task("add", 4, 4).delay()) == 8
    assert waiting.state == "PENDING"
