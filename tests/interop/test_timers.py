"""Timers of the official Java client 5.5.0, against Apache RocketMQ and against our broker: the same must happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client.timers import read_handle
from tests.interop.process import ChildFailed
from tests.interop.programs import JavaConsumer, JavaScheduler, Program
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

CLIENT = "5.5.0"
Consume = Callable[..., JavaConsumer]
# Apache RocketMQ rounds up to the second and takes some hundred ms more; a loaded machine adds its own.
LATENESS_LIMIT_MS = 4_000
HOUR_MS = 3_600_000
ELEVEN_YEARS_MS = 11 * 366 * 24 * HOUR_MS


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="session")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server], JavaScheduler]]:
    """One Java producer a server, kept for the whole run."""
    work = tmp_path_factory.mktemp("schedulers")
    kept: dict[str, JavaScheduler] = {}

    def of(server: Server) -> JavaScheduler:
        if server.namesrv not in kept:
            kept[server.namesrv] = JavaScheduler(server.namesrv, f"scheduler-{len(kept)}", work=work)
        return kept[server.namesrv]

    yield of
    for one in kept.values():
        one.child.kill()


@pytest.fixture
def scheduler(schedulers: Callable[[Server], JavaScheduler], server: Server) -> JavaScheduler:
    return schedulers(server)


@pytest.fixture
def consumer(server: Server, scheduler: JavaScheduler, consume: Consume, topic: str, group: str) -> JavaConsumer:
    """A consumer that has received one message, so that everything after it comes without waiting for queues."""
    scheduler.send(topic, "first", at=now_ms() - 1_000)
    started = consume(server, group, topic, version=CLIENT)
    started.receive(1)
    return started


@pytest.fixture
def states(tmp_path: Path) -> Iterator[Program]:
    """RocketMQ's own way to ask for checkpoint and metrics."""
    program = Program("TimerState", [], version=CLIENT, work=tmp_path)
    yield program
    program.child.kill()


def bodies(consumer: JavaConsumer) -> list[str]:
    return [event["body"] for event in consumer.events("message")]


def test_timers_arrive_at_their_moment_and_never_early(
    scheduler: JavaScheduler, consumer: JavaConsumer, topic: str
) -> None:
    began_ms = now_ms()
    at_ms = began_ms + 4_321
    dues = {"seconds": began_ms + 2_000, "millis": began_ms + 3_210, "moment": at_ms}
    handles = [
        scheduler.send(topic, "seconds", sec=2)["handle"],
        scheduler.send(topic, "millis", ms=3_210)["handle"],
        scheduler.send(topic, "moment", at=at_ms)["handle"],
    ]
    arrived = {event["body"]: event for event in consumer.receive(4)}
    for body, due_ms in dues.items():
        assert 0 <= arrived[body]["arrivedMs"] - due_ms < LATENESS_LIMIT_MS, body
        assert arrived[body]["storeMs"] >= due_ms
        assert arrived[body]["properties"]["REAL_TOPIC"] == topic
        assert int(arrived[body]["properties"]["TIMER_OUT_MS"]) < arrived[body]["storeMs"]
    assert arrived["seconds"]["properties"]["TIMER_DELAY_SEC"] == "2"
    assert arrived["millis"]["properties"]["TIMER_DELAY_MS"] == "3210"
    assert arrived["moment"]["properties"]["TIMER_DELIVER_MS"] == str(at_ms)
    assert arrived["moment"]["properties"]["TIMER_OUT_MS"] == str((at_ms - 1) // 1000 * 1000)
    named = [read_handle(handle) for handle in handles]
    assert {(handle.topic, handle.broker) for handle in named} == {(topic, "broker-a")}
    assert [handle.unique_key for handle in named] == [arrived[body]["msgId"] for body in dues]
    assert named[2].timestamp_ms == (at_ms - 1) // 1000 * 1000 + 1


def test_of_several_moments_one_counts(scheduler: JavaScheduler, consumer: JavaConsumer, topic: str) -> None:
    later_ms = now_ms() + HOUR_MS
    scheduler.send(topic, "sec", TIMER_DELIVER_MS=later_ms, TIMER_DELAY_MS=HOUR_MS, TIMER_DELAY_SEC=1)
    scheduler.send(topic, "ms", TIMER_DELIVER_MS=later_ms, TIMER_DELAY_MS=1_000)
    leveled = scheduler.send(topic, "level", TIMER_DELIVER_MS=later_ms, level=1)
    assert sorted(event["body"] for event in consumer.receive(4)) == ["first", "level", "ms", "sec"]
    assert leveled["handle"] is None


def test_a_moment_in_the_past_is_delivered_at_once(
    scheduler: JavaScheduler, consumer: JavaConsumer, topic: str
) -> None:
    past_ms = now_ms() - 60_000
    sent = scheduler.send(topic, "past", at=past_ms)
    arrived = consumer.receive(2)[1]
    assert sent["handle"] is None
    assert arrived["properties"]["TIMER_DELIVER_MS"] == str(past_ms)
    assert "TIMER_OUT_MS" not in arrived["properties"]
    assert arrived["queueOffset"] == sent["queueOffset"]


@pytest.mark.parametrize(
    "timing",
    [{"TIMER_DELIVER_MS": "soon"}, {"TIMER_DELAY_SEC": "1.5"}, {"TIMER_DELAY_MS": "NaN"},
     {"TIMER_DELIVER_MS": "9" * 19}, {"TIMER_DELAY_SEC": str(ELEVEN_YEARS_MS // 1000)}],
    ids=str,
)  # fmt: skip
def test_moments_that_cannot_be_are_refused_with_13(
    scheduler: JavaScheduler, topic: str, timing: dict[str, str]
) -> None:
    with pytest.raises(ChildFailed, match="MQBrokerException 13"):
        scheduler.send(topic, "never", **timing)


def test_a_recalled_message_does_not_come(scheduler: JavaScheduler, consumer: JavaConsumer, topic: str) -> None:
    due_ms = now_ms() + 5_000
    kept = scheduler.send(topic, "kept", at=due_ms)
    taken = scheduler.send(topic, "taken back", at=due_ms)
    scheduler.send(topic, "after", at=due_ms + 2_000)
    assert scheduler.recall(topic, taken["handle"]) == taken["msgId"]
    assert scheduler.recall(topic, taken["handle"]) == taken["msgId"]
    assert [event["body"] for event in consumer.receive(3)] == ["first", "kept", "after"]
    with pytest.raises(ChildFailed, match="604"):
        scheduler.recall(topic, kept["handle"])


def test_handles_that_cannot_be_are_refused_with_604(
    scheduler: JavaScheduler, consumer: JavaConsumer, topic: str
) -> None:
    handle = scheduler.send(topic, "far", ms=HOUR_MS)["handle"]
    scheduler.send("Elsewhere", "far", ms=HOUR_MS)
    for wrong_topic, wrong in ((topic, "nonsense"), ("Elsewhere", handle)):
        with pytest.raises(ChildFailed, match=r"604|invalid|illegal"):
            scheduler.recall(wrong_topic, wrong)
    assert scheduler.recall(topic, handle)


def test_a_delete_message_takes_its_victim_away(scheduler: JavaScheduler, consumer: JavaConsumer, topic: str) -> None:
    due_ms = now_ms() + 5_000
    scheduler.send(topic, "kept", at=due_ms)
    victim = scheduler.send(topic, "deleted", at=due_ms)
    scheduler.send(topic, "after", at=due_ms + 2_000)
    assert scheduler.delete(topic, victim["msgId"], due_ms)["status"] == "SEND_OK"
    assert [event["body"] for event in consumer.receive(3)] == ["first", "kept", "after"]


def test_a_delete_message_for_something_unknown_has_no_effect(
    scheduler: JavaScheduler, consumer: JavaConsumer, topic: str
) -> None:
    due_ms = now_ms() + 4_000
    scheduler.send(topic, "kept", at=due_ms)
    assert scheduler.delete(topic, "0" * 32, due_ms)["status"] == "SEND_OK"
    assert [event["body"] for event in consumer.receive(2)] == ["first", "kept"]


def test_a_delete_message_for_the_past_is_refused(scheduler: JavaScheduler, topic: str) -> None:
    with pytest.raises(ChildFailed, match="MQBrokerException 13"):
        scheduler.delete(topic, "0" * 32, now_ms() - 1_000)


def test_checkpoint_and_metrics_say_what_waits(
    server: Server, scheduler: JavaScheduler, states: Program, topic: str
) -> None:
    def count() -> int:
        rows = states.ask("metrics", server.address, until="end")[:-1]
        return sum(row["count"] for row in rows if row["topic"] == topic)

    sent = scheduler.send(topic, "wait", ms=HOUR_MS, count=7)
    assert wait_until(lambda: count() == 7)
    scheduler.recall(topic, sent["handle"])
    assert wait_until(lambda: count() == 6)

    def checkpoint() -> dict[str, int]:
        return states.ask("checkpoint", server.address, until="end")[0]

    assert wait_until(lambda: checkpoint()["queueOffset"] > sent["queueOffset"])
    assert wait_until(lambda: abs(checkpoint()["readMs"] - now_ms()) < 10_000)


def test_the_topic_and_key_form_of_a_delete_is_taken_too(
    escapement: Server, schedulers: Callable[[Server], JavaScheduler], consume: Consume, topic: str, group: str
) -> None:
    """Apache RocketMQ takes it where appendTopicForTimerDeleteKey is switched on; here both forms always work."""
    scheduler = schedulers(escapement)
    due_ms = now_ms() + 3_000
    victim = scheduler.send(topic, "deleted", at=due_ms)
    scheduler.send(topic, "after", at=due_ms + 1_000)
    scheduler.delete(topic, f"{topic}+{victim['msgId']}", due_ms)
    assert consume(escapement, group, topic, version=CLIENT).receive(1)[0]["body"] == "after"
