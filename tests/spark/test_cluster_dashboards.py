"""Dashboards by name servers: the same figures as from the log of the same broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pyspark.sql import SparkSession

from broker.client import Admin, Decision, Producer, TransactionProducer, prepare
from broker.testing import BrokerThread, small_store
from console.features.dashboards.models import DashboardRun
from spark.by_spark import shared_scan
from spark.jobs import JOBS
from spark.order import Order, options_of
from spark.question import Question
from spark.scan import Source
from spark.view import view_of
from tests.waiting import until

#: Each of them is made of messages alone.
NAMES = [name for name in JOBS if name != "storage"]
AS_OF_MS = 1_900_000_000_000


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerThread, Path]]:
    """A broker where something of every kind has happened, and its store."""
    directory = tmp_path_factory.mktemp("busy")
    with BrokerThread(small_store(directory)) as broker:
        with Producer("shop", broker.namesrv) as producer:
            for number in range(30):
                producer.send("orders", f"{number}", tag="a", keys=[f"k{number % 7}"])
                producer.send("orders", "level", delay_level=1 + number % 2)
                timer = producer.send("orders", "timer", delay_ms=50 if number % 3 else 3_600_000)
                if number % 3 == 0 and number % 2:
                    assert timer.recall_handle is not None
                    producer.recall("orders", timer.recall_handle)
        with TransactionProducer("tellers", broker.namesrv, check=lambda _: Decision.UNKNOWN) as tellers:
            for decision in (Decision.COMMIT, Decision.ROLLBACK, Decision.COMMIT):
                tellers.end(tellers.send_half("payments", prepare("paid")), decision)
            tellers.send_half("payments", prepare("open"))
        with Admin(broker.namesrv) as admin:
            until(lambda: sum(queue.max_offset for queue in admin.topic_stats("orders").queues) == 30 + 15 + 20)
        yield broker, directory / "store"


def test_every_dashboard_is_the_same_both_ways(
    session: SparkSession, busy: tuple[BrokerThread, Path], tmp_path: Path
) -> None:
    broker, store = busy
    question = Question(as_of_ms=AS_OF_MS)
    figures: list[dict[str, list[str]]] = []
    for source in (str(store), f"rocketmq://{broker.namesrv}"):
        order = Order(source, "", "broker-a", {}, AS_OF_MS, levels="1s 1h", broker_address=broker.address)
        with shared_scan(session, [Source(source, options_of(order))], tmp_path) as records:
            view = view_of(records)
            figures.append({name: sorted(map(str, JOBS[name](view, question).collect())) for name in NAMES})
    from_log, pulled = figures
    for name in NAMES:
        assert pulled[name] == from_log[name], name
    assert all(from_log[name] for name in ("flow", "lateness", "pending", "cancellations", "transactions", "ledger"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "storage", "--namesrv", "127.0.0.1:9876"), "is about the files of the log"),
        (("run", "flow", "--namesrv", "127.0.0.1:9876", "--store", "/somewhere"), "leave one out"),
    ],
)
def test_what_name_servers_cannot_tell_is_said(words: tuple[str, ...], said: str, transactional_db: None) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("dashboards", *words)
    assert DashboardRun.objects.count() == 0


def test_the_command_asks_the_broker(busy: tuple[BrokerThread, Path], transactional_db: None) -> None:
    call_command("dashboards", "run", "flow", "ledger", "--namesrv", busy[0].namesrv, "--broker", "broker-a")
    runs = DashboardRun.objects.all()
    assert {(run.dashboard, run.state, run.source) for run in runs} == {
        (name, "done", f"rocketmq://{busy[0].namesrv}") for name in ("flow", "ledger")
    }
    assert all(run.points.count() and run.rows_read for run in runs)
