# ruff: noqa: F811 - fixtures taken from other modules are parameters here
"""Over two hundred hostile texts in a real browser, in every field and on every page: none runs, none is even tried."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from urllib.parse import urlencode

import redis
from django.contrib.auth import get_user_model
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect

from broker.client import ClientError, Producer, prepare
from broker.mirror.models import ConsumerGroup, Topic
from console import snapshots
from console.features.alerts.models import Alert, AlertRule, Silence
from console.operations.models import AuditEntry, Operation
from console.ui.saved_views import SavedView
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.browser.test_delayed_queues import queues  # noqa: F401 - a fixture
from tests.browser.test_timers import HOUR_MS, now_ms
from tests.browser.test_transactions import producer_of, stage  # noqa: F401 - a fixture: asks about halves soon
from tests.console.dashboards.test_dashboards import NOON_MS, computed
from tests.console.stage import Stage, one_word
from tests.console.ui.test_hostile import TEXTS

LANGUAGES = ("en", "zh-hans")
#: messages of each kind: with a text of its own in each of five fields, all texts are in them
MESSAGES = 44
#: no list shows more at once
ROWS = 40
#: what a text of theirs would add
INJECTED = """() => [...document.querySelectorAll("script, iframe, object, embed, base, meta[http-equiv]")]
  .filter((e) => !(e.tagName === "SCRIPT" && e.src.startsWith(location.origin + "/static/")))
  .map((e) => e.outerHTML.slice(0, 80))
  .concat([...document.querySelectorAll("body *")].flatMap((e) => [...e.attributes])
    .filter((a) => a.name.startsWith("on") || /^\\s*(javascript|vbscript|data):/i.test(a.value) && a.name !== "title"
      && a.name !== "value" && a.name !== "aria-label" && !a.name.startsWith("data-"))
    .map((a) => `${a.ownerElement.tagName} ${a.name}=${a.value.slice(0, 60)}`))"""


def given(number: int) -> dict[str, str]:
    """Five texts for a message: each text is in some message's field."""
    return {
        field: TEXTS[(number + MESSAGES * place) % len(TEXTS)]
        for place, field in enumerate(("body", "key", "tag", "name", "note"))
    }


def send(producer: Producer, number: int, **more: int) -> bool:
    """Send what the broker takes of it; tags and names with marks of the protocol are left out."""
    texts = given(number)
    key, tag = one_word(texts["key"])[:255], one_word(texts["tag"])[:255]
    whole = {"keys": [key], "tag": tag, "properties": {one_word(texts["name"])[:100] or "p": texts["note"][:2_000]}}
    for part in (whole, {"keys": [key], "properties": {"note": texts["note"][:2_000]}}, {"keys": [key]}, {}):
        try:
            producer.send("orders", texts["body"][:4_000] or "x", **part, **more)
        except (ClientError, ValueError):
            continue
        return True
    return False


def fill_broker(stage: Stage) -> None:
    """Plain messages, lanes, timers, halves; and a consumer, a group and a client of such names."""
    sent = [
        send(stage.producer, number, **more)
        for number in range(MESSAGES)
        for more in ({"queue_id": 0}, {"delay_level": 17}, {"deliver_at_ms": now_ms() + HOUR_MS + number})
    ]
    assert all(sent)
    stage.consume()
    with producer_of(stage, "shop") as producer:
        for number in range(ROWS):
            key = one_word(given(number)["key"])[:200]
            try:
                producer.send_half("orders", prepare(given(number)["body"][:400] or "x", keys=[key]))
            except (ClientError, ValueError):
                continue
    stage.mirror.run_once()
    names = islice((text.replace("\0", "")[:120] for text in TEXTS if text.replace("\0", "").strip()), ROWS)
    topic, group = Topic.objects.get(name="orders"), ConsumerGroup.objects.get(name="billing")
    # what other clients may have called theirs: ours take no such names
    for name in names:
        for row in (topic, group):
            row.pk, row.name = None, name
            type(row).mirror_writer.bulk_create([row], ignore_conflicts=True)


def fill_console() -> Operation:
    """What the console keeps itself: alerts, silences, operations with errors, audit, views, points of dashboards."""
    user, now = get_user_model().objects.get(username="operator"), timezone.now()
    kept = [text.replace("\0", "") or "x" for text in TEXTS]
    done = None
    for number, text in enumerate(kept[-ROWS:]):
        rule = AlertRule.objects.create(what="backlog", subject=text[:255], limit=number, name=text[:60])
        Alert.objects.create(
            rule=rule,
            subject=text[:255],
            value=1,
            highest=1,
            state="firing",
            since=now,
            raised_at=now,
            told_before=text,
        )
        Silence.objects.create(
            rule=rule, subject=text[:255], until=now + timedelta(hours=1), reason=text[:500], actor=text[:150]
        )
        done = Operation.objects.create(
            kind="timers.cancel", state="failed", reason=text[:500], actor=text[:150], created_by=user, error=text,
            preview={}, parameters={"filter": {"topic": text[:255], "key": text[:255]}},
        )  # fmt: skip
        AuditEntry.objects.create(
            actor=text[:150], what="confirmed", kind="timers.cancel", reason=text[:500], result={"error": text[:500]}
        )
        SavedView.objects.create(owner=user, page="groups", path="/groups/", name=f"{number} {text}"[:60])
    points = [("sent", text[:200], text[:200], text[:200], NOON_MS, 5.0, None) for text in kept[:ROWS]]
    computed("flow", *points, *[("producers", *point[1:]) for point in points])
    computed("retries", *[("poison", *point[1:]) for point in points])
    assert done is not None
    return done


def everything(stage: Stage, done: Operation) -> list[str]:
    """Every page with texts of others."""
    record = stage.admin.messages_by_key("orders", one_word(given(0)["key"])[:255])
    timer, half = stage.admin.timers(0, 2**62).items[0], stage.admin.transactions("open").items[0]
    client = stage.admin.producers()[0].client_id
    return [
        "/", "/topics/", "/topics/orders/", "/topics/orders/0/", "/topics/orders/tail/", "/groups/", "/clients/",
        "/clients/one/?" + urlencode({"id": client}), "/schedule/", "/schedule/17/", "/timers/", "/timers/list/",
        f"/timers/{timer.position}/", "/transactions/", "/transactions/list/?state=open",
        f"/transactions/{half.position}/", "/redisson/", "/redisson/queue/?name=orders", "/messages/?topic=orders",
        *(f"/messages/{each.offset_message_id}/" for each in record[:1]), "/dead-letters/", "/alerts/", "/operations/",
        f"/operations/{done.pk}/", "/audit/", "/views/", "/dashboards/flow/", "/dashboards/retries/",
        "/find/?" + urlencode({"q": TEXTS[0]}), "/messages/?" + urlencode({"q": TEXTS[13]}),
        "/topics/?" + urlencode({"search": TEXTS[20]}), "/compare/?" + urlencode({"from": TEXTS[2], "to": TEXTS[3]}),
    ]  # fmt: skip


def watched(page: Page) -> list[str]:
    """What the page was stopped from doing, and what stands in it that is not ours."""
    return [*page.evaluate("violations"), *page.evaluate(INJECTED)]


def test_no_text_runs_on_any_page_in_either_language(
    stage: Stage, web: Web, context: BrowserContext, queues: redis.Redis
) -> None:
    assert len(TEXTS) >= 200
    fill_broker(stage)
    done = fill_console()
    snapshots.take()
    page, complaints = opened(context, f"{web.address}/login/")
    faults: list[str] = []
    read = ""
    for language in LANGUAGES:
        context.add_cookies([{"name": "django_language", "value": language, "url": web.address}])
        for path in everything(stage, done):
            answer = page.goto(web.address + path)
            assert answer is not None
            # a moment that is none, and a search that is refused, are pages too
            assert answer.status in (200, 422), (path, answer.status)
            if page.locator("main[hx-ws\\:connect] #live").count():
                # a frame of the socket has come, with the same texts
                expect(page.locator("#live")).to_contain_class("verd")
            faults += [f"{language} {path}: {fault}" for fault in watched(page)]
            read += page.evaluate("document.body.textContent")
            # a status that is refused is an error to the browser's own console
            faults += [f"{language} {path}: {text}" for text in complaints if "status of 422" not in text]
            complaints.clear()
    assert not faults, "\n".join(faults)
    shown = [text for text in TEXTS if text.strip() and one_word(text.strip())[:30] in read.replace(" ", "/")]
    assert len(shown) >= SHOWN, f"{len(shown)} of {len(TEXTS)} texts were on some page"
    caught(page)


#: texts that stand on some page as they are; others have marks for what is not seen, or are cut before their thirtieth
#: letter
SHOWN = 150


def caught(page: Page) -> None:
    """What runs would be noticed: the same watch sees a text that is put into the page as markup."""
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    page.wait_for_function("violations.length > 0")
    assert any("onerror" in fault for fault in watched(page))
