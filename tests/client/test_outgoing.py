"""What may be sent: refused here, before anything leaves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.client import MessageOptions, Outgoing, prepare
from broker.client._outgoing import ready_message
from broker.client.errors import InvalidArgument
from broker.client.names import MAX_BODY_BYTES, check_group, check_topic, check_writable_topic
from broker.rocketmq.properties import parse_properties


def test_properties_have_the_stored_form() -> None:
    message = prepare("a", tag="T", keys=["k1", "k2"], properties={"farbe": "红"}, delay_level=3, wait_for_disk=False)
    assert parse_properties(message.properties.encode()) == {
        "UNIQ_KEY": message.message_id, "WAIT": "false", "TAGS": "T", "KEYS": "k1 k2", "DELAY": "3", "farbe": "红",
    }  # fmt: skip


def test_the_largest_body_is_accepted_and_one_byte_more_is_not() -> None:
    assert len(prepare(bytes(MAX_BODY_BYTES)).body) == MAX_BODY_BYTES
    with pytest.raises(InvalidArgument, match="4,194,305"):
        prepare(bytes(MAX_BODY_BYTES + 1))


def test_properties_fit_exactly_or_are_refused() -> None:
    fixed = len(prepare("").properties.encode()) + len("p\x01\x02")
    assert len(prepare("", properties={"p": "x" * (32_767 - fixed)}).properties) == 32_767
    with pytest.raises(InvalidArgument, match="32,768"):
        prepare("", properties={"p": "x" * (32_768 - fixed)})


def test_the_size_of_properties_is_counted_in_bytes() -> None:
    with pytest.raises(InvalidArgument, match="bytes"):
        prepare("", properties={"p": "红" * 11_000})


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("tag", {"tag": ""}), ("tag", {"tag": "a b"}), ("tag", {"tag": "a|b"}), ("tag", {"tag": "a\x01"}),
        ("keys", {"keys": "one"}), ("keys", {"keys": ["a b"]}), ("keys", {"keys": [""]}), ("keys", {"keys": ["a\x02"]}),
        ("delay_level", {"delay_level": -1}), ("delay_level", {"delay_level": True}),
        ("delay_level", {"delay_level": 2**31}), ("delay_level", {"delay_level": 1.5}),
        ("properties", {"properties": {"": "x"}}), ("properties", {"properties": {"a": "x\x01"}}),
        ("properties", {"properties": {"a\x02": "x"}}), ("properties", {"properties": {"a": 1}}),
        ("properties", {"properties": {"DELAY": "5"}}), ("properties", {"properties": {"REAL_TOPIC": "x"}}),
        ("properties", {"properties": {"ESC_SOURCE": "1"}}), ("properties", {"properties": {"a": "\ud800"}}),
        ("group", {"group": "a b"}), ("body", {"body": 5}), ("body", {"body": "\ud800"}),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_by_field(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        prepare(**({"body": ""} | arguments))
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "a" * 128, "a.b", "topic\n", "töpic", 'a"b', "a\\b"])
def test_names_that_cannot_exist_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        check_topic(name)


def test_the_longest_names_are_accepted() -> None:
    check_topic("t" * 127)
    check_group("g" * 120)
    with pytest.raises(InvalidArgument):
        check_group("g" * 121)


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"])
def test_the_brokers_own_topics_are_not_written(name: str) -> None:
    with pytest.raises(InvalidArgument, match="belongs to the broker"):
        check_writable_topic(name)


def test_a_message_that_is_made_takes_a_queue_and_nothing_else() -> None:
    made = prepare("x", tag="a", sharding_key="4711")
    assert ready_message(made, {}) is made
    elsewhere = ready_message(made, {"queue_id": 3})
    assert (elsewhere.queue_id, elsewhere.message_id, elsewhere.properties) == (3, made.message_id, made.properties)
    for options in ({"tag": "b"}, {"queue_id": 1, "delay_ms": 5}, {"queue_id": -1}):
        with pytest.raises(InvalidArgument) as refused:
            ready_message(made, cast(MessageOptions, options))
        assert refused.value.field in options
    assert ready_message("x", {"tag": "b"}).properties.endswith("TAGS\x01b\x02")


def test_a_message_that_was_kept_is_the_one_that_was_made() -> None:
    made = prepare("x", tag="a", keys=["k"], sharding_key="4711", group="g")
    assert Outgoing.of_stored(made.body, made.properties, made.message_id, "g") == made
