"""The Celery project whose workers these tests run: `celery -A tests.celery.shop worker`.

What a task does it notes in a file of the directory SHOP_NOTES: one line each time that it runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery, Task

import broker.celery as transport
from tests.waiting import until

app = Celery("shop")
app.conf.update(
    broker_url=f"{transport.SCHEME}://{os.environ.get('SHOP_NAMESRV', '127.0.0.1:9876')}",
    result_backend=os.environ.get("SHOP_RESULTS", "rpc://"),
    broker_transport_options={"visibility_timeout": float(os.environ.get("SHOP_VISIBILITY_S", "60"))},
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


def notes() -> Path:
    return Path(os.environ["SHOP_NOTES"])


def note(name: str, line: str) -> None:
    with (notes() / name).open("a") as file:
        file.write(f"{line}\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def write(name: str, line: str) -> None:
    note(name, line)


@app.task
def passed_on(name: str, number: int) -> None:
    """Have another task write."""
    write.delay(name, str(number))


@app.task(acks_late=True, reject_on_worker_lost=True)
def hold(name: str) -> str:
    """Run until the test lets go."""
    note(f"{name}.begun", str(os.getpid()))
    until((notes() / f"{name}.go").exists, 60)
    note(f"{name}.done", str(os.getpid()))
    return name


@app.task(bind=True, max_retries=3)
def flaky(self: Task, name: str) -> int:
    note(name, str(self.request.retries))
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return int(self.request.retries)


@app.task(bind=True)
def about(self: Task) -> dict[str, object]:
    return {"eta": self.request.eta, "redelivered": self.request.delivery_info.get("redelivered")}
