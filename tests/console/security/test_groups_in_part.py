"""A group that reads topics of two people: each sees what is of the own topics, and acts on it (decision 0030)."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import Http404
from django.test import Client

from broker.client import Consumer
from console.features.alerts.models import Alert, AlertRule
from console.features.clients import read_clients
from console.features.groups import kept
from console.features.groups import read as groups_read
from console.features.overview.findings import forget
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import OutOfReach
from console.security.topic_scope import EVERYTHING, TopicScope, VisibleTopics, scoped
from console.site.mirrored import cluster
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage

THEIRS = "payroll"
#: sees one of the two topics that `both` reads
MINE = VisibleTopics.of(["orders"])


@pytest.fixture
def shared(stage: Stage) -> Iterator[Stage]:
    """`both` reads `orders`, where it is 2 behind, and `payroll`, where it is 3; it gave up one message of each."""
    forget()
    stage.admin.create_topic(THEIRS, queues=1)
    stage.admin.create_group("both")
    for topic, count in (("orders", 2), (THEIRS, 3)):
        first = stage.producer.send(topic, "x", keys=[f"{topic}-dead"], queue_id=0)
        record = stage.admin.message_by_offset_id(first.offset_message_id)
        stage.admin.move_group("both", topic, 0, record.queue_offset + 1)
        stage.admin.send_back("both", record, delay_level=-1, max_reconsume_times=0)
        for number in range(count):
            stage.producer.send(topic, "x", keys=[f"{topic}-{number}"], queue_id=0)
    stage.mirror.run_once()
    yield stage
    forget()


@pytest.fixture
def anna(shared: Stage) -> Client:
    """An operator who sees `orders` alone."""
    return browser_of(limited_person("anna", "orders"))


def page_of(browser: Client, path: str) -> str:
    answer: Any = browser.get(path)
    assert answer.status_code == 200, path
    return (b"".join(answer) if answer.streaming else answer.content).decode()


def test_lists_have_the_group_with_the_figures_of_topics_that_are_seen(anna: Client) -> None:
    topic = page_of(anna, "/topics/orders/")
    assert "/groups/both/" in topic
    rows = {row.name: row for row in anna.get("/groups/").context["data"].rows}
    row = rows["both"]
    assert (row.reads_others, row.topics, row.lag, row.dead, row.consumed_per_s) == (True, 1, 2, None, None)
    for path in ("/groups/", "/groups/?order=-dead", "/groups/?order=-rate", "/clients/", "/dead-letters/", "/broker/"):
        assert THEIRS not in page_of(anna, path), path
    assert "in part" in page_of(anna, "/groups/")
    file = list(csv.DictReader(io.StringIO(page_of(anna, "/groups/?as=csv"))))
    told = next(line for line in file if line["name"] == "both")
    assert (told["lag"], told["topics"], told["dead"], told["reads_others"]) == ("2", "1", "", "True")
    everybody = browser_of(person("ben"))
    whole = next(row for row in everybody.get("/groups/").context["data"].rows if row.name == "both")
    assert (whole.reads_others, whole.topics, whole.lag, whole.dead) == (False, 2, 5, 2)
    assert "in part" not in page_of(everybody, "/groups/")


def test_the_page_of_the_group_says_that_it_reads_others(anna: Client) -> None:
    page = page_of(anna, "/groups/both/")
    assert "This group reads other topics as well." in page
    assert THEIRS not in page
    data = anna.get("/groups/both/").context["data"]
    assert {queue.topic for queue in data.queues} == {"orders"}
    assert (data.group.lag, data.group.dead, data.group.retry) == (2, None, None)
    for offered in ('value="groups.change"', 'value="groups.delete"', 'value="*"', "Open its clients"):
        assert offered not in page, offered
    assert 'value="groups.reset_offsets"' in page
    everybody = page_of(browser_of(person("ben", role="operator")), "/groups/both/")
    for offered in ('value="groups.change"', 'value="groups.delete"', 'value="*"', "Open its clients"):
        assert offered in everybody, offered


def test_whether_a_message_arrived_is_told_of_it(shared: Stage, anna: Client) -> None:
    found = shared.admin.messages_by_key("orders", "orders-0")[0]
    for message, state in ((found, "not-yet"), (shared.admin.messages_by_key("orders", "orders-dead")[0], "dead")):
        data = anna.get(f"/messages/{message.offset_message_id}/").context["data"]
        assert {(reader.group, str(reader.state)) for reader in data.readers} >= {("both", state)}


def test_dead_letters_are_those_of_topics_that_are_seen(shared: Stage, anna: Client) -> None:
    listed = {row.name: row for row in anna.get("/dead-letters/").context["data"].rows}
    assert (listed["both"].count, listed["both"].stored_total, listed["both"].last_ms) == (None, None, None)
    page = page_of(anna, "/dead-letters/of/both/")
    assert "orders-dead" in page
    assert THEIRS not in page
    data = anna.get("/dead-letters/of/both/").context["data"]
    assert (data.total, len(data.rows)) == (None, 1)
    letter = data.rows[0]
    opened = page_of(anna, f"/messages/{letter.offset_message_id}/")
    assert THEIRS not in opened
    # the topic of all its dead letters holds those of others
    assert "/topics/%25DLQ%25both/" not in opened
    assert anna.get("/topics/%25DLQ%25both/").status_code == 404
    others = browser_of(person("ben")).get("/dead-letters/of/both/").context["data"].rows
    theirs = next(row for row in others if row.topic == THEIRS)
    assert anna.get(f"/messages/{theirs.offset_message_id}/").status_code == 404
    assert anna.get(f"/messages/{theirs.offset_message_id}/body").status_code == 404


def test_what_acts_on_one_topic_is_his_and_what_acts_on_the_group_is_not(shared: Stage) -> None:
    user = limited_person("anna", "orders")
    actor = Actor.of(user)
    letters = {
        row.topic: {"queueId": row.queue_id, "offset": row.offset}
        for row in browser_of(person("ben")).get("/dead-letters/of/both/").context["data"].rows
    }
    his: list[tuple[str, dict[str, Any]]] = [
        ("groups.reset_offsets", {"group": "both", "topic": "orders", "to": "first"}),
        ("dead_letters.send_back", {"group": "both", "filter": {"topic": "orders"}}),
        ("dead_letters.send_back", {"group": "both", "targets": [letters["orders"]]}),
    ]
    others: list[tuple[str, dict[str, Any]]] = [
        ("groups.reset_offsets", {"group": "both", "topic": "*", "to": "first"}),
        ("groups.reset_offsets", {"group": "both", "topic": THEIRS, "to": "first"}),
        ("groups.reset_offsets", {"group": "both", "topic": "%RETRY%both", "to": "first"}),
        ("groups.change", {"name": "both", "settings": {"retry_max_times": 3}}),
        ("groups.delete", {"name": "both"}),
        ("dead_letters.send_back", {"group": "both", "filter": {}, "is_all": True}),
        ("dead_letters.send_back", {"group": "both", "filter": {"topic": THEIRS}}),
        ("dead_letters.send_back", {"group": "both", "targets": [letters[THEIRS]]}),
        ("dead_letters.send_back", {"group": "both", "targets": list(letters.values())}),
        ("alerts.silence", {"subject": "both", "rule": None, "until_ms": time.time_ns() // 1_000_000 + 60_000}),
    ]
    for kind, given in his:
        assert workflow.draft(kind, given, actor).preview["count"] == 1, given
    for kind, given in others:
        with pytest.raises(OutOfReach):
            workflow.draft(kind, given, actor)
    done = workflow.start(*his[0], actor, reason="again")
    assert done.results == {"offset_moved": 1}
    shared.mirror.run_once()
    queues = {queue.topic: queue.lag for queue in groups_read.group("both").queues if queue.queue_id == 0}
    assert (queues["orders"], queues[THEIRS]) == (3, 3)


def test_the_palette_offers_his_topics_and_never_all(shared: Stage, anna: Client) -> None:
    assert "/groups/both/" in page_of(anna, "/find/?q=bot")
    offered = page_of(anna, "/find/?q=reset both first")
    assert "on orders to first" in offered
    assert "all its topics" not in offered
    assert THEIRS not in offered
    assert "all its topics" in page_of(browser_of(person("ben", role="operator")), "/find/?q=reset both first")


def test_members_are_counted_and_not_named(shared: Stage) -> None:
    consumer = Consumer("both", shared.broker.namesrv)
    for topic in ("orders", THEIRS):
        consumer.subscribe(topic, "none", lambda message: None)
    with consumer:
        shared.wait_for(lambda: shared.admin.consumers(["both"]))
        shared.mirror.run_once()
        with scoped(MINE):
            page = groups_read.group("both")
            assert (page.members, page.unnamed_members, page.subscriptions) == ((), 1, (("orders", "none"),))
            assert page.verdict is not None
            assert "No consumer" not in str(page.verdict.words)
            assert [row for row in read_clients().rows if row.group == "both"] == []
        whole = groups_read.group("both")
        assert (len(whole.members or ()), whole.unnamed_members) == (1, 0)
        name = (whole.members or ())[0].client_id
        assert name not in page_of(browser_of(limited_person("anna", "orders")), "/groups/both/")


def test_a_client_of_it_that_reads_nothing_else_is_named(shared: Stage) -> None:
    consumer = Consumer("both", shared.broker.namesrv)
    consumer.subscribe("orders", "none", lambda message: None)
    with consumer:
        shared.wait_for(lambda: shared.admin.consumers(["both"]))
        shared.mirror.run_once()
        with scoped(MINE):
            assert [row.group for row in read_clients().rows] == ["both"]


def test_alerts_of_it_say_whose_values_they_are(anna: Client) -> None:
    rule = AlertRule.objects.create(what="backlog", subject="both", limit=1)
    alert = {"rule": rule, "subject": "both", "state": "firing", "value": 5, "highest": 5}
    Alert.objects.create(**alert, since="2026-01-01T00:00Z")
    assert "values of all that it reads" in page_of(anna, "/alerts/")
    assert "values of all that it reads" not in page_of(browser_of(person("ben")), "/alerts/")


def test_a_snapshot_tells_the_same_of_it(shared: Stage) -> None:
    taken = kept.kept_groups(cluster(), sums_only=False)
    scope = TopicScope(MINE)
    found = kept.seen_of(taken, scope)
    row = next(row for row in found.rows if row.name == "both")
    assert (row.reads_others, row.topics, row.lag, row.dead, row.retry) == (True, 1, 2, None, None)
    assert {line.topic for line in found.topics if line.group == "both"} == {"orders"}
    assert kept.seen_of(taken, EVERYTHING) is taken
    # what it read then counts, and what it reads today
    assert "both" not in {row.name for row in kept.seen_of(taken, TopicScope(VisibleTopics.of(["tests"]))).rows}


def test_who_sees_nothing_that_it_reads_does_not_see_it(shared: Stage) -> None:
    with scoped(VisibleTopics.of(["else*"])), pytest.raises(Http404):
        groups_read.group("both")


def test_a_person_who_asks_rest_sees_it(shared: Stage, anna: Client) -> None:
    scope = TopicScope(MINE)
    assert (scope.group("both"), scope.whole_group("both"), scope.groups()) == (True, False, ["both", *[]])
    assert not scope.topic("%RETRY%both")
    assert scope.record("%DLQ%both", "orders")
    assert not scope.record("%DLQ%both", THEIRS)
    assert not scope.record("%DLQ%wages", "orders")
