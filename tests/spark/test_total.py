"""Runs over several brokers: from the command to the rows, by files and by name servers, with one that is away."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from broker.client import Admin, Decision, Producer, TransactionProducer, prepare
from broker.mirror.models import Broker, MirrorState
from console.features.dashboards import DASHBOARDS
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardRun
from spark.order import Order
from spark.run import run
from tests.cluster import Cluster
from tests.spark.conftest import Make
from tests.waiting import until

A, B = "broker-a", "broker-b"
AS_OF_MS = 1_900_000_000_000
BY_PULLS = [name for name in DASHBOARDS if name != dashboards_runs.OF_FILES]
Found = dict[str, list[tuple[Any, ...]]]


def fill(cluster: Cluster, name: str, count: int) -> None:
    """Let something of every kind happen at one broker; keys are the same everywhere."""
    namesrv = cluster[name].namesrv
    with Admin(namesrv) as admin:
        admin.create_topic("orders", queues=2)
        admin.create_topic("payments", queues=1)
    with Producer("shop", namesrv) as producer:
        for number in range(count):
            producer.send("orders", f"{number}", keys=[f"k{number % 7}"])
            timer = producer.send("orders", "timer", delay_ms=50 if number % 3 else 3_600_000)
            if number % 3 == 0 and number % 2:
                assert timer.recall_handle is not None
                producer.recall("orders", timer.recall_handle)
    with TransactionProducer("tellers", namesrv, check=lambda _: Decision.UNKNOWN) as tellers:
        tellers.end(tellers.send_half("payments", prepare("paid")), Decision.COMMIT)
        tellers.end(tellers.send_half("payments", prepare("not")), Decision.ROLLBACK)
        tellers.send_half("payments", prepare("open"))
    released = len([number for number in range(count) if number % 3])
    with Admin(namesrv) as admin:
        until(lambda: sum(queue.max_offset for queue in admin.topic_stats("orders").queues) == count + released)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers where something has happened."""
    with Cluster(2) as made:
        fill(made, A, 24)
        fill(made, B, 15)
        yield made


@pytest.fixture
def mirrored(cluster: Cluster, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The console knows both, and their stores are here."""
    stores = {name: cluster.store(name) for name in (A, B)}
    monkeypatch.setattr(settings, "ESCAPEMENT_NAMESRV", cluster.namesrv)
    monkeypatch.setattr(settings, "BROKER_NAME", A)
    monkeypatch.setattr(settings, "BROKER_STORE", stores[A])
    monkeypatch.setattr(settings, "OTHER_STORES", {B: stores[B]})
    for name in (A, B):
        (row,) = Broker.mirror_writer.bulk_create([Broker(name=name, address=cluster[name].address, state="ok")])
        MirrorState.mirror_writer.bulk_create([MirrorState(broker=row)])
    return cluster


def computed(make: Make, url: str, names: list[str], parts: list[dict[str, str]]) -> Found:
    """All points of a run over these parts; a log that is read ends where its broker says."""
    addresses = dict(Broker.objects.values_list("name", "address"))
    batch = dashboards_runs.queue_total(names, "all", parts)
    rows = DashboardRun.objects.filter(batch=batch)
    numbers = {row.dashboard: str(row.id) for row in rows}
    wanted = [
        {
            "broker": part["broker"],
            "store": part["source"],
            "levels": "1s 1h",
            "broker_address": addresses[part["broker"]],
        }
        for part in parts
    ]
    run(Order("", url, "", numbers, AS_OF_MS, parts=wanted), make())
    fields = ("series", "topic", "label", "part", "at_ms", "value", "positions", "brokers")
    return {row.dashboard: sorted(row.points.values_list(*fields), key=str) for row in rows}


def files(cluster: Cluster) -> list[dict[str, str]]:
    return [{"broker": name, "source": str(cluster.store(name))} for name in (A, B)]


def pulls(cluster: Cluster, *names: str) -> list[dict[str, str]]:
    return [{"broker": name, "source": f"rocketmq://{cluster.namesrv}"} for name in names]


def test_by_name_servers_the_total_is_that_of_the_files_row_for_row(
    make: Make, mirrored: Cluster, database_url: str
) -> None:
    from_files = computed(make, database_url, BY_PULLS, files(mirrored))
    pulled = computed(make, database_url, BY_PULLS, pulls(mirrored, A, B))
    mixed = computed(make, database_url, BY_PULLS, [files(mirrored)[0], *pulls(mirrored, B)])
    for name in BY_PULLS:
        assert pulled[name] == from_files[name], name
        assert mixed[name] == from_files[name], name
    current = DashboardRun.objects.get(dashboard="ledger", is_current=True)
    assert (current.broker, current.start_position, current.end_position) == ("", None, None)
    assert [part["broker"] for part in current.parts] == [A, B]
    assert current.rows_read == sum(part["rows_read"] for part in current.parts) > 100
    owners = {owner for row in from_files["flow"] for owner in row[7] or ()}
    assert owners == {A, B}
    ledger = from_files["ledger"]
    assert {row[5] for row in ledger if row[0] == "difference"} == {0.0}
    accepted = sum(row[5] for row in ledger if row[0] == "accepted")
    assert accepted == 24 + 15 + 2 * 3


def test_one_that_is_away_is_said_and_the_others_are_computed(make: Make, mirrored: Cluster, database_url: str) -> None:
    """A figure that lacks a broker says so; one that is not there because a broker is away says nothing."""
    alone = computed(make, database_url, BY_PULLS, pulls(mirrored, A))
    mirrored[B].stop()
    try:
        total = computed(make, database_url, BY_PULLS, pulls(mirrored, A, B))
        with pytest.raises(Exception, match=r"None of the brokers can be read\. broker-b: It is not responding: "):
            computed(make, database_url, ["flow"], pulls(mirrored, B))
    finally:
        mirrored[B].start()
    assert total == alone
    current = DashboardRun.objects.get(dashboard="flow", is_current=True)
    (lacking,) = current.lacking
    assert lacking["broker"] == B and lacking["error"].startswith("It is not responding: ")
    assert DashboardRun.objects.filter(state="failed", dashboard="flow").count() == 1


def test_the_command_computes_all_brokers_unless_one_is_named(mirrored: Cluster) -> None:
    said = StringIO()
    call_command("dashboards", "run", "flow", "storage", stdout=said)
    runs = DashboardRun.objects.filter(broker="")
    assert {(row.dashboard, row.state, row.whose) for row in runs} == {
        (name, "done", f"{A}, {B}") for name in ("flow", "storage")
    }
    assert f"records of {A}, {B} in " in said.getvalue()
    assert {part["source"] for part in runs[0].parts} == {part["source"] for part in files(mirrored)}
    segments = DashboardRun.objects.get(dashboard="storage").points.filter(series="content")
    assert set(segments.values_list("label", flat=True)) == {f"{A} 0", f"{B} 0"}


def test_a_broker_that_is_named_is_computed_alone(mirrored: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    with pytest.raises(CommandError, match="Java 17"):
        call_command("dashboards", "run", "flow", "--broker", B)
    (only,) = DashboardRun.objects.all()
    assert (only.broker, only.parts, only.source) == (B, [], files(mirrored)[1]["source"])


def test_what_no_broker_has_files_for_is_refused(mirrored: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "BROKER_STORE", Path("/nowhere"))
    monkeypatch.setattr(settings, "OTHER_STORES", {})
    with pytest.raises(CommandError, match="is about the files of the log"):
        call_command("dashboards", "run", "storage")
    assert DashboardRun.objects.count() == 0


@pytest.fixture
def broken_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that ends at once: what is computed fails within seconds, and says so."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")


def test_the_timetable_has_the_total_first_and_each_even_where_one_fails(mirrored: Cluster, broken_java: None) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        dashboards_runs.renew()
    rows = DashboardRun.objects.order_by("queued_at", "id")
    assert list(dict.fromkeys(rows.values_list("broker", flat=True))) == ["", A, B]
    assert {(row.state, row.error[:19]) for row in rows} == {("failed", "Spark did not start")}
    assert len(rows) == 3 * len(DASHBOARDS)


def test_the_timetable_pulls_nothing_whole_from_elsewhere(
    mirrored: Cluster, broken_java: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "OTHER_STORES", {})
    with pytest.raises(subprocess.CalledProcessError):
        dashboards_runs.renew()
    assert set(DashboardRun.objects.values_list("broker", flat=True)) == {A}
