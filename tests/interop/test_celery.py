"""Celery over Apache RocketMQ and over our broker: tasks, results, remote control, tasks that wait."""

from __future__ import annotations

from pathlib import Path

from tests.celery.running import Shop
from tests.interop.servers import Server

PROGRAM = """
results = [add.delay(number, number) for number in range(20)]
print(sum(result.get(timeout=40) for result in results))
print(app.control.ping(limit=1, timeout=20)[0])
print(about.apply_async(countdown=2).get(timeout=40)["eta"] is not None)
print(flaky.delay("tries").get(timeout=40))
"""


def test_tasks_run_and_answer(server: Server, tmp_path: Path) -> None:
    shop = Shop(server.namesrv, tmp_path)
    with shop.worker("-P", "threads", "-c", "2") as worker:
        said = shop.run(PROGRAM).splitlines()
    assert said == ["380", str({f"{worker.log.stem}@tests": {"ok": "pong"}}), "True", "2"]
    assert shop.lines("tries") == ["0", "1", "2"]
