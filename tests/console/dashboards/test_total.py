"""Dashboards of several brokers: in total where none is chosen, each position with its broker and its page."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.mirror.models import Broker, MirrorState
from console.features.dashboards.models import DashboardRun
from tests.console.dashboards.test_dashboards import NOON_MS, computed
from tests.console.ui.test_pages import tags_of, words

A, B = "broker-a", "broker-b"
PARTS = [
    {"broker": A, "source": "/srv/a", "start_position": 0, "end_position": 5_000, "rows_read": 900, "damaged_rows": 0},
    {"broker": B, "source": "rocketmq://10.0.0.9:9876", "start_position": 0, "end_position": 7_777, "rows_read": 334,
     "damaged_rows": 1},
]  # fmt: skip


@pytest.fixture
def two(operator: Client) -> Client:
    """Two brokers in the mirror's rows."""
    for number, name in enumerate((A, B)):
        (row,) = Broker.mirror_writer.bulk_create([Broker(name=name, address=f"10.0.0.{number + 1}:10911", state="ok")])
        MirrorState.mirror_writer.bulk_create([MirrorState(broker=row, as_of_ms=NOON_MS, following_since_ms=NOON_MS)])
    return operator


def in_total(name: str = "flow", **more: object) -> DashboardRun:
    fields = {"broker": "", "parts": PARTS, "start_position": None, "end_position": None}
    run = computed(
        name,
        ("sent", "orders", "", "", NOON_MS, 50.0, [7, 7]),
        ("producers", "orders", "10.0.0.1", "", None, 60.0, [9]),
        **(fields | more),
    )
    run.points.filter(series="sent").update(brokers=[A, B])
    run.points.filter(series="producers").update(brokers=[B])
    return run


def links(page: str) -> list[str]:
    return [str(attrs["href"]) for tag, attrs in tags_of(page) if tag == "a" and "/messages/" in str(attrs.get("href"))]


def test_the_page_in_total_is_of_all_brokers_and_leads_to_each(two: Client) -> None:
    run = in_total()
    computed("flow", ("sent", "orders", "", "", NOON_MS, 30.0, [7]))
    page = two.get("/dashboards/flow/")
    shown = words(page)
    for text in (f"From the logs of 2 brokers, run {run.id}", "0 \u2013 7,777", "rocketmq://10.0.0.9:9876", "broker-b"):
        assert text in shown, text
    assert "at 7 \u00b7 broker-a" in shown and "at 9 \u00b7 broker-b" in shown
    found = links(page.content.decode())
    assert f"/at/{A}/messages/0A00000100002A9F{7:016X}/" in found
    assert f"/at/{B}/messages/0A00000200002A9F{9:016X}/" in found
    behind = words(two.get("/dashboards/flow/?series=sent&at=0&step=999999999999999"))
    assert "7 \u00b7 broker-a" in behind and "7 \u00b7 broker-b" in behind


def test_one_broker_is_shown_as_ever(two: Client) -> None:
    in_total()
    computed("flow", ("sent", "orders", "", "", NOON_MS, 30.0, [7]))
    for address, broker in ((f"/at/{A}/dashboards/flow/", A), (f"/at/{B}/dashboards/flow/", B)):
        shown = words(two.get(address))
        assert ("From the log of broker-a in /store" in shown) == (broker == A)
        assert "\u00b7 broker-" not in shown and "of 2 brokers" not in shown


def test_until_there_is_a_total_the_first_is_shown_by_name(two: Client) -> None:
    computed("flow", ("sent", "orders", "", "", NOON_MS, 30.0, [7]))
    assert "These are the figures of broker-a alone" in words(two.get("/dashboards/flow/"))
    assert "alone" not in words(two.get(f"/at/{A}/dashboards/flow/"))


def test_a_total_of_brokers_that_are_gone_is_shown_no_more(two: Client) -> None:
    run = in_total()
    computed("flow", ("sent", "orders", "", "", NOON_MS, 30.0, [7]))
    MirrorState.mirror_writer.filter(broker=B).delete()
    shown = words(two.get("/dashboards/flow/"))
    assert str(run.id) not in shown and "From the log of broker-a in /store" in shown
    assert "alone" not in shown


def test_who_was_left_out_is_said(two: Client) -> None:
    why = "It does not answer: 10.0.0.9:10911: connection refused"
    in_total(parts=[PARTS[0], PARTS[1] | {"rows_read": 0, "error": why}])
    shown = words(two.get("/dashboards/flow/"))
    assert "Without broker-b" in shown and why in shown
    in_total("storage")
    shown = words(two.get("/dashboards/storage/"))
    assert "Without broker-b: its messages were pulled" in shown and "Without broker-a" not in shown


def test_its_data_say_whose_each_position_is(two: Client) -> None:
    in_total()
    computed("keys", ("hot", "orders", "k", "", NOON_MS, 3.0, [7, 8]))
    found = json.loads(b"".join(two.get("/dashboards/flow/data.json").streaming_content))
    assert [point["brokers"] for point in found["points"]] == [[B], [A, B]]
    assert found["broker"] == "" and [part["broker"] for part in found["parts"]] == [A, B]
    alone = json.loads(b"".join(two.get("/dashboards/keys/data.json").streaming_content))
    assert (alone["points"][0]["brokers"], alone["broker"], alone["parts"]) == ([A, A], A, [])
    file = b"".join(two.get("/dashboards/flow/data.csv").streaming_content).decode()
    assert file.splitlines()[0].rstrip().endswith("positions,brokers")


def test_computing_in_total_queues_one_run_over_all(two: Client, valkey: str) -> None:
    for _ in range(2):
        two.post("/dashboards/run/", {"name": "flow", "window": "24h"})
    rows = DashboardRun.objects.all()
    assert {(row.broker, row.whose, row.actor) for row in rows} == {("", f"{A}, {B}", "operator")}
    namesrv = f"rocketmq://{settings.ESCAPEMENT_NAMESRV}"
    assert {part["source"] for part in rows[0].parts} <= {namesrv, str(settings.BROKER_STORE)}
    assert len(rows) == len({row.dashboard for row in rows}) >= 8
    page = two.get("/dashboards/flow/?window=24h")
    assert "Queued" in words(page)
    two.post(f"/at/{B}/dashboards/run/", {"name": "flow", "window": "24h"})
    assert set(DashboardRun.objects.exclude(broker="").values_list("broker", flat=True)) == {B}


def test_several_totals_are_never_current_together(two: Client) -> None:
    in_total()
    with pytest.raises(Exception, match="one_current_run"):
        in_total()


def test_one_broker_costs_no_question_more(operator: Client) -> None:
    (row,) = Broker.mirror_writer.bulk_create([Broker(name=A, address="10.0.0.1:10911", state="ok")])
    MirrorState.mirror_writer.bulk_create([MirrorState(broker=row, as_of_ms=NOON_MS, following_since_ms=NOON_MS)])
    computed("flow", ("sent", "orders", "", "", NOON_MS, 30.0, [7]))
    with CaptureQueriesContext(connection) as asked:
        operator.get("/dashboards/flow/")
    assert len([each for each in asked.captured_queries if "broker_mirrorstate" in each["sql"]]) <= 1
