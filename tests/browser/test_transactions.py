"""The Transactions pages in a browser: live, by keys, and through decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect

from broker.client import Decision, TransactionProducer, prepare
from broker.client.transactions import TransactionTarget
from broker.mirror.announcer import Announcer
from console.features.checkback.models import CheckAddress
from console.operations.models import AuditEntry, Operation
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage, one_word, staged

#: how large the smallest letters of a drawing are on the screen, in px
SMALLEST = """drawing => {
    const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    const sizes = [...drawing.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize));
    return Math.min(...sizes) * scale;
}"""

LISTS = {"open": "?state=open", "parked": "?state=parked", "decided": "?state=decided"}


@pytest.fixture
def stage(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Stage]:
    """A broker that asks soon, and parks what nobody knew when it was asked a second time."""
    quick = {"transaction_timeout_ms": 300, "transaction_interval_ms": 60_000, "transaction_checks": 2}
    with staged(tmp_path / "store", settings, **quick) as made:
        yield made


def producer_of(stage: Stage, group: str) -> TransactionProducer:
    """A producer that never knows."""
    return TransactionProducer(group, stage.broker.namesrv, check=lambda message: Decision.UNKNOWN)


def park(stage: Stage, producer: TransactionProducer, *keys: str) -> None:
    """Halves that were asked about in vain as often as is allowed."""
    for key in keys:
        producer.send_half("orders", prepare("x", keys=[key], tag="paid"))

    def are_parked() -> bool:
        rows = [row for row in stage.admin.transactions("open", count=1_000).items if row.group == producer.group]
        targets = [TransactionTarget(row.offset, row.position) for row in rows if row.position is not None]
        if targets:
            stage.admin.steer_transactions("check", targets, who="test")
        return not rows

    stage.wait_for(are_parked)


def fill(stage: Stage) -> None:
    """Decided, parked, open and lonely halves, with hostile names; and an address that is asked."""
    with producer_of(stage, "silent") as silent:
        park(stage, silent, "invoice-77", *(one_word(text) for text in HOSTILE))
    with producer_of(stage, "payers") as payers:
        halves = [payers.send_half("orders", prepare("x", keys=[f"order-{number}"])) for number in range(12)]
        for number in (2, 3, 5, 8, 9):
            payers.commit(halves[number])
        for number in (1, 6):
            payers.rollback(halves[number])
        stage.wait_for(lambda: sum(row.checks or 0 for row in stage.admin.transactions("open").items) >= 5)
    CheckAddress.objects.create(
        group="shop", url="https://shop.example/checks", outcome="COMMIT", asked_at=timezone.now(), actor="anna"
    )
    CheckAddress.objects.create(
        group="billing", url="https://billing.example/" + "x" * 200, outcome=HOSTILE[0], failures=5, actor="anna",
        asked_at=timezone.now(), resting_until=timezone.now() + timezone.timedelta(seconds=40),
    )  # fmt: skip
    stage.mirror.run_once()


def choose(page: Page, web: Web, kind: str, count: int = 2, state: str = "open") -> None:
    """Choose rows of a list and ask for an operation."""
    page.goto(web.address + "/transactions/list/" + LISTS[state])
    boxes = page.locator("#transactions tbody input[type=checkbox]")
    for index in range(count):
        boxes.nth(index).check()
    expect(page.locator("[data-select-count]")).to_have_text(str(count))
    page.get_by_role("button", name=kind).click()


def test_halves_and_decisions_come_by_themselves_joined_by_lines(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer
) -> None:
    page, complaints = opened(context, web.address + "/transactions/")
    expect(page.locator("#live")).to_contain_text("Live", timeout=20_000)
    expect(page.locator("#board")).to_contain_text("No transactions yet.")
    with producer_of(stage, "payers") as payers:
        halves = [payers.send_half("orders", prepare("x", keys=[f"order-{number}"])) for number in range(3)]
        stage.mirror.run_once()
        expect(page.locator("#board svg text", has_text="order-")).to_have_count(3)
        expect(page.locator("#board path.line-verd")).to_have_count(0)
        payers.commit(halves[0])
        payers.rollback(halves[1])
        stage.wait_for(lambda: len(stage.admin.transactions("decided").items) == 2)
        stage.mirror.run_once()
        expect(page.locator("#board path.line-verd")).to_have_count(1)
        expect(page.locator("#board svg text.text-strong")).to_have_text(["commit", "rollback"])
        expect(page.locator("#decided tbody tr")).to_have_count(2)
        expect(page.locator("#open tbody tr")).to_have_count(1)
    assert page.evaluate("violations") == []
    assert complaints == []


def test_the_letters_of_the_board_are_read_on_a_telephone(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None
) -> None:
    """They were as small as the drawing had to be to fit: 5 px."""
    with producer_of(stage, "payers") as payers:
        payers.commit(payers.send_half("orders", prepare("x", keys=["order-1"])))
        payers.send_half("orders", prepare("x", keys=["order-2"]))
    page, _complaints = opened(context, web.address + "/transactions/")
    for width in (390, 768):
        page.set_viewport_size({"width": width, "height": 800})
        board = page.locator("#board .scroll > svg")
        assert board.evaluate(SMALLEST) >= 9, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the drawing scrolls, and not the page"
        if shots:
            board.scroll_into_view_if_needed()
            page.screenshot(path=str(shots / f"board-{width}.png"))


@pytest.mark.parametrize(
    ("button", "confirm", "state", "word"),
    [
        ("Commit…", "Commit transaction", "committed", "committed"),
        ("Roll back…", "Roll back transaction", "rolled back", "rolled_back"),
    ],
)
def test_one_is_decided_from_its_own_page_and_a_second_click_does_nothing(
    stage: Stage, web: Web, context: BrowserContext, button: str, confirm: str, state: str, word: str
) -> None:
    fill(stage)
    page, complaints = opened(context, web.address + "/transactions/")
    page.locator("#open tbody a").first.click()
    expect(page.locator("h1")).to_have_text("order-0")
    life = page.url
    page.get_by_role("button", name=button).click()
    page.get_by_role("button", name=confirm).click()  # without a reason nothing is done
    expect(page.locator("textarea:invalid")).to_have_count(1)
    assert Operation.objects.get().state == Operation.State.DRAFT
    page.fill("textarea", "the bank said so")
    page.get_by_role("button", name=confirm).dblclick()
    expect(page.locator("#run")).to_contain_text("1 of 1")
    expect(page.locator("#audit")).to_contain_text("the bank said so")
    assert Operation.objects.get().results == {word: 1}
    assert list(AuditEntry.objects.order_by("id").values_list("what", flat=True)) == ["confirmed", "finished"]
    page.goto(life)
    expect(page.get_by_role("button", name=button)).to_have_count(0)
    expect(page.locator("svg[role=img]")).to_contain_text(state)
    expect(page.locator("dd", has_text="operator")).to_contain_text("the bank said so")
    assert complaints == []


def test_parked_ones_are_found_resumed_and_asked_about_by_keys(stage: Stage, web: Web, context: BrowserContext) -> None:
    fill(stage)
    page, complaints = opened(context, web.address + "/")
    page.keyboard.press("x")
    expect(page.locator("h1")).to_have_text("Transactions")
    page.locator("#parked").get_by_role("link", name="Resume checking or decide").press("Enter")
    expect(page.locator("#transactions tbody tr")).to_have_count(1 + len(HOSTILE))
    page.get_by_label("all of them, up to 10,000").check()
    page.get_by_role("button", name="Resume checking…").click()
    page.fill("textarea", "the service is back")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#run")).to_contain_text(f"{1 + len(HOSTILE)} of {1 + len(HOSTILE)}")
    page.goto(web.address + "/transactions/list/?state=parked")
    expect(page.locator(".empty")).to_contain_text("No parked half messages.")
    choose(page, web, "Check now…", 3)
    expect(page.locator("main")).to_contain_text("no producer connected")
    page.fill("textarea", "ask them")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#run")).to_contain_text("3 of 3")
    assert [row.kind for row in Operation.objects.order_by("created_at")] == [
        "transactions.resume", "transactions.check",
    ]  # fmt: skip
    assert page.evaluate("violations") == []
    assert complaints == []


def test_who_may_not_decide_is_told_before_the_click(stage: Stage, web: Web, context: BrowserContext) -> None:
    fill(stage)
    user = get_user_model().objects.get(username="operator")
    user.is_superuser = False
    user.save()
    user.groups.add(Group.objects.get(name="viewer"))
    page, _ = opened(context, web.address + "/transactions/list/")
    for name in ("Check now…", "Commit…", "Roll back…"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()


def test_an_address_that_fails_is_said_and_its_words_run_nothing(
    stage: Stage, web: Web, context: BrowserContext
) -> None:
    fill(stage)
    page, complaints = opened(context, web.address + "/transactions/")
    rows = page.locator("#addresses tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("backing off")
    expect(rows.nth(0)).to_contain_text(HOSTILE[0])
    expect(rows.nth(1)).to_contain_text("https://shop.example")
    expect(rows.nth(1)).to_contain_text("COMMIT")
    assert page.evaluate("violations") == []
    assert complaints == []
