"""The pages: who may see them, what they show of a real broker, what they never do."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from django.templatetags.static import static
from django.test import Client
from django.urls import URLPattern, get_resolver

from tests.console.stage import HOSTILE, Stage, one_word

PAGES = [
    "/",
    "/schedule/",
    "/schedule/16/",
    "/topics/",
    "/topics/orders/",
    "/topics/orders/0/",
    "/groups/",
    "/messages/",
    "/dead-letters/",
    "/dead-letters/of/billing/",
]
PUBLIC = {
    "set_theme", "set_zone", "set_density", "favicon", "login", "logout", "sign_on", "sign_on_back", "healthz",
    "readyz", "metrics", "see_as_stop",
}  # fmt: skip


def text(response: object) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", response.content.decode()))


def words(response: object) -> str:
    return re.sub(r"\s+", " ", text(response))


def tags_of(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Every element of a page with its attributes, as a browser would see them."""
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(page)
    return found


def test_every_page_asks_who_you_are(db: None) -> None:
    patterns = [p for p in get_resolver("console.urls").url_patterns if isinstance(p, URLPattern)]
    assert len(patterns) > 10
    for pattern in patterns:
        if pattern.name in PUBLIC:
            continue
        path = "/" + re.sub(r"<int:\w+>", "1", re.sub(r"<(?:str|name):\w+>", "x", str(pattern.pattern)))
        response = Client().get(path)
        assert (response.status_code, response.headers["Location"].split("?")[0]) == (302, "/login/"), path
        assert Client().post(path).status_code in {302, 403, 405}, path


def test_the_icon_is_where_browsers_look_for_it(db: None) -> None:
    answer = Client().get("/favicon.ico")
    assert (answer.status_code, answer.headers["Location"]) == (302, static("icon.svg"))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_the_broker_holds_and_is_small(stage: Stage, operator: Client, path: str) -> None:
    stage.fill()
    response = operator.get(path)
    assert response.status_code == 200
    assert len(response.content) < 100_000
    assert response.content.count(b"<h1") == 1
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in tags_of(response.content.decode()):
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        assert tag != "script" or "src" in attributes


@pytest.mark.parametrize("path", ["/", "/schedule/", "/topics/", "/groups/", "/messages/"])
def test_a_page_without_a_broker_says_so_in_place(operator: Client, path: str, settings: object) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    response = operator.get(path)
    assert response.status_code == 200


def test_the_lanes_count_what_waits(stage: Stage, operator: Client) -> None:
    stage.fill()
    page = operator.get("/schedule/").content.decode()
    row = words_of(page, "lane-16")
    assert "30 min" in row
    assert " 12 " in row
    assert "never used" in words_of(page, "lane-2")
    assert page.count('<tr id="lane-') == 18


def words_of(page: str, row_id: str) -> str:
    found = re.search(rf'<tr id="{row_id}".*?</tr>', page, re.DOTALL)
    assert found is not None
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found.group()))


def test_a_lane_opens_into_its_messages_in_due_order(stage: Stage, operator: Client) -> None:
    stage.fill()
    page = operator.get("/schedule/16/")
    found = re.findall(r"late-(\d+)", text(page))
    assert [int(number) for number in dict.fromkeys(found)] == list(range(12))
    assert operator.get("/schedule/19/").status_code == 404
    assert operator.get("/schedule/16/?offset=-1").status_code == 200
    later = operator.get("/schedule/16/?offset=10")
    assert "late-10" in text(later)
    assert "late-3 " not in text(later)


def test_a_parked_message_shows_both_its_records_once_it_went_out(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", "go", delay_level=1, keys=["soon"])
    stage.mirror.run_once()
    page = operator.get(f"/messages/{sent.offset_message_id}/")
    assert "Waiting on level 1" in words(page)
    assert "SCHEDULE_TOPIC_XXXX" in text(page)
    stage.wait_for(lambda: stage.admin.messages_by_key("orders", "soon", 5))
    page = operator.get(f"/messages/{sent.offset_message_id}/")
    assert "parked on a delay level" in text(page)
    assert "released" in text(page)


def test_hostile_text_is_text(stage: Stage, operator: Client) -> None:
    stage.fill()
    for path in ("/topics/orders/0/", "/schedule/17/", "/messages/?topic=orders&q=javascript:alert(1)"):
        content = operator.get(path).content.decode()
        assert "<script>alert" not in content
        assert "<img src=x" not in content
        assert "<svg onload" not in content
        assert "49" not in re.findall(r"\{\{.*?\}\}", content)
    hit = stage.admin.messages_by_key("orders", one_word(HOSTILE[0]), 5)[0]
    page = operator.get(f"/messages/{hit.offset_message_id}/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page


def test_a_body_is_only_ever_a_download(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", HOSTILE[0])
    response = operator.get(f"/messages/{sent.offset_message_id}/body")
    assert response.content == HOSTILE[0].encode()
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/messages/nonsense/", "/messages/" + "F" * 32 + "/", "/topics/absent/", "/groups/absent/"]
)
def test_what_is_not_there_is_not_found(stage: Stage, operator: Client, path: str) -> None:
    assert operator.get(f"/{path}/").status_code == 404


def test_messages_are_found_by_key(stage: Stage, operator: Client) -> None:
    stage.fill()
    assert "order-3" in text(operator.get("/messages/?topic=orders&q=order-3"))
    assert "waiting" in text(operator.get("/messages/?topic=orders&q=late-3"))
    assert "No message has this key" in text(operator.get("/messages/?topic=orders&q=none"))
    assert "newest first, of the 1 most recently written topics" in text(operator.get("/messages/?q=order-3"))


def test_a_group_shows_its_progress(stage: Stage, operator: Client) -> None:
    stage.fill()
    stage.consume()
    assert "billing" in text(operator.get("/groups/"))
    page = words(operator.get("/groups/billing/"))
    assert "orders" in page
    assert "Progress" in page


def test_the_theme_is_remembered_by_the_server(operator: Client, db: None) -> None:
    operator.cookies["theme"] = "dark"
    assert b'data-theme="dark"' in operator.get("/").content
    operator.cookies["theme"] = '"><script>'
    assert b"<script>" not in operator.get("/").content
    assert b"data-theme" not in operator.get("/").content.split(b"<body")[0].split(b"<html")[1].split(b">")[0]


def test_the_console_speaks_chinese(operator: Client, db: None) -> None:
    operator.post("/i18n/setlang/", {"language": "zh-hans", "next": "/schedule/"})
    page = operator.get("/schedule/").content.decode()
    assert 'lang="zh-hans"' in page
    assert "延迟级别" in page


def test_health_is_public_and_says_nothing_else(db: None) -> None:
    response = Client().get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")
