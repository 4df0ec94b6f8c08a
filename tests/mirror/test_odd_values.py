"""Whatever a broker tells: one bad row never stops the mirror, is reported once, and followed again when it changes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from broker.client import Admin, NotSupported
from broker.client.admin import GroupConfig, TopicConfig
from broker.engine.tables import json_file
from broker.mirror.follower import Mirror
from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, MirrorState, Queue, Topic
from console.features.overview.finding_kinds import FindingCode
from console.features.overview.findings import ServerFacts, Watched, findings_of
from console.site.mirrored import cluster
from tests.mirror.running import RunningBroker, running_broker


class Odd(Admin):
    """A client whose broker tells more than it has."""

    more: Mapping[str, list[Any]] = {}
    facts: Mapping[str, Any] = {}

    def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
        body = dict(super().changes(token))
        for kind, rows in self.more.items():
            body[kind] = [*body.get(kind, ()), *rows]
        body["broker"] = {**body["broker"], **self.facts}
        return body


@pytest.fixture
def odd(broker: RunningBroker) -> Iterator[Odd]:
    with Odd(broker.namesrv) as client:
        yield client


@pytest.fixture
def following(transactional_db: None, odd: Odd) -> Iterator[Mirror]:
    follower = Mirror(odd)
    yield follower
    follower.close()


def topic(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0, "order": False, "attributes": {},
    } | changes  # fmt: skip


def queue(name: str, **changes: Any) -> dict[str, Any]:
    return {"topic": name, "queueId": 0, "min": 0, "max": 1, "lastMs": 1} | changes


TEXTS = ["a\0b", "\ud800", "\udcff", "x" * 33, "x" * 1_000_000, "‮\n\x1b[31m"]
NUMBERS = [-1, 1 << 31, 1 << 63, -(1 << 70)]
ODD_ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("topics", topic("odd", topicFilterType=text)) for text in TEXTS),
    *(("topics", topic("odd", attributes={text: "1"})) for text in TEXTS),
    *(("topics", topic("odd", attributes={"x": text})) for text in TEXTS),
    *(("topics", topic("odd", attributes={"x": [float("inf"), {"\0": ["\ud800"]}]})) for _ in range(1)),
    *(("topics", topic(text)) for text in [*TEXTS, ""]),
    *(("topics", topic("odd", perm=number, topicSysFlag=number)) for number in NUMBERS),
    *(("queues", queue(text)) for text in TEXTS),
    *(("queues", queue("odd", min=number, max=number, lastMs=number)) for number in NUMBERS),
    *(("queues", queue("odd", queueId=number)) for number in NUMBERS),
    *(("groups", {"groupName": text}) for text in TEXTS),
    *(("groups", {"groupName": "odd", "retryMaxTimes": number, "retryQueueNums": number}) for number in NUMBERS),
    *(("offsets", {"group": text, "topic": text, "queueId": 0, "offset": 1}) for text in TEXTS),
    *(("offsets", {"group": "odd", "topic": "odd", "queueId": 0, "offset": number}) for number in NUMBERS),
    *(("offsets", {"group": text, "topic": text, "queueId": 0, "offset": None}) for text in TEXTS),
    *(("levels", {"number": 99, "delayMs": number, "offset": number, "nextDueMs": "soon"}) for number in NUMBERS),
    *(("deletedTopics", [text]) for text in TEXTS),  # type: ignore[misc]  # values of several types
    ("topics", topic("odd", readQueueNums=1 << 40, writeQueueNums=1 << 40)),
    ("topics", {"topicName": "odd"}),
    ("topics", topic("odd", readQueueNums="many")),
    ("topics", topic("odd", attributes=7)),
    ("queues", {}),
]


def test_a_row_that_does_not_fit_holds_up_no_other(
    following: Mirror, odd: Odd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.mirror.watch.MOST_EMPTY_QUEUES", 100)
    odd.create_topic("orders", queues=2)
    following.run_once()
    for number, (kind, told) in enumerate(ODD_ROWS):
        odd.more = {kind: told if isinstance(told, list) else [told]}
        odd.create_topic(f"beside-{number}", queues=1)
        following.run_once()
        assert Topic.objects.filter(name=f"beside-{number}").exists(), ascii((kind, told))[:200]
        assert Queue.objects.filter(topic="orders").count() == 2, ascii((kind, told))[:200]
    odd.more = {}
    odd.create_topic("later", queues=1)
    following.run_once()
    assert Topic.objects.filter(name="later").exists()
    assert MirrorState.objects.get().error == ""


def test_all_of_them_at_once_from_the_first_reading_on(
    following: Mirror, odd: Odd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.mirror.watch.MOST_EMPTY_QUEUES", 100)
    more: dict[str, list[Any]] = {}
    for kind, row in ODD_ROWS:
        more.setdefault(kind, []).extend(row if isinstance(row, list) else [row])
    odd.more = more
    odd.facts = {"version": "v\0" * 100, "state": "S" * 40, "reasons": ["\0", "\ud800"], "startedMs": 1 << 80}
    odd.create_topic("orders", queues=2)
    following.run_once()
    assert Queue.objects.filter(topic="orders").count() == 2
    assert Broker.objects.get().started_ms is None
    flaws = MirrorState.objects.get().flaws
    assert {flaw["kind"] for flaw in flaws} >= {"topics", "queues", "groups", "offsets", "levels"}
    assert all(flaw["name"].isprintable() and len(flaw["name"]) <= 121 for flaw in flaws)
    odd.more, odd.facts = {}, {}
    following.rebuild()
    assert MirrorState.objects.get().flaws == []
    assert {"odd"}.isdisjoint(Topic.objects.values_list("name", flat=True))


def test_it_is_reported_once_shown_on_the_first_page_and_over_when_the_row_changes(
    following: Mirror, odd: Odd, caplog: pytest.LogCaptureFixture
) -> None:
    following.run_once()
    odd.more = {"topics": [topic("odd", topicFilterType="X" * 33), topic("gone\0")]}
    with caplog.at_level(logging.WARNING, "broker.mirror.writer"):
        for _ in range(3):
            following.run_once()
    assert len(caplog.records) == 2
    assert Topic.objects.get(name="odd").filter_type == "X" * 32
    (found,) = [each for each in findings() if each.code is FindingCode.MIRROR_FLAWED]
    assert found.value == 2
    assert "gone\\u0000: left out" in found.detail
    assert "odd: not as the broker has it: filter_type" in found.detail
    odd.more = {}
    restarted = Mirror(odd)
    following.close()
    restarted.run_once()
    assert [flaw["name"] for flaw in MirrorState.objects.get().flaws] == ["gone\\u0000", "odd"], "kept over a restart"
    odd.more = {"topics": [topic("odd", topicFilterType="MULTI_TAG")]}
    restarted.run_once()
    assert Topic.objects.get(name="odd").filter_type == "MULTI_TAG"
    assert [flaw["name"] for flaw in MirrorState.objects.get().flaws] == ["gone\\u0000"]
    restarted.close()


def findings() -> list[Any]:
    of = cluster()
    return list(findings_of(of, [Watched(here, None, (), ServerFacts()) for here in of.brokers], ()))


def test_what_the_database_refuses_for_reasons_of_its_own_is_left_out_alone(following: Mirror, odd: Odd) -> None:
    following.run_once()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE broker_topic ADD CONSTRAINT cursed CHECK (name NOT LIKE 'cursed%')")
    try:
        for number in range(20):
            odd.create_topic(f"{'cursed' if number in (3, 11) else 'fine'}-{number}", queues=1)
        following.run_once()
        assert Topic.objects.filter(name__startswith="fine-").count() == 18
        flaws = MirrorState.objects.get().flaws
        assert [flaw["name"] for flaw in flaws] == ["cursed-11", "cursed-3"]
        assert "left out" in flaws[0]["why"]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE broker_topic DROP CONSTRAINT cursed")
    odd.create_topic("cursed-3", queues=2)
    following.run_once()
    assert Topic.objects.get(name="cursed-3").read_queues == 2
    assert [flaw["name"] for flaw in MirrorState.objects.get().flaws] == ["cursed-11"]


class Apache(Admin):
    """A client of a broker without request 14000, whose tables hold what another tool put there."""

    def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
        raise NotSupported(3, "request type 14000 not supported")

    def topics(self) -> Any:
        odd = [
            TopicConfig(text, 1, 1, 6, "broker-a", attributes={text: text})
            for text in ("nul\0", "half\ud800", "y" * 300)
        ] + [TopicConfig("odd", 1 << 40, -1, 1 << 33, "broker-a", attributes={"a\0": "\ud800" * 9})]
        return [*super().topics(), *odd]

    def groups(self) -> Any:
        return [*super().groups(), GroupConfig("nul\0", 1 << 40, 1, True, True, False, "broker-a")]

    def runtime(self) -> Any:
        return {**super().runtime(), "brokerVersionDesc": "V\0" * 99, "bootTimestamp": str(1 << 90)}


def test_a_broker_that_is_polled_stops_it_no_more(
    transactional_db: None, broker: RunningBroker, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.mirror.changes.LISTING_INTERVAL_MS", 0)
    admin.create_topic("orders", queues=2)
    with Apache(broker.namesrv) as source:
        mirror = Mirror(source)
        for _ in range(3):
            assert mirror.run_once().polling
        mirror.close()
    assert Queue.objects.filter(topic="orders").count() == 2
    assert Topic.objects.get(name="odd").attributes == {"a�": "�" * 9}
    assert not ConsumerGroup.objects.filter(name__startswith="nul").exists()
    assert {flaw["name"] for flaw in MirrorState.objects.get().flaws} >= {"nul\\u0000", "half\\ud800", "odd"}


def test_a_store_that_another_broker_filled_is_mirrored(transactional_db: None, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with running_broker(root) as first, Admin(first.namesrv) as admin:
        admin.create_topic("orders", queues=1)
    path = root / "config" / "topics.json"
    value = json_file.parse(path.read_bytes())
    value["topicConfigTable"]["odd"] = topic(
        "odd", topicFilterType="X" * 40, perm=1 << 40, attributes={"a\0b": "\ud800", "long": "y" * 100_000}
    )
    path.write_text(json.dumps(value))
    with running_broker(root) as second, Admin(second.namesrv) as admin:
        mirror = Mirror(admin)
        mirror.run_once()
        admin.create_topic("later", queues=1)
        mirror.run_once()
        mirror.close()
    row = Topic.objects.get(name="odd")
    assert (row.filter_type, row.permission) == ("X" * 32, (1 << 31) - 1)
    assert row.attributes == {"a�b": "�", "long": "y" * 4_096}
    assert {"orders", "later"} <= set(Topic.objects.values_list("name", flat=True))
    assert ConsumerOffset.objects.count() == 0


def test_what_nobody_thought_of_ends_a_reading_and_not_the_mirror(
    transactional_db: None, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # half a character in a captured log is more than the processes of a test run can tell each other
    monkeypatch.setattr(logging.getLogger("broker"), "propagate", False)
    stop = threading.Event()
    calls: list[int] = []

    class Surprising(Admin):
        def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("out of the\0blue \ud800")
            if len(calls) == 4:
                stop.set()
            return dict(super().changes(token))

    with Surprising(broker.namesrv) as source:
        Mirror(source).run(stop)
    assert len(calls) >= 4
    assert MirrorState.objects.get().error == ""
