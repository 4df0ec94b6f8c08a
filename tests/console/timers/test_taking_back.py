"""Cancels and moves of timers taken back on a real broker, and what cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from broker.client.timers import TimerTarget
from broker.rocketmq.codes import Request
from console.features.timers.read import one_timer
from console.features.timers.shapes import TimerRow
from console.operations import workflow
from console.operations.actor import PERMISSIONS, STEER_TIMERS, Actor
from console.operations.copies import COPY_OF
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible
from console.operations.models import AuditEntry, Operation, OperationItem
from console.site.clock import now_ms
from console.templatetags.escapement import mark, moment
from tests.console.stage import Stage
from tests.console.timers.test_operations import ACTOR, HOUR, arrived, park, waiting
from tests.console.ui.test_pages import words
from tests.watching import Calls


def cancelled(**more: Any) -> Operation:
    """All timers of `orders` cancelled, or those named."""
    parameters = more or {"filter": {"topic": "orders"}}
    return workflow.start("timers.cancel", parameters, ACTOR, reason="a mistake")


def taken_back(row: Operation, **more: Any) -> Operation:
    return workflow.start("timers.take_back", {"operation": str(row.pk), **more}, ACTOR, reason="it was a mistake")


def content(stage: Stage, row: TimerRow) -> tuple[Any, ...]:
    """What consumers will see of a timer, and when."""
    record = stage.admin.message_at(row.position)
    own = {name: text for name, text in record.properties.items() if name in ("note", "__SHARDINGKEY", "WAIT")}
    return row.name, row.due_ms, row.topic, row.queue_id, row.tag, row.keys, row.schedule_key, record.body, own


def test_what_was_cancelled_waits_again_as_it_was(stage: Stage, operator: Client) -> None:
    park(stage, 2, "a")
    stage.producer.send("orders", b"\x00\xff", tag="paid", keys=["k-1", "k-2"], properties={"note": "<b>"},
                        deliver_at_ms=now_ms() + 2 * HOUR, schedule_key="order-4711", queue_id=1)  # fmt: skip
    before = [content(stage, row) for row in waiting()]
    row = cancelled()
    assert waiting() == []
    page = operator.get(f"/operations/{row.pk}/")
    assert "Undo…" in words(page)
    draft = operator.post(f"/operations/{row.pk}/undo/")
    assert draft.status_code == 303
    address = draft.headers["Location"]
    shown = words(operator.get(address))
    assert "Undo changes to timers" in shown
    assert "what an operation did: Cancel timers" in shown
    assert "with a new message id" in shown
    assert operator.post(address + "confirm/", {"reason": ""}).status_code == 422
    for _ in range(2):
        assert operator.post(address + "confirm/", {"reason": "it was a mistake"}).status_code == 303
    assert [content(stage, each) for each in waiting()] == before
    done = Operation.objects.get(kind="timers.take_back")
    assert done.results == {"taken_back": 3}
    assert [item.outcome for item in done.items.all()] == ["taken_back"] * 3
    assert list(AuditEntry.objects.filter(operation=done.pk).order_by("id").values_list("what", "actor")) == [
        ("confirmed", "operator"), ("finished", "operator"),
    ]  # fmt: skip
    assert f'href="/operations/{done.pk}/"' in operator.get(f"/operations/{row.pk}/").content.decode()
    of_undo = operator.get(f"/operations/{done.pk}/").content.decode()
    assert of_undo.count(">Open new timer</a>") == 3
    assert all(f'href="/timers/{each.position}/"' in of_undo for each in waiting())


def test_it_arrives_once_however_often_it_is_taken_back(stage: Stage) -> None:
    park(stage, 1, "a", due_ms=now_ms() + 2_500)
    row = cancelled()
    assert taken_back(row).results == {"taken_back": 1}
    again = workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR)
    assert (again.preview["count"], again.preview["kept_out"]) == (0, [["already_taken_back", 1]])
    with pytest.raises(NotPossible):
        workflow.confirm(again.pk, ACTOR, reason="twice")
    stage.wait_for(lambda: arrived(stage, "a"))
    assert arrived(stage, "a") == ["a-0"]
    assert waiting() == []


def test_confirmed_in_two_drafts_each_waits_once(stage: Stage) -> None:
    park(stage, 3, "a")
    row = cancelled()
    first, second = (workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR) for _ in range(2))
    for each in (first, second):
        workflow.confirm(each.pk, ACTOR, reason="both looked good")
    assert Operation.objects.get(pk=second.pk).results == {"already_taken_back": 3}
    assert len(waiting()) == 3


def test_cancelled_once_more_it_can_be_taken_back_once_more(stage: Stage) -> None:
    park(stage, 1, "a")
    taken_back(cancelled())
    assert taken_back(cancelled()).results == {"taken_back": 1}
    assert [row.name for row in waiting()] == ["a-0"]


def test_one_of_many_is_taken_back_alone(stage: Stage, operator: Client) -> None:
    park(stage, 3, "a")
    row = cancelled()
    draft = operator.post(f"/operations/{row.pk}/undo/", {"item": "2"})
    operator.post(draft.headers["Location"] + "confirm/", {"reason": "this one was right"})
    assert [each.name for each in waiting()] == ["a-1"]
    assert taken_back(row).results == {"taken_back": 2, "already_taken_back": 1}


def test_what_is_past_says_so(stage: Stage, operator: Client) -> None:
    park(stage, 2, "a")
    row = cancelled()
    past = now_ms() - 60_000
    first, second = OperationItem.objects.order_by("number")
    first.result["due_ms"] = past
    first.save()
    assert "1 of 2 are not due yet" in words(operator.get(f"/operations/{row.pk}/"))
    draft = workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR)
    assert (draft.preview["count"], draft.preview["kept_out"]) == (1, [["too_late", 1]])
    assert taken_back(row).results == {"too_late": 1, "taken_back": 1}
    second.result["due_ms"] = past
    second.save()
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "It can no longer be undone" in page
    assert "Undo…" not in page


@pytest.mark.parametrize(
    ("results", "is_without"),
    [({"too_late": 1}, True), ({"too_late": 1, "taken_back": 1}, False), ({"unknown": 1}, False), ({}, False)],
)
def test_an_operation_that_changed_nothing_is_no_success(
    stage: Stage, operator: Client, results: dict[str, int], is_without: bool
) -> None:
    """An undo that came when the timer was due was "done" in green."""
    park(stage, 1, "a")
    row = taken_back(cancelled())
    row.results = results
    row.save()
    Operation.objects.exclude(pk=row.pk).delete()
    page = operator.get(f"/operations/{row.pk}/").content.decode()
    assert ("done, nothing changed" in page) is is_without
    listed = operator.get("/operations/").content.decode()
    rows = listed[listed.index("<tbody>") :]
    assert (mark("look") in rows) is is_without


def test_the_broker_refuses_a_moment_that_passed_on_the_way(stage: Stage) -> None:
    park(stage, 1, "a", due_ms=now_ms() + 1_200)
    row = cancelled()
    item = OperationItem.objects.get()
    stage.wait_for(lambda: now_ms() > item.result["due_ms"])
    OperationItem.objects.update(result={**item.result, "due_ms": now_ms() + HOUR})
    assert taken_back(row).results == {"too_late": 1}
    assert arrived(stage, "a") == []


def test_a_key_that_another_one_has_now_is_left_to_it(stage: Stage) -> None:
    stage.producer.send("orders", "old", deliver_at_ms=now_ms() + HOUR, schedule_key="order-1")
    row = cancelled()
    draft = workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR)
    stage.producer.send("orders", "new", deliver_at_ms=now_ms() + HOUR, schedule_key="order-1")
    assert workflow.confirm(draft.pk, ACTOR, reason="too late").results == {"key_taken": 1}
    (kept,) = waiting()
    assert stage.admin.message_at(kept.position).body == b"new"


def test_a_record_that_is_not_in_the_log_any_more_is_gone(stage: Stage) -> None:
    park(stage, 1, "a")
    row = cancelled()
    item = OperationItem.objects.get()
    OperationItem.objects.update(result={**item.result, "position": 2**40})
    assert taken_back_preview(row) == (0, [["gone", 1]])


def taken_back_preview(row: Operation) -> tuple[int, list[list[Any]]]:
    preview = workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR).preview
    return preview["count"], preview["kept_out"]


def moved(shift_ms: int = HOUR) -> Operation:
    parameters = {"filter": {"topic": "orders"}, "shift_ms": shift_ms}
    return workflow.start("timers.reschedule", parameters, ACTOR, reason="late")


def test_what_was_moved_goes_back_to_its_moment(stage: Stage, operator: Client) -> None:
    park(stage, 3, "a")
    before = {row.name: (row.due_ms, row.unique_key) for row in waiting()}
    row = moved()
    address = operator.post(f"/operations/{row.pk}/undo/").headers["Location"]
    operator.post(address + "confirm/", {"reason": "it is in time after all"})
    assert {each.name: (each.due_ms, each.unique_key) for each in waiting()} == before
    assert Operation.objects.get(kind="timers.take_back").results == {"moved_back": 3}
    assert taken_back_preview(row) == (0, [["already_taken_back", 3]])


def test_what_was_touched_since_is_left_as_it_is(stage: Stage) -> None:
    park(stage, 4, "a")
    row = moved()
    rows = {each.name: each.position for each in waiting()}
    workflow.start("timers.reschedule", {"targets": [{"position": rows["a-0"]}], "shift_ms": HOUR}, ACTOR, reason="x")
    workflow.start("timers.cancel", {"targets": [{"position": rows["a-1"]}]}, ACTOR, reason="x")
    workflow.start("timers.deliver_now", {"targets": [{"position": rows["a-2"]}]}, ACTOR, reason="x")
    left = {each.name: each.due_ms for each in waiting()}
    assert taken_back(row).results == {
        "changed_since": 1, "already_cancelled": 1, "already_delivered": 1, "moved_back": 1,
    }  # fmt: skip
    now = {each.name: each.due_ms for each in waiting()}
    assert (now["a-0"], now["a-3"]) == (left["a-0"], left["a-3"] - HOUR)


def test_what_is_moved_between_the_look_and_the_move_back_stays(stage: Stage) -> None:
    park(stage, 2, "a")
    row = moved()
    (first, second) = waiting()

    def move(asked: Mapping[str, Any], _: object) -> None:
        """What was seen is right; then somebody moves the first one."""
        if asked["target"]["position"] == first.position:
            aim = TimerTarget(position=first.position, due_ms=first.due_ms + 7)
            assert stage.admin.steer_timers("reschedule", [aim]).results[0].outcome == "rescheduled"

    draft = workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR)
    with Calls(one_timer, after=move):
        assert workflow.confirm(draft.pk, ACTOR, reason="x").results == {"changed_since": 1, "moved_back": 1}
    assert {each.due_ms for each in waiting()} == {first.due_ms + 7, second.due_ms - HOUR}


def test_another_message_with_the_key_is_not_moved(stage: Stage) -> None:
    due_ms = now_ms() + HOUR
    stage.producer.send("orders", "old", deliver_at_ms=due_ms, schedule_key="order-1")
    row = moved()
    to_ms = waiting()[0].due_ms
    stage.producer.send("orders", "new", deliver_at_ms=to_ms, schedule_key="order-1", on_conflict="replace")
    assert taken_back_preview(row) == (0, [["changed_since", 1]])
    assert waiting()[0].due_ms == to_ms


def test_only_cancels_and_moves_that_are_over_are_taken_back(stage: Stage, operator: Client) -> None:
    park(stage, 1, "a")
    row = cancelled()
    for parameters in ({}, {"operation": "x"}, {"operation": str(row.pk), "items": []},
                       {"operation": str(row.pk), "items": [True]}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            workflow.draft("timers.take_back", parameters, ACTOR)
    Operation.objects.filter(pk=row.pk).update(state="running")
    with pytest.raises(NotPossible):
        workflow.draft("timers.take_back", {"operation": str(row.pk)}, ACTOR)
    done = workflow.start("timers.deliver_now", {"targets": [{"position": 1}]}, ACTOR, reason="x")
    assert operator.post(f"/operations/{done.pk}/undo/").status_code == 404
    clerk = Actor("clerk", frozenset(PERMISSIONS) - {STEER_TIMERS})
    with pytest.raises(NotAllowed):
        workflow.draft("timers.take_back", {"operation": str(row.pk)}, clerk)


def test_on_apache_a_noted_recall_is_followed_by_the_message_again_once(stage: Stage) -> None:
    park(stage, 1, "a")
    row = cancelled()
    row.items.update(outcome="recall_noted", result={"topic": "orders", "due_ms": row.items.get().result["due_ms"]})
    Operation.objects.filter(pk=row.pk).update(results={"recall_noted": 1})

    with stage.broker.without(Request.GET_TIMER):
        assert taken_back(row).results == {"parked_again": 1}
        assert taken_back_preview(row) == (0, [["already_taken_back", 1]])
    assert [each.name for each in waiting()] == ["a-0"]


def test_the_page_of_a_move_says_the_new_moments_and_later_what_became_of_them(stage: Stage, operator: Client) -> None:
    at_ms = (now_ms() // HOUR + 3) * HOUR
    park(stage, 2, "a", due_ms=at_ms)
    draft = workflow.draft("timers.reschedule", {"filter": {"topic": "orders"}, "shift_ms": HOUR}, ACTOR)
    preview = operator.get(f"/operations/{draft.pk}/").content.decode()
    for shown in (at_ms, at_ms + HOUR, at_ms + 1, at_ms + HOUR + 1):
        assert moment(shown) in preview
    workflow.confirm(draft.pk, ACTOR, reason="they come late")
    page = operator.get(f"/operations/{draft.pk}/").content.decode()
    assert "First was due" in page
    assert "data-due-ms" not in page
    first = waiting()[0]
    events = operator.get(f"/timers/{first.position}/").context["data"].events
    assert [event.reason for event in events] == ["", "they come late"]
    back = taken_back(draft, items=[1])
    page = operator.get(f"/operations/{draft.pk}/").content.decode()
    rows = re.findall(r'<tr id="item-\d+">.*?</tr>', page, re.DOTALL)
    assert str(back.pk) in rows[0]
    assert moment(at_ms + HOUR) not in rows[0]
    assert ("Undo item 1" in page, "Undo item 2" in page) == (False, True)
    assert "1 of 2 are not due yet" in words(operator.get(f"/operations/{draft.pk}/"))
    taken_back(draft, items=[2])
    page = operator.get(f"/operations/{draft.pk}/").content.decode()
    assert "/undo/" not in page
    assert "All of it was undone." in page
    reasons = [event.reason for event in operator.get(f"/timers/{waiting()[0].position}/").context["data"].events]
    assert reasons == ["", "they come late", "it was a mistake"]


def test_a_cancel_that_was_taken_back_is_not_offered_again(stage: Stage, operator: Client) -> None:
    park(stage, 2, "a")
    row = cancelled()
    taken_back(row)
    page = operator.get(f"/operations/{row.pk}/").content.decode()
    assert "/undo/" not in page
    assert page.count("pending again") == 2


def links(browser: Client, address: str) -> set[str]:
    """The addresses of timers and messages in the main part of a page."""
    page = browser.get(address).content.decode()
    return set(re.findall(r'href="(/(?:timers|messages)/\w+/)"', page[page.index("<main") : page.index("</main>")]))


def test_what_was_cancelled_and_what_took_its_place_lead_to_each_other(stage: Stage, operator: Client) -> None:
    """The message that is parked again has another message id, and nothing led from one to the other."""
    stage.producer.send("orders", "first", keys=["order-0"], deliver_at_ms=now_ms() + HOUR)
    stage.producer.send("orders", "x", keys=["order-7"], deliver_at_ms=now_ms() + HOUR)
    old = next(each for each in stage.admin.timers(0, 2**62).items if "order-7" in each.keys)
    chosen = {"targets": [{"position": old.position}]}
    cancelled = workflow.start("timers.cancel", chosen, ACTOR, reason="because")
    for address in links(operator, f"/timers/{old.position}/"):
        assert operator.get(address).status_code == 200, address
    assert "Cancelled before it was due" in words(operator.get(f"/messages/{old.offset_message_id}/"))
    back = workflow.start("timers.take_back", {"operation": str(cancelled.pk)}, ACTOR, reason="because")
    new = next(each for each in stage.admin.timers(0, 2**62).items if "order-7" in each.keys)
    assert new.message_id != old.message_id
    old_page, new_page = (f"/timers/{each.position}/" for each in (old, new))
    assert new_page in links(operator, old_page)
    assert old_page in links(operator, new_page)
    assert new_page in links(operator, f"/messages/{old.offset_message_id}/")
    assert f"/messages/{old.offset_message_id}/" in links(operator, f"/messages/{new.offset_message_id}/")
    assert "Pending as a timer: it fires in 59 min" in words(operator.get(f"/messages/{new.offset_message_id}/"))
    for row in (cancelled, back):
        assert new_page in links(operator, f"/operations/{row.pk}/"), row.kind
    assert "another message took its place" in words(operator.get(f"/messages/{old.message_id}/?topic=orders"))


def test_a_timer_that_was_moved_leads_to_where_it_is(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "x", deliver_at_ms=now_ms() + HOUR)
    (old,) = stage.admin.timers(0, 2**62).items
    row = workflow.start(
        "timers.reschedule", {"targets": [{"position": old.position}], "shift_ms": HOUR}, ACTOR, reason="x"
    )
    (new,) = stage.admin.timers(0, 2**62).items
    assert f"/timers/{new.position}/" in links(operator, f"/operations/{row.pk}/")


def test_a_producer_that_says_what_it_copied_takes_no_timers_place(stage: Stage, operator: Client) -> None:
    """The property is a name like any other: whoever sends a message may set it."""
    stage.producer.send("orders", "x", deliver_at_ms=now_ms() + HOUR)
    (first,) = stage.admin.timers(0, 2**62).items
    stage.producer.send("orders", "x", deliver_at_ms=now_ms() + 2 * HOUR, properties={COPY_OF: first.offset_message_id})
    second = stage.admin.timers(0, 2**62).items[1]
    assert f"/timers/{first.position}/" not in links(operator, f"/timers/{second.position}/")
    stage.producer.send("orders", "x", deliver_at_ms=now_ms() + 3 * HOUR, properties={COPY_OF: "<script>"})
    third = stage.admin.timers(0, 2**62).items[2]
    assert operator.get(f"/timers/{third.position}/").status_code == 200
    assert operator.get(f"/messages/{third.offset_message_id}/").status_code == 200


def life_of(operator: Client, row: TimerRow) -> str:
    return words(operator.get(f"/messages/{row.message_id}/"))


def test_a_life_says_in_whose_place_a_timer_is(stage: Stage, operator: Client) -> None:
    """Seconds between born and parked were explained nowhere where a timer was moved, replaced, or is there again."""
    due_ms = now_ms() + HOUR
    stage.producer.send("orders", "x", deliver_at_ms=due_ms, schedule_key="order-1")
    (first,) = waiting()
    assert "parked before at" not in life_of(operator, first)
    workflow.start("timers.reschedule", {"filter": {"topic": "orders"}, "shift_ms": HOUR}, ACTOR, reason="later")
    (moved,) = waiting()
    page = operator.get(f"/messages/{moved.message_id}/")
    assert "moved; parked before at" in words(page)
    assert f'href="/timers/{first.position}/"' in page.content.decode()
    stage.producer.send("orders", "y", deliver_at_ms=due_ms, schedule_key="order-1", on_conflict="replace")
    (replaced,) = waiting()
    assert "replaced the timer that was parked at" in life_of(operator, replaced)
    row = cancelled()
    taken_back(row)
    (again,) = waiting()
    assert "in place of the cancelled timer that was parked at" in life_of(operator, again)
    shown = words(operator.get(f"/timers/{again.position}/"))
    assert "in place of a cancelled timer, whose message this is again" in shown
