"""Timers that wait at one real broker moved to another: each fires exactly once, whenever somebody pulls the plug."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from broker.client import Admin, ClientError, Consumer, Producer, prepare
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers import moving
from console.features.timers.move_operations import MoveTimers, ledger
from console.features.timers.moving import MOVED_FROM, Copy, Move
from console.operations import runner, workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import InvalidParameter
from console.operations.models import AuditEntry, Operation, OperationItem
from console.site.chosen import choice_of, choosing
from console.site.clock import now_ms
from tests.cluster import Cluster
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words
from tests.waiting import until

HOUR = 3_600_000
ACTOR = Actor("token flights", frozenset(PERMISSIONS))
ALL: Mapping[str, Any] = {"filter": {"topic": "orders"}, "to": B}


@pytest.fixture
def brokers(transactional_db: None, settings: Any) -> Iterator[Several]:
    settings.MOVE_LEAVES_S = 1.0
    with several(settings) as made:
        yield made


@pytest.fixture
def at_a() -> Iterator[None]:
    with choosing(choice_of(A)):
        yield


def park(brokers: Several, count: int, due_ms: int, step_ms: int = 1, name: str = A, first: int = 0) -> list[str]:
    """Timers `step_ms` apart; their keys."""
    keys = [f"order-{first + number}" for number in range(count)]
    made = [
        prepare(key, keys=[key], deliver_at_ms=due_ms + number * step_ms, schedule_key=key)
        for number, key in enumerate(keys)
    ]
    answers = brokers.producers[name].send_each("orders", made)
    assert not [each for each in answers if isinstance(each, ClientError)]
    return keys


def waiting(brokers: Several, name: str) -> dict[str, int]:
    """The moments of all that waits at a broker, by key."""
    found: dict[str, int] = {}
    cursor: str | None = None
    while True:
        page = brokers.admins[name].timers(0, 2**62, limit=1_000, cursor=cursor)
        found |= {each.keys[0]: each.due_ms for each in page.items}
        cursor = page.cursor
        if cursor is None:
            return found


def fired(brokers: Several) -> Counter[str]:
    """How often each came out, at both brokers together."""
    found: Counter[str] = Counter()
    for admin in brokers.admins.values():
        for queue in admin.topic_stats("orders").queues:
            offset = queue.min_offset
            while offset < queue.max_offset:
                part = admin.pull("orders", queue.queue.queue_id, offset, 32)
                found.update(each.body.decode() for each in part)
                offset = part[-1].queue_offset + 1
    return found


def moved(parameters: Mapping[str, Any] = ALL) -> Operation:
    row = workflow.start("timers.move_to_broker", parameters, ACTOR, reason="broker-a is to go")
    return Operation.objects.get(pk=row.pk)


def targets_of(brokers: Several) -> list[dict[str, Any]]:
    kind = MoveTimers()
    checked = kind.checked(ALL)
    return [dict(each.target) for each in kind.targets(checked, kind.preview(checked))]


def test_they_wait_there_as_they_were(brokers: Several, at_a: None, operator: Client) -> None:
    due_ms = now_ms() + HOUR + 123
    brokers.producers[A].send(
        "orders", b"\x00\xff", tag="paid", keys=["k-1", "k-2"], properties={"note": "<b>"}, queue_id=1,
        deliver_at_ms=due_ms, schedule_key="order-4711",
    )  # fmt: skip
    (before,) = brokers.admins[A].timers(0, 2**62).items
    row = moved()
    assert (row.state, row.results) == ("done", {"moved": 1})
    assert waiting(brokers, A) == {}
    (after,) = brokers.admins[B].timers(0, 2**62).items
    same = ("due_ms", "topic", "queue_id", "message_id", "keys", "tag", "schedule_key")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    record = brokers.admins[B].message_at(after.position, topic=TIMER_TOPIC)
    assert (record.body, record.properties["note"]) == (b"\x00\xff", "<b>")
    assert record.properties[MOVED_FROM] == f"{A} {before.position}"
    page = operator.get(f"/operations/{row.pk}/").content.decode()
    assert f'href="/at/{B}/timers/{after.position}/"' in page


def test_a_preview_says_how_many_where_to_and_what_is_left(brokers: Several, at_a: None, operator: Client) -> None:
    park(brokers, 3, now_ms() + HOUR)
    row = workflow.draft("timers.move_to_broker", ALL, ACTOR)
    assert (row.preview["count"], row.preview["to"], row.preview["topics"]) == (3, B, [["orders", 3]])
    assert row.preview["busiest_count"] == 3
    page = words(operator.get(f"/at/{A}/operations/{row.pk}/"))
    assert "Move timers to another broker" in page
    assert "orders, to broker-b" in page
    assert waiting(brokers, B) == {}


def test_what_is_due_soon_fires_where_it_is(brokers: Several, at_a: None, settings: Any) -> None:
    settings.MOVE_LEAVES_S = 60.0
    keys = park(brokers, 2, now_ms() + 700)
    far = park(brokers, 2, now_ms() + HOUR, first=2)
    draft = workflow.draft("timers.move_to_broker", ALL, ACTOR)
    assert (draft.preview["count"], draft.preview["left_count"]) == (2, 2)
    workflow.confirm(draft.pk, ACTOR, reason="all of it")
    assert set(waiting(brokers, B)) == set(far)
    until(lambda: set(fired(brokers)) == set(keys))
    assert fired(brokers) == dict.fromkeys(keys, 1)


def test_many_move_while_some_fire_and_a_consumer_gets_each_once(brokers: Several, at_a: None) -> None:
    # one batch, which runs here: half of it fires meanwhile
    keys = park(brokers, 250, now_ms() + 1_500, step_ms=12)
    keys += park(brokers, 250, now_ms() + 12_000, step_ms=4, first=250)
    row = workflow.draft("timers.move_to_broker", ALL, ACTOR)
    # a runner that was killed twice: between the sends and the cancels of a part in the middle, and of the last; what
    # it copied fires twice unless somebody goes on before it is due
    targets, move = targets_of(brokers), Move(A, B, "broker-a is to go")
    move.copies(targets[-250:-200])
    move.copies(targets[-50:])
    got: Counter[str] = Counter()
    consumer = Consumer("billing", brokers.cluster.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.update([message.body.decode()]))
    with consumer:
        workflow.confirm(row.pk, ACTOR, reason="broker-a is to go", is_typing_needed=False)
        row.refresh_from_db()
        assert row.state == "done", row.error
        told = ledger(row.total or 0, row.results)
        assert sum(told.values()) == 2 * told["chosen"]
        assert (told["fired_twice"], told["unknown"], told["open"]) == (0, 0, 0)
        assert told["moved"] >= 200
        until(lambda: len(got) == 500, 30)
        until(lambda: not waiting(brokers, A) and not waiting(brokers, B))
    assert got == dict.fromkeys(keys, 1)
    assert fired(brokers) == dict.fromkeys(keys, 1)


def test_killed_between_sends_and_cancels_it_finds_the_copies(brokers: Several, at_a: None) -> None:
    keys = park(brokers, 60, now_ms() + HOUR)
    targets = targets_of(brokers)
    first = Move(A, B, "killed").copies(targets[:50])
    assert all(isinstance(each, Copy) and each.is_new for each in first)
    assert len(waiting(brokers, A)) == 60
    assert len(waiting(brokers, B)) == 50
    # killed here; whoever goes on does all of the batch again
    again = Move(A, B, "killed")
    found = again.copies(targets[:50])
    assert [(each.position, each.is_new) for each in found if isinstance(each, Copy)] == [
        (each.position, False) for each in first if isinstance(each, Copy)
    ]
    assert {each.outcome for each in again.settle(targets[:50], found)} == {"moved"}
    # and once more after the cancels, before the results were written down
    assert {each.outcome for each in Move(A, B, "killed").all_of(targets)} == {"moved"}
    assert waiting(brokers, A) == {}
    assert set(waiting(brokers, B)) == set(keys)
    assert len(waiting(brokers, B)) == brokers.admins[B].timer_status().pending == 60


def test_killed_in_the_middle_the_operation_goes_on_to_the_end(brokers: Several, at_a: None) -> None:
    keys = park(brokers, 120, now_ms() + HOUR)
    row = workflow.draft("timers.move_to_broker", ALL, ACTOR)
    targets, move = targets_of(brokers), Move(A, B, "broker-a is to go")
    # a runner that was killed: 50 are over, 50 have their copies, 20 were not begun with, and nothing is written down
    move.settle(targets[:50], move.copies(targets[:50]))
    move.copies(targets[50:100])
    assert (len(waiting(brokers, A)), len(waiting(brokers, B))) == (70, 100)
    items = [OperationItem(operation=row, number=number, target=each) for number, each in enumerate(targets, 1)]
    OperationItem.objects.bulk_create(items)
    before = timezone.now() - 2 * runner.LOST_AFTER
    Operation.objects.filter(pk=row.pk).update(
        state=Operation.State.RUNNING, started_at=before, beat_at=before, total=120, reason="broker-a is to go"
    )
    workflow.go_on(row.pk, ACTOR)
    row.refresh_from_db()
    assert (row.state, row.results) == ("done", {"moved": 120})
    assert waiting(brokers, A) == {}
    assert set(waiting(brokers, B)) == set(keys)
    assert brokers.admins[B].timer_status().pending == 120


def test_released_here_meanwhile_the_copy_is_taken_back(brokers: Several, at_a: None) -> None:
    park(brokers, 2, now_ms() + HOUR)
    targets, move = targets_of(brokers), Move(A, B, "a race")
    copies = move.copies(targets)
    brokers.admins[A].steer_timers("deliver_now", [{"position": targets[0]["position"]}])
    assert [each.outcome for each in move.settle(targets, copies)] == ["already_delivered", "moved"]
    assert list(waiting(brokers, B)) == ["order-1"]
    assert fired(brokers) == {"order-0": 1}
    # gone on with, nothing is sent again for the one that is over
    assert [each.outcome for each in move.all_of(targets)] == ["already_delivered", "moved"]
    assert list(waiting(brokers, B)) == ["order-1"]


@pytest.mark.parametrize(("action", "outcome"), [("cancel", "already_cancelled"), ("reschedule", "changed_since")])
def test_what_somebody_did_here_meanwhile_stands(brokers: Several, at_a: None, action: Any, outcome: str) -> None:
    park(brokers, 1, now_ms() + HOUR)
    (target,), move = targets_of(brokers), Move(A, B, "a race")
    copies = move.copies([target])
    moment = {"due_ms": now_ms() + 2 * HOUR} if action == "reschedule" else {}
    brokers.admins[A].steer_timers(action, [{"position": target["position"]}], reason="a person", **moment)
    for _again in range(2):
        assert [each.outcome for each in move.settle([target], copies)] == [outcome]
        copies = [Copy(each.position, False) for each in copies if isinstance(each, Copy)]
    assert waiting(brokers, B) == {}
    assert len(waiting(brokers, A)) == (action == "reschedule")


def test_both_fired_is_said(brokers: Several, at_a: None) -> None:
    park(brokers, 1, now_ms() + HOUR)
    (target,), move = targets_of(brokers), Move(A, B, "nobody went on in time")
    (copy,) = move.copies([target])
    assert isinstance(copy, Copy)
    for name, position in ((A, target["position"]), (B, copy.position)):
        brokers.admins[name].steer_timers("deliver_now", [{"position": position}])
    assert [each.outcome for each in move.all_of([target])] == ["twice"]


def test_a_key_that_waits_there_keeps_its_timer_and_this_one_stays(brokers: Several, at_a: None) -> None:
    due_ms = now_ms() + HOUR
    park(brokers, 2, due_ms)
    park(brokers, 1, due_ms + 5_000, name=B)
    assert moved().results == {"key_taken": 1, "moved": 1}
    assert waiting(brokers, A) == {"order-0": due_ms}
    assert waiting(brokers, B) == {"order-0": due_ms + 5_000, "order-1": due_ms + 1}


def test_moved_back_and_there_again(brokers: Several, at_a: None) -> None:
    keys = park(brokers, 5, now_ms() + HOUR)
    for source, to in ((A, B), (B, A), (A, B)):
        with choosing(choice_of(source)):
            assert moved({**ALL, "to": to}).results == {"moved": 5}
        assert waiting(brokers, source) == {}
        assert set(waiting(brokers, to)) == set(keys)


def test_a_topic_that_is_not_there_is_said_and_its_timers_stay(brokers: Several, at_a: None) -> None:
    brokers.admins[A].create_topic("refunds", queues=2)
    brokers.producers[A].send("refunds", "r", keys=["r-1"], deliver_at_ms=now_ms() + HOUR)
    row = workflow.draft("timers.move_to_broker", {**ALL, "filter": {"topic": "refunds"}}, ACTOR)
    assert row.preview["topics_missing"] == ["refunds"]
    done = workflow.confirm(row.pk, ACTOR, reason="all of it")
    assert done.results == {"refused": 1}
    assert list(waiting(brokers, A)) == ["r-1"]


def test_the_other_broker_away_nothing_is_lost_and_nothing_begun(brokers: Several, at_a: None) -> None:
    park(brokers, 3, now_ms() + HOUR)
    row = workflow.draft("timers.move_to_broker", ALL, ACTOR)
    brokers[B].stop()
    with pytest.raises(InvalidParameter):
        workflow.draft("timers.move_to_broker", {**ALL, "to": "broker-z"}, ACTOR)
    done = workflow.confirm(row.pk, ACTOR, reason="it died since")
    assert done.state == "failed"
    assert ledger(done.total or 0, done.results)["open"] == (done.total or 0)
    assert len(waiting(brokers, A)) == 3


def test_it_needs_another_broker(brokers: Several, at_a: None) -> None:
    for to in ("", A, None, "broker-z", "lisbon/broker-a"):
        with pytest.raises(InvalidParameter):
            workflow.draft("timers.move_to_broker", {**ALL, "to": to}, ACTOR)
    assert not OperationItem.objects.exists()


def test_at_every_moment_each_waits_at_least_once_and_few_twice(brokers: Several, at_a: None) -> None:
    count = 6 * moving.AT_ONCE
    park(brokers, count, now_ms() + HOUR)
    least, most, is_over = [count], [count], threading.Event()

    def pending(name: str) -> int:
        return brokers.admins[name].timer_status().pending

    def watch() -> None:
        while not is_over.is_set():
            # asked in this order one that moves meanwhile is counted twice, never not at all; and the other way round
            least.append(pending(A) + pending(B))
            there = pending(B)
            most.append(there + pending(A))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        assert moved().results == {"moved": count}
    finally:
        is_over.set()
        watching.join()
    assert min(least) == count
    assert count < max(most) <= count + moving.AT_ONCE


def test_the_list_of_one_of_several_offers_the_others(brokers: Several, operator: Client) -> None:
    keys = park(brokers, 2, now_ms() + HOUR)
    page = operator.get(f"/at/{A}/timers/list/").content.decode()
    assert f'<option value="{B}"' in " ".join(page.split())
    answer = operator.post(
        f"/at/{A}/operations/draft/",
        {"kind": "timers.move_to_broker", "scope": "matching", "topic": "orders", "to": B},
    )
    assert answer.status_code == 303, answer.content
    assert operator.post(answer.headers["Location"] + "confirm/", {"reason": "it is to go"}).status_code == 303
    assert set(waiting(brokers, B)) == set(keys)


def test_new_sends_go_elsewhere_and_back(brokers: Several, capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = brokers[A].namesrv
    call_command("sends", A, "stop", "--reason", "broker-a is to go")
    assert f"nothing may be sent to {A} (" in capsys.readouterr().out
    with Producer(group="new", namesrv=brokers[A].namesrv) as producer, pytest.raises(ClientError):
        producer.send("orders", "x")
    call_command("sends", A, "allow", "--reason", "it stays")
    with Producer(group="again", namesrv=brokers[A].namesrv) as producer:
        assert producer.send("orders", "x").broker == A
    entries = AuditEntry.objects.filter(kind="brokers.sends").order_by("pk")
    assert [(each.result["is_allowed"], each.reason) for each in entries] == [
        (False, "broker-a is to go"), (True, "it stays"),
    ]  # fmt: skip
    with pytest.raises(CommandError):
        call_command("sends", "broker-z", "stop", "--reason", "a typo")


def test_they_move_to_a_broker_of_a_further_cluster_and_back(brokers: Several, at_a: None, settings: Any) -> None:
    keys = park(brokers, 3, now_ms() + HOUR)
    before = waiting(brokers, A)
    with Cluster(1) as other:
        settings.ESCAPEMENT_CLUSTERS = {"lisbon": other.namesrv}
        there = Admin(other.namesrv)
        there.create_topic("orders", queues=2)
        row = moved({**ALL, "to": "lisbon/broker-a"})
        assert (row.state, row.results) == ("done", {"moved": 3})
        assert waiting(brokers, A) == {}
        assert {each.keys[0]: each.due_ms for each in there.timers(0, 2**62).items} == before
        with choosing(choice_of("lisbon/broker-a")):
            back = moved({**ALL, "to": A})
        assert (back.state, back.results) == ("done", {"moved": 3})
        assert not there.timers(0, 2**62).items
        there.close()
    assert waiting(brokers, A) == before
    assert set(before) == set(keys)
