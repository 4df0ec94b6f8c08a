"""The page of an operation that is over: where it leads, what it says of then and of now, and how its forms look."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from broker.mirror.models import MirrorState
from console.operations import copies
from console.operations.kind import Kind
from console.operations.models import Operation
from console.operations.reading import operation_page
from console.operations.registry import KINDS
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage
from tests.console.ui.test_pages import tags_of, words


@pytest.fixture
def read(stage: Stage) -> Stage:
    """The group `billing` has read what is in the one queue that has something, and gave one message up."""
    for number in range(3):
        stage.producer.send("orders", f"{number}", queue_id=0)
    stage.consume()
    stage.admin.move_group("billing", "orders", 0, 3)
    bury(stage, "order-9", queue_id=1)
    stage.mirror.run_once()
    return stage


def done(operator: Client, kind: str, **form: Any) -> tuple[Operation, str]:
    """An operation that is over, and its page."""
    answer = operator.post("/operations/draft/", {"kind": kind, **form})
    assert answer.status_code == 303, words(answer)
    address = answer.headers["Location"]
    assert operator.post(address + "confirm/", {"reason": "it was wrong"}).status_code == 303
    row = Operation.objects.latest("created_at")
    assert row.is_over
    return row, unescape(operator.get(address).content.decode())


def leads(page: str) -> dict[str, str]:
    """Where the buttons of a page lead, by their words."""
    return {text.strip(): href for href, text in re.findall(r'<a class="btn(?: go)?" href="([^"]*)">([^<]*)</a>', page)}


def test_a_reset_leads_back_to_its_group_and_says_what_was_and_what_is(read: Stage, operator: Client) -> None:
    """It had no link to the group, and kept the lag of the preview as that of now."""
    read.admin.move_group("billing", "orders", 0, 3)
    row, page = done(operator, "groups.reset_offsets", group="billing", topic="orders", to="first")
    assert leads(page)["Open group"] == "/groups/billing/"
    read.mirror.run_once()
    shown = words(operator.get(f"/operations/{row.pk}/"))
    assert "after this operation; now" not in shown
    said = r"Lag before ([\d,]+) billing in orders, when it was previewed Lag now ([\d,]+) billing in orders, as of"
    before, after = re.search(said, shown).groups()
    assert int(after) - int(before) == row.preview["replayed"] > 0
    chart = unescape(operator.get("/groups/billing/").content.decode())
    assert f"Reset offsets of a group ({row.preview['replayed']} consumed again)" in chart
    assert f'<a href="/operations/{row.pk}/"><title>' in chart


def test_the_lag_of_now_is_as_old_as_the_mirror_says(read: Stage, operator: Client) -> None:
    """It said that it was as of when the page was asked for, also of rows that were read before it was done."""
    read.admin.move_group("billing", "orders", 0, 3)
    row, _page = done(operator, "groups.reset_offsets", group="billing", topic="orders", to="first")
    read_ms = MirrorState.objects.get().as_of_ms
    found = operation_page(str(row.pk), "", 0)
    assert found is not None
    assert found.lag_as_of_ms == read_ms < found.now_ms
    assert found.lag_of == "billing in orders"


def test_a_resend_leads_back_to_the_dead_letters_of_its_group(read: Stage, operator: Client) -> None:
    _row, page = done(operator, "dead_letters.send_back", group="billing", scope="matching", is_all="1")
    assert leads(page)["Open dead letters"] == "/dead-letters/of/billing/"
    assert "Lag now" in page
    assert re.search(r"Lag now</dt>.*?billing,\s+as of", page, re.DOTALL)
    copies.hang_up()


def test_a_decision_does_not_say_of_the_preview_that_it_is_now(stage: Stage, operator: Client) -> None:
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("orders", prepare("x", keys=["order-5"]))
    stage.mirror.run_once()
    (half,) = stage.admin.transactions("open").items
    target = f"{half.offset}-{half.position}"
    answer = operator.post("/operations/draft/", {"kind": "transactions.rollback", "half": target})
    draft = operator.get(answer.headers["Location"]).content.decode()
    assert "Undecided now" in draft
    assert "Reason (required; kept in the audit log)" in draft
    buttons = [at.get("class") for tag, at in tags_of(draft) if tag == "button" and "btn" in (at.get("class") or "")]
    assert "btn harm" in buttons and "btn go" not in buttons
    _row, page = done(operator, "transactions.rollback", half=target)
    assert "Undecided now" not in page and "Undecided before" in page
    assert leads(page)["Open half message"] == f"/transactions/{half.position}/"
    assert "Back to the list" in leads(page)


def test_every_kind_that_is_about_one_thing_names_what_it_leads_back_to() -> None:
    for kind in KINDS.values():
        is_of_one = type(kind).leave_address is not Kind.leave_address
        is_own = type(kind).back_to is not Kind.back_to
        named = str(kind.leave_words) != "Back to the list"
        assert named or is_own or not is_of_one, kind.name


def test_a_reset_asks_for_the_topic_where_the_group_reads_several(read: Stage, operator: Client) -> None:
    """The form stood silently on the first of them."""
    read.admin.create_topic("bills", queues=1)
    read.admin.move_group("billing", "bills", 0, 0)
    read.mirror.run_once()
    page = operator.get("/groups/billing/").content.decode()
    form = page[page.index('value="groups.reset_offsets"') :]
    select = form[form.index("<select") : form.index("</select>")]
    assert "required" in select.partition(">")[0]
    options = re.findall(r'<option\s+value="([^"]*)"\s*(selected)?', select)
    assert options[0] == ("", "selected")
    assert [value for value, is_selected in options if is_selected] == [""]
    assert "*" in [value for value, _ in options]
    answer = operator.post("/operations/draft/", {"kind": "groups.reset_offsets", "group": "billing", "to": "first"})
    assert answer.status_code == 422
