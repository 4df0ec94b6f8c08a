"""A bar leads to the messages behind it; dense series are plotted from columns, on the pages that need it alone."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.test import Client

from broker.mirror.models import Broker
from console.features.dashboards.models import DashboardRun
from tests.console.dashboards.test_dashboards import HOSTILE, NOON_MS, computed, reader
from tests.console.markup import tight
from tests.console.ui.test_pages import tags_of, words

MINUTE_MS = 60_000
UPLOT = "vendor/uplot@1.6.32"
STATIC = Path(__file__).parents[3] / "static"


def links(page: bytes) -> list[str]:
    return [unescape(str(attrs["href"])) for tag, attrs in tags_of(page.decode()) if tag == "a" and "href" in attrs]


def dense(count: int, topics: tuple[str, ...] = ("orders",)) -> DashboardRun:
    return computed(
        "flow",
        *[
            ("sent", topic, "", "", NOON_MS + minute * MINUTE_MS, float(1 + number), [minute * 100 + number])
            for minute in range(count)
            for number, topic in enumerate(topics)
        ],
    )


def test_a_bar_by_moment_leads_to_its_messages(operator: Client, db: None) -> None:
    Broker.mirror_writer.bulk_create([Broker(name="broker-a", address="127.0.0.1:10911")])
    dense(3, ("orders", "seats"))
    page = operator.get("/dashboards/flow/?topic=seats").content
    bars = [link for link in links(page) if "series=sent" in link]
    assert bars == [
        f"?topic=seats&series=sent&at={NOON_MS + minute * MINUTE_MS}&step={MINUTE_MS}#behind" for minute in range(3)
    ]
    behind = operator.get("/dashboards/flow/" + bars[1].partition("#")[0])
    assert "One bar of Sent" in words(behind)
    assert links(behind.content).count(f"/messages/7F00000100002A9F{101:016X}/") == 3  # above, in the row, in the table


def test_a_bar_by_name_leads_to_its_messages_and_away_again(operator: Client, db: None) -> None:
    computed(
        "transactions",
        ("outcome", "orders", "payers", "committed", None, 3.0, [10, 20]),
        ("outcome", "seats", "payers", "committed", None, 2.0, [30]),
        ("outcome", "orders", "payers", "open", None, 1.0, [40]),
    )
    bars = [link for link in links(operator.get("/dashboards/transactions/").content) if "series=outcome" in link]
    assert bars == ["?series=outcome&name=committed#behind", "?series=outcome&name=open#behind"]
    behind = operator.get("/dashboards/transactions/" + bars[0].partition("#")[0])
    shown = words(behind)
    assert "committed · 5" in shown
    sheet = tight(behind.content.decode()).partition('id="behind"')[2].partition("</section>")[0]
    assert [number for number in ("10", "20", "30", "40") if f">{number}<" in sheet] == ["10", "20", "30"]
    assert "?" in links(behind.content)


def test_the_name_of_a_bar_may_be_empty_or_hostile(operator: Client, db: None) -> None:
    computed("keys", ("reach", HOSTILE, "", "", None, 3.0, [5]), ("reach", "", "", "", None, 2.0, [6]))
    page = operator.get("/dashboards/keys/").content
    bars = [link for link in links(page) if "series=reach" in link]
    for bar, position in zip(bars, (5, 6), strict=True):
        behind = operator.get("/dashboards/keys/" + bar.partition("#")[0])
        assert "<script>alert" not in behind.content.decode()
        assert f'<span class="mono">{position}</span>' in behind.content.decode().partition('id="behind"')[2]


@pytest.mark.parametrize(
    "query",
    ["series=none", "series=late_", "series=sent&at=x", "series=sent&at=1&step=-5", "series=sent&at=" + "9" * 40],
)
def test_what_is_no_bar_shows_the_page_without_one(operator: Client, db: None, query: str) -> None:
    dense(2)
    page = operator.get(f"/dashboards/flow/?{query}")
    assert page.status_code == 200 and 'id="behind"' not in page.content.decode()


def test_a_few_moments_are_drawn_and_many_are_plotted(operator: Client, db: None) -> None:
    run = dense(100)
    assert UPLOT not in unquote(operator.get("/dashboards/flow/").content.decode())
    run.delete()
    dense(400)
    page = operator.get("/dashboards/flow/").content.decode()
    scripts = [unquote(str(attrs.get("src"))) for tag, attrs in tags_of(page) if tag == "script"]
    assert sum(UPLOT in script for script in scripts) == 1
    assert page.count("data-plot=") == 1 and page.count("<svg") > 1  # the drawing is there for who has no script
    assert UPLOT not in unquote(operator.get("/topics/").content.decode())
    assert len(page) < 120_000
    assert sum(path.stat().st_size for path in (STATIC / UPLOT).iterdir()) < 60_000


def test_a_plot_reads_columns_a_line_a_topic(operator: Client, db: None) -> None:
    dense(400, tuple(f"t{number}" for number in range(8)))
    found = json.loads(operator.get("/dashboards/flow/series/sent.json").content)
    assert found["names"] == ["t7", "t6", "t5", "t4", "t3", ""]
    assert (found["step_ms"], len(found["at_s"])) == (MINUTE_MS, 400)
    assert [column[0] for column in found["values"]] == [8, 7, 6, 5, 4, 1 + 2 + 3]
    assert {len(column) for column in found["values"]} == {400}
    later = f"from={NOON_MS + MINUTE_MS}&to={NOON_MS + 3 * MINUTE_MS}&topic=t1"
    found = json.loads(operator.get(f"/dashboards/flow/series/sent.json?{later}").content)
    assert (found["names"], found["values"]) == (["t1"], [[2, 2]])


def test_where_nothing_was_a_line_has_a_gap(operator: Client, db: None) -> None:
    computed(
        "flow",
        ("sent", "orders", "", "", NOON_MS, 1.0, None),
        ("sent", "orders", "", "", NOON_MS + 3 * MINUTE_MS, 4.0, None),
    )
    found = json.loads(operator.get("/dashboards/flow/series/sent.json").content)
    assert found["values"] == [[1.0, None, None, 4.0]]
    assert json.loads(operator.get("/dashboards/flow/series/released.json").content)["at_s"] == []


@pytest.mark.parametrize("path", ["flow/series/producers.json", "flow/series/none.json", "keys/series/sent.json"])
def test_what_is_no_time_series_is_not_found(operator: Client, db: None, path: str) -> None:
    dense(2)
    computed("keys", ("reach", "orders", "", "", None, 3.0, None))
    assert operator.get(f"/dashboards/{path}").status_code == 404
    assert operator.get("/dashboards/wings/series/sent.json").status_code == 404


def test_bars_and_plots_show_the_topics_that_one_may_see(db: None) -> None:
    dense(3, ("orders", "seats"))
    browser = reader("view_dashboardrun", prefixes=("seats",))
    found = json.loads(browser.get("/dashboards/flow/series/sent.json").content)
    assert found["names"] == ["seats"]
    behind = browser.get(f"/dashboards/flow/?series=sent&at={NOON_MS}&step={MINUTE_MS}").content.decode()
    assert ">1</span>" in behind and ">0</span>" not in behind.partition('id="behind"')[2].partition("</section>")[0]
    assert Client().get("/dashboards/flow/series/sent.json").status_code == 302
