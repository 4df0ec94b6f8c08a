"""Timers cancelled, moved, delivered and paused on a real broker: one, chosen ones, all that match."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import TooMany
from console.operations.models import AuditEntry, Operation
from console.operations.selection import time_words
from console.site.clock import now_ms
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

ROOT = Path(__file__).parents[3]
HOUR = 3_600_000
ACTOR = Actor("token flights", frozenset(PERMISSIONS))


def waiting(key: str = "", topic: str = "orders") -> list[TimerRow]:
    return list(timers_read.timer_list(TimerFilter(topic, key), count=1_000).rows)


def park(stage: Stage, count: int, key: str, *, due_ms: int | None = None) -> None:
    at_ms = due_ms or now_ms() + HOUR
    for number in range(count):
        stage.producer.send("orders", f"{key}-{number}", keys=[f"{key}-{number}", key], deliver_at_ms=at_ms + number)


def arrived(stage: Stage, key: str) -> list[str]:
    return [message.body.decode() for message in stage.admin.messages_by_key("orders", key, 64)]


def posted(operator: Client, kind: str, rows: list[TimerRow]) -> str:
    """The address of the draft."""
    chosen = [str(row.position) for row in rows]
    answer = operator.post("/operations/draft/", {"kind": kind, "scope": "selected", "position": chosen})
    assert answer.status_code == 303
    return answer.headers["Location"]


def test_one_is_cancelled_and_says_so(stage: Stage, operator: Client) -> None:
    park(stage, 2, "a")
    first, second = waiting()
    address = posted(operator, "timers.cancel", [first])
    page = words(operator.get(address))
    assert "1 selected timer" in page
    assert "Cancel timer" in page
    assert first.name in page
    assert operator.post(address + "confirm/", {"reason": "not needed"}).status_code == 303
    assert [row.position for row in waiting()] == [second.position]
    life = timers_read.timer_life(first.position)
    assert life.state == "cancelled"
    assert life.events[-1].reason == "not needed"
    assert "Cancelled: " in words(operator.get(f"/timers/{first.position}/"))
    assert Operation.objects.get().results == {"cancelled": 1}


def test_cancelled_again_it_says_that_it_was_already(stage: Stage, operator: Client) -> None:
    park(stage, 1, "a")
    rows = waiting()
    first, second = (posted(operator, "timers.cancel", rows) for _ in range(2))
    for address in (first, second):
        assert operator.post(address + "confirm/", {"reason": "twice"}).status_code == 303
    assert [row.results for row in Operation.objects.order_by("created_at")] == [
        {"cancelled": 1},
        {"already_cancelled": 1},
    ]


def test_what_was_delivered_meanwhile_is_told_with_its_moment(stage: Stage) -> None:
    park(stage, 1, "a", due_ms=now_ms() + 1_500)
    position = waiting()[0].position
    stage.wait_for(lambda: arrived(stage, "a"))
    row = workflow.start("timers.cancel", {"targets": [{"position": position}]}, ACTOR, reason="late")
    item = row.items.get()
    assert item.outcome == "already_delivered"
    assert abs(item.result["delivered_ms"] - now_ms()) < 60_000


def test_chosen_ones_are_moved_to_a_moment(stage: Stage, operator: Client) -> None:
    park(stage, 3, "a")
    due_ms = (now_ms() // 1_000 + 7_200) * 1_000
    address = posted(operator, "timers.reschedule", waiting()[:2])
    assert "Confirm" in words(operator.get(address))
    assert operator.post(address + "confirm/", {"reason": "why"}).status_code == 422
    assert operator.post(address + "preview/", {"moment": "tomorrow"}).status_code == 422
    assert operator.post(address + "preview/", {"moment": str(due_ms)}).status_code == 303
    assert operator.post(address + "confirm/", {"reason": "the flight is late"}).status_code == 303
    assert sorted(row.due_ms == due_ms for row in waiting()) == [False, True, True]
    assert Operation.objects.get().results == {"rescheduled": 2}


def test_a_press_makes_each_later_and_keeps_the_distances(stage: Stage, operator: Client) -> None:
    for number in range(3):
        park(stage, 1, f"a{number}", due_ms=now_ms() + HOUR + number * 60_000)
    before = {row.name: row.due_ms for row in waiting()}
    address = posted(operator, "timers.reschedule", waiting())
    asked = words(operator.get(address))
    assert "Later by: each from its own due time, the distances stay 10 min 1 h 1 d" in asked
    assert "All at: the same new due time for every one in 1 h" in asked
    assert operator.post(address + "preview/", {"offered": f"later-{HOUR}"}).status_code == 303
    page = words(operator.get(address))
    assert "Each shifted by +1 h from its own due time" in page
    for due_ms in before.values():
        assert time_words(due_ms)[:19] in page
        assert time_words(due_ms + HOUR)[:19] in page
    operator.post(address + "confirm/", {"reason": "the flight is late"})
    assert {row.name: row.due_ms for row in waiting()} == {name: ms + HOUR for name, ms in before.items()}


def test_a_press_puts_all_at_one_time_and_says_so(stage: Stage, operator: Client) -> None:
    park(stage, 3, "a")
    address = posted(operator, "timers.reschedule", waiting())
    assert operator.post(address + "preview/", {"offered": f"in-{2 * HOUR}"}).status_code == 303
    assert "All at one time" in words(operator.get(address))
    operator.post(address + "confirm/", {"reason": "together"})
    (due_ms,) = {row.due_ms for row in waiting()}
    assert abs(due_ms - now_ms() - 2 * HOUR) < 60_000


def test_what_is_affected_names_the_window_of_the_list(stage: Stage, operator: Client) -> None:
    from_ms = 1_900_000_000_000
    park(stage, 2, "a", due_ms=from_ms)
    park(stage, 1, "b", due_ms=from_ms + HOUR)
    window = f"due from {time_words(from_ms)} to before {time_words(from_ms + HOUR)}"
    listed = words(operator.get("/timers/list/", {"topic": "orders", "from": from_ms, "to": from_ms + HOUR}))
    assert f"all matching topic orders, {window}, up to 10,000" in listed
    chosen = {"scope": "matching", "topic": "orders", "from_ms": from_ms, "to_ms": from_ms + HOUR}
    answer = operator.post("/operations/draft/", {"kind": "timers.reschedule", **chosen})
    assert f"all matching: topic orders, {window}" in words(operator.get(answer.headers["Location"]))
    assert Operation.objects.get().preview["met_count"] == 2


def test_all_that_match_are_moved_by_a_span_and_later_ones_are_left(stage: Stage) -> None:
    park(stage, 5, "a")
    park(stage, 2, "b")
    before = {row.name: row.due_ms for row in waiting()}
    row = workflow.draft("timers.reschedule", {"filter": {"topic": "orders", "key": "a"}, "shift_ms": HOUR}, ACTOR)
    assert (row.preview["count"], row.preview["topics"]) == (5, [["orders", 5]])
    stage.wait_for(lambda: now_ms() > row.preview["at_ms"])
    stage.producer.send("orders", "later", keys=["a-later", "a"], deliver_at_ms=now_ms() + HOUR)
    workflow.confirm(row.pk, ACTOR, reason="the flight is late")
    after = {row.name: row.due_ms for row in waiting()}
    assert {name: after[name] - before[name] for name in before} == {
        **{f"a-{number}": HOUR for number in range(5)},
        **{f"b-{number}": 0 for number in range(2)},
    }
    assert after["a-later"] < now_ms() + HOUR + 60_000
    assert Operation.objects.get().results == {"rescheduled": 5}


def test_delivered_now_they_arrive_now_and_once(stage: Stage) -> None:
    park(stage, 3, "a")
    workflow.start("timers.deliver_now", {"filter": {"topic": "orders", "key": "a"}}, ACTOR, reason="hurry")
    assert Operation.objects.get().results == {"delivered_now": 3}
    stage.wait_for(lambda: len(arrived(stage, "a")) == 3)
    assert sorted(arrived(stage, "a")) == ["a-0", "a-1", "a-2"]
    assert waiting() == []


def test_by_schedule_key_as_rest_does_it(stage: Stage) -> None:
    stage.producer.send("orders", "x", deliver_at_ms=now_ms() + HOUR, schedule_key="order-4711")
    target = {"topic": "orders", "scheduleKey": "order-4711"}
    row = workflow.start("timers.cancel", {"targets": [target]}, ACTOR, reason="paid")
    assert row.items.get().outcome == "cancelled"
    assert row.items.get().name == "order-4711"
    again = workflow.start("timers.cancel", {"targets": [target]}, ACTOR, reason="paid")
    assert again.items.get().outcome in {"already_cancelled", "unknown"}


def test_every_timer_must_be_asked_for(stage: Stage, operator: Client) -> None:
    park(stage, 1, "a")
    assert operator.post("/operations/draft/", {"kind": "timers.cancel", "scope": "matching"}).status_code == 422
    answer = operator.post("/operations/draft/", {"kind": "timers.cancel", "scope": "matching", "is_all": "1"})
    assert "all pending timers" in words(operator.get(answer.headers["Location"]))


def test_more_than_ten_thousand_are_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.operations.selection.LIMIT", 3)
    park(stage, 4, "a")
    with pytest.raises(TooMany):
        workflow.draft("timers.cancel", {"filter": {"topic": "orders"}}, ACTOR)


def test_paused_nothing_fires_and_resumed_all_does(stage: Stage, operator: Client) -> None:
    draft = operator.post("/operations/draft/", {"kind": "timers.pause"}).headers["Location"]
    assert operator.post(draft + "confirm/", {"reason": "the handler is broken"}).status_code == 303
    park(stage, 2, "a", due_ms=now_ms() + 1_000)
    stage.wait_for(lambda: (timers_read.timers().figures.overdue or 0) == 2)
    assert arrived(stage, "a") == []
    page = words(operator.get("/timers/"))
    assert "All timers are paused." in page
    assert "2 messages are overdue" in page
    assert "Resume all timers" in page
    draft = operator.post("/operations/draft/", {"kind": "timers.resume"}).headers["Location"]
    assert operator.post(draft + "confirm/", {"reason": "repaired"}).status_code == 303
    stage.wait_for(lambda: len(arrived(stage, "a")) == 2)
    assert [entry.reason for entry in AuditEntry.objects.order_by("id")] == ["the handler is broken"] * 2 + [
        "repaired"
    ] * 2


def test_a_pause_says_nothing_of_what_would_become_of_a_topics_messages(stage: Stage, operator: Client) -> None:
    park(stage, 2, "a")
    address = operator.post("/operations/draft/", {"kind": "timers.pause"}).headers["Location"]
    operator.post(address + "confirm/", {"reason": "because"})
    assert Operation.objects.get().items.get().result["pending"] == 2
    page = words(operator.get(address))
    assert "paused" in page
    assert "kept:" not in page


@pytest.fixture
def jobs(stage: Stage, valkey: str, database_url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The jobs worker of production, in a process of its own."""
    environment = {
        **os.environ, "DATABASE_URL": database_url, "REDIS_URL": valkey, "ESCAPEMENT_VAR": str(tmp_path),
        "ESCAPEMENT_NAMESRV": stage.broker.namesrv,
    }  # fmt: skip
    command = [sys.executable, "-m", "celery", "-A", "console.site", "worker", "-n", "jobs@%h", "-l", "WARNING"]
    options = ["-P", "prefork", "-c", "1", "-Q", "jobs", "--without-mingle", "--without-gossip"]
    process = subprocess.Popen([*command, *options], cwd=ROOT, env=environment)
    yield process
    process.terminate()
    process.wait(20)


def test_big_ones_run_on_the_jobs_worker(stage: Stage, operator: Client, jobs: subprocess.Popen[bytes]) -> None:
    park(stage, 620, "many")
    answer = operator.post("/operations/draft/", {"kind": "timers.cancel", "scope": "matching", "topic": "orders"})
    address = answer.headers["Location"]
    assert operator.post(address + "confirm/", {"reason": "all of it", "typed": "62"}).status_code == 422
    assert operator.post(address + "confirm/", {"reason": "all of it", "typed": "620"}).status_code == 303
    stage.wait_for(lambda: Operation.objects.get().is_over, timeout_s=60)
    row = Operation.objects.get()
    assert (row.state, row.results, row.error) == (Operation.State.DONE, {"cancelled": 620}, "")
    assert waiting() == []
    page = operator.get(address)
    assert len(page.content) < 100_000
    assert "620 of 620" in words(page)
    assert operator.get(address + "?after=600").content.count(b'<tr id="item-') == 20


def test_a_preview_says_the_busiest_second_and_the_lag(stage: Stage, operator: Client) -> None:
    hour_ms = (now_ms() // 1_000) * 1_000 + HOUR
    park(stage, 3, "a", due_ms=hour_ms + 1)
    park(stage, 2, "b", due_ms=hour_ms + HOUR)
    stage.producer.send("orders", "x", queue_id=0)
    stage.consume()
    wanted = {"filter": {"topic": "orders", "key": "a"}}
    row = workflow.draft("timers.reschedule", {**wanted, "shift_ms": HOUR - 500}, ACTOR)
    names = ("busiest_ms", "busiest_count", "met_count", "last_late_ms")
    assert [row.preview[name] for name in names] == [hour_ms + HOUR, 4, 1, None]
    assert "Busiest second" in words(operator.get(f"/operations/{row.pk}/"))
    row = workflow.draft("timers.reschedule", {**wanted, "due_ms": hour_ms + HOUR + 700}, ACTOR)
    assert [row.preview[name] for name in names[:3]] == [hour_ms + HOUR + 1_000, 4, 1]
    row = workflow.draft("timers.deliver_now", wanted, ACTOR)
    assert (row.preview["busiest_count"], row.preview["lag_before"], row.preview["lag_after"]) == (3, 0, 3)
    assert "after this operation; now 0" in words(operator.get(f"/operations/{row.pk}/"))
    reset = workflow.draft("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "first"}, ACTOR)
    page = words(operator.get(f"/operations/{reset.pk}/"))
    assert reset.preview["lag_after"] == 1
    assert "Catch-up time" in page
