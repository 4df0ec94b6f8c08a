"""Topics of two brokers in total and by broker, and settings that are changed at both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from broker.mirror.models import MirrorState
from console.features.topics import pages as topics_pages
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import NotPossible
from console.operations.models import Operation
from console.site.broker import tell_each
from console.site.chosen import choice_of, choosing
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))


@pytest.fixture
def both(transactional_db: None, settings: Any) -> Iterator[Several]:
    with several(settings) as made:
        for number in range(3):
            made.send(A, "orders", f"a-{number}", queue_id=0)
        made.send(B, "orders", "b-0", queue_id=1)
        made.admins[B].create_topic("only-b", queues=1)
        made.mirror()
        yield made


def do(kind: str, **parameters: Any) -> Operation:
    return workflow.start(kind, parameters, ACTOR, reason="because")


def queues(both: Several, broker: str, name: str = "orders") -> int | None:
    found = both.admins[broker].topic_settings(name)
    return None if found is None else found["writeQueueNums"]


def test_a_topic_of_both_is_one_row_in_total(both: Several) -> None:
    found = topics_pages.read_topics()
    row = next(row for row in found.rows if row.name == "orders")
    assert (row.messages, row.write_queues, row.brokers, row.differs) == (4, 4, (A, B), False)
    only = next(row for row in found.rows if row.name == "only-b")
    assert only.brokers == (B,)
    with choosing(choice_of(A)):
        (row,) = [row for row in topics_pages.read_topics().rows if row.name in ("orders", "only-b")]
    assert (row.messages, row.write_queues) == (3, 2)


def test_the_list_says_whose_a_topic_is(both: Several, operator: Client) -> None:
    page = words(operator.get("/topics/"))
    assert "Permission Broker" in page
    assert "broker-a broker-b" in page
    assert "Permission Broker" not in words(operator.get("/at/broker-a/topics/"))
    rows = json.loads(b"".join(operator.get("/topics/?as=json").streaming_content))
    assert {row["name"]: row["broker"] for row in rows}["orders"] == "broker-a broker-b"
    assert list(rows[0])[-1] == "broker"


def test_the_page_of_a_topic_lists_its_parts_and_links_to_their_queues(both: Several, operator: Client) -> None:
    both.admins[B].set_topic("orders", {"perm": 4})
    both.mirror()
    answer = operator.get("/topics/orders/")
    page = words(answer)
    assert "Its settings differ from broker to broker: Permission" in page
    assert "/at/broker-b/topics/orders/1/" in answer.content.decode()
    data = topics_pages.read_topic("orders")
    assert [(part.broker, part.messages, part.permission) for part in data.parts] == [(A, 3, 6), (B, 1, 4)]
    assert [(queue.broker, queue.queue_id) for queue in data.queues] == [(A, 0), (A, 1), (B, 0), (B, 1)]
    assert "Missing at: broker-a" in words(operator.get("/topics/only-b/"))
    assert operator.get("/at/broker-a/topics/only-b/").status_code == 404


def test_the_tail_has_the_newest_of_both(both: Several, operator: Client) -> None:
    both.send(A, "orders", "a-last", queue_id=1)
    tail = topics_pages.read_tail("orders")
    assert [(row.broker, row.message.preview) for row in tail.rows] == [
        (A, "a-last"), (B, "b-0"), (A, "a-2"), (A, "a-1"), (A, "a-0"),
    ]  # fmt: skip
    assert tail.stored == 5
    assert topics_pages.read_tail("only-b").evidence.stale_reason is None
    assert operator.get("/topics/none/tail/").status_code == 404
    assert operator.get("/topics/orders/tail/").status_code == 200


def test_a_change_is_made_at_both_and_put_back_at_each(both: Several, operator: Client) -> None:
    both.admins[B].set_topic("orders", {"writeQueueNums": 5})
    row = do("topics.change", name="orders", settings={"write_queues": 6})
    assert (row.results, queues(both, A), queues(both, B)) == ({"changed": 2}, 6, 6)
    assert [item.label["broker"] for item in row.items.all()] == [A, B]
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "orders broker-a" in page
    answer = operator.post(f"/operations/{row.pk}/undo/")
    assert answer.status_code == 303, words(answer)
    preview = words(operator.get(answer.headers["Location"]))
    assert "Write queues 6 2 broker-a" in preview
    operator.post(answer.headers["Location"] + "confirm/", {"reason": "because"})
    assert (queues(both, A), queues(both, B)) == (2, 5)


def test_with_a_choice_it_is_made_at_that_one(both: Several, operator: Client) -> None:
    answer = operator.post("/at/broker-b/operations/draft/", {"kind": "topics.change", "name": "orders",
                           "write_queues": "7", "was_write_queues": "2"})  # fmt: skip
    assert answer.status_code == 303, words(answer)
    page = words(operator.get(answer.headers["Location"]))
    assert "?broker=broker-b" in page
    assert "--broker broker-b --reason ... --run" in page
    assert "with choosing(choice_of('broker-b')):" in page
    operator.post(answer.headers["Location"] + "confirm/", {"reason": "because"})
    assert (queues(both, A), queues(both, B)) == (2, 7)


def test_a_shell_names_the_broker(both: Several) -> None:
    given = '{"name": "orders", "settings": {"write_queues": 8}}'
    call_command("operate", "topics.change", given, "--broker", B, "--reason", "because", "--run", stdout=StringIO())
    assert (queues(both, A), queues(both, B)) == (2, 8)
    with pytest.raises(CommandError, match="broker-z"):
        call_command("operate", "topics.change", given, "--broker", "broker-z")


def test_a_new_topic_is_made_where_it_is_not(both: Several) -> None:
    row = do("topics.create", name="only-b", settings={"write_queues": 3})
    assert row.preview["apart"] == [[B, "there", ""]]
    assert (row.results, queues(both, A, "only-b"), queues(both, B, "only-b")) == ({"made": 1}, 3, 1)
    with pytest.raises(NotPossible, match="already exists"):
        do("topics.create", name="only-b", settings={})
    assert do("topics.create", name="new", settings={}).results == {"made": 2}


def test_a_topic_is_deleted_at_both_with_what_each_loses(both: Several) -> None:
    row = do("topics.delete", name="orders")
    assert row.preview["by_broker"] == [[A, 3], [B, 1]]
    assert (row.preview["lost_messages"], row.results) == (4, {"deleted": 2})
    assert (queues(both, A), queues(both, B)) == (None, None)


def test_the_form_says_what_differs_and_leaves_it_so(both: Several, operator: Client) -> None:
    both.admins[B].set_topic("orders", {"perm": 4, "writeQueueNums": 5})
    page = words(operator.get("/topics/orders/"))
    assert "differs: leave unchanged" in page
    assert "broker-a: 2, broker-b: 5" in page
    form = {"name": "orders", "permission": "different", "was_permission": "different",
            "write_queues": "", "was_write_queues": "", "read_queues": "9", "was_read_queues": "2"}  # fmt: skip
    answer = operator.post("/operations/draft/", {"kind": "topics.change", **form})
    assert answer.status_code == 303, words(answer)
    operator.post(answer.headers["Location"] + "confirm/", {"reason": "because"})
    found = both.admins[B].topic_settings("orders")
    assert found is not None
    assert (found["perm"], found["writeQueueNums"], found["readQueueNums"]) == (4, 5, 9)


def test_a_dead_broker_takes_no_page_with_it(both: Several, operator: Client) -> None:
    both.kill(B)
    for address in ("/topics/", "/topics/orders/", "/topics/orders/tail/"):
        answer = operator.get(address)
        assert answer.status_code == 200
        assert "broker-b" in words(answer)
    row = next(row for row in topics_pages.read_topics().rows if row.name == "orders")
    assert row.messages == 4
    assert topics_pages.read_topics().evidence.stale_of == (B,)
    assert [row.message.preview for row in topics_pages.read_tail("orders").rows] == ["a-2", "a-1", "a-0"]


def test_what_a_dead_broker_did_not_do_can_be_gone_on_with(both: Several, operator: Client) -> None:
    both.kill(B)
    row = do("topics.change", name="orders", settings={"write_queues": 6})
    assert [(broker, code) for broker, code, _error in row.preview["apart"]] == [(B, "away")]
    assert (row.results, queues(both, A)) == ({"changed": 1, "unknown": 1}, 6)
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "Continue with remaining items" in page
    both.start(B)
    assert operator.post(f"/operations/{row.pk}/continue/").status_code == 303
    row.refresh_from_db()
    assert (row.state, row.results, row.done, queues(both, B)) == ("done", {"changed": 2}, 2, 6)
    with pytest.raises(NotPossible):
        workflow.go_on(row.pk, ACTOR)


def test_brokers_are_asked_beside_each_other(both: Several) -> None:
    meeting = Barrier(2)
    told = tell_each(lambda _admin: meeting.wait(10) >= 0, [A, B])
    assert [(each.broker, each.answer) for each in told] == [(A, True), (B, True)]


def test_a_polled_broker_stands_beside_a_followed_one(both: Several, operator: Client) -> None:
    MirrorState.mirror_writer.filter(broker=B).update(polling=True)
    data = topics_pages.read_topic("orders")
    assert data.parts[1].sends_per_s is None
    assert data.topic is not None
    assert data.topic.messages == 4
    for address in ("/topics/?order=-rate", "/topics/orders/", "/groups/", "/dead-letters/", "/clients/"):
        assert operator.get(address).status_code == 200, address
