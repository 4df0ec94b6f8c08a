"""What a preview projects before an operation: lag, how long groups need for it, and the load of what fires at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from broker.mirror.models import SLOT_MS, SLOTS, MirrorState, RateHistory
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.catch_up import Pace, behind_at, busy_rate
from console.operations.models import Operation
from console.site.clock import now_ms
from console.site.mirrored import History
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage
from tests.console.timers.test_operations import HOUR, park
from tests.console.transactions.test_transactions import begin, transactor
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))


@pytest.fixture
def readers(stage: Stage) -> Stage:
    """The group `billing` took 50 messages in each of ten slots of 5 s, and nothing in the others; it is not behind."""
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    return stage


def measured(stage: Stage, arrived: int = 0) -> None:
    """Mirror what is there, and give the last five minutes a pace: they were not waited for. So many arrived in each
    slot."""
    stage.mirror.run_once()
    state = MirrorState.objects.get()
    slot = now_ms() // SLOT_MS - 1
    state.following_since_ms = (slot - SLOTS) * SLOT_MS
    MirrorState.upsert([state], ("broker",))
    counts = [50] * 10 + [0] * (SLOTS - 10)
    row = RateHistory(broker_id=state.broker_id, kind="group", name="billing", slot=slot, counts=counts)
    topic = RateHistory(broker_id=state.broker_id, kind="topic", name="orders", slot=slot, counts=[arrived] * SLOTS)
    RateHistory.upsert([row, topic], ("broker", "kind", "name"))


def figures(row: Operation, *names: str) -> list[Any]:
    return [row.preview[name] for name in names]


@pytest.mark.parametrize(("behind", "per_s", "needed"), [(0, None, 0), (5, None, None), (5, 0.0, None), (5, 10.0, 500)])
def test_an_unknown_pace_is_no_time(behind: int, per_s: float | None, needed: int | None) -> None:
    assert Pace(per_s).catch_up_ms(behind) == needed


@pytest.mark.parametrize(
    ("consumed", "arriving", "before", "behind", "needed", "is_outrun"),
    [
        # what arrives meanwhile is taken off
        (10.0, 6.0, 400, 400, 100_000, False),
        (10.0, 0.0, 0, 400, 40_000, False),
        (10.0, 10.0, 400, 400, None, True),
        (10.0, 12.5, 400, 400, None, True),
        # it takes all that arrives, and nobody saw it take more
        (10.0, 10.0, 0, 400, None, False),
        (10.0, 9.9, 20, 400, None, False),
        # nor do uneven arrivals say how fast it could be
        (0.74, 0.66, 2, 428, None, False),
        # in bursts it takes more than arrives on the whole
        (10.0, 2.0, 0, 400, 50_000, False),
        (0.0, 12.5, 400, 400, None, False),
        (None, 12.5, 400, 400, None, False),
    ],
)
def test_what_arrives_meanwhile_counts(
    consumed: float | None, arriving: float, before: int, behind: int, needed: int | None, is_outrun: bool
) -> None:
    """A group was said to catch up by all that it takes, however much arrived."""
    found = behind_at(Pace(consumed, arriving), before, behind)
    assert (found.catch_up_ms, found.is_outrun) == (needed, is_outrun)


def test_a_pace_is_that_of_the_time_in_which_there_was_anything_to_take() -> None:
    assert busy_rate(History((None,) * 58 + (0.0, 8.0))) == 8.0
    assert busy_rate(History((0.0,) * SLOTS)) == 0.0


def test_a_group_set_back_says_how_long_it_needs(readers: Stage, operator: Client) -> None:
    for _ in range(7):
        readers.producer.send("orders", "x", queue_id=0)
    measured(readers)
    row = workflow.draft("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "first"}, ACTOR)
    assert figures(row, "lag_before", "lag_after", "consumed_per_s", "catch_up_ms") == [7, 8, 10.0, 800]
    assert "recently 10/s consumed, 0/s arriving" in words(operator.get(f"/operations/{row.pk}/"))


@pytest.mark.parametrize(
    ("arrived", "needed", "said"),
    [
        (20, 1_333, "recently 10/s consumed, 4.0/s arriving"),
        (60, None, "it keeps up with 12/s"),
    ],
)
def test_a_preview_takes_off_what_arrives(
    readers: Stage, operator: Client, arrived: int, needed: int | None, said: str
) -> None:
    for _ in range(7):
        readers.producer.send("orders", "x", queue_id=0)
    measured(readers, arrived)
    row = workflow.draft("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "first"}, ACTOR)
    assert figures(row, "catch_up_ms", "is_outrun") == [needed, False]
    assert said in words(operator.get(f"/operations/{row.pk}/"))


def test_a_group_that_is_outrun_is_told_that_it_does_not_catch_up(readers: Stage, operator: Client) -> None:
    for _ in range(70):
        readers.producer.send("orders", "x", queue_id=0)
    measured(readers, 60)
    row = workflow.draft("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "first"}, ACTOR)
    assert figures(row, "lag_before", "arriving_per_s", "catch_up_ms", "is_outrun") == [70, 12.0, None, True]
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "does not catch up recently 10/s consumed, 12/s arriving" in page


def test_dead_letters_add_to_the_lag_of_those_who_get_them(readers: Stage, operator: Client) -> None:
    for number in range(5):
        bury(readers, f"order-{number}")
    readers.consume()
    measured(readers)
    wanted = {"group": "billing", "filter": {}, "is_all": True}
    back = workflow.draft("dead_letters.send_back", wanted, ACTOR)
    before = back.preview["lag_before"]
    assert figures(back, "lag_after", "consumed_per_s", "catch_up_ms") == [before + 5, 10.0, (before + 5) * 100]
    anew = workflow.draft("dead_letters.send_as_new", wanted, ACTOR)
    assert anew.preview["lag_after"] == anew.preview["lag_before"] + 5
    assert "Catch-up time" in words(operator.get(f"/operations/{anew.pk}/"))


def test_committed_transactions_are_lag_at_once(readers: Stage, operator: Client) -> None:
    with transactor(readers) as payers:
        begin(payers, "paid", "other", "third")
        measured(readers)
        row = workflow.draft("transactions.commit", {"filter": {"state": "open"}, "is_all": True}, ACTOR)
        assert figures(row, "count", "lag_before", "lag_after", "catch_up_ms") == [3, 0, 3, 300]
        assert "3 after this operation; now 0" in words(operator.get(f"/operations/{row.pk}/"))
        rolled = workflow.draft("transactions.rollback", {"filter": {"state": "open"}, "is_all": True}, ACTOR)
        assert rolled.preview["lag_after"] is None


def test_what_fires_at_once_stands_on_top_of_what_falls_due_meanwhile(stage: Stage, operator: Client) -> None:
    park(stage, 3, "crowd")
    park(stage, 2, "meanwhile", due_ms=now_ms() + 20_000)
    park(stage, 1, "after", due_ms=now_ms() + HOUR // 2)
    wanted = {"filter": {"topic": "orders", "key": "crowd"}}
    row = workflow.draft("timers.deliver_now", wanted, ACTOR)
    assert figures(row, "busiest_count", "also_due", "last_late_ms") == [3, None, None]
    pace = stage.broker.service.engine.timers.pace
    # what is due now was not out after 30 s, when there had been three
    stage.broker.call(lambda: pace.released(now_ms(), 0, more=True))
    stage.broker.call(lambda: pace.released(now_ms() + 30_000, 3, more=True))
    row = workflow.draft("timers.deliver_now", wanted, ACTOR)
    # three need 30 s, in which two more fall due: all five are out after 50 s
    assert figures(row, "busiest_count", "met_count", "also_due", "last_late_ms") == [5, 0, 2, 50_000]
    assert "on top of 0 overdue, with 2 that become due meanwhile" in words(operator.get(f"/operations/{row.pk}/"))
    # those that are delivered now do not fall due meanwhile as well
    row = workflow.draft("timers.deliver_now", {"filter": {"topic": "orders", "key": "meanwhile"}}, ACTOR)
    assert figures(row, "busiest_count", "also_due") == [2, 0]
