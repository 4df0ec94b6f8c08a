"""Every operation of the table asked for with every token: what it needs is asked for before a handler runs.

The answer that is due is worked out of the table, never of the handlers: an operation that is added is in here with
its address, and fails where nobody said what a request to it looks like.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest
import redis

from broker.server.broker import BrokerService
from console.features.alerts.rest import AlertRuleChange, NewAlertRule, NewSilence
from console.features.checkback.rest import CheckAddressChange, NewCheckAddress
from console.features.groups.rest_consuming_schemas import Acknowledge, Extend, GiveBack, Receive
from console.features.redisson.read import hang_up as hang_up_redis
from console.features.redisson.rest import (
    LaterValues,
    ManyValues,
    MovedValues,
    NewValue,
    PoisonValues,
    QueueReason,
    QueueTopic,
)
from console.features.timers.rest_bulk_schemas import ManyMoved, ManyTimers, SwitchReason, TakenBack
from console.features.timers.rest_schemas import NewMoment
from console.features.topics.rest import GroupChange, NewGroup, NewTopic, TopicChange
from console.features.transactions.rest_schemas import DecisionReason, ManyTransactions, NewHalf
from console.rest.choice_schemas import ManyLetters, NewOffsets, Resend
from console.rest.identifiers import written
from console.rest.needs import EVERYWHERE, OVERVIEW, SOMEWHERE
from console.rest.routes import OPERATIONS, Operation
from console.rest.schemas import NewMessage, NewMessages
from console.security import tokens as security_tokens
from console.security.tokens import ACTIONS
from console.site.broker import hang_up

OWN, OTHER = "own-", "other-"
WHY = {"reason": "because"}
LATER = {"deliver_at": "2099-01-01T00:00:00Z"}
#: what a request says that names what begins with `side`
BODIES: Mapping[type[msgspec.Struct], Callable[[str], dict[str, Any]]] = {
    NewMessage: lambda side: {"body": "x"},
    NewMessages: lambda side: {"messages": [{"body": "x"}]},
    NewMoment: lambda side: LATER,
    Resend: lambda side: WHY,
    ManyTimers: lambda side: {"filter": {"topic": f"{side}t"}, **WHY},
    ManyMoved: lambda side: {"filter": {"topic": f"{side}t"}, **LATER, **WHY},
    SwitchReason: lambda side: WHY,
    TakenBack: lambda side: WHY,
    NewHalf: lambda side: {"topic": f"{side}t", "producer_group": f"{side}g", "message": {"body": "x"}},
    DecisionReason: lambda side: WHY,
    ManyTransactions: lambda side: {"filter": {"state": "open", "topic": f"{side}t"}, **WHY},
    Receive: lambda side: {"wait_ms": 0},
    Acknowledge: lambda side: {"receipts": ["none"]},
    GiveBack: lambda side: {"receipts": ["none"]},
    Extend: lambda side: {"receipts": ["none"], "invisible_ms": 30_000},
    ManyLetters: lambda side: {"filter": {"topic": f"{side}t"}, **WHY},
    NewOffsets: lambda side: {"to": "first", **WHY},
    NewTopic: lambda side: {"name": f"{side}t", **WHY},
    TopicChange: lambda side: {"settings": {"write_queues": 2}, **WHY},
    NewGroup: lambda side: {"name": f"{side}g", **WHY},
    GroupChange: lambda side: {"settings": {"retry_max_times": 3}, **WHY},
    NewCheckAddress: lambda side: {"producer_group": f"{side}g", "url": "https://shop.example/checks", **WHY},
    CheckAddressChange: lambda side: {"enabled": False, **WHY},
    NewAlertRule: lambda side: {"settings": {"name": "n", "what": "backlog", "limit": 1}, **WHY},
    AlertRuleChange: lambda side: {"settings": {"is_on": False}, **WHY},
    NewSilence: lambda side: {"subject": f"{side}g", "until": "2099-01-01T00:00:00Z", **WHY},
    NewValue: lambda side: {"value": "x", "delay_ms": 3_600_000},
    ManyValues: lambda side: {"handles": ["none"], **WHY},
    LaterValues: lambda side: {"handles": ["none"], "shift_ms": 5, **WHY},
    PoisonValues: lambda side: WHY,
    MovedValues: lambda side: {"handles": ["none"], "to": f"{side}q", **WHY},
    QueueReason: lambda side: WHY,
    QueueTopic: lambda side: {"topic": f"{side}t", **WHY},
}
NUMBER = "00000000-0000-4000-8000-000000000000"
#: what stands in an address; `{id}` is an operation's number, or names a message of the topic
NAMED = {
    "topic": "{}t", "group": "{}g", "queue": "{}q", "schedule_key": "k1", "rule": "1", "silence": "1",
}  # fmt: skip
TOKENS = [
    ((), OWN),
    *(((action,), prefix) for action in ACTIONS for prefix in (OWN, "*")),
    (ACTIONS, OWN),
    (ACTIONS, "*"),
]


def path_of(operation: Operation, side: str, broker: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name != "id":
            return NAMED[name].format(side)
        return NUMBER if operation.narrows == "own" else written(broker, f"{side}t", 0, "A" * 32)

    return "/api/v1" + re.sub(r"{(\w+)}", value, operation.path)


def is_allowed(operation: Operation, actions: tuple[str, ...], prefix: str, side: str, in_body: str) -> bool:
    """As the table says it: each need is met, and what the handler narrows by begins as the token allows."""

    def has(action: str) -> bool:
        return action.partition(".")[0] in actions

    def begins(name: str) -> bool:
        return prefix == "*" or name.startswith(prefix)

    for need in operation.needed:
        if not any(map(has, need.actions)):
            return False
        if need.of == EVERYWHERE and prefix != "*":
            return False
        if need.of not in (SOMEWHERE, OVERVIEW, EVERYWHERE) and not begins(NAMED[need.of].format(side)):
            return False
    narrowed = {"id": side, "body": in_body}.get(operation.narrows or "", prefix)
    return begins(narrowed) or prefix == "*"


@pytest.fixture(autouse=True)
def around(service: BrokerService, valkey: str, settings: Any) -> Iterator[None]:
    """The console's operations ask the broker of this test, and a real Redis."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    with redis.Redis.from_url(valkey) as server:
        server.flushall()
        yield
        server.flushall()
    hang_up()
    hang_up_redis()


def test_every_operation_says_what_it_needs_and_what_bounds_it() -> None:
    for operation in OPERATIONS:
        for need in operation.needed:
            assert need.actions
            assert need.of in (SOMEWHERE, OVERVIEW, EVERYWHERE) or f"{{{need.of}}}" in operation.path, operation.path
        if all(need.of == SOMEWHERE for need in operation.needed):
            assert operation.narrows is not None, f"{operation.method} {operation.path} is bounded by nothing"
        if "{id}" in operation.path:
            assert operation.narrows in ("id", "own"), operation.path


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
def test_every_operation_has_its_request_in_this_file(operation: Operation) -> None:
    assert operation.takes is None or operation.takes in BODIES
    assert set(re.findall(r"{(\w+)}", operation.path)) <= {*NAMED, "id"}


@pytest.mark.parametrize(
    ("actions", "prefix"), TOKENS, ids=lambda part: part if isinstance(part, str) else "+".join(part) or "none"
)
async def test_every_operation_is_answered_as_the_token_allows(
    anonymous: httpx.AsyncClient, service: BrokerService, actions: tuple[str, ...], prefix: str, transactional_db: None
) -> None:
    for side in (OWN, OTHER):
        service.engine.topics.ensure(f"{side}t", 1)
    given = {action: [prefix] for action in actions}
    rows = security_tokens.scope_rows(
        **{name: given.get(name, ()) for name in ("publish", "read")},
        **{name: given.get(name, ()) for name in ("admin", "consume", "settings", "unmask")},
    )
    _row, token = await asyncio.to_thread(made, rows)
    anonymous.headers["authorization"] = f"Bearer {token}"
    broker = service.config.broker_name
    for operation in OPERATIONS:
        for side, in_body in ((OWN, OWN), (OTHER, OTHER), (OWN, OTHER)):
            said = None if operation.takes is None else BODIES[operation.takes](in_body)
            path = path_of(operation, side, broker)
            answer = await anonymous.request(operation.method, path, json=said)
            where = f"{operation.method} {path} {said}: {answer.status_code} {answer.text[:300]}"
            if is_allowed(operation, actions, prefix, side, in_body):
                assert answer.status_code not in (401, 403, 500), where
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), where
            if prefix == OWN and side == in_body == OWN:
                assert OTHER not in answer.text, where


async def test_without_a_token_every_operation_is_refused(anonymous: httpx.AsyncClient, service: BrokerService) -> None:
    for operation in OPERATIONS:
        said = None if operation.takes is None else BODIES[operation.takes](OWN)
        answer = await anonymous.request(operation.method, path_of(operation, OWN, "broker-a"), json=said)
        assert (answer.status_code, answer.json()["code"]) == (401, "token_missing"), operation.path


def made(rows: list[dict[str, Any]]) -> Any:
    from django.db import connection

    try:
        return security_tokens.create("test", rows)
    finally:
        connection.close()
