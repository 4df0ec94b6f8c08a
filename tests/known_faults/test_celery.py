"""Faults that others had with tasks that wait: fetched early, and run as often as their time-out passes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kombu import Connection, Queue

import broker.celery as transport
from broker.celery.link import links
from broker.client import Admin
from broker.testing import BrokerThread, small_store
from tests.celery.connecting import Taking, publish
from tests.waiting import until

TASKS = Queue("tasks")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker, and at the end nothing that is connected to it."""
    with BrokerThread(small_store(tmp_path)) as broker:
        yield broker
        links.close()


def test_an_eta_beyond_the_time_out_is_delivered_once_however_many_wait_for_it(running: BrokerThread) -> None:
    """https://github.com/celery/kombu/issues/337"""
    visibility_s, eta_s = 1, 2.2
    with ExitStack() as stack:

        def connect() -> Connection:
            options = {"visibility_timeout": visibility_s}
            address = f"{transport.SCHEME}://{running.namesrv}"
            return stack.enter_context(Connection(address, transport_options=options))

        takers = [Taking(connect(), TASKS) for _ in range(3)]
        due_s = time.time() + eta_s
        eta = datetime.fromtimestamp(due_s, UTC).isoformat()
        publish(connect(), TASKS, "once", headers={"task": "shop.remind", "id": "T1", "eta": eta})
        with Admin(running.namesrv) as admin:
            until(lambda: admin.timer_status().pending == 1)
            arrived: list[float] = []
            until(lambda: [taker for taker in takers if not taker.nothing(0.02)], timeout_s=20)
            arrived.append(time.time())
            assert arrived[0] >= due_s, "no worker had it before its moment"
            # and while somebody works on it, longer than the time-out, nobody else is given it
            until(lambda: all(taker.nothing(0.1) for taker in takers) and time.time() > due_s + 2.2 * visibility_s)
            assert sorted(len(taker.messages) for taker in takers) == [0, 0, 1]
            next(taker for taker in takers if taker.messages).messages[0].ack()
            assert admin.timer_status().pending == 0
