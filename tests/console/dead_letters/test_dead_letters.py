"""Dead letters: seen by group, sent back to it or as new messages, once unless somebody means it."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from broker.client import Consumer, Message
from broker.mirror.models import ConsumerGroup
from console.features.dead_letters import pages as dead_letters_pages
from console.features.dead_letters.shapes import DeadLetterFilter
from console.operations import copies, workflow
from console.operations.actor import PERMISSIONS, STEER_TIMERS, Actor
from console.operations.copies import NotReadable
from console.operations.errors import InvalidParameter, NotAllowed
from console.operations.models import AuditEntry, Operation, OperationItem
from tests.console.people import person
from tests.console.stage import HOSTILE, Stage, one_word
from tests.console.ui.test_pages import tags_of, words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
ALL: dict[str, Any] = {"group": "billing", "filter": {}, "is_all": True}


@pytest.fixture
def graves(stage: Stage) -> Iterator[Stage]:
    """A group `billing` that gave up order-0 to order-4."""
    stage.producer.send("orders", "first")
    stage.consume()
    for number in range(5):
        bury(stage, f"order-{number}", tag="paid")
    stage.mirror.run_once()
    yield stage
    copies.hang_up()


def bury(stage: Stage, key: str, body: str = "pay", **more: Any) -> None:
    """A message that billing gave up."""
    sent = stage.producer.send("orders", body, keys=[key], properties={"note": "by hand"}, **more)
    record = stage.admin.message_by_offset_id(sent.offset_message_id)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)


def dead(wanted: DeadLetterFilter | None = None, after: tuple[int, int] | None = None) -> list[str]:
    return [row.name for row in dead_letters_pages.dead_letters("billing", wanted or DeadLetterFilter(), after).rows]


def drafted(operator: Client, kind: str, **form: Any) -> str:
    """The address of the draft."""
    answer = operator.post("/operations/draft/", {"kind": f"dead_letters.{kind}", "group": "billing", **form})
    assert answer.status_code == 303
    return str(answer.headers["Location"])


def confirmed(operator: Client, address: str) -> Operation:
    assert operator.post(address + "confirm/", {"reason": "the bank is up again"}).status_code == 303
    return Operation.objects.latest("created_at")


def received(stage: Stage, count: int) -> list[Message]:
    """What billing gets once more."""
    got: list[Message] = []
    consumer = Consumer("billing", stage.broker.namesrv)
    consumer.subscribe("orders", "*", lambda message: message.reconsume_times and got.append(message))
    with consumer:
        stage.wait_for(lambda: len(got) >= count)
    return got


def test_groups_with_dead_letters_are_listed_and_one_is_opened(graves: Stage, operator: Client) -> None:
    page = words(operator.get("/dead-letters/"))
    assert "1 group with dead letters" in page
    assert "billing" in page
    shown = operator.get("/dead-letters/of/billing/")
    assert "5 dead letters" in words(shown)
    assert dead() == [f"order-{number}" for number in (4, 3, 2, 1, 0)]
    (row,) = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-3")).rows
    assert (row.topic, row.tag, row.preview, row.attempts, row.sent_again) == ("orders", "paid", "pay", 1, "")
    assert f'value="{row.choice}"' in shown.content.decode()


def test_one_goes_back_to_its_group_alone(graves: Stage, operator: Client) -> None:
    row = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-3")).rows[0]
    address = drafted(operator, "send_back", letter=row.choice)
    page = words(operator.get(address))
    assert "1 selected dead letter of billing" in page
    assert "Only their group gets each of them again" in page
    stored = graves.admin.topic_stats("orders").queues
    done = confirmed(operator, address)
    assert (done.results, done.error) == ({"sent_back": 1}, "")
    (got,) = received(graves, 1)
    assert (got.topic, got.body, got.keys, got.unique_key) == ("orders", b"pay", ["order-3"], row.unique_key)
    assert graves.admin.topic_stats("orders").queues == stored
    assert [entry.what for entry in AuditEntry.objects.order_by("id")] == ["confirmed", "finished"]
    assert "resent to its group" in words(operator.get("/dead-letters/of/billing/"))


def test_what_fails_again_is_a_dead_letter_again(graves: Stage) -> None:
    workflow.start("dead_letters.send_back", {**ALL, "filter": {"key": "order-1"}}, ACTOR, reason="try")
    consumer = Consumer("billing", graves.broker.namesrv)

    def fail(message: Message) -> None:
        if "RETRY_TOPIC" in message.properties:  # the group begins in the topic itself, too
            graves.admin.send_back("billing", message, delay_level=-1, max_reconsume_times=0)

    consumer.subscribe("orders", "*", fail)
    with consumer:
        graves.wait_for(lambda: dead().count("order-1") == 2)
    newest = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-1")).rows[0]
    assert newest.sent_again == ""


def test_all_that_match_go_as_new_messages_and_only_once(graves: Stage, operator: Client) -> None:
    before = sum(part.max_offset for part in graves.admin.topic_stats("orders").queues)
    form = {"scope": "matching", "topic": "orders", "key": "paid"}
    done = confirmed(operator, drafted(operator, "send_as_new", **form))
    assert done.results == {"sent_as_new": 5}
    assert sum(part.max_offset for part in graves.admin.topic_stats("orders").queues) == before + 5
    copy = graves.admin.messages_by_key("orders", "order-2", 8)[0]
    grave = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-2")).rows[0]
    assert (copy.body, copy.tags, copy.keys) == (b"pay", "paid", ["order-2"])
    assert copy.properties["note"] == "by hand"
    assert copy.properties["RESENT_FROM"] == grave.offset_message_id
    assert copy.unique_key != grave.unique_key
    again = drafted(operator, "send_as_new", **form)
    assert operator.post(again + "confirm/", {"reason": "again"}).status_code == 409
    assert sum(part.max_offset for part in graves.admin.topic_stats("orders").queues) == before + 5
    named = drafted(operator, "send_as_new", letter=grave.choice)
    assert "these would be delivered again" in words(operator.get(named))
    assert confirmed(operator, named).results == {"sent_as_new": 1}


def test_what_died_after_the_preview_is_not_touched(graves: Stage, operator: Client) -> None:
    address = drafted(operator, "send_back", scope="matching", is_all="1")
    bury(graves, "later")
    assert confirmed(operator, address).results == {"sent_back": 5}
    assert OperationItem.objects.filter(label__name="later").count() == 0


def test_a_record_that_is_gone_and_a_group_that_never_was(graves: Stage) -> None:
    gone = {"group": "billing", "targets": [{"queueId": 0, "offset": 4711}]}
    assert workflow.start("dead_letters.send_back", gone, ACTOR, reason="try").results == {"gone": 1}
    nobody = dead_letters_pages.dead_letters("nobody", DeadLetterFilter())
    assert (nobody.rows, nobody.total) == ((), 0)


def test_only_a_later_page_leads_to_the_first(graves: Stage, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["console.features.dead_letters.pages"], "ROWS", 2)
    monkeypatch.setattr("console.features.dead_letters.pages.STEP", 2)
    first = operator.get("/dead-letters/of/billing/").content.decode()
    following = re.search(r'rel="next" href="([^"]*)"', first)
    assert following and "First page" not in first
    assert "First page" in operator.get("/dead-letters/of/billing/" + unescape(following[1])).content.decode()


def test_filters_and_pages_are_exact(graves: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.features.dead_letters.pages.STEP", 2)
    first = dead_letters_pages.dead_letters("billing", DeadLetterFilter(), count=2)
    second = dead_letters_pages.dead_letters("billing", DeadLetterFilter(), first.following, count=2)
    third = dead_letters_pages.dead_letters("billing", DeadLetterFilter(), second.following, count=2)
    seen = [[row.name for row in page.rows] for page in (first, second, third)]
    assert seen == [["order-4", "order-3"], ["order-2", "order-1"], ["order-0"]]
    assert third.following is None
    died_ms = {row.name: row.died_ms for page in (first, second, third) for row in page.rows}
    wanted = DeadLetterFilter(from_ms=died_ms["order-1"], to_ms=died_ms["order-3"])
    expected = [name for name, died in died_ms.items() if died_ms["order-1"] <= died < died_ms["order-3"]]
    assert dead(wanted) == expected[:2]
    assert dead(DeadLetterFilter(topic="other")) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"group": "billing"},
        {"group": "a group", "filter": {"topic": "orders"}},
        {"group": 7, "filter": {"topic": "orders"}},
        {"group": "billing", "filter": {}},
        {"group": "billing", "filter": {"topic": 3}},
        {"group": "billing", "filter": {"from_ms": True}},
        {"group": "billing", "targets": []},
        {"group": "billing", "targets": [{"queueId": 0}]},
        {"group": "billing", "targets": [{"queueId": 0, "offset": -1}]},
        {"group": "billing", "targets": [{"queueId": 0, "offset": 1}] * 1_001},
    ],
)
def test_parameters_are_checked_before_anything_is_done(db: None, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft("dead_letters.send_back", parameters, ACTOR)
    assert Operation.objects.count() == 0


def test_it_needs_its_own_permission(graves: Stage) -> None:
    with pytest.raises(NotAllowed):
        workflow.draft("dead_letters.send_back", ALL, Actor("clerk", frozenset({STEER_TIMERS})))
    assert AuditEntry.objects.get().what == "denied"
    clerk = person("clerk")
    browser = Client()
    browser.force_login(clerk)
    assert browser.post("/operations/draft/", {"kind": "dead_letters.send_back"}).status_code == 403
    assert b"disabled" in browser.get("/dead-letters/of/billing/").content
    clerk.user_permissions.add(Permission.objects.get(codename="resend_dead_letters"))
    assert drafted(browser, "send_back", scope="matching", is_all="1")


def test_a_compressed_body_is_copied_as_it_was_read() -> None:
    class Record:
        sys_flag, body = 1, zlib.compress(b"pay")

    assert copies.plain_body(Record()) == b"pay"
    Record.body = b"not compressed"
    with pytest.raises(NotReadable):
        copies.plain_body(Record())
    Record.body = zlib.compress(b"pay")[:-4]
    with pytest.raises(NotReadable):
        copies.plain_body(Record())
    Record.sys_flag = 1 | 2 << 8
    with pytest.raises(NotReadable):
        copies.plain_body(Record())


def test_hostile_text_stays_text(graves: Stage, operator: Client) -> None:
    for each in HOSTILE:
        bury(graves, one_word(each), body=each)
    for path in ("/dead-letters/of/billing/", drafted(operator, "send_as_new", scope="matching", is_all="1")):
        page = operator.get(path).content.decode()
        assert all(tag not in ("img", "hx-partial") for tag, _ in tags_of(page))
        assert not [name for _, found in tags_of(page) for name in found if name.startswith("on")]
        assert "alert(1)" in page


def test_the_admin_leads_to_the_same_preview(graves: Stage, operator: Client) -> None:
    chosen = [row.pk for row in ConsumerGroup.objects.filter(name="billing")]
    answer = operator.post("/admin/broker/consumergroup/", {"action": "send_back", "_selected_action": chosen})
    assert answer.headers["Location"].startswith("/operations/")
    assert "all dead letters of billing not resent yet" in words(operator.get(answer.headers["Location"]))


def test_without_a_broker_the_pages_say_so(operator: Client, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    for path in ("/dead-letters/", "/dead-letters/of/billing/"):
        response = operator.get(path)
        assert response.status_code == 200
        assert "Unknown now" in words(response)


def fail_again(stage: Stage, *keys: str) -> None:
    """Let billing take what it was given once more, and give up those with these keys."""
    seen: set[str] = set()

    def take(message: Message) -> None:
        if "RETRY_TOPIC" in message.properties:
            seen.update(message.keys)
            if set(keys) & set(message.keys):
                stage.admin.send_back("billing", message, delay_level=-1, max_reconsume_times=0)

    consumer = Consumer("billing", stage.broker.namesrv)
    consumer.subscribe("orders", "*", take)
    with consumer:
        stage.wait_for(lambda: seen >= {"order-1", "order-2"})
    stage.mirror.run_once()


def became(key: str) -> list[str]:
    """What became of the letters with this key, the oldest first."""
    rows = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key=key)).rows
    return ["" if row.became is None else row.became.fate.value for row in reversed(rows)]


def test_what_became_of_a_resent_letter_is_said_when_one_looks(graves: Stage, operator: Client) -> None:
    for key in ("order-1", "order-2"):
        wanted = {**ALL, "filter": {"key": key}}
        done = workflow.start("dead_letters.send_back", wanted, ACTOR, reason="try")
        assert became(key) == ["waits"]
        assert "waiting for delivery" in words(operator.get(f"/operations/{done.pk}/"))
    assert became("order-3") == [""]
    fail_again(graves, "order-1")
    assert (became("order-1"), became("order-2")) == (["dead", ""], ["received"])
    newest = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-1")).rows[0]
    to_it = f'href="/messages/{newest.offset_message_id}/"'
    first, second = Operation.objects.order_by("created_at")
    shown = operator.get(f"/operations/{first.pk}/")
    assert "died again 1" in words(shown)
    assert to_it in shown.content.decode()
    assert "received 1" in words(operator.get(f"/operations/{second.pk}/"))
    listed = operator.get("/dead-letters/of/billing/")
    assert "resent to its group: died again" in words(listed)
    assert to_it in listed.content.decode()
    # once more: the letter that came of the first time says nothing of the second
    old = {"group": "billing", "targets": [first.items.get().target]}
    again = workflow.start("dead_letters.send_back", old, ACTOR, reason="once more")
    assert "waiting for delivery 1" in words(operator.get(f"/operations/{again.pk}/"))
    assert "died again 1" in words(operator.get(f"/operations/{first.pk}/"))


def test_what_became_of_a_new_message_is_said_for_the_group_that_gave_it_up(graves: Stage, operator: Client) -> None:
    done = workflow.start("dead_letters.send_as_new", {**ALL, "filter": {"key": "order-4"}}, ACTOR, reason="try")
    copy = graves.admin.messages_by_key("orders", "order-4", 8)[0]
    assert became("order-4") == ["waits"]
    graves.admin.send_back("billing", copy, delay_level=-1, max_reconsume_times=0)
    assert became("order-4") == ["dead", ""]
    assert "died again 1" in words(operator.get(f"/operations/{done.pk}/"))


def test_a_broker_that_is_away_says_nothing_of_resent_letters(graves: Stage, operator: Client, settings: Any) -> None:
    done = workflow.start("dead_letters.send_back", {**ALL, "filter": {"key": "order-4"}}, ACTOR, reason="try")
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    page = operator.get(f"/operations/{done.pk}/")
    assert page.status_code == 200
    assert "resent to its group" in words(page)
    assert "waiting for delivery" not in words(page)
