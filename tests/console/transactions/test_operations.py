"""Transactions committed, rolled back, asked about: one, chosen ones, all that match, each with its audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionRow
from console.operations import workflow
from console.operations.actor import PERMISSIONS, STEER_TIMERS, Actor
from console.operations.errors import InvalidParameter, NotAllowed
from console.operations.models import AuditEntry, Operation, OperationItem
from tests.console.people import person
from tests.console.stage import Stage
from tests.console.transactions.test_transactions import begin, listed, transactor
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))


@pytest.fixture
def payers(stage: Stage) -> Iterator[TransactionProducer]:
    with transactor(stage) as producer:
        yield producer


def posted(operator: Client, kind: str, rows: list[TransactionRow]) -> str:
    """The address of the draft."""
    form = {"kind": f"transactions.{kind}", "scope": "selected", "half": [row.choice for row in rows]}
    answer = operator.post("/operations/draft/", form)
    assert answer.status_code == 303
    return answer.headers["Location"]


def confirmed(operator: Client, address: str, reason: str = "seen at the bank") -> Operation:
    assert operator.post(address + "confirm/", {"reason": reason}).status_code == 303
    return Operation.objects.latest("created_at")


def arrived(stage: Stage, key: str) -> int:
    return len(stage.admin.messages_by_key("orders", key, 64))


def test_one_is_committed_and_the_broker_keeps_who_and_why(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    begin(payers, "paid", "other")
    address = posted(operator, "commit", listed("open")[:1])
    page = words(operator.get(address))
    assert "1 selected transaction" in page
    assert "paid" in page
    assert "whatever their databases say" in page
    assert arrived(stage, "paid") == 0
    row = confirmed(operator, address)
    assert row.results == {"committed": 1}
    stage.wait_for(lambda: arrived(stage, "paid"))
    assert [each.name for each in listed("open")] == ["other"]
    (decided,) = listed("decided")
    assert (decided.by, decided.reason) == ("operator", "seen at the bank")
    assert [entry.what for entry in AuditEntry.objects.order_by("id")] == ["confirmed", "finished"]
    assert "committed 1" in words(operator.get(address))
    assert "operator: seen at the bank" in words(operator.get("/transactions/"))


def test_the_same_again_says_so_and_the_opposite_is_refused(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    begin(payers, "paid")
    rows = listed("open")
    first, same, opposite = (posted(operator, kind, rows) for kind in ("commit", "commit", "rollback"))
    confirmed(operator, first)
    for address in (same, opposite):
        assert operator.post(address + "confirm/", {"reason": "again"}).status_code == 303
    results = dict(Operation.objects.values_list("pk", "results"))
    found = [next(value for key, value in results.items() if str(key) in address) for address in (same, opposite)]
    assert found == [{"already_committed": 1}, {"refused": 1}]
    error = OperationItem.objects.get(outcome="refused").result["error"]
    assert "committed by operator" in error
    assert "committed by operator" in words(operator.get(opposite))
    assert arrived(stage, "paid") == 1


def test_all_that_match_are_rolled_back_and_no_other(stage: Stage, payers: TransactionProducer) -> None:
    with transactor(stage, group="others") as others:
        begin(others, *(f"other-{number}" for number in range(3)))
    begin(payers, *(f"mine-{number}" for number in range(5)))
    draft = workflow.draft("transactions.rollback", {"filter": {"state": "open", "group": "payers"}}, ACTOR)
    assert (draft.preview["count"], draft.preview["met_count"]) == (5, 8)
    # what is stored after the look is not touched
    begin(payers, "late")
    row = workflow.confirm(draft.pk, ACTOR, reason="the shop was restored", is_typing_needed=False)
    assert row.results == {"rolled_back": 5}
    assert [each.name for each in listed("open")] == ["other-0", "other-1", "other-2", "late"]
    assert {(each.by, each.reason) for each in listed("decided")} == {("token shop", "the shop was restored")}
    assert arrived(stage, "mine-0") == 0


def test_check_now_has_a_producer_asked_at_once(stage: Stage, operator: Client) -> None:
    with transactor(stage, Decision.COMMIT) as producer:
        begin(producer, "asked")
        stage.wait_for(lambda: listed("open")[0].producers)
        address = posted(operator, "check", listed("open"))
        assert confirmed(operator, address).results == {"check_planned": 1}
        # by itself the broker asks after six seconds of grace and its next round
        stage.wait_for(lambda: arrived(stage, "asked"), 5)
    (row,) = listed("decided")
    assert row.by.startswith("check ")


def test_a_check_with_nobody_there_says_so_before(stage: Stage, operator: Client) -> None:
    with transactor(stage, group="gone") as producer:
        begin(producer, "left")
    stage.wait_for(lambda: listed("open")[0].is_alone)
    page = words(operator.get(posted(operator, "check", listed("open"))))
    assert "No producer to check 1" in page
    assert "no producer connected" in page


def test_the_form_of_the_list_acts_on_what_it_shows(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    begin(payers, "a", "b")
    page = operator.get("/transactions/list/?group=payers")
    for said in ('value="transactions.commit"', 'value="transactions.rollback"', 'value="transactions.check"'):
        assert said in page.content.decode()
    form = {"kind": "transactions.commit", "scope": "matching", "state": "open", "group": "payers", "before_ms": ""}
    address = operator.post("/operations/draft/", form).headers["Location"]
    assert "all matching: group payers" in words(operator.get(address))
    assert confirmed(operator, address).results == {"committed": 2}
    assert listed("open") == []


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"targets": []},
        {"targets": [{"offset": 1}]},
        {"targets": [{"offset": 1, "position": -1}]},
        {"targets": [{"offset": True, "position": 1}]},
        {"targets": [{"offset": 1, "position": 1}] * 1_001},
        {"filter": {"state": "open"}},
        {"filter": {"state": "decided"}, "is_all": True},
        {"filter": {"state": "open", "group": "x" * 256}},
        {"filter": {"state": "open", "before_ms": "yesterday"}},
    ],
)
def test_what_names_nothing_is_refused(transactional_db: None, parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft("transactions.commit", parameters, ACTOR)
    assert Operation.objects.count() == 0


def test_parked_ones_are_not_asked_about(transactional_db: None) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft("transactions.check", {"filter": {"state": "parked"}, "is_all": True}, ACTOR)


def test_forms_that_were_not_ours_change_nothing(stage: Stage, payers: TransactionProducer, operator: Client) -> None:
    begin(payers, "a")
    (row,) = listed("open")
    for form in (
        {"kind": "transactions.commit", "half": "nonsense"},
        {"kind": "transactions.commit", "half": f"{row.offset}-"},
        {"kind": "transactions.commit"},
        {"kind": "transactions.commit", "scope": "matching", "state": "open"},
    ):
        assert operator.post("/operations/draft/", form).status_code == 422, form
    assert operator.post("/operations/draft/", {"kind": "transactions", "half": row.choice}).status_code == 404
    forged = {"kind": "transactions.commit", "half": f"{row.offset}-{(row.position or 0) + 8}"}
    address = operator.post("/operations/draft/", forged).headers["Location"]
    assert confirmed(operator, address).results == {"refused": 1}
    assert [each.name for each in listed("open")] == ["a"]


def test_only_who_may_decides(stage: Stage, payers: TransactionProducer) -> None:
    begin(payers, "a")
    (row,) = listed("open")
    with pytest.raises(NotAllowed):
        workflow.draft("transactions.commit", {"targets": []}, Actor("timers only", frozenset((STEER_TIMERS,))))
    viewer = Client()
    viewer.force_login(person("viewer"))
    page = viewer.get(f"/transactions/{row.position}/").content.decode()
    assert "This needs the permission console.steer_transactions." in page
    form = {"kind": "transactions.commit", "scope": "selected", "half": row.choice}
    assert viewer.post("/operations/draft/", form).status_code == 403
    assert AuditEntry.objects.filter(what="denied", kind="transactions.commit").count() == 2
    assert transactions_pages.read_transactions().figures.open == 1
