"""What is sent of a kombu message, and what Celery's headers say about when it is due."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from broker.celery.envelope import epoch_ms, parcel_of, raw_of
from broker.celery.naming import Names, key_of, tag_of
from broker.client import Message
from broker.client.names import check_tag, check_topic, check_writable_topic
from broker.rocketmq.topics import retry_topic

NOW_MS = 1_800_000_000_000
ZONES = some.sampled_from([UTC, timezone(timedelta(hours=8))])
#: between 2001 and 2500
MOMENTS = some.tuples(some.integers(10**15, 16 * 10**15), ZONES).map(
    lambda moment: datetime.fromtimestamp(0, moment[1]) + timedelta(microseconds=moment[0])
)


def task(eta: str | None, **more: object) -> dict[str, Any]:
    headers = {"task": "shop.remind", "id": "4711", "eta": eta, **more}
    return {"body": "[]", "headers": headers, "properties": {"delivery_mode": 2}}


def delivered(body: bytes) -> Message:
    """A message as a consumer of the topic `celery` gets it."""
    return Message("celery", 0, 0, 0, 0, body, {}, 0, 0, 0, ("127.0.0.1", 1), 0, ("127.0.0.1", 1), 0, 0)


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def test_a_task_without_an_eta_is_sent_as_it_is() -> None:
    message = task(None)
    parcel = parcel_of(message, NOW_MS)
    assert (parcel.due_ms, parcel.key, parcel.tag, parcel.keys) == (None, None, "shop.remind", ["4711"])
    assert json.loads(parcel.body) == message


def test_a_task_with_an_eta_is_a_timer_of_its_id_and_loses_the_eta() -> None:
    message = task(at(NOW_MS + 60_000))
    parcel = parcel_of(message, NOW_MS)
    assert (parcel.due_ms, parcel.key) == (NOW_MS + 60_000, "4711")
    headers = json.loads(parcel.body)["headers"]
    assert (headers["eta"], headers["timer"]) == (None, at(NOW_MS + 60_000))
    assert message["headers"]["eta"] is not None  # the caller's own is left alone: sending is tried again


def test_an_id_that_is_no_schedule_key_waits_without_one() -> None:
    parcel = parcel_of(task(at(NOW_MS + 60_000), id="x" * 201), NOW_MS)
    assert (parcel.due_ms, parcel.key) == (NOW_MS + 60_000, None)


@pytest.mark.parametrize("late_ms", [0, 1, 86_400_000])
def test_a_moment_that_is_past_is_no_timer(late_ms: int) -> None:
    parcel = parcel_of(task(at(NOW_MS - late_ms)), NOW_MS)
    assert (parcel.due_ms, parcel.key) == (None, None)
    assert json.loads(parcel.body)["headers"]["eta"] is None


@pytest.mark.parametrize("eta", ["tomorrow", 17, ""])
def test_an_eta_that_is_none_is_left_to_the_worker(eta: Any) -> None:
    assert json.loads(parcel_of(task(eta), NOW_MS).body)["headers"]["eta"] == eta


def test_only_tasks_have_an_eta() -> None:
    message = {"body": "", "headers": {"eta": at(NOW_MS + 1000)}, "properties": {}}
    assert parcel_of(message, NOW_MS).due_ms is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"properties": {"delivery_info": "x"}}', b'{"properties": {"delivery_info": null}}',
        b'{"properties": {"delivery_info": {}}, "headers": [1]}', b'["properties"]',
        b'{"__type__": "decimal", "__value__": "x"}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_has_not_the_form_of_a_message_is_bytes_that_celery_does_not_know(body: bytes) -> None:
    raw = raw_of(delivered(body), is_again=True)
    assert (raw["body"], raw["content-type"]) == (body.decode(), "application/data")
    assert raw["properties"]["delivery_info"] == {"exchange": "", "routing_key": "celery", "redelivered": True}
    assert parcel_of(raw, NOW_MS).due_ms is None


def test_transient_messages_are_not_waited_for_on_the_disk() -> None:
    assert parcel_of(task(None)).is_durable
    assert not parcel_of(task(None) | {"properties": {"delivery_mode": 1}}).is_durable


@given(MOMENTS)
def test_a_timer_is_never_early_and_less_than_a_millisecond_late(moment: datetime) -> None:
    exact = (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)
    assert exact - 0.01 <= epoch_ms(moment) < exact + 1.01


def test_a_moment_without_a_zone_is_in_that_of_the_app() -> None:
    assert epoch_ms(datetime.fromisoformat("2027-01-01")) == epoch_ms(datetime(2027, 1, 1, tzinfo=UTC))


@given(some.text(min_size=1, max_size=300), some.integers(0, 9), some.sampled_from(["", "blue-"]))
def test_every_queue_has_a_topic_that_can_exist_and_be_tried_again(name: str, priority: int, prefix: str) -> None:
    names = Names(prefix, "celery")
    for topic in (names.queue(name, priority), names.fanout(name)):
        check_writable_topic(topic) if topic != name else check_topic(topic)
        check_topic(retry_topic("celery", topic))


@given(some.text(min_size=1, max_size=300), some.text(min_size=1, max_size=300))
def test_two_queues_never_share_a_topic(one: str, other: str) -> None:
    names = Names("", "celery")
    topics = {names.queue(one), names.queue(one, 1), names.fanout(one), names.replies, names.queue(other)}
    assert len(topics) == (4 if one == other else 5)


@given(some.text())
def test_tags_and_keys_are_what_brokers_take(text: str) -> None:
    if (tag := tag_of(text)) is not None:
        check_tag(tag)
    assert all(key == text for key in key_of(text))
