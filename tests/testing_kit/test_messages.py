"""What a test sees: messages that were sent, those that wait, and clear words where one is missing."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from broker.client import (
    AsyncTransactionProducer,
    Consumer,
    Decision,
    InvalidArgument,
    Message,
    Producer,
    TransactionProducer,
    prepare,
)
from broker.testing import Escapement, make_message
from tests.house.sources import ROOT


def test_messages_are_seen_with_all_that_was_sent(escapement: Escapement, producer: Producer) -> None:
    producer.send("orders", '{"number": 4711}', tag="paid", keys=["4711", "a"], properties={"country": "DE"})
    (message,) = escapement.sent
    assert (message.topic, message.body, message.text) == ("orders", b'{"number": 4711}', '{"number": 4711}')
    assert message.json() == {"number": 4711}
    assert (message.tag, message.keys, message.key, message.properties) == (
        "paid", ["4711", "a"], "4711", {"country": "DE"},
    )  # fmt: skip
    assert message.message.topic == "orders"


def test_messages_are_seen_in_the_order_in_which_they_came(escapement: Escapement, producer: Producer) -> None:
    for number in range(9):
        producer.send(f"topic-{number % 2}", str(number))
    assert [each.text for each in escapement.sent] == list("012345678")
    assert [each.text for each in escapement.sent("topic-1")] == list("1357")
    assert escapement.sent("nothing") == ()


def test_what_waits_is_told_with_its_kind_and_moment(escapement: Escapement) -> None:
    escapement.send("orders", "timer", delay_ms=10_000, schedule_key="4711")
    escapement.send("orders", "level", delay_level=2)
    with TransactionProducer("shop", escapement.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        half = producer.send_half("paid", prepare("half", tag="t"))
        now = escapement.now
        assert [(each.kind, each.topic, each.text, each.due) for each in escapement.pending] == [
            ("delay", "orders", "level", now + timedelta(seconds=5)),
            ("half", "paid", "half", now + timedelta(seconds=6)),
            ("timer", "orders", "timer", now + timedelta(seconds=10)),
        ]
        assert escapement.pending("orders")[1].schedule_key == "4711"
        assert escapement.sent == ()
        producer.end(half, Decision.COMMIT)
    escapement.forward(seconds=10)
    escapement.assert_nothing_pending()
    assert [each.text for each in escapement.sent] == ["half", "level", "timer"]


def test_a_producer_is_asked_about_its_half_when_it_is_time(escapement: Escapement) -> None:
    asked: list[bytes] = []

    def check(message: Message) -> Decision:
        asked.append(message.body)
        return Decision.UNKNOWN if len(asked) == 1 else Decision.COMMIT

    with TransactionProducer("shop", escapement.namesrv, check=check) as producer:
        producer.send_half("paid", prepare("4711"))
        escapement.forward(seconds=5)
        assert asked == []
        escapement.forward(seconds=2)
        assert asked == [b"4711"]
        escapement.assert_nothing_sent()
        escapement.forward(minutes=1)
    assert asked == [b"4711", b"4711"]
    escapement.assert_sent("paid", body="4711")
    escapement.assert_nothing_pending()


async def test_a_producer_in_the_loop_of_the_test_is_asked_too(escapement: Escapement) -> None:
    async def check(message: Message) -> Decision:
        return Decision.COMMIT

    async with AsyncTransactionProducer("shop", escapement.namesrv, check=check) as producer:
        await producer.send_half("paid", prepare("4711"))
        await escapement.aforward(seconds=7)
    escapement.assert_sent("paid", body="4711")


def test_a_half_whose_producer_knows_nothing_is_parked_at_last(escapement: Escapement) -> None:
    with TransactionProducer("shop", escapement.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("paid", prepare("4711"))
        escapement.forward(hours=1)
    (parked,) = escapement.pending
    assert (parked.kind, parked.topic, parked.text, parked.due) == ("parked half", "paid", "4711", None)


@pytest.mark.parametrize(
    "wanted",
    [
        {}, {"body": '{"n":1}'}, {"body": b'{"n":1}'}, {"json": {"n": 1}}, {"tag": "paid"}, {"key": "b"},
        {"properties": {"x": "1"}},
    ],
)  # fmt: skip
def test_a_message_is_found_by_any_part_of_it(escapement: Escapement, wanted: dict[str, object]) -> None:
    escapement.send("orders", json={"n": 1}, tag="paid", keys=["a", "b"], properties={"x": "1", "y": "2"})
    (found,) = escapement.assert_sent("orders", **wanted)  # type: ignore[arg-type] # one of them
    assert found.json() == {"n": 1}
    escapement.assert_sent("others", **wanted, times=0)  # type: ignore[arg-type] # one of them


@pytest.mark.parametrize(
    "wanted", [{"body": "1"}, {"json": 1}, {"tag": None}, {"tag": "open"}, {"key": "a b"}, {"properties": {"x": "2"}}]
)
def test_a_message_that_differs_is_not_found(escapement: Escapement, wanted: dict[str, object]) -> None:
    escapement.send("orders", "no json", tag="paid", keys=["a", "b"], properties={"x": "1"})
    with pytest.raises(AssertionError, match=r"Expected 1 message to orders with .*, found 0"):
        escapement.assert_sent("orders", **wanted)  # type: ignore[arg-type] # one of them


def test_what_is_missing_is_said_with_all_that_is_there(escapement: Escapement) -> None:
    escapement.send("orders", "4711", tag="paid", keys=["k"])
    escapement.send("orders", "later", delay_ms=60_000)
    with pytest.raises(AssertionError) as failure:
        escapement.assert_sent("orders", body="later", times=2)
    said = str(failure.value)
    assert "Expected 2 messages to orders with body 'later', found 0." in said
    assert "orders, '4711', tag paid, keys k" in said
    assert "timer, " in said
    assert "orders, 'later'" in said


def test_nothing_is_asserted_in_either_way(escapement: Escapement) -> None:
    escapement.assert_nothing_sent()
    escapement.assert_nothing_pending()
    escapement.send("orders", "a")
    escapement.send("others", "b", delay_ms=60_000)
    escapement.assert_nothing_sent("others")
    escapement.assert_nothing_pending("orders")
    escapement.assert_pending("others", body="b")
    with pytest.raises(AssertionError, match="Expected no message, there are\n  orders, 'a'"):
        escapement.assert_nothing_sent()
    with pytest.raises(AssertionError, match="Expected nothing pending for others, but\n  timer, "):
        escapement.assert_nothing_pending("others")


def test_nothing_of_one_test_is_in_the_next() -> None:
    addresses = set()
    for _ in range(3):
        with Escapement() as escapement:
            addresses.add(escapement.namesrv)
            assert (escapement.sent, escapement.pending) == ((), ())
            escapement.send("orders", "4711")
            escapement.send("orders", "4711", delay_ms=60_000)
    assert len(addresses) == 1


def test_a_producer_that_is_kept_for_good_finds_the_broker_of_each_test() -> None:
    kept: list[Producer] = []
    try:
        for number in range(5):
            with Escapement() as escapement:
                if not kept:
                    kept.append(Producer("shop", escapement.namesrv))
                kept[0].send("orders", str(number))
                escapement.assert_sent("orders", body=str(number))
    finally:
        kept[0].close()


def test_one_runs_at_a_time(escapement: Escapement) -> None:
    with pytest.raises(RuntimeError, match="one at a time"), Escapement():
        pass
    with pytest.raises(RuntimeError, match="runs already"):
        escapement.__enter__()
    ended = Escapement()
    with pytest.raises(RuntimeError, match="does not run"):
        ended.sent  # noqa: B018 - a property
    escapement.send("orders", "still there")


def test_nothing_is_written_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Escapement() as escapement:
        escapement.send("orders", "4711")
    assert list(tmp_path.iterdir()) == []
    assert not Path("/store").exists()


def test_it_leaves_the_settings_of_the_interpreter_alone() -> None:
    before = gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval()
    with Escapement() as escapement:
        escapement.send("orders", "4711")
    assert (gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval()) == before


def test_a_consumer_that_still_runs_does_not_hide_why_a_test_failed() -> None:
    def fail(behind: ExitStack) -> None:
        with Escapement() as escapement:
            escapement.send("orders", "4711")
            consumer = Consumer("billing", escapement.namesrv)
            consumer.subscribe("orders", "*", print)
            behind.enter_context(consumer)
            raise ZeroDivisionError

    with ExitStack() as behind, pytest.raises(ZeroDivisionError):
        fail(behind)


FORKS = """
import os, signal
from broker.testing import Escapement

with Escapement() as escapement:
    escapement.send("orders", "of the parent")
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            with Escapement() as other:
                other.send("orders", "of the child")
                os._exit([each.text for each in other.sent] != ["of the child"])
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert [each.text for each in escapement.sent] == ["of the parent"]
"""


def test_a_forked_child_has_a_broker_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Made by hand.


def test_a_message_by_hand_is_as_a_handler_is_given_it() -> None:
    message = make_message(
        json={"n": 1}, topic="paid", tag="t", keys=["k"], properties={"x": "1"}, sharding_key="s", reconsume_times=2
    )
    assert (message.topic, message.body, message.tags, message.keys) == ("paid", b'{"n":1}', "t", ["k"])
    assert (message.properties["x"], message.reconsume_times) == ("1", 2)
    assert message.unique_key
    assert make_message("text").body == b"text"
    assert make_message().body == b""
    assert Escapement.make_message("text").topic == "orders"


def test_a_message_by_hand_is_refused_as_a_send_is() -> None:
    with pytest.raises(InvalidArgument):
        make_message(tag="a || b")
    with pytest.raises(InvalidArgument, match="body or json"):
        make_message("1", json=1)
