"""Dead letters of one group at two brokers: one list by when they died, each sent again where it lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from console.features.dead_letters import pages as dead_letters_pages
from console.features.dead_letters.shapes import DeadLetterFilter, DeadLetterPage, read_after
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import InvalidParameter
from console.operations.models import Operation
from console.site.chosen import choice_of, choosing
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
ALL: dict[str, Any] = {"group": "billing", "filter": {}, "is_all": True}


@pytest.fixture
def graves(transactional_db: None, settings: Any) -> Iterator[Several]:
    """`billing` gave up order-0 to order-5, in turn at broker-a and broker-b."""
    with several(settings) as made:
        for admin in made.admins.values():
            admin.create_group("billing")
        for number in range(6):
            made.bury((A, B)[number % 2], f"order-{number}")
        made.mirror()
        yield made


def letters(after: str = "") -> DeadLetterPage:
    return dead_letters_pages.dead_letters("billing", DeadLetterFilter(), read_after(after))


def stored(both: Several, broker: str, topic: str) -> int:
    return sum(each.max_offset for each in both.admins[broker].topic_stats(topic).queues)


def do(kind: str, **parameters: Any) -> Operation:
    return workflow.start(f"dead_letters.{kind}", {**ALL, **parameters}, ACTOR, reason="because")


def test_groups_are_counted_over_both(graves: Several, operator: Client) -> None:
    (row,) = dead_letters_pages.dead_letter_groups().rows
    assert (row.name, row.count, row.brokers) == ("billing", 6, (A, B))
    assert "broker-a broker-b" in words(operator.get("/dead-letters/"))
    with choosing(choice_of(B)):
        assert [row.count for row in dead_letters_pages.dead_letter_groups().rows] == [3]


def test_letters_of_both_are_one_list_by_when_they_died(graves: Several, operator: Client) -> None:
    found = letters()
    assert [row.name for row in found.rows] == [f"order-{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert [row.broker for row in found.rows] == [B, A, B, A, B, A]
    assert (found.total, found.following) == (6, None)
    answer = operator.get("/dead-letters/of/billing/")
    assert "/at/broker-b/messages/" in answer.content.decode()
    rows = json.loads(b"".join(operator.get("/dead-letters/of/billing/?as=json").streaming_content))
    assert [row["broker"] for row in rows] == [B, A, B, A, B, A]


def test_pages_go_on_at_a_place_of_each_broker(graves: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters_pages, "ROWS", 2)
    names, after = [], ""
    for _page in range(5):
        found = letters(after)
        names += [row.name for row in found.rows]
        if found.cursor is None:
            break
        after = found.cursor
    assert names == [f"order-{number}" for number in (5, 4, 3, 2, 1, 0)]


def test_each_is_sent_back_where_it_lies(graves: Several, operator: Client) -> None:
    row = letters().rows[0]
    assert row.broker == B
    answer = operator.post(
        "/operations/draft/", {"kind": "dead_letters.send_back", "group": "billing", "letter": row.choice}
    )
    assert answer.status_code == 303, words(answer)
    operator.post(answer.headers["Location"] + "confirm/", {"reason": "because"})
    done = Operation.objects.latest("created_at")
    assert (done.results, done.parameters["targets"]) == ({"sent_back": 1}, [{"queueId": 0, "offset": 2, "broker": B}])
    marked = {each.name: each.sent_again for each in letters().rows}
    assert marked["order-5"] == "sent_back"
    assert marked["order-4"] == ""
    with choosing(choice_of(A)):
        assert {each.sent_again for each in letters().rows} == {""}
    with choosing(choice_of(B)):
        assert [each.sent_again for each in letters().rows] == ["sent_back", "", ""]


def test_all_that_match_are_sent_again_once(graves: Several) -> None:
    row = do("send_as_new")
    assert (row.preview["count"], row.results) == (6, {"sent_as_new": 6})
    assert {item.label["broker"] for item in row.items.all()} == {A, B}
    assert {each.sent_again for each in letters().rows} == {"sent_as_new"}
    assert dict(do_preview())["count"] == 0


def do_preview() -> Any:
    return workflow.draft("dead_letters.send_as_new", ALL, ACTOR).preview


def test_whose_it_is_has_to_be_said(graves: Several) -> None:
    named = {"group": "billing", "targets": [{"queueId": 0, "offset": 0}]}
    with pytest.raises(InvalidParameter, match="Give the broker of each"):
        workflow.draft("dead_letters.send_back", named, ACTOR)
    with choosing(choice_of(B)):
        assert workflow.draft("dead_letters.send_back", named, ACTOR).preview["count"] == 1
    named["targets"] = [{"queueId": 0, "offset": 0, "broker": "broker-z"}]
    with pytest.raises(InvalidParameter, match="no broker broker-z"):
        workflow.draft("dead_letters.send_back", named, ACTOR)


def test_a_dead_broker_keeps_its_letters_and_the_others_go_on(graves: Several, operator: Client) -> None:
    graves.kill(B)
    answer = operator.get("/dead-letters/of/billing/")
    assert answer.status_code == 200
    assert [row.name for row in letters().rows] == ["order-4", "order-2", "order-0"]
    assert letters().evidence.stale_of == (B,)
    assert operator.get("/dead-letters/").status_code == 200
    row = do("send_as_new")
    assert (row.preview["away"], row.preview["count"], row.preview["missing"]) == ([B], 3, ["count"])
    assert row.results == {"sent_as_new": 3}
    assert "broker-b does not respond" in words(operator.get(f"/operations/{row.pk}/"))
