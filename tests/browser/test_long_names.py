# ruff: noqa: F811 - fixtures taken from other modules are parameters here
"""Names as long as the protocol lets them be: no page scrolls sideways, no text is squeezed to a column of letters."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Page

from broker.client import Consumer, prepare
from broker.mirror.models import ConsumerGroup, ConsumerOffset
from console.operations import workflow
from console.operations.actor import Actor
from tests.browser.test_narrow import LANGUAGES, Visit, visit  # noqa: F401 - a fixture
from tests.browser.test_timers import HOUR_MS, now_ms
from tests.browser.test_transactions import producer_of, stage  # noqa: F401 - a fixture: asks about halves soon
from tests.console.stage import Stage

TOPIC = "t" * 127
GROUP = "g" * 120
#: of other clients: the protocol has room for so much
WIDEST = "w" * 255
KEY = "k" * 255
#: elements beyond the right edge that do not scroll in a box of their own
BEYOND = """(width) => [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest(".scroll, .rail, .segments, pre, .sr"))
  .map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`)"""
#: buttons that are cut off by the cell they stand in
CUT = """() => [...document.querySelectorAll("main td.stretch .btn")]
  .filter((e) => e.getBoundingClientRect().right > e.closest("td").getBoundingClientRect().right)
  .map((e) => e.innerText.slice(0, 20))"""
#: text that has less room than a word
SQUEEZED = """() => [...document.querySelectorAll("main dd, main td, main p, main h1, main h2, main .btn")]
  .filter((e) => e.innerText.trim().length > 20 && e.checkVisibility() && e.getBoundingClientRect().width < 60)
  .map((e) => `${e.tagName}.${e.className} ${e.getBoundingClientRect().width}: ${e.innerText.slice(0, 20)}`)"""


def fill(stage: Stage) -> dict[str, str]:
    """Long names wherever there are any; a page's name -> its address."""
    stage.admin.create_topic(TOPIC, queues=2)
    more = {"tag": KEY, "properties": {"p" * 255: "v" * 255}}
    sent = stage.producer.send(TOPIC, "b" * 300, keys=[KEY, "K" * 255], **more)
    stage.producer.send(TOPIC, "x", keys=[KEY], delay_level=17, **more)
    stage.producer.send(TOPIC, "x", keys=[KEY], deliver_at_ms=now_ms() + HOUR_MS, schedule_key="s" * 200, **more)
    with producer_of(stage, GROUP) as producer:
        producer.send_half(TOPIC, prepare("x", keys=[KEY], **more))
    got = threading.Event()
    consumer = Consumer(GROUP, stage.broker.namesrv, from_where="first")
    consumer.subscribe(TOPIC, "*", lambda message: got.set())
    with consumer:
        assert got.wait(20)
    record = stage.admin.message_by_offset_id(sent.offset_message_id)
    stage.admin.send_back(GROUP, record, delay_level=-1, max_reconsume_times=0)
    stage.mirror.run_once()
    for model in (ConsumerGroup, ConsumerOffset):
        field = "name" if model is ConsumerGroup else "group"
        for row in model.objects.filter(**{field: GROUP}):
            row.pk = None
            setattr(row, field, WIDEST)
            model.mirror_writer.bulk_create([row])
    actor = Actor.of(get_user_model().objects.get(username="operator"))
    timer = stage.admin.timers(now_ms(), now_ms() + 2 * HOUR_MS).items[0]
    moved = workflow.draft("timers.reschedule", {"filter": {"topic": TOPIC}, "shift_ms": HOUR_MS}, actor)
    cancelled = workflow.start("timers.cancel", {"targets": [{"position": timer.position}]}, actor, reason="r" * 500)
    reset = workflow.draft("groups.reset_offsets", {"group": GROUP, "topic": TOPIC, "to": "first"}, actor)
    deleted = workflow.draft("topics.delete", {"name": TOPIC}, actor)
    half = stage.admin.transactions("open").items[0]
    return {
        "overview": "/", "due": "/due/", "schedule": "/schedule/", "lane": "/schedule/17/", "timers": "/timers/",
        "timer list": "/timers/list/", "timer": f"/timers/{timer.position}/", "transactions": "/transactions/",
        "halves": "/transactions/list/?state=open", "half": f"/transactions/{half.position}/",
        "topics": "/topics/", "topic": f"/topics/{TOPIC}/", "queue": f"/topics/{TOPIC}/{record.queue_id}/",
        "tail": f"/topics/{TOPIC}/tail/", "send": f"/topics/{TOPIC}/send/",
        "a descriptor": f"/topics/{TOPIC}/descriptor/", "groups": "/groups/",
        "group": f"/groups/{GROUP}/", "widest": f"/groups/{WIDEST}/", "clients": "/clients/",
        "dead letters": "/dead-letters/", "letters": f"/dead-letters/of/{GROUP}/",
        "messages": f"/messages/?topic={TOPIC}", "found": f"/messages/?topic={TOPIC}&q={KEY}",
        "message": f"/messages/{record.offset_message_id}/",
        "operations": "/operations/", "move": f"/operations/{moved.pk}/", "cancel": f"/operations/{cancelled.pk}/",
        "reset": f"/operations/{reset.pk}/", "delete": f"/operations/{deleted.pk}/", "audit": "/audit/",
        "find": f"/find/?q={TOPIC}", "alerts": "/alerts/", "compare": "/compare/?from=-1h&to=",
    }  # fmt: skip


def faults_of(page: Page, width: int) -> list[str]:
    found = [f"beyond the edge: {text}" for text in page.evaluate(BEYOND, width)[:3]]
    found += [f"squeezed: {text}" for text in page.evaluate(SQUEEZED)[:3]]
    found += [f"cut off: {text}" for text in page.evaluate(CUT)[:3]]
    if page.evaluate("document.documentElement.scrollWidth") > width:
        found.append("the page scrolls sideways")
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_long_name_breaks_no_page(
    stage: Stage,
    visit: Visit,
    shots: Path | None,
    language: str,
) -> None:
    pages = fill(stage)
    page = visit("/", 390, language)
    origin = page.url.rstrip("/")
    faults: list[str] = []
    for name, address in pages.items():
        answer = page.goto(origin + address)
        assert answer is not None
        assert answer.status == 200, (name, answer.status)
        for width in (390, 720):
            page.set_viewport_size({"width": width, "height": 800})
            faults += [f"{name} at {width}: {fault}" for fault in faults_of(page, width)]
            if shots:
                page.screenshot(path=str(shots / f"long-{name}-{width}-{language}.png"), full_page=True)
    assert not faults, "\n".join(faults)
