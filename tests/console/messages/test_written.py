"""What is written into the form of a message: taken as it is, or refused at its field."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from broker.client.names import MAX_PROPERTIES_BYTES
from broker.rocketmq.properties import PRODUCER_GROUP, TRANSACTION_PREPARED
from console.features.messages.written import (
    MOST_BODY_BYTES,
    body_bytes,
    checked_message,
    from_fields,
    lines_of,
    outgoing,
    properties_of,
)
from console.operations.errors import InvalidParameter

MOMENT_MS = 1_795_247_527_000


def asked(**sent: str) -> dict[str, Any]:
    """The parameters of what the form sends."""
    return checked_message(from_fields({"topic": "orders", "body_as": "text", "when": "now", **sent}))


def refused(given: Mapping[str, Any], *, is_form: bool = True) -> InvalidParameter:
    with pytest.raises(InvalidParameter) as error:
        checked_message(from_fields({"topic": "orders", **given}) if is_form else given)
    return error.value


def test_only_what_was_given_is_kept() -> None:
    assert asked(body="") == {"topic": "orders", "body": ""}
    whole = {
        "body": '{"a": 1.10}', "body_as": "json", "keys": " order-1  paid ", "tag": "new",
        "properties": "a=b = c\n\nd=", "sharding_key": "7", "when": "moment",
        "moment": "+90 min", "schedule_key": "order 1",
        "on_conflict": "replace", "half": "1", "producer_group": "shop",
    }  # fmt: skip
    assert asked(**whole) == {
        "topic": "orders", "body": '{"a": 1.10}', "body_as": "json", "keys": ["order-1", "paid"], "tag": "new",
        "properties": {"a": "b = c", "d": ""}, "sharding_key": "7", "delay_ms": 5_400_000, "schedule_key": "order 1",
        "on_conflict": "replace", "producer_group": "shop",
    }  # fmt: skip
    assert checked_message(asked(**whole)) == asked(**whole)


def test_what_the_choice_before_does_not_ask_for_is_left_aside() -> None:
    hidden = {"moment": "+1h", "schedule_key": "k", "on_conflict": "keep", "producer_group": "shop"}
    assert asked(body="x", **hidden) == {"topic": "orders", "body": "x"}
    assert asked(body="x", when="3", **hidden) == {"topic": "orders", "body": "x", "delay_level": 3}
    moment = {"moment": "2026-11-21T15:52:07+08:00", "schedule_key": "", "on_conflict": "keep"}
    assert asked(body="x", when="moment", **moment) == {"topic": "orders", "body": "x", "deliver_at_ms": MOMENT_MS}


def test_a_body_is_what_was_typed_and_not_what_a_browser_makes_of_its_lines() -> None:
    assert body_bytes(asked(body="a\r\nb")) == b"a\nb"
    assert body_bytes(asked(body="ü\n")) == "ü\n".encode()
    raw = bytes(range(256))
    written = base64.encodebytes(raw).decode().replace("\n", "\r\n")
    assert body_bytes(asked(body=written, body_as="base64")) == raw
    long = f'{{"n": {"9" * 5_000}}}'
    assert body_bytes(asked(body=long, body_as="json")) == long.encode()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("", "line 1, column 1"), ('{"a": 1,}', "line 1, column 9"), ('{\r\n  "a": tru\r\n}', "line 2, column 8"),
        ('{"NaN": "NaN",\n "b": NaN}', "line 2, column 7"), ("[1, -Infinity]", "line 1, column 5"),
        ("[1] 2", "line 1, column 5"),
    ],
)  # fmt: skip
def test_where_it_is_no_json_is_said(body: str, place: str) -> None:
    error = refused({"body": body, "body_as": "json"})
    assert error.field == "body"
    assert place in str(error)


def test_json_that_is_nested_too_deep_is_refused() -> None:
    assert refused({"body": "[" * 60_000 + "]" * 5_000, "body_as": "json"}).field == "body"


@pytest.mark.parametrize(
    ("body", "said"),
    [("aGk=\r\naG?=", "line 2, column 3: “?”"), ("aGk", "ends too early"), ("a===", "“=”"), ("aG=k", "“=”")],
)
def test_where_it_is_no_base64_is_said(body: str, said: str) -> None:
    error = refused({"body": body, "body_as": "base64"})
    assert error.field == "body"
    assert said in str(error)


def test_a_larger_body_is_sent_by_rest() -> None:
    assert len(body_bytes(asked(body="x" * MOST_BODY_BYTES))) == MOST_BODY_BYTES
    raw = base64.b64encode(bytes(MOST_BODY_BYTES)).decode()
    assert len(body_bytes(asked(body=raw, body_as="base64"))) == MOST_BODY_BYTES
    for sent in (
        {"body": "x" * (MOST_BODY_BYTES + 1)}, {"body": "ü" * 40_000}, {"body": "x" * 2_000_000},
        {"body": base64.b64encode(bytes(MOST_BODY_BYTES + 1)).decode(), "body_as": "base64"},
    ):  # fmt: skip
        error = refused(sent)
        assert error.field == "body"
        assert "POST /api/v1/topics/orders/messages" in str(error)
        assert "65,536" in str(error)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"body": "a\0b"}, "body"), ({"body": "\ud800"}, "body"), ({"tag": "two words"}, "tag"),
        ({"tag": "a|b"}, "tag"), ({"tag": "a\x01b"}, "tag"), ({"keys": "a\x02b"}, "keys"), ({"keys": "a\0"}, "keys"),
        ({"properties": "no sign"}, "properties"), ({"properties": "a=1\na=2"}, "properties"),
        ({"properties": "=1"}, "properties"), ({"properties": "TAGS=x"}, "properties"),
        ({"properties": "DELAY=3"}, "properties"), ({"properties": "ESC_SCHEDULE_KEY=x"}, "properties"),
        ({"properties": "a=\x01"}, "properties"), ({"properties": "a=" + "x" * MAX_PROPERTIES_BYTES}, "properties"),
        ({"when": "soon"}, "when"), ({"when": "19"}, "when"), ({"when": "-1"}, "when"),
        ({"when": "moment", "moment": ""}, "moment"), ({"when": "moment", "moment": "1x"}, "moment"),
        ({"when": "moment", "moment": "-1h"}, "moment"), ({"when": "moment", "moment": "2026-11-21T15:00"}, "moment"),
        ({"when": "moment", "moment": "+1h", "schedule_key": "k" * 201}, "schedule_key"),
        ({"when": "moment", "moment": "+1h", "schedule_key": "k", "on_conflict": "other"}, "on_conflict"),
        ({"half": "1", "producer_group": ""}, "producer_group"),
        ({"half": "1", "producer_group": "no!"}, "producer_group"),
        ({"half": "1", "producer_group": "g", "when": "moment", "moment": "+1h", "schedule_key": "k"}, "on_conflict"),
        ({"topic": "no topic"}, "topic"), ({"topic": "%RETRY%billing"}, "topic"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "topic"), ({"topic": ""}, "topic"), ({"body_as": "xml"}, "body_as"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_of_its_field(sent: dict[str, str], field: str) -> None:
    error = refused({"body": "x", **sent})
    assert (error.field, bool(str(error))) == (field, True)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"body": 5}, "body"), ({"keys": "a b"}, "keys"), ({"keys": ["a b"]}, "keys"), ({"keys": [1]}, "keys"),
        ({"properties": [1]}, "properties"), ({"properties": {"a": 1}}, "properties"),
        ({"delay_level": True}, "when"), ({"delay_level": "3"}, "when"), ({"delay_ms": -1}, "moment"),
        ({"delay_level": 3, "delay_ms": 5}, "when"), ({"schedule_key": "k"}, "schedule_key"),
        ({"topic": None}, "topic"),
        ({"schedule_key": "k", "delay_level": 3}, "schedule_key"),
    ],
)  # fmt: skip
def test_parameters_of_other_callers_are_checked_as_well(more: dict[str, Any], field: str) -> None:
    assert refused({"topic": "orders", "body": "x", **more}, is_form=False).field == field


def test_a_half_carries_its_group() -> None:
    stored = outgoing(asked(body="x", half="1", producer_group="shop")).properties
    assert f"{TRANSACTION_PREPARED}\x01true" in stored
    assert f"{PRODUCER_GROUP}\x01shop" in stored


def test_properties_become_lines_and_lines_properties() -> None:
    whole = {"a": "b", "note": "x = y", "empty": ""}
    assert properties_of(lines_of(whole)) == whole
    odd = {"a=b": "c", "two": "lines\nhere", " blank ": "x", "end": "x "}
    assert lines_of({**odd, "a": "b"}) == "a=b"


def test_the_parameters_are_kept_as_json() -> None:
    given = asked(body="x", properties="a=b", keys="k")
    assert json.loads(json.dumps(given)) == given
