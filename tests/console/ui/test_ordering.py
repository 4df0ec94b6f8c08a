"""Lists in the order that somebody asks for: all of the list, with its filters, and nothing else sorts it."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.features.clients import _SORTED_BY as CLIENTS_BY
from console.features.clients import CLIENTS
from console.features.dead_letters.pages import _SORTED_BY as LETTERS_BY
from console.features.dead_letters.shapes import GROUPS as LETTERS
from console.features.groups.read import GROUPS, groups
from console.features.topics.pages import read_topics
from console.features.topics.shapes import TOPICS
from console.security.models import ApiToken
from console.security.topic_scope import ALL, scoped
from console.ui.ordering import Sorting, asked_order, ordered
from console.ui.table import Table
from tests.console.stage import Stage


def heads(html: str) -> dict[str, tuple[str, str]]:
    """What each head says of the order, and where it leads."""
    found = {}
    for attributes, content in re.findall(r"<th\b([^>]*)>(.*?)</th>", html, re.DOTALL):
        link = re.search(r'href="([^"]*)"[^>]*>\s*([^<]+?)\s*<', content)
        if link:
            said = re.search(r'aria-sort="(\w+)"', attributes)
            found[link[2]] = (said[1] if said else "", link[1])
    return found


def test_the_unknown_is_last_in_both_directions() -> None:
    keys = {"size": lambda row: row}
    assert ordered([3, None, 1, 2], "size", keys) == [1, 2, 3, None]
    assert ordered([3, None, 1, 2], "-size", keys) == [3, 2, 1, None]
    assert ordered([None], "size", keys) == [None]


@pytest.mark.parametrize("text", ["", "-", "--size", "color", "size,name", "__class__"])
def test_what_is_no_order_is_the_own_one_of_the_list(text: str) -> None:
    assert asked_order(text, ("size", "name"), "-size") == "-size"


def test_a_second_press_turns_the_list_round() -> None:
    assert Sorting("name").following("size", falls=True) == "-size"
    assert Sorting("-size").following("size", falls=True) == "size"
    assert Sorting("size").following("size", falls=True) == "-size"
    assert (Sorting("-size").direction("size"), Sorting("size").direction("name")) == ("descending", "")


@pytest.mark.parametrize(("table", "keys"), [(CLIENTS, CLIENTS_BY), (LETTERS, LETTERS_BY)])
def test_every_head_that_leads_somewhere_has_its_order(table: Table, keys: dict[str, object]) -> None:
    assert set(table.orders) == set(keys)


@pytest.fixture
def three(stage: Stage) -> Stage:
    """Topics with one, three and two messages."""
    for name, count in (("alpha", 1), ("beta", 3), ("gamma", 2)):
        stage.admin.create_topic(name, queues=1)
        for _ in range(count):
            stage.producer.send(name, "x")
    stage.mirror.run_once()
    return stage


def test_all_topics_are_sorted_before_a_page_is_cut_out(three: Stage) -> None:
    with scoped(ALL):
        pages = [read_topics(order="-messages", offset=offset, count=1).rows[0].name for offset in range(3)]
        assert pages == ["beta", "gamma", "alpha"]
        for order in TOPICS.orders:
            up = [row.name for row in read_topics(order=order).rows]
            assert [row.name for row in read_topics(order=f"-{order}").rows] == up[::-1], order


def test_heads_lead_to_the_list_with_its_filter_and_the_filter_to_its_order(three: Stage, operator: Client) -> None:
    html = operator.get("/topics/?search=a&order=-total").content.decode()
    assert heads(html)["Total written"] == ("descending", "?order=total&amp;kind=&amp;search=a")
    assert heads(html)["Topic"] == ("", "?order=name&amp;kind=&amp;search=a")
    assert '<input type="hidden" name="order" value="-total">' in html
    file = operator.get("/topics/?search=a&order=-total&as=csv").getvalue().decode()  # type: ignore[attr-defined]  # a stream
    assert [row["name"] for row in csv.DictReader(io.StringIO(file))][:3] == ["beta", "gamma", "alpha"]
    evil = operator.get("/topics/", {"order": '"><img src=x>'}).content.decode()
    assert "<img src=x>" not in evil
    assert heads(evil)["Topic"][0] == "ascending"


def test_groups_are_sorted_by_what_their_heads_say(stage: Stage, operator: Client) -> None:
    stage.fill()
    stage.consume()
    for group in ("aaa", "zzz"):
        stage.admin.create_group(group)
    stage.mirror.run_once()
    with scoped(ALL):
        for order in GROUPS.orders:
            names = {row.name for row in groups(order=order).rows}
            assert names >= {"aaa", "billing", "zzz"}, order
        assert next(row.name for row in groups(order="-name").rows) == "zzz"
    html = operator.get("/groups/?order=-name&search=z").content.decode()
    assert heads(html)["Group"] == ("descending", "?order=name&amp;search=z")
    assert heads(operator.get("/groups/").content.decode())["Lag"][0] == "descending"


def test_users_and_tokens_are_sorted_in_the_database(stage: Stage, operator: Client) -> None:
    User.objects.create_user("aaron")
    User.objects.create_user("zoe", is_active=False)
    User.objects.filter(username="operator").update(is_superuser=True, is_staff=True)
    for name in ("b", "a"):
        ApiToken.objects.create(name=name, prefix=f"prefix-{name}", digest=name)
    for address, head, first in (
        ("/people/?order=-name", "Name", "zoe"), ("/people/?order=state", "State", "zoe"),
        ("/people/?order=-login", "Last signed in", "operator"), ("/tokens/?order=-name", "Name", "esc_prefix-b"),
        ("/tokens/?order=expires", "Expires", "esc_prefix-a"),
    ):  # fmt: skip
        html = operator.get(address).content.decode()
        body = html.partition("<tbody>")[2].partition("</tr>")[0]
        assert first in body, address
        assert heads(html)[head][0] == ("descending" if "=-" in address else "ascending")
