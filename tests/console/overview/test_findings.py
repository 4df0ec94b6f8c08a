"""What the first page finds worth a look, in words, each with its way out, also in a live frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from django.template.loader import render_to_string
from django.test import Client
from django.utils import translation

from broker.client.timers import Herd, TopicCount
from broker.mirror.models import Broker, HalfMessage
from broker.redisson import DelayedQueue
from console.features.groups.read import GroupRow, GroupState
from console.features.overview import findings
from console.features.overview.finding_kinds import Finding, FindingCode
from console.features.overview.findings import AGED_MS, QUIET_MS, ServerFacts, Watched, by_kind, findings_of
from console.features.overview.pages import read_overview
from console.site.evidence import Evidence
from console.site.mirrored import SLOT_MS, SLOTS, History, Mirrored, alone
from console.templatetags.words import sentence
from console.ui.live import page_of, parts_of
from tests.console.stage import HOSTILE, Stage
from tests.watching import Calls

NOW_MS = 1_795_000_000_000
GROUP = GroupRow("mail", GroupState.BEHIND, 2, 1, 40, None, None, 0.0, True, 16, False)


def found_in(groups: list[GroupRow] | None = None, known: ServerFacts | None = None) -> list[Finding]:
    here = Mirrored(NOW_MS, Broker.objects.filter(name="broker-a").first(), None)
    found = findings_of(alone(here), [Watched(here, None, (), known or ServerFacts())], groups or [])
    return [each for each in found if each.code is not FindingCode.MIRROR_STALE]


def half(broker: Broker, offset: int, state: str, store_ms: int) -> None:
    HalfMessage.mirror_writer.bulk_create([HalfMessage(broker=broker, offset=offset, state=state, store_ms=store_ms)])


@pytest.fixture
def queues(valkey: str, settings: Any) -> Iterator[redis.Redis]:
    settings.REDISSON_URL = valkey
    client = redis.Redis.from_url(valkey)
    yield client
    client.delete(*[key for key in client.scan_iter() if b"delay" in key], "nothing")
    client.close()
    findings.forget()


def test_silence_is_counted_back_from_now_and_a_gap_is_not_silence() -> None:
    busy = (*(1.0,) * (SLOTS - 3), 0.0, 0.0, 0.0)
    assert History(busy).quiet_ms == 3 * SLOT_MS
    assert History((*busy[:-1], None)).quiet_ms is None
    assert History((*(None,) * (SLOTS - 2), 0.0, 0.0)).quiet_ms == 2 * SLOT_MS
    assert History((0.2,) * SLOTS).quiet_ms == 0
    assert History((*(None,) * (SLOTS - 2), 0.4, 0.6)).total == 5


@pytest.mark.django_db
def test_a_group_that_takes_nothing_is_found_after_two_minutes_only() -> None:
    assert found_in([replace(GROUP, quiet_ms=QUIET_MS - 1)]) == []
    assert found_in([replace(GROUP, quiet_ms=QUIET_MS, lag=0)]) == []
    (found,) = found_in([replace(GROUP, quiet_ms=QUIET_MS)])
    assert (found.code, found.subject) == (FindingCode.GROUP_STANDS_STILL, "mail")
    assert (found.value, found.span_ms) == (40, QUIET_MS)


@pytest.mark.django_db
def test_dead_letters_that_grow_come_before_those_that_lie() -> None:
    lying, growing = replace(GROUP, name="a", dead=900), replace(GROUP, name="b", dead=3, newly_dead=2)
    found = found_in([lying, growing])
    assert [(each.code, each.subject, each.value) for each in found] == [
        (FindingCode.DEAD_LETTERS_GROWING, "b", 2),
        (FindingCode.DEAD_LETTERS, "a", 900),
    ]


@pytest.mark.django_db
def test_halves_that_stay_undecided_are_found_by_their_age() -> None:
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    half(broker, 1, "open", NOW_MS - AGED_MS + 1)
    half(broker, 2, "committed", NOW_MS - 9 * AGED_MS)
    assert found_in() == []
    half(broker, 3, "due", NOW_MS - AGED_MS - 5)
    (found,) = found_in()
    assert (found.code, found.value, found.span_ms) == (FindingCode.TRANSACTIONS_AGEING, 1, AGED_MS + 5)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 half message;"), (26, "26 half messages;"), (200, "At least 200 half messages;")]
)
def test_as_many_are_said_as_there_are(count: int, said: str) -> None:
    """26 of 26 were "26 halves or more"; of more than are mirrored it is the least number."""
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    for number in range(count):
        half(broker, number, "open", NOW_MS - 2 * AGED_MS)
    (found,) = found_in()
    assert said in sentence(found)


@pytest.mark.django_db
def test_a_herd_ahead_leads_to_the_wheel_before_it() -> None:
    herd = Herd(NOW_MS + 3_600_000, 90_000, [TopicCount("orders", 90_000)], 4_200)
    (found,) = found_in(known=ServerFacts(herds=(herd,)))
    assert (found.code, found.subject) == (FindingCode.HERD_AHEAD, "orders")
    assert (found.value, found.span_ms) == (90_000, 4_200)
    assert found.link is not None
    assert found.link.address.startswith("/timers/?zoom=1h&at=17950")


def test_what_is_stuck_in_redis_is_found_and_asked_for_once_in_a_while(
    stage: Stage, queues: redis.Redis, operator: Client
) -> None:
    DelayedQueue("refunds", queues).offer("late", at=1)
    findings.forget()
    page = operator.get("/").content.decode()
    assert "due values in Redis are not transferred" in page
    assert "/redisson/queue/?name=refunds" in page
    with Calls(findings._read) as asked:
        assert "refunds" in operator.get("/").content.decode()
    assert asked.count == 0


NUMBERED = (FindingCode.LANE_LATE, FindingCode.PROGRESS_UNSAVED, FindingCode.RELEASED_EARLY)
EVIDENCE = Evidence("mirror of broker-a", NOW_MS, True)
#: the broker's own words say why
WITHOUT_SENTENCE = (FindingCode.STORE_FAILED, FindingCode.BROKER_DEGRADED, FindingCode.BROKER_READ_ONLY)


def drawn(found: list[Finding]) -> str:
    shown = {"findings": found, "kinds_of_findings": by_kind(found), "evidence": EVIDENCE, "now_ms": NOW_MS}
    return render_to_string("overview/findings.html", {"data": shown})


@pytest.mark.parametrize("code", FindingCode)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_finding_has_words_and_hostile_names_stay_text(code: FindingCode, language: str) -> None:
    subject = "3" if code in NUMBERED else HOSTILE[1]
    finding = Finding(code, subject, 5, HOSTILE[1], span_ms=7_000, at_ms=NOW_MS)
    with translation.override(language):
        html = drawn([finding]) + drawn([finding, finding])
        said = sentence(finding)
    assert "<script>" not in html
    assert "<img" not in html
    assert bool(said) == (code not in WITHOUT_SENTENCE)
    assert "{" not in said
    assert "%(" not in said
    assert finding.link is None or "<" not in finding.link.address


@translation.override("en")
def test_findings_of_a_kind_are_one_row_with_the_greatest_first() -> None:
    left = [Finding(FindingCode.GROUP_WITHOUT_CONSUMER, f"g{number}", 99 - number) for number in range(5)]
    dead = Finding(FindingCode.DEAD_LETTERS, "mail", 7)
    html = drawn([*left, dead])
    assert html.count('class="finding"') == 2
    assert "2 kinds of findings" in html and "A group has messages but no consumer: 5" in html
    before, _, after = html.partition("<details>")
    assert [name in before for name in ("/groups/g0/", "/groups/g2/", "/groups/g3/")] == [True, True, False]
    assert "2 more" in after and "/groups/g4/" in after and "mail:" in after
    assert "no consumer: 10+" in drawn(left * 2)


@translation.override("en")
def test_a_finding_says_its_figures() -> None:
    one = Finding(FindingCode.GROUP_WITHOUT_CONSUMER, "mail", 1)
    assert sentence(one) == "1 message is pending and no consumer is connected."
    many = replace(one, value=1_200, span_ms=61_000)
    assert sentence(many) == (
        "1,200 messages are pending and no consumer is connected. Nothing consumed for at least 1 min 01 s."
    )
    assert sentence(Finding(FindingCode.DISK_FILLING, "broker-a", 85)).startswith("85 % used; sends are refused above")
    assert "<span" in sentence(Finding(FindingCode.BROKER_UNREACHABLE, "broker-a"))
    assert "<time " in sentence(Finding(FindingCode.HERD_AHEAD, "orders", 2, span_ms=1, at_ms=NOW_MS))


def test_the_way_out_stays_in_a_live_frame(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "x", queue_id=0)
    stage.consume()
    stage.producer.send("orders", "y", queue_id=0)
    stage.wait_for(lambda: stage.mirror.run_once() or "billing" in [row.subject for row in read_overview().findings])
    page = page_of("overview")
    assert page is not None
    parts = parts_of(render_to_string(page.template, {"data": page.read(), "sequence": 1, "live": True}))
    assert 'href="/groups/billing/"' in operator.get("/").content.decode()
    assert 'href="/groups/billing/"' in parts["#findings"]
