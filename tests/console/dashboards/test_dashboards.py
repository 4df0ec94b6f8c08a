"""The pages of dashboards: what they show of stored points, who may do what, what their data is."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from broker.mirror.models import Broker, ConsumerOffset
from console.features.dashboards import DASHBOARDS
from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.security.models import TopicPermission
from console.templatetags.dashboards import bars_svg, heat_svg, time_svg
from tests.console.ui.test_pages import tags_of, words

HOSTILE = '<script>alert("1")</script>'
NOON_MS = 1_795_262_400_000


def computed(name: str, *points: tuple[object, ...], window: str = "all", **more: object) -> DashboardRun:
    """A run whose points are (series, topic, label, part, at_ms, value, positions)."""
    fields = {"state": "done", "is_current": True, "as_of_ms": NOON_MS, "start_position": 0, "end_position": 9_000}
    fields["broker"] = "broker-a"
    run = DashboardRun.objects.create(
        dashboard=name, window=window, source="/store", rows_read=1_234, damaged_rows=2,
        duration_ms=1_500, finished_at=timezone.now(), **(fields | more),
    )  # fmt: skip
    names = ("series", "topic", "label", "part", "at_ms", "value", "positions")
    DashboardPoint.objects.bulk_create(
        DashboardPoint(run=run, **dict(zip(names, point, strict=True))) for point in points
    )
    return run


def flow(topic: str = "orders") -> DashboardRun:
    return computed(
        "flow",
        *[("sent", topic, "", "", NOON_MS + minute * 60_000, 10.0 + minute, None) for minute in range(5)],
        ("sent", "seats", "", "", NOON_MS, 7.0, None),
        ("producers", topic, "10.0.0.1", "", None, 60.0, None),
    )


def test_every_dashboard_says_what_it_shows() -> None:
    assert all(each.title and each.about and each.panels for each in DASHBOARDS.values())


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_dashboard_is_a_page_also_before_it_was_ever_computed(operator: Client, name: str) -> None:
    first = operator.get(f"/dashboards/{name}/")
    assert "Not computed yet" in words(first)
    assert f"manage.py dashboards run {name}" in words(first)
    # what is to come: each panel by its name, as a shape without a figure
    assert first.content.decode().count('<svg class="chart soft"') == len(DASHBOARDS[name].panels)
    assert all(str(spec.title) in words(first) for spec in DASHBOARDS[name].panels)
    computed(name, *[(spec.series, "orders", "a", "b", NOON_MS, 5.0, [7]) for spec in DASHBOARDS[name].panels])
    response = operator.get(f"/dashboards/{name}/")
    assert response.status_code == 200 and "Not computed yet" not in words(response)
    assert "Its shape" not in words(response)
    assert "1,234" in words(response)
    for spec in DASHBOARDS[name].panels:
        assert str(spec.title) in words(response)


def test_a_page_says_as_of_when_of_what_and_draws_it(operator: Client, db: None) -> None:
    run = flow()
    page = operator.get("/dashboards/flow/")
    shown = words(page)
    for text in ("As of", "1,234", "0 \u2013 9,000", "/store", str(run.id), "10.0.0.1"):
        assert text in shown, text
    drawings = [attrs for tag, attrs in tags_of(page.content.decode()) if tag == "svg" and attrs.get("role") == "group"]
    assert any("Sent, 6 values" in str(attrs["aria-label"]) for attrs in drawings)
    bars = re.findall(r"<title>([^<]+)</title></rect></a>", page.content.decode())
    assert [bar.rpartition(": ")[2] for bar in bars][:5] == ["17", "11", "12", "13", "14"]
    assert len(page.content) < 100_000


def test_topic_and_range_are_in_the_address(operator: Client, db: None) -> None:
    flow()
    seats = operator.get("/dashboards/flow/?topic=seats")
    assert "10.0.0.1" not in words(seats)
    later = operator.get(f"/dashboards/flow/data.json?topic=orders&from={NOON_MS + 60_000}&to={NOON_MS + 180_000}")
    found = json.loads(b"".join(later.streaming_content))
    assert [point["value"] for point in found["points"] if point["series"] == "sent"] == [11.0, 12.0]
    assert (found["rows_read"], found["as_of_ms"], found["end_position"]) == (1_234, NOON_MS, 9_000)


def test_a_window_has_points_of_its_own(operator: Client, db: None) -> None:
    flow()
    computed("flow", ("sent", "orders", "", "", NOON_MS, 99.0, None), window="24h")
    found = json.loads(b"".join(operator.get("/dashboards/flow/data.json?window=24h").streaming_content))
    assert [point["value"] for point in found["points"]] == [99.0]
    assert operator.get("/dashboards/flow/data.json?window=7d").status_code == 404


@pytest.mark.parametrize("query", ["from=yesterday", "window=1w", "to=2026-11-21T15:00:00"])
def test_what_is_no_moment_and_no_window_is_said_in_place(operator: Client, db: None, query: str) -> None:
    flow()
    response = operator.get(f"/dashboards/flow/?{query}")
    assert response.status_code == 422
    assert 'role="alert"' in response.content.decode()


@pytest.mark.parametrize("moment", [1 << 60, -(1 << 60)])
def test_a_moment_beyond_the_calendar_ends_no_page(operator: Client, db: None, moment: int) -> None:
    computed("storage", ("expiry", "", "0", "", None, float(moment), None))
    computed("flow", ("sent", "orders", "", "", NOON_MS, 1.0, None))
    for name in ("storage", "flow"):
        assert operator.get(f"/dashboards/{name}/").status_code == 200


@pytest.mark.parametrize(
    "path", ["", "data.csv", "data.json", "series/reach.json", "?series=hot&name=%00", "?series=%00&name=%00"]
)
def test_a_text_that_the_database_does_not_know_finds_nothing(operator: Client, db: None, path: str) -> None:
    computed("keys", ("hot", "orders", "k-1", "", None, 3.0, None))
    answer = operator.get(f"/dashboards/keys/{path}{'&' if '?' in path else '?'}topic=%00")
    assert answer.status_code == (404 if "series/" in path else 200)
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert b"k-1" not in body


@pytest.mark.parametrize("path", ["", "data.csv", "data.json", "series/sent.json", "series/%00.json", "data.%00"])
def test_a_dashboard_whose_name_the_database_does_not_know_is_not_found(operator: Client, db: None, path: str) -> None:
    assert operator.get(f"/dashboards/flow%00/{path}").status_code == 404


def test_csv_holds_every_point_and_no_formula(operator: Client, db: None) -> None:
    computed("keys", ("hot", "orders", "=1+1", "", None, 3.0, [5, 6]), ("hot", "orders", "plain", "", 7, 2.0, None))
    response = operator.get("/dashboards/keys/data.csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert [(row["label"], row["value"], row["positions"]) for row in rows] == [
        ("'=1+1", "3.0", "5 6"),
        ("plain", "2.0", ""),
    ]
    assert response.headers["Content-Disposition"] == 'attachment; filename="keys.csv"'


def test_hostile_text_is_text(operator: Client, db: None) -> None:
    flow(HOSTILE)
    computed("keys", ("hot", HOSTILE, HOSTILE, HOSTILE, None, 3.0, None), ("reach", HOSTILE, "", "", None, 3.0, None))
    for name in ("flow", "keys"):
        page = operator.get(f"/dashboards/{name}/").content.decode()
        assert "<script>alert" not in page and "alert(&quot;1&quot;)" in page


def test_a_figure_leads_to_its_messages(operator: Client, db: None) -> None:
    Broker.mirror_writer.bulk_create([Broker(name="broker-a", address="127.0.0.1:10911")])
    computed("ledger", ("alarm", "orders", "", "twice", None, 2.0, [4096, 8192]))
    computed("pending", ("minute", "orders", "", "", NOON_MS, 2.0, [1]))
    ledger = operator.get("/dashboards/ledger/").content.decode()
    assert 'href="/messages/7F00000100002A9F0000000000001000/"' in ledger
    pending = operator.get("/dashboards/pending/").content.decode()
    assert f"/timers/list/?topic=orders&amp;from={NOON_MS}&amp;to={NOON_MS + 60_000}" in pending


def test_a_run_shows_its_progress_and_can_be_stopped(operator: Client, db: None) -> None:
    batch = uuid.uuid4()
    DashboardRun.objects.create(
        broker="broker-a", dashboard="flow", batch=batch, state="running", progress=0.4, source="/store", actor="ann"
    )
    page = operator.get("/dashboards/flow/")
    assert "Computing" in words(page) and "40 %" in words(page)
    answer = operator.post("/dashboards/cancel/", {"batch": batch, "name": "flow", "window": "all"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/dashboards/flow/")
    assert DashboardRun.objects.get().is_abort_wanted
    assert "Stopping" in words(operator.get("/dashboards/flow/"))


def reader(*permissions: str, prefixes: tuple[str, ...] | None = None) -> Client:
    """Somebody with these permissions of the console, in a group that sees topics with these prefixes."""
    user = get_user_model().objects.create_user("reader")
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="console", codename__in=("view_console", *permissions))
    )
    if prefixes is not None:
        group = Group.objects.create(name="team")
        user.groups.add(group, Group.objects.create(name="without rows"))
        TopicPermission.objects.bulk_create(TopicPermission(group=group, pattern=f"{prefix}*") for prefix in prefixes)
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.mark.parametrize("path", ["", "flow/", "flow/data.csv", "flow/data.json"])
def test_who_may_not_see_dashboards_is_refused(path: str, db: None) -> None:
    flow()
    assert reader().get(f"/dashboards/{path}").status_code == 403
    assert Client().get(f"/dashboards/{path}").status_code == 302


def test_who_may_not_run_sees_no_button_and_is_refused(db: None) -> None:
    browser = reader("view_dashboardrun")
    flow()
    page = browser.get("/dashboards/flow/")
    assert page.status_code == 200 and "Compute now" not in words(page)
    assert browser.post("/dashboards/run/", {"name": "flow"}).status_code == 403
    assert browser.post("/dashboards/cancel/", {"batch": uuid.uuid4()}).status_code == 403


@pytest.mark.parametrize(
    ("prefixes", "seen"),
    [
        (None, {"", "orders", "orders-eu", "seats"}),
        (("orders",), {"orders", "orders-eu"}),
        (("orders-", "seats"), {"orders-eu", "seats"}),
        (("ORDERS", "order_", "%"), set()),
        (("", "seats"), {"", "orders", "orders-eu", "seats"}),
    ],
)
def test_figures_are_those_of_the_topics_that_one_may_see(
    prefixes: tuple[str, ...] | None, seen: set[str], db: None
) -> None:
    topics = ("orders", "orders-eu", "seats", "")
    computed("keys", *[("hot", topic, f"key of {topic or 'none'}", "", None, 3.0, None) for topic in topics])
    browser = reader("view_dashboardrun", prefixes=prefixes)
    rows = csv.DictReader(io.StringIO(b"".join(browser.get("/dashboards/keys/data.csv").streaming_content).decode()))
    assert {row["topic"] for row in rows} == seen
    found = json.loads(b"".join(browser.get("/dashboards/keys/data.json?topic=seats").streaming_content))
    assert {point["topic"] for point in found["points"]} == seen & {"seats"}
    page = browser.get("/dashboards/keys/").content.decode()
    for topic in topics:
        assert (f"key of {topic or 'none'}<" in page) == (topic in seen)
        assert not topic or (f'<option value="{topic}">' in page) == (topic in seen)


@pytest.mark.parametrize(("prefix", "seen"), [("orders", {"mail", "audit"}), ("", {"mail", "audit", "gone"})])
def test_groups_that_read_nothing_of_what_one_sees_are_not_named(prefix: str, seen: set[str], db: None) -> None:
    Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    reads = (("mail", "orders"), ("audit", "orders"), ("audit", "secrets"))
    ConsumerOffset.mirror_writer.bulk_create(
        ConsumerOffset(broker_id="broker-a", group=group, topic=topic, queue_id=0, offset=1) for group, topic in reads
    )
    groups = ("mail", "audit", "gone")
    computed("flow", *[("consumed", "orders", group, "", NOON_MS, 5.0, None) for group in groups])
    browser = reader("view_dashboardrun", prefixes=(prefix,))
    found = json.loads(b"".join(browser.get("/dashboards/flow/data.json").streaming_content))
    assert {point["label"] for point in found["points"]} == seen
    page = browser.get("/dashboards/flow/").content.decode()
    assert {group for group in groups if f">{group}<" in page} == seen


def test_computing_queues_all_dashboards_once(operator: Client, valkey: str, db: None) -> None:
    for _ in range(2):
        answer = operator.post("/dashboards/run/", {"name": "keys", "window": "24h"})
        assert answer.headers["Location"] == "/dashboards/keys/?window=24h"
    rows = DashboardRun.objects.all()
    assert {row.dashboard for row in rows} == set(DASHBOARDS) and len(rows) == len(DASHBOARDS)
    assert {row.actor for row in rows} == {"operator"}


def test_without_java_the_page_says_what_is_missing(
    operator: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    page = operator.get("/dashboards/flow/")
    assert "Java 17 or newer is not installed" in words(page) and "Compute now" not in words(page)
    operator.post("/dashboards/run/", {"name": "flow"})
    assert DashboardRun.objects.count() == 0


def test_without_java_the_page_computes_what_needs_none(
    operator: Client, valkey: str, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "Compute now" in words(operator.get("/dashboards/flow/"))
    operator.post("/dashboards/run/", {"name": "flow"})
    assert DashboardRun.objects.count() == len(DASHBOARDS)


@pytest.mark.parametrize(("engine", "shown"), [("duckdb", "DuckDB"), ("spark", "Spark"), ("", "")])
def test_a_run_says_which_engine_computed_it(engine: str, shown: str, db: None) -> None:
    computed("flow", ("sent", "orders", "", "", NOON_MS, 5.0, [7]))
    DashboardRun.objects.update(engine=engine)
    browser = reader("view_dashboardrun", prefixes=("",))
    page = words(browser.get("/dashboards/flow/"))
    assert f"Computed by {shown}" in page if shown else "Computed by" not in page
    told = json.loads(b"".join(browser.get("/dashboards/flow/data.json").streaming_content))
    assert told["engine"] == engine


def test_drawings_of_nothing_and_of_much() -> None:
    how = {"label": "l", "figure": str, "address": str}
    assert time_svg([], step_ms=60_000, clock=str, **how).endswith("</svg>")
    many = [(NOON_MS + n * 60_000, float(n)) for n in range(120)]
    drawn = time_svg(many, step_ms=60_000, clock=str, **how)
    assert drawn.count("<rect") == 119
    assert max(float(x) for x in re.findall(r'<rect class="h\d" x="([\d.]+)"', drawn)) < 1060
    assert drawn.count("<text") == 4  # a scale of two, the first moment and the last
    few = time_svg(many[:3], step_ms=60_000, clock=str, **how)
    assert f">{NOON_MS} \u2013 {NOON_MS + 120_000}<" in few  # side by side they would lie on each other
    linked = bars_svg([("a", 2.0, "/topics/a/"), ("", 0.0, "")], label="l", figure=str, none="none")
    assert linked.count("<a ") == 1 and ">none<" in linked
    assert heat_svg([], local=lambda ms: timezone.now(), **how).endswith("</svg>")
