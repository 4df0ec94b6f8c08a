"""RocketMQ's own mqadmin against Apache RocketMQ and against our broker: every subcommand says the same."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker.client import Admin
from tests.interop.conftest import running
from tests.interop.mqadmin import MqAdmin, Said
from tests.interop.mqadmin_commands import COVERS, ENDLESS, HEADS, OURS_ONLY, OUTLINE, SAME, STEPS, TRACED, Step
from tests.interop.programs import JavaConsumer, JavaProducer
from tests.interop.servers import SERVERS, Server
from tests.interop.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md"
#: Started one after the other until one sends.
PRODUCERS = 3
ROW = re.compile(r"^\| `(\w+)` \| (yes|no|with access control) \|", re.MULTILINE)


@dataclass(slots=True)
class Transcript:
    """All that was said at one server: by the number of the step, and its files."""

    said: dict[int, Said] = field(default_factory=dict)
    traced: Said | None = None
    subcommands: set[str] = field(default_factory=set)
    work: Path = Path()


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Transcript]:
    """Both servers' answers to the same commands; side by side, as mqadmin mostly waits for its own threads to end."""
    with ThreadPoolExecutor() as threads:
        waiting = {kind: threads.submit(transcript, kind, tmp_path_factory.mktemp(kind)) for kind in SERVERS}
        return {kind: one.result() for kind, one in waiting.items()}


def transcript(kind: str, work: Path) -> Transcript:
    with running(kind, work) as server:
        return transcript_of(server, work)


def transcript_of(server: Server, work: Path) -> Transcript:
    (work / "topics.json").write_text(json.dumps([topic("listed-1", 2), topic("listed-2", 3)]))
    (work / "groups.json").write_text(json.dumps([{"groupName": "listed", "retryMaxTimes": 3}]))
    producer = JavaProducer(server.namesrv, "writers", version="5.5.0", work=work)
    for number in range(8):
        sent = producer.send("orders", f"body {number}", tag="paid", keys=f"key-{number} all", queue_id=number % 4)
    other = producer.send("sent", "given back", queue_id=0)
    consumer = JavaConsumer(server.namesrv, "readers", "orders", version="5.5.0", work=work)
    consumer.receive(8)
    with Admin(server.namesrv) as admin:
        assert wait_until(lambda: has_consumed(admin), 30)
    admin_tool = MqAdmin(server.namesrv, server.address, work=work)
    (client,) = re.findall(r"\S+@one", admin_tool.say("consumerConnection -g readers").out)
    words = {
        "offset_id": sent["offsetMsgId"],
        "unique_id": sent["msgId"],
        "sent_id": other["offsetMsgId"],
        "client": client,
    }
    if server.name == "apache":
        # switched on when it starts only, as another setting allows to make up for now
        admin_tool.say("updateBrokerConfig -b {broker} -k validateSystemTopicWhenUpdateTopic -v false")
        admin_tool.say("updateTopic -b {broker} -t RMQ_SYS_TRACE_TOPIC -r 1 -w 1")
    result = Transcript(work=work, subcommands=admin_tool.subcommands())
    for first, steps in ((0, STEPS), (-len(ENDLESS), ENDLESS)):
        for number, step in enumerate(steps, first):
            result.said[number] = admin_tool.say(step.line, timeout_s=step.timeout_s, **words)
        admin_tool.child.kill()
        admin_tool = MqAdmin(server.namesrv, server.address, work=work)
    admin_tool.child.kill()
    result.traced = traced(server, work)
    for program in (producer, consumer):
        program.child.kill()
    return result


def traced(server: Server, work: Path) -> Said:
    """The trace of a traced send; a producer that has no answer within its three seconds is followed by another."""
    for _ in range(PRODUCERS):
        admin_tool = MqAdmin(server.namesrv, server.address, work=work)
        said = admin_tool.say(TRACED.line)
        if sent := re.findall(r"[0-9A-F]{32,}", said.out):
            wait_until(lambda: is_traced(admin_tool, sent[0]), 20)  # noqa: B023 (used at once)
            said = admin_tool.say(f"queryMsgTraceById -i {sent[0]}")
        admin_tool.child.kill()
        if sent:
            return said
    raise AssertionError(f"no answer to {PRODUCERS} producers; the last: {said.text}")


def topic(name: str, queues: int) -> dict[str, Any]:
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}


def has_consumed(admin: Admin) -> bool:
    return sum(row.consumer_offset for row in admin.consume_stats("readers").queues if row.queue.topic == "orders") == 8


def is_traced(admin_tool: MqAdmin, sent_id: str) -> bool:
    return "Pub" in admin_tool.say(f"queryMsgTraceById -i {sent_id}").out


def id_of(step: Step) -> str:
    return step.line[:60]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: id_of(STEPS[number]))
def test_a_command_says_what_it_says_at_apache_rocketmq(transcripts: dict[str, Transcript], number: int) -> None:
    step = STEPS[number]
    theirs, ours = (transcripts[kind].said[number] for kind in ("apache", "escapement"))
    assert theirs.ended
    assert ours.ended
    compare(step, theirs, ours)


def compare(step: Step, theirs: Said, ours: Said) -> None:
    if step.own:
        assert step.own in ours.text
    elif step.likeness == SAME:
        assert ours.text == theirs.text
    elif step.likeness == OUTLINE:
        assert sorted(ours.outline.splitlines()) == sorted(theirs.outline.splitlines())
    elif step.likeness == COVERS:
        assert not ours.err
        assert ours.names - OURS_ONLY <= theirs.names
        assert len(ours.names) > 1
    elif step.likeness == HEADS:
        assert ours.heads == theirs.heads
        assert ours.heads


def test_commands_without_end_say_the_same_meanwhile(transcripts: dict[str, Transcript]) -> None:
    for number, step in zip(range(-len(ENDLESS), 0), ENDLESS, strict=True):
        theirs, ours = (transcripts[kind].said[number] for kind in ("apache", "escapement"))
        assert ours.ended == theirs.ended, step.line
        assert set(ours.outline.splitlines()) == set(theirs.outline.splitlines()), step.line


def test_a_traced_message_is_found_by_its_trace(transcripts: dict[str, Transcript]) -> None:
    theirs, ours = (transcripts[kind].traced for kind in ("apache", "escapement"))
    assert theirs is not None
    assert ours is not None
    assert "Pub" in ours.out
    assert ours.outline == theirs.outline


@pytest.mark.parametrize("name", ["metadata.json", "topic.json", "subscriptionGroup.json", "configs.json"])
def test_an_exported_file_says_the_same(transcripts: dict[str, Transcript], name: str) -> None:
    theirs, ours = (
        json.loads((transcripts[kind].work / "export" / name).read_text()) for kind in ("apache", "escapement")
    )
    for one in (theirs, ours):
        one.pop("exportTime", None)
        one.pop("dataVersion", None)
    if name == "configs.json":
        known = ours["brokerConfigs"]["broker-a"]
        assert known.pop("traceTopicEnable") == "true"  # the topic is always there
        assert known.items() <= theirs["brokerConfigs"]["broker-a"].items()
        assert theirs["clusterScale"] == ours["clusterScale"]
    else:
        assert ours == theirs


def test_exported_metrics_have_the_same_shape(transcripts: dict[str, Transcript]) -> None:
    theirs, ours = (
        json.loads((transcripts[kind].work / "export" / "metrics.json").read_text())
        for kind in ("apache", "escapement")
    )
    assert shape(ours) == shape(theirs)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return type(value).__name__


def test_the_list_of_subcommands_is_complete_and_every_yes_is_run(transcripts: dict[str, Transcript]) -> None:
    listed = dict(ROW.findall(PAGE.read_text()))
    assert set(listed) == transcripts["apache"].subcommands
    run = {step.name for step in (*STEPS, TRACED, *ENDLESS)} | {"queryMsgTraceById"}
    with_own_answer = {"updateNamesrvConfig"}
    assert {name for name, word in listed.items() if word == "yes"} == run - with_own_answer
