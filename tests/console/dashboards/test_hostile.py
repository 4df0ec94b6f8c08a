"""Two hundred hostile texts where Spark jobs write topics, keys and groups: charts, their tables, what is behind a bar,
plots, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from console.features.dashboards import DASHBOARDS
from console.features.dashboards.models import DashboardRun
from console.features.dashboards.read import MOST_BARS, MOST_ROWS
from tests.console.dashboards.test_dashboards import NOON_MS, computed
from tests.console.ui.test_exporting import text_of
from tests.console.ui.test_hostile import SCHEMES, TEXTS, Skeleton

#: PostgreSQL keeps no NUL; the rest stays as it is
KEPT = list(dict.fromkeys(text.replace("\0", "")[:255] or "x" for text in TEXTS))
#: as many as a table shows; each dashboard has others
ROWS = MOST_ROWS
#: spreadsheets begin a formula with these; the wide ones in East Asian settings
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def page_of(operator: Client, name: str, texts: list[str], query: str = "") -> Skeleton:
    """A dashboard with these texts in every column of every series; larger first, so that the order is theirs."""
    DashboardRun.objects.all().delete()
    computed(
        name,
        *[
            (series, text, text, text, NOON_MS + number * 60_000, 9_000.0 - number, [number])
            for spec in DASHBOARDS[name].panels
            for series in ([f"{spec.series}_p50"] if spec.kind == "quantiles" else [spec.series])
            for number, text in enumerate(texts)
        ],
    )
    answer = operator.get(f"/dashboards/{name}/{query}")
    assert answer.status_code == 200
    return Skeleton(answer.content.decode())


def shape(page: Skeleton) -> list[tuple[str, tuple[str, ...]]]:
    """Its elements, but for a link, or the dash in its place: whether there is a page of that name depends on it."""
    return [each for each in page.elements if each not in (("a", ("class", "href")), ("span", ("class",)))]


def harmless(count: int) -> list[str]:
    return [f"harmless-{number}" for number in range(count)]


def is_safe(page: Skeleton) -> bool:
    return not [each for each in page.addresses if each.strip().lower().startswith(SCHEMES)]


@pytest.mark.django_db
@pytest.mark.parametrize("name", list(DASHBOARDS))
def test_no_text_of_a_table_becomes_markup(operator: Client, name: str) -> None:
    first = list(DASHBOARDS).index(name) * ROWS % len(KEPT)
    texts = (KEPT[first:] + KEPT[:first])[:ROWS]
    found = page_of(operator, name, texts)
    assert shape(found) == shape(page_of(operator, name, harmless(len(texts))))
    assert is_safe(found)


@pytest.mark.django_db
def test_no_name_of_a_bar_becomes_markup(operator: Client) -> None:
    name = next(name for name, each in DASHBOARDS.items() if any(spec.kind == "bars" for spec in each.panels))
    for first in range(0, len(KEPT), MOST_BARS):
        texts = KEPT[first : first + MOST_BARS]
        found = page_of(operator, name, texts)
        assert shape(found) == shape(page_of(operator, name, harmless(len(texts))))
        assert is_safe(found)


@pytest.mark.django_db
def test_what_is_asked_for_is_text(operator: Client) -> None:
    page_of(operator, "keys", ["orders"])
    series = next(spec.series for spec in DASHBOARDS["keys"].panels if spec.kind == "bars")
    for field in ("topic", "name", "window", "from"):
        asked = {"series": series, "name": "x", field: "zzz"}
        plain = Skeleton(operator.get("/dashboards/keys/", asked).content.decode())
        for text in TEXTS[::24]:
            page = Skeleton(operator.get("/dashboards/keys/", {**asked, field: f"zzz{text}"[:60]}).content.decode())
            assert page.elements == plain.elements, (field, text)
            assert is_safe(page)


@pytest.mark.django_db
def test_no_text_is_a_formula_in_a_file(operator: Client) -> None:
    texts = [*KEPT, "\n=1+1", "\uff1d1+1", "\uff20SUM(1)"]
    page_of(operator, "keys", texts)
    rows = list(csv.DictReader(io.StringIO(text_of(operator, "/dashboards/keys/data.csv"), newline="")))
    said = {row[column] for row in rows for column in ("topic", "label", "part")}
    assert not [text for text in said if text.startswith(FORMULA)]
    assert {text.removeprefix("'") for text in said} >= {text.removeprefix("'") for text in texts}
    points = json.loads(text_of(operator, "/dashboards/keys/data.json"))["points"]
    assert {point["label"] for point in points} == set(texts)


@pytest.mark.django_db
def test_a_plot_reads_names_as_data(operator: Client) -> None:
    for first in range(15):
        texts = KEPT[first * 14 : first * 14 + 5]
        page_of(operator, "flow", texts)
        answer = operator.get("/dashboards/flow/series/sent.json")
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert set(answer.json()["names"]) == set(texts)
