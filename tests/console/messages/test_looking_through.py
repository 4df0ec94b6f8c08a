"""Messages by time, tag and property; and by key without a topic: honest about what was not looked at."""

from __future__ import annotations

import gzip
import re
import time
from html import unescape

import pytest
from django.test import Client

from console.features.messages import read as messages_read
from console.features.messages import through as message_pages
from console.features.messages.shapes import MessageFilter
from console.security.models import MaskRule
from tests.console.stage import HOSTILE, Stage


def keys(wanted: MessageFilter) -> list[str]:
    found = [hit.keys[0] for hit in message_pages.messages_through("orders", wanted).hits]
    # two that were stored within one millisecond have no order
    return sorted(found, key=lambda key: -int(key.partition("-")[2]))


@pytest.fixture
def sent(stage: Stage) -> int:
    """Ten messages in two queues; the moment between the fifth and the sixth in epoch ms."""
    between = 0
    for number in range(10):
        if number == 5:
            last = stage.admin.message_at(stage.admin.pull("orders", 0, 2, 1)[0].position).store_ms
            stage.wait_for(lambda begun=last: time.time_ns() // 1_000_000 > begun + 1)
            between = time.time_ns() // 1_000_000
        stage.producer.send(
            "orders", "x", keys=[f"k-{number}"], tag="even" if number % 2 == 0 else "odd", queue_id=number % 2,
            properties={"colour": f"c{number % 3}"},
        )  # fmt: skip
    stage.mirror.run_once()
    return between


def test_time_tag_and_property_narrow(sent: int) -> None:
    assert keys(MessageFilter()) == [f"k-{number}" for number in range(9, -1, -1)]
    assert keys(MessageFilter(from_ms=sent)) == ["k-9", "k-8", "k-7", "k-6", "k-5"]
    assert keys(MessageFilter(to_ms=sent)) == ["k-4", "k-3", "k-2", "k-1", "k-0"]
    assert keys(MessageFilter(tag="odd", from_ms=sent)) == ["k-9", "k-7", "k-5"]
    assert keys(MessageFilter(name="colour", value="c1")) == ["k-7", "k-4", "k-1"]
    assert len(keys(MessageFilter(name="colour"))) == 10
    assert keys(MessageFilter(name="size")) == []


def test_what_was_not_looked_at_is_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        stage.producer.send("orders", "x", keys=[f"k-{number}"], queue_id=number % 2)
    monkeypatch.setattr(message_pages, "READ", 40)
    found = message_pages.messages_through("orders", MessageFilter(tag="none"))
    assert (found.hits, found.read, found.left) == ((), 64, 36)
    monkeypatch.setattr(message_pages, "READ", 4_000)
    monkeypatch.setattr(message_pages, "SHOWN", 5)
    assert keys(MessageFilter())[0] in ("k-99", "k-98")


def test_the_page_finds_by_all_of_them_and_says_what_is_no_moment(stage: Stage, operator: Client) -> None:
    stage.fill()
    page = operator.get("/messages/?topic=orders&tag=paid&from=-10+min").content.decode()
    assert "order-11" in page
    assert "12 messages" in page
    assert "records were searched" in page
    wrong = operator.get("/messages/?topic=orders&from=soon")
    assert wrong.status_code == 422
    assert 'aria-invalid="true"' in wrong.content.decode()
    for text in HOSTILE:
        given = {"topic": "orders", "tag": text, "property": f"note={text}"}
        shown = operator.get("/messages/", given).content.decode()
        assert "<script>alert" not in shown
        assert "<img src" not in shown
    assert (
        "1 message"
        in operator.get("/messages/", {"topic": "orders", "property": f"note={HOSTILE[0]}"}).content.decode()
    )


def test_a_key_without_a_topic_is_sought_in_all_of_them(stage: Stage, operator: Client) -> None:
    stage.fill()
    stage.admin.create_topic("bills", queues=1)
    stage.producer.send("bills", "x", keys=["order-3"])
    stage.mirror.run_once()
    found = messages_read.messages_everywhere("order-3")
    assert [hit.topic for hit in found.hits] == ["bills", "orders"]
    late = messages_read.messages_everywhere("late-3")
    assert [(hit.topic, hit.pending) for hit in late.hits] == [("orders", True)]
    page = operator.get("/messages/?q=order-3").content.decode()
    assert 'href="/topics/bills/"' in page


def test_bodies_are_searched_as_they_are_read(stage: Stage, operator: Client) -> None:
    for key, body in (("plain", "order 4711 é"), ("packed", gzip.compress(b"order 4711")), ("other", "order 4712")):
        stage.producer.send("orders", body, keys=[key])
    found = message_pages.messages_through("orders", MessageFilter(text="4711"))
    assert {hit.keys[0] for hit in found.hits} == {"plain", "packed"}
    assert [hit.keys[0] for hit in message_pages.messages_through("orders", MessageFilter(text="1 é")).hits] == [
        "plain"
    ]
    assert message_pages.messages_through("orders", MessageFilter(text="ORDER")).hits == ()
    MaskRule.objects.create(prefix="orders", fields="body", why="secret")
    answer = operator.get("/messages/?topic=orders&text=4711")
    assert answer.status_code == 403
    assert operator.get("/messages/?topic=orders").status_code == 200


def test_a_search_goes_on_where_it_stopped_and_finds_each_once(
    stage: Stage, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(150):
        stage.producer.send("orders", f"body {number % 3}", keys=[f"k-{number}"], queue_id=number % 2)
    monkeypatch.setattr(message_pages, "READ", 40)
    seen: list[str] = []
    address, pages = "/messages/?topic=orders&text=body+1", 0
    while address:
        html = operator.get(address).content.decode()
        # what arrives meanwhile is newer than all of it, and on no page
        stage.producer.send("orders", "body 1", keys=["late"], queue_id=0)
        seen += re.findall(r'class="chip">(\S+?)<', html)
        link = re.search(r'rel="next" href="([^"]*)"', html)
        address, pages = (f"/messages/{unescape(link[1])}" if link else ""), pages + 1
        assert ("<progress" in html) == bool(link)
    assert pages == 3
    assert sorted(seen) == sorted(f"k-{number}" for number in range(150) if number % 3 == 1)


@pytest.mark.parametrize("after", ["nonsense", "c1!!", "c1" + "A" * 5_000, "c1bnVsbA", "c1eyIiOiAiMDo5OTk5OTkifQ"])
def test_a_cursor_that_somebody_wrote_is_no_fault(stage: Stage, operator: Client, after: str) -> None:
    stage.producer.send("orders", "x", keys=["k-1"], queue_id=0)
    assert operator.get("/messages/", {"topic": "orders", "text": "x", "after": after}).status_code == 200
