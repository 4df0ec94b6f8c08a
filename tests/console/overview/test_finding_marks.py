"""Findings that are put off: they do not count, are listed folded, and count again by themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, MirrorState, Queue
from console.features.overview.finding_kinds import CODES, Finding, FindingCode
from console.features.overview.finding_marks import FindingMark, parted
from console.features.overview.finding_operations import settle
from console.features.overview.findings import LIMIT
from console.features.overview.pages import Overview, read_overview
from console.operations import workflow
from console.operations.actor import PERMISSIONS, SILENCE_ALERTS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible, OutOfReach
from console.operations.models import AuditEntry, Operation
from console.security.topic_scope import VisibleTopics
from console.site.chosen import Choice, choosing
from console.site.clock import now_ms
from console.site.mirrored import Cluster
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

ACTOR = Actor("anna", frozenset(PERMISSIONS))
LEFT = "group-without-consumer"
BILLING = {"kind": LEFT, "subject": "billing", "place": ""}
PAGE = f"/finding/?kind={LEFT}&subject=billing"


def lags(**lags: int) -> None:
    """Groups without a consumer at the first broker, so far behind."""
    broker = Broker.objects.order_by("name").first()
    assert broker is not None
    ConsumerGroup.upsert([ConsumerGroup(broker=broker, name=name, members=0) for name in lags], ("broker", "name"))
    rows = [
        ConsumerOffset(broker=broker, group=name, topic="sales", queue_id=0, offset=1_000_000 - lag)
        for name, lag in lags.items()
    ]
    ConsumerOffset.upsert(rows, ("broker", "group", "topic", "queue_id"))


@pytest.fixture
def brokers(db: None, settings: Any) -> list[str]:
    """One broker that was just heard of, with a topic; none is asked."""
    return made("broker-a")


def made(*names: str) -> list[str]:
    for name in names:
        (broker,) = Broker.mirror_writer.bulk_create([Broker(name=name, state="OK")])
        # it stays fresh however long a test takes, and is polled: nobody asks it
        MirrorState.mirror_writer.bulk_create([MirrorState(broker=broker, as_of_ms=now_ms() + 3_600_000, polling=True)])
        Queue.mirror_writer.bulk_create(
            [Queue(broker=broker, topic="sales", queue_id=0, min_offset=0, max_offset=1_000_000)]
        )
    return list(names)


def snooze(until: timedelta | None = timedelta(hours=1), actor: Actor = ACTOR, **more: Any) -> Operation:
    until_ms = None if until is None else round((timezone.now() + until).timestamp() * 1_000)
    return workflow.start("findings.snooze", {**BILLING, "until_ms": until_ms, **more}, actor, reason="known")


def names_of(data: Overview) -> tuple[list[str], list[str]]:
    """The subjects that count, and those that are put off."""
    return [each.subject for each in data.findings], [each.finding.subject for each in data.put_off]


def test_what_is_snoozed_is_listed_and_does_not_count(brokers: list[str], operator: Client) -> None:
    lags(billing=40, mail=30)
    assert names_of(read_overview()) == (["billing", "mail"], [])
    form = {"minutes": "1440", "until": "", "reason": "until the release", "act": "snooze"}
    assert f'href="/finding/?kind={LEFT}&amp;subject=billing"' in operator.get("/").content.decode()
    assert operator.post(PAGE, form).status_code == 303
    assert names_of(read_overview()) == (["mail"], ["billing"])
    page = words(operator.get("/"))
    assert "1 kind of finding" in page
    assert "1 snoozed or ignored, not counted" in page
    assert "Snoozed by operator until" in page
    assert "until the release" in page
    mark = FindingMark.objects.get()
    assert mark.until is not None
    assert abs(mark.until - timezone.now() - timedelta(days=1)) < timedelta(minutes=1)
    entries = AuditEntry.objects.filter(kind="findings.snooze").values_list("what", "actor", "reason")
    assert set(entries) == {(what, "operator", "until the release") for what in ("confirmed", "finished")}
    lift = {"reason": "it is released", "act": "lift"}
    assert "Count again" in words(operator.get(PAGE))
    assert operator.post(PAGE, lift).status_code == 303
    assert names_of(read_overview()) == (["billing", "mail"], [])
    mark.refresh_from_db()
    assert mark.lifted_why == "lifted"
    assert operator.post(PAGE, lift).status_code == 422


def test_a_snooze_ends_at_its_moment_and_the_audit_says_so(brokers: list[str]) -> None:
    lags(billing=40)
    snooze()
    assert settle() == 0
    FindingMark.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert names_of(read_overview()) == (["billing"], [])
    assert settle() == 1
    assert FindingMark.objects.get().lifted_why == "ended"
    entry = AuditEntry.objects.get(kind="findings.lift")
    assert (entry.actor, entry.what, entry.result["why"]) == ("escapement", "done", "ended")
    assert settle() == 0


def test_it_counts_again_when_it_is_twice_as_bad_and_stays_so(brokers: list[str]) -> None:
    lags(billing=40)
    snooze(None)
    lags(billing=79)
    assert names_of(read_overview()) == ([], ["billing"])
    assert settle() == 0
    lags(billing=80)
    assert names_of(read_overview()) == (["billing"], [])
    assert settle() == 1
    lags(billing=40)
    assert names_of(read_overview()) == (["billing"], []), "what was worse for a while was seen by nobody"
    assert FindingMark.objects.get().lifted_why == "worse"


def test_what_is_ignored_counts_when_it_comes_again_and_what_is_snoozed_does_not(brokers: list[str]) -> None:
    lags(billing=40, mail=40)
    snooze(None)
    snooze(subject="mail")
    lags(billing=0, mail=0)
    assert settle() == 1
    lags(billing=40, mail=40)
    assert names_of(read_overview()) == (["billing"], ["mail"])


def test_of_what_is_not_known_now_nothing_is_gone(brokers: list[str]) -> None:
    lags(billing=40)
    snooze(None)
    MirrorState.mirror_writer.update(as_of_ms=now_ms() - 3_600_000)
    lags(billing=0)
    assert settle() == 0
    MirrorState.mirror_writer.update(as_of_ms=now_ms() + 3_600_000)
    assert settle() == 1


def test_a_broker_that_is_not_there_any_more_keeps_no_other_mark(db: None) -> None:
    made("broker-a", "broker-b")
    lags(billing=40)
    Broker.mirror_writer.filter(name="broker-b").update(disk_used_ratio=0.85)
    snooze(kind="disk-filling", subject="broker-b", place="broker-b")
    snooze(None)
    for model in (MirrorState, Queue):
        model.mirror_writer.filter(broker="broker-b").delete()
    Broker.mirror_writer.filter(name="broker-b").delete()
    lags(billing=0)
    assert settle() == 1
    FindingMark.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert settle() == 1


def test_others_are_found_in_the_place_of_those_that_are_put_off(brokers: list[str]) -> None:
    """Ten of a kind are listed: with ten put off, the eleventh was never seen."""
    every = {f"group-{number:02}": 100 - number for number in range(LIMIT + 3)}
    lags(**every)
    for name in list(every)[:LIMIT]:
        snooze(None, subject=name)
    count, off = names_of(read_overview())
    assert count == list(every)[LIMIT:]
    assert off == list(every)[:LIMIT]
    assert settle() == 0
    FindingMark.objects.filter(subject="group-00").delete()
    assert names_of(read_overview())[0] == ["group-00", *list(every)[LIMIT:]]


def test_at_one_of_several_brokers_and_in_total(db: None, settings: Any) -> None:
    made("broker-a", "broker-b")
    lags(billing=40)
    snooze()
    assert names_of(read_overview()) == ([], ["billing"])
    with choosing(Choice("", "broker-a")):
        assert names_of(read_overview()) == ([], ["billing"]), "what holds in total holds at each"
    FindingMark.objects.all().delete()
    snooze(place="broker-a")
    assert names_of(read_overview()) == (["billing"], []), "in total it is the sum of all"
    with choosing(Choice("", "broker-a")):
        assert names_of(read_overview()) == ([], ["billing"])
    # what a broker says of itself is the same finding in both
    Broker.mirror_writer.filter(name="broker-b").update(disk_used_ratio=0.85)
    snooze(kind="disk-filling", subject="broker-b", place="broker-b")
    assert names_of(read_overview()) == (["billing"], ["broker-b"])
    with choosing(Choice("", "broker-b")):
        assert names_of(read_overview()) == ([], ["broker-b"])
    Broker.mirror_writer.filter(name="broker-b").update(disk_used_ratio=0.9)
    assert names_of(read_overview()) == (["broker-b", "billing"], [])
    assert settle() == 1
    assert settle() == 0


@pytest.mark.parametrize(
    ("code", "was", "now", "is_worse"),
    [
        (FindingCode.GROUP_WITHOUT_CONSUMER, {"value": 40}, {"value": 79}, False),
        (FindingCode.GROUP_WITHOUT_CONSUMER, {"value": 40}, {"value": 80}, True),
        (FindingCode.GROUP_WITHOUT_CONSUMER, {"value": 40, "span_ms": 5}, {"value": 40, "span_ms": 500}, False),
        (FindingCode.DISK_FILLING, {"value": 80}, {"value": 83}, False),
        (FindingCode.DISK_FILLING, {"value": 80}, {"value": 84}, True),
        (FindingCode.LANE_LATE, {"span_ms": 5_000}, {"span_ms": 10_000}, True),
        (FindingCode.BROKER_UNREACHABLE, {"span_ms": 5_000}, {"span_ms": 500_000}, False),
        (FindingCode.BROKER_DEGRADED, {"detail": "slow disk"}, {"detail": "slow disk"}, False),
        (FindingCode.BROKER_DEGRADED, {"detail": "slow disk"}, {"detail": "slow disk; no space"}, True),
    ],
)
def test_worse_is_by_the_kind_of_finding(code: FindingCode, was: Any, now: Any, is_worse: bool) -> None:
    before, after = Finding(code, "x", **was), Finding(code, "x", **now)
    mark = FindingMark(kind=code.value.name, figure=before.measure, detail=before.detail, until=None)
    assert (mark.over_by(after, timezone.now()) is FindingMark.Why.WORSE) == is_worse


def test_dead_letters_that_lie_are_put_off_with_those_that_grew() -> None:
    """Five minutes after the last one they were another finding, which counted."""
    at = timezone.now()
    mark = FindingMark(kind="dead-letters-growing", subject="billing", place="", figure=2)
    growing = Finding(FindingCode.DEAD_LETTERS_GROWING, "billing", 2)
    lying = Finding(FindingCode.DEAD_LETTERS, "billing", 90)
    of = Cluster(0, ())
    assert [each.finding for each in parted([growing, lying], of, [mark], LIMIT)[1]] == [growing, lying]
    assert mark.over_by(replace(growing, value=4), at) is FindingMark.Why.WORSE
    other = FindingMark(kind="dead-letters", subject="billing", place="", figure=90)
    assert parted([growing, lying], of, [other], LIMIT)[0] == (growing,)


def test_what_is_put_off_as_what_it_was_before_is_counted_again(brokers: list[str], operator: Client) -> None:
    lags(billing=0)
    Queue.mirror_writer.bulk_create(
        [Queue(broker_id="broker-a", topic="%DLQ%billing", queue_id=0, min_offset=0, max_offset=5)]
    )
    assert [each.code for each in read_overview().findings] == [FindingCode.DEAD_LETTERS]
    FindingMark.objects.create(kind="dead-letters-growing", subject="billing", place="", figure=5, actor="anna")
    assert names_of(read_overview()) == ([], ["billing"])
    answer = operator.post("/finding/?kind=dead-letters&subject=billing", {"act": "lift", "reason": "look"})
    assert answer.status_code == 303, words(answer)
    assert names_of(read_overview()) == (["billing"], [])


def test_no_two_kinds_have_one_name() -> None:
    assert len(CODES) == len(FindingCode)


def test_what_is_wrong_stands_beside_its_field(brokers: list[str], operator: Client) -> None:
    lags(billing=40)
    form = {"minutes": "60", "until": "", "reason": "x", "act": "snooze"}
    for name, text, said in (
        ("reason", "", "Enter a reason"), ("until", "tomorrow", "is not a time"), ("until", "-1 h", "in the future"),
        ("until", "+9000 h", "within a year"),
    ):  # fmt: skip
        answer = operator.post(PAGE, {**form, name: text})
        assert (answer.status_code, said in words(answer)) == (422, True), (name, words(answer))
        assert f'id="wrong-{name}"' in answer.content.decode()
    assert operator.post(PAGE, {**form, "minutes": "5"}).status_code == 404
    assert operator.get("/finding/?kind=moon").status_code == 404
    gone = operator.get(f"/finding/?kind={LEFT}&subject=nobody")
    assert (gone.status_code, "This finding is not there any more." in words(gone)) == (200, True)
    assert FindingMark.objects.count() == 0


def test_who_may_not_is_refused_and_the_audit_has_it(brokers: list[str]) -> None:
    lags(billing=40)
    clerk = Actor("clerk", frozenset(PERMISSIONS) - {SILENCE_ALERTS})
    with pytest.raises(NotAllowed):
        snooze(actor=clerk)
    assert AuditEntry.objects.get().what == "denied"
    viewer = browser_of(person("viewer"))
    page = viewer.get(PAGE)
    assert (page.status_code, "This needs the permission console.silence_alerts." in words(page)) == (200, True)
    assert viewer.post(PAGE, {"minutes": "60", "reason": "x"}).status_code == 403
    assert AuditEntry.objects.filter(what="denied").count() == 2


def test_who_sees_some_topics_puts_off_what_is_theirs(brokers: list[str]) -> None:
    lags(billing=40)
    Broker.mirror_writer.update(disk_used_ratio=0.85)
    some = Actor("anna", frozenset(PERMISSIONS), visible=VisibleTopics(("sales",)))
    assert snooze(actor=some).results == {"put_off": 1}
    others = Actor("ben", frozenset(PERMISSIONS), visible=VisibleTopics(("orders",)))
    with pytest.raises(OutOfReach):
        snooze(actor=others)
    for actor in (some, others):
        with pytest.raises(OutOfReach):
            snooze(actor=actor, kind="disk-filling", subject="broker-a", place="broker-a")


def test_parameters_are_checked_and_what_is_gone_is_said(brokers: list[str]) -> None:
    lags(billing=40)
    for wrong in ({"kind": "moon"}, {"subject": 5}, {"place": "broker-z"}, {"until_ms": 5}, {"until_ms": True}):
        with pytest.raises(InvalidParameter):
            workflow.draft("findings.snooze", {**BILLING, "until_ms": None, **wrong}, ACTOR)
    with pytest.raises(NotPossible):
        snooze(subject="nobody")
    with pytest.raises(NotPossible):
        workflow.draft("findings.lift", BILLING, ACTOR)


def test_a_snooze_is_undone_from_its_operation(brokers: list[str], operator: Client) -> None:
    lags(billing=40)
    operator.post(PAGE, {"minutes": "0", "until": "", "reason": "old", "act": "snooze"})
    row = Operation.objects.get()
    assert "until it changes" in words(operator.get(f"/operations/{row.pk}/"))
    answer = operator.post(f"/operations/{row.pk}/undo/")
    assert answer.status_code == 303, words(answer)
    assert operator.post(answer.headers["Location"] + "confirm/", {"reason": "new"}).status_code == 303
    assert names_of(read_overview()) == (["billing"], [])
