"""The one table from errors to answers is complete, and tells nothing about the inside."""

from __future__ import annotations

import json
import re

import pytest

from broker.client import errors as client
from broker.client.errors import Answer
from console.rest import errors
from console.rest.responses import problem_answer
from tests.house.sources import ROOT


def every(kind: type[Exception]) -> list[type[Exception]]:
    """All subclasses, the kind itself left out."""
    return [each for direct in kind.__subclasses__() for each in (direct, *every(direct))]


@pytest.mark.parametrize("kind", [*every(errors.RequestError), *every(client.ClientError)])
def test_every_error_has_a_rule_of_its_own(kind: type[Exception]) -> None:
    assert kind in errors.RULES


def test_the_table_has_no_rule_for_what_does_not_exist() -> None:
    assert set(errors.RULES) <= {*every(errors.RequestError), *every(client.ClientError)}


@pytest.mark.parametrize("code", list(Answer))
def test_every_refusal_of_a_broker_is_an_error_with_a_code(code: int) -> None:
    rule = errors.rule_for(client.BrokerRefused(code, "its own words"))
    assert 400 <= rule.status <= 599
    assert rule.code


@pytest.mark.parametrize(
    ("code", "remark", "status"),
    [
        (14, "The disk is too full to take messages; consumers still drain, sends resume when space is free.", 507),
        (14, "service not available now. It may be caused by ...: the broker's disk is full [CL: 0.96 ...]", 507),
        (14, "The store is closed", 503),
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", 503),
        (13, "the message is illegal", 400),
        (16, "the broker's permission", 403),
        (17, "topic not exist", 404),
        (1, "system error", 502),
        (206, "something else", 502),
    ],
)
def test_refusals_keep_their_meaning(code: int, remark: str, status: int) -> None:
    assert errors.rule_for(client.BrokerRefused(code, remark)).status == status


def test_codes_mean_one_thing() -> None:
    statuses: dict[str, set[int]] = {}
    for rule in (*errors.RULES.values(), *errors.REFUSALS.values(), errors.DISK_FULL):
        statuses.setdefault(rule.code, set()).add(rule.status)
    assert all(len(found) == 1 for found in statuses.values())


def test_every_code_is_documented_with_its_status() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", (ROOT / "docs" / "REST.md").read_text(), re.MULTILINE)
    told = {(rule.code, rule.status) for rule in (*errors.RULES.values(), *errors.REFUSALS.values(), errors.DISK_FULL)}
    assert {(code, int(status)) for code, status in rows} == told


def test_what_was_not_foreseen_is_not_told() -> None:
    answer = problem_answer(ValueError("password=secret"))
    assert answer.status_code == 500
    assert b"secret" not in answer.body
    assert json.loads(answer.body)["code"] == "internal_error"


def test_waiting_times_are_told_in_a_header() -> None:
    assert problem_answer(errors.TooManyRequests()).headers["retry-after"] == "1"
    assert problem_answer(errors.TokenMissing()).headers["www-authenticate"].startswith("Bearer")
