"""Characters that act unseen are shown as their numbers wherever a text of somebody else stands."""

from __future__ import annotations

import re
import threading
from html import unescape

from django.test import Client

from broker.client import Consumer, Decision, TransactionProducer, prepare
from console.operations import workflow
from console.operations.actor import Actor
from console.templatetags.ui import shortened
from console.templatetags.visible import middle, truncatechars, visible
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage
from tests.console.timers.test_operations import HOUR, now_ms, waiting

TURNED, BLANK = "ux-rtl-\u202egnp.exe", "pay\u200bment"
ACTING = ("\u202e", "\u200b", "\u2066", "\ufeff")


def seen(page: str) -> str:
    """What a reader sees: no element, no attribute."""
    return unescape(re.sub(r"<[^>]+>", " ", page))


def filled(stage: Stage, actor: Actor) -> dict[str, str]:
    """The two in every kind of text that a message has; a page's name -> its address."""
    more = {"tag": BLANK, "properties": {f"note{BLANK}": TURNED, "end": "a\u2066b\ufeffc"}}
    sent = stage.producer.send("orders", f"{TURNED} {BLANK}", keys=[TURNED, BLANK], queue_id=0, **more)
    stage.producer.send("orders", "x", keys=[TURNED, BLANK], delay_level=17, **more)
    stage.producer.send("orders", "x", keys=[TURNED, BLANK], deliver_at_ms=now_ms() + HOUR, **more)
    with TransactionProducer("shop", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("orders", prepare("x", keys=[TURNED, BLANK], **more))
    got = threading.Event()
    consumer = Consumer("billing", stage.broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.set())
    with consumer:
        assert got.wait(20)
    bury(stage, TURNED, tag=BLANK)
    stage.mirror.run_once()
    timer, half = waiting()[0], stage.admin.transactions("open").items[0]
    draft = workflow.draft("timers.cancel", {"targets": [{"position": timer.position}]}, actor)
    done = workflow.start("timers.reschedule", {"targets": [{"position": timer.position}], "shift_ms": HOUR}, actor,
                      reason=f"{TURNED} moved")  # fmt: skip
    return {
        "message": f"/messages/{sent.offset_message_id}/", "queue": "/topics/orders/0/", "tail": "/topics/orders/tail/",
        "lane": "/schedule/17/", "timers": "/timers/", "list": "/timers/list/", "timer": f"/timers/{timer.position}/",
        "halves": "/transactions/list/?state=open", "half": f"/transactions/{half.position}/",
        "letters": "/dead-letters/of/billing/", "search": "/messages/?topic=orders",
        "draft": f"/operations/{draft.pk}/", "done": f"/operations/{done.pk}/", "operations": "/operations/",
        "audit": "/audit/",
        "find": f"/find/?q={TURNED}",
    }  # fmt: skip


def test_no_page_has_a_character_that_acts_unseen(stage: Stage, operator: Client, actor: Actor) -> None:
    shown = {}
    for name, address in filled(stage, actor).items():
        answer = operator.get(address)
        assert answer.status_code == 200, name
        shown[name] = seen(answer.content.decode())
        assert not [f"{name}: {each!a}" for each in ACTING if each in shown[name]]
    assert {name for name, text in shown.items() if "ux-rtl-⟨U+202E⟩gnp.exe" in text} >= shown.keys() - {"timers"}
    assert "pay⟨U+200B⟩ment" in shown["message"]
    assert "a⟨U+2066⟩b⟨U+FEFF⟩c" in shown["message"]


def test_what_is_seen_is_counted_and_stays_safe() -> None:
    assert visible("naïve 支付 שלום 👍🏽\n\tx") == "naïve 支付 שלום 👍🏽\n\tx"
    assert visible("a\x00b\x1b[31m") == "a⟨U+0000⟩b⟨U+001B⟩[31m"
    assert truncatechars("\u200b" * 50, 9) == "⟨U+200B⟩…"
    assert truncatechars("plain", 5) == "plain"


def test_an_id_is_cut_in_its_middle() -> None:
    """Ids of one kind begin alike: 24 half messages of a board had one and the same shown id."""
    unique = "FD000000000000000000000000DA07D1"
    assert (middle(unique, 10), middle(unique, 32), middle("", 10)) == ("FD000…07D1", unique, "")
    assert (len(middle("x" * 99, 11)), middle("a\u202eb" * 9, 12)[-5:]) == (11, "02E⟩b")
    assert shortened(unique) == {"start": unique[:-8], "end": unique[-8:]}
    assert shortened("10.0.0.1@7") == {"start": "", "end": "10.0.0.1@7"}
    assert shortened(None) == {"start": "", "end": ""}
