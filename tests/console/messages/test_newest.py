"""Messages before anything is sought: topics to choose from with their counts, and the newest messages at once."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from broker.mirror.models import Queue
from console.features.messages import newest
from console.features.messages.newest import beginning
from console.security.models import MaskRule
from console.security.topic_scope import TopicScope, VisibleTopics
from tests.console.markup import tight
from tests.console.stage import HOSTILE, Stage, one_word


@pytest.fixture
def sent(stage: Stage) -> Stage:
    """Three messages of `orders`, and one of `bills` that is the newest."""
    stage.admin.create_topic("bills", queues=1)
    for number in range(3):
        stage.producer.send("orders", f'{{"order": {number}}}', keys=[f"o-{number}"], tag="paid", queue_id=number % 2)
        begun = time.time_ns() // 1_000_000
        stage.wait_for(lambda begun=begun: time.time_ns() // 1_000_000 > begun + 1)
    stage.producer.send("bills", b"\x00\xff", keys=["b-0"])
    stage.mirror.run_once()
    return stage


def test_the_newest_messages_are_there_without_a_word(sent: Stage, operator: Client) -> None:
    page = tight(operator.get("/messages/").content.decode())
    assert [page.index(f">{key}<") for key in ("b-0", "o-2", "o-1", "o-0")] == sorted(
        page.index(f">{key}<") for key in ("b-0", "o-2", "o-1", "o-0")
    )
    assert "{&quot;order&quot;: 2}" in page, "the beginning of a body stands beside its key"
    assert 'href="?topic=orders"' in page
    assert "Search for a message" not in page
    found = beginning()
    assert [(each.name, each.held) for each in found.topics] == [("bills", 1), ("orders", 3)]
    assert [hit.topic for hit in found.newest.hits] == ["bills", "orders", "orders", "orders"]


def test_what_came_since_the_mirror_looked_is_among_them(sent: Stage) -> None:
    sent.producer.send("bills", "x", keys=["b-1"])
    assert [hit.keys for hit in beginning().newest.hits][:2] == [("b-1",), ("b-0",)]


def test_only_so_many_queues_are_asked_and_so_many_messages_shown(sent: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "QUEUES", 2)
    monkeypatch.setattr(newest, "SHOWN", 2)
    monkeypatch.setattr(newest, "TOPICS", 1)
    found = beginning()
    assert [hit.keys for hit in found.newest.hits] == [("b-0",), ("o-2",)]
    assert (len(found.topics), found.total, found.left) == (1, 2, 1)


def test_who_sees_some_topics_sees_their_messages_and_no_other_name(sent: Stage) -> None:
    found = beginning.within(TopicScope(VisibleTopics.of(["bill*"])))
    assert [each.name for each in found.topics] == ["bills"]
    assert [hit.keys for hit in found.newest.hits] == [("b-0",)]
    assert beginning.within(TopicScope(VisibleTopics.of(["none*"]))).total == 0


def test_what_is_masked_is_masked_here_too(sent: Stage, operator: Client) -> None:
    MaskRule.objects.create(prefix="orders", fields="body, KEYS", why="secret")
    page = operator.get("/messages/").content.decode()
    assert ">o-2<" not in page
    assert ">b-0<" in page
    assert "order&quot;: 2" not in page
    assert "masked: secret" in page


def test_a_topic_that_is_deleted_meanwhile_is_no_fault(sent: Stage, operator: Client) -> None:
    sent.admin.delete_topic("bills")
    assert Queue.objects.filter(topic="bills").exists()
    assert operator.get("/messages/").status_code == 200
    assert {hit.topic for hit in beginning().newest.hits} == {"orders"}


def test_before_there_is_a_topic_the_page_says_how_one_comes(stage: Stage, operator: Client) -> None:
    stage.admin.delete_topic("orders")
    stage.mirror.run_once()
    page = operator.get("/messages/").content.decode()
    assert "A topic appears with its first message" in page


def test_filters_without_a_topic_are_not_passed_over_in_silence(sent: Stage, operator: Client) -> None:
    for query in ("?tag=paid", "?text=x&q=o-1", "?topic=orders&q=o-1&from=-1h"):
        assert "narrow the messages of one topic" in operator.get(f"/messages/{query}").content.decode(), query
    for query in ("", "?topic=orders&tag=paid", "?q=o-1"):
        assert "narrow the messages of one topic" not in operator.get(f"/messages/{query}").content.decode(), query


def test_hostile_texts_stay_texts(stage: Stage, operator: Client) -> None:
    stage.fill()
    page = operator.get("/messages/").content.decode()
    for text in HOSTILE:
        assert "<" not in text or text not in page
        assert "<" not in text or one_word(text) not in page
    assert "&lt;script&gt;alert(1)" in page


def test_more_topics_cost_no_more_questions(sent: Stage, django_assert_max_num_queries: Any) -> None:
    for number in range(12):
        sent.admin.create_topic(f"more-{number}", queues=2)
        sent.producer.send(f"more-{number}", "x", keys=["x"], queue_id=1)
    sent.mirror.run_once()
    with django_assert_max_num_queries(8):
        found = beginning()
    assert len(found.topics) == newest.TOPICS
    assert len({hit.topic for hit in found.newest.hits}) == newest.QUEUES, "each has one message, in one queue"
