"""Operations over several brokers: each thing is touched where it lies, one broker's silence is no matter of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from broker.client import BrokerUnreachable, Decision, TransactionProducer, prepare
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.features.transactions.pages import read_transaction_list
from console.features.transactions.shapes import TransactionFilter
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.models import Operation
from console.operations.registry import kind_of
from console.operations.spanning import shares_of
from console.site.broker import hang_up
from console.site.clock import now_ms
from tests.console.several import A, B, Several
from tests.console.ui.test_pages import words

MINUTE = 60_000


@pytest.fixture
def due_ms(brokers: Several) -> int:
    """Of three timers at broker-a and two at broker-b."""
    due_ms = now_ms() + 10 * MINUTE
    for name, count in ((A, 3), (B, 2)):
        for number in range(count):
            brokers.send(name, "orders", "x", keys=[f"{name}-{number}"], deliver_at_ms=due_ms + number)
    brokers.wait_for(lambda: len(waiting()) == 5)
    return due_ms


@pytest.fixture
def halves(brokers: Several) -> Iterator[dict[str, TransactionProducer]]:
    """Two halves at each broker that their producer does not decide."""
    with ExitStack() as open_ones:
        payers = {
            name: open_ones.enter_context(
                TransactionProducer("payers", brokers[name].namesrv, check=lambda _: Decision.UNKNOWN)
            )
            for name in (A, B)
        }
        for name, payer in payers.items():
            for number in range(2):
                payer.send_half("orders", prepare("x", keys=[f"{name}-{number}"]))
        brokers.wait_for(lambda: len(undecided()) == 4)
        yield payers


def waiting() -> list[TimerRow]:
    return list(timers_read.timer_list(TimerFilter(), count=100).rows)


def undecided() -> list[Any]:
    return list(read_transaction_list(TransactionFilter("open"), count=100).rows)


def places(rows: list[Any], *names: str) -> list[dict[str, Any]]:
    return [{**{name: getattr(row, name) for name in names}, "broker": row.broker} for row in rows]


def done(actor: Actor, kind: str, parameters: Mapping[str, Any]) -> Operation:
    row = workflow.draft(kind, parameters, actor)
    row = workflow.confirm(row.pk, actor, reason="tried", is_typing_needed=False)
    assert row.state == Operation.State.DONE, row.error
    return row


def test_named_timers_are_cancelled_and_taken_back_where_they_lie(
    brokers: Several, actor: Actor, operator: Client, due_ms: int
) -> None:
    before = waiting()
    chosen = [row for row in before if not row.name.endswith("-0")]
    row = done(actor, "timers.cancel", {"targets": places(chosen, "position")})
    assert (row.broker, row.results) == ("", {"cancelled": 3})
    assert row.preview["brokers"] == [[A, 2, ""], [B, 1, ""]]
    assert [item.label["broker"] for item in row.items.all()] == [A, A, B]
    assert sorted(each.name for each in waiting()) == [f"{A}-0", f"{B}-0"]
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "broker-b" in page
    back = done(actor, "timers.take_back", {"operation": str(row.pk)})
    assert (back.preview["count"], back.results) == (3, {"taken_back": 3})
    assert sorted((each.broker, each.name, each.due_ms) for each in waiting()) == sorted(
        (each.broker, each.name, each.due_ms) for each in before
    )
    shown = operator.get(f"/operations/{back.pk}/").content.decode()
    assert f'href="/at/{B}/timers/' in shown


def test_what_matches_is_moved_and_delivered_at_all(brokers: Several, actor: Actor, due_ms: int) -> None:
    wanted = {"filter": {"topic": "orders"}, "brokers": [A, B]}
    moved = done(actor, "timers.reschedule", {**wanted, "shift_ms": MINUTE})
    assert moved.results == {"rescheduled": 5}
    assert min(row.due_ms for row in waiting()) == due_ms + MINUTE
    back = done(actor, "timers.take_back", {"operation": str(moved.pk)})
    assert back.results == {"moved_back": 5}
    now = done(actor, "timers.deliver_now", wanted)
    assert (now.preview["count"], now.results) == (5, {"delivered_now": 5})
    assert waiting() == []


def test_halves_are_decided_where_they_lie(
    brokers: Several, actor: Actor, operator: Client, halves: dict[str, TransactionProducer]
) -> None:
    rows = undecided()
    mine = [next(row for row in rows if row.broker == name) for name in (A, B)]
    row = done(actor, "transactions.commit", {"targets": places(mine, "offset", "position")})
    assert row.results == {"committed": 2}
    assert row.preview["met_count"] == 4
    assert [item.label["broker"] for item in row.items.all()] == [A, B]
    page = words(operator.get(f"/operations/{row.pk}/"))
    assert "By broker" not in page or "broker-b" in page
    rest = done(
        actor,
        "transactions.rollback",
        {"filter": {"state": "open", "topic": "orders"}, "brokers": [A, B]},
    )
    assert (rest.preview["brokers"], rest.results) == ([[A, 1, ""], [B, 1, ""]], {"rolled_back": 2})
    assert undecided() == []


def test_a_list_of_all_brokers_is_chosen_from(brokers: Several, operator: Client, due_ms: int) -> None:
    page = operator.get("/timers/list/").content.decode()
    assert "data-select-all" in page
    row = next(each for each in waiting() if each.broker == B)
    assert f'value="{row.position}-{B}"' in page
    given = {"kind": "timers.cancel", "scope": "chosen", "position": [f"{row.position}-{B}"]}
    drafted = operator.post("/operations/draft/", given)
    shown = operator.get(drafted["Location"])
    assert f'href="/at/{B}/timers/{row.position}/"' in shown.content.decode()
    operation = Operation.objects.get()
    assert operation.parameters["targets"] == [{"position": row.position, "broker": B}]
    given = {"kind": "timers.cancel", "scope": "matching", "topic": "orders"}
    shown = operator.get(operator.post("/operations/draft/", given)["Location"])
    assert "By broker" in words(shown)
    operation = Operation.objects.exclude(pk=operation.pk).get()
    assert (operation.parameters["brokers"], operation.preview["count"]) == ([A, B], 5)


def test_a_broker_that_is_away_is_named_and_left_alone(brokers: Several, actor: Actor, due_ms: int) -> None:
    rows = waiting()
    brokers[B].stop()
    for parameters in ({"filter": {"topic": "orders"}, "brokers": [A, B]}, {"targets": places(rows, "position")}):
        row = workflow.draft("timers.deliver_now", parameters, actor)
        (_, own, _), (name, count, why) = row.preview["brokers"]
        assert (own, name, count) == (3, B, None)
        assert why
        assert row.preview["count"] == 3
    brokers[B].start()
    hang_up()
    row = workflow.confirm(row.pk, actor, reason="tried", is_typing_needed=False)
    assert row.results == {"delivered_now": 3}
    brokers.wait_for(lambda: [each.broker for each in waiting()] == [B, B])


def test_one_that_falls_silent_before_it_runs_ends_it_and_it_is_gone_on_with(
    brokers: Several, actor: Actor, due_ms: int
) -> None:
    row = workflow.draft("timers.cancel", {"filter": {"topic": "orders"}, "brokers": [A, B]}, actor)
    brokers[B].stop()
    row = workflow.confirm(row.pk, actor, reason="tried", is_typing_needed=False)
    assert (row.state, row.total) == (Operation.State.FAILED, None)
    assert "broker-b does not respond now: nothing was changed" in row.error
    assert len(waiting()) == 3
    brokers[B].start()
    hang_up()
    row = workflow.go_on(row.pk, actor)
    assert (row.state, row.results) == (Operation.State.DONE, {"cancelled": 5})


def test_what_a_silent_broker_did_is_unknown_and_the_others_are_told(brokers: Several, due_ms: int) -> None:
    targets = places(waiting(), "position")
    brokers[B].stop()
    results = kind_of("timers.cancel").act({}, "tried", targets)
    outcomes = {(target["broker"], result.outcome) for target, result in zip(targets, results, strict=True)}
    assert outcomes == {(A, "cancelled"), (B, "unknown")}
    with pytest.raises(BrokerUnreachable):
        kind_of("timers.cancel").act({}, "tried", [target for target in targets if target["broker"] == B])


def test_names_that_do_not_hold_are_refused(brokers: Several, actor: Actor, due_ms: int) -> None:
    for parameters in (
        {"targets": [{"position": 0, "broker": A}, {"position": 9}]},
        {"targets": [{"position": 0, "broker": "broker-z"}]},
        {"filter": {"topic": "orders"}, "brokers": [A, "broker-z"]},
        {"filter": {"topic": "orders"}, "brokers": A},
        {"targets": [{"position": 0}], "brokers": [A]},
    ):
        with pytest.raises(InvalidParameter):
            workflow.draft("timers.cancel", parameters, actor)
    with pytest.raises(NotPossible, match="choose one"):
        workflow.draft("timers.move_to_broker", {"targets": places(waiting(), "position"), "to": B}, actor)
    assert len(waiting()) == 5


@given(st.lists(st.tuples(st.sampled_from(["broker-a", "broker-b", "lisbon/broker-a"]), st.integers(0, 99))))
def test_every_target_is_in_the_share_of_its_broker(pairs: list[tuple[str, int]]) -> None:
    targets = [{"position": position, "broker": broker} for broker, position in pairs]
    shares = shares_of({"targets": targets, "shift_ms": 1})
    found = [(name, each["position"]) for name, share in shares.items() for each in share.get("targets", ())]
    assert sorted(found) == sorted(pairs)
    assert all(share["shift_ms"] == 1 for share in shares.values())
