"""Every route asked for with every token: what it declares is asked of the token before a handler runs.

The answer that is due is worked out of the declarations, never of the handlers: a route that is added is in here with
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
from django.db import connection

from broker.client import AsyncAdmin
from broker.server.broker import BrokerService
from console.features.access.rest import (
    BrokerUserChange,
    NewBrokerUser,
    NewPolicy,
    OldSecretEnd,
    PolicyEnd,
    SecretRotation,
)
from console.features.alerts.models import AlertRule, Silence
from console.features.alerts.rest import AlertRuleChange, NewAlertRule, NewSilence
from console.features.brokers.rest import BrokerSettingsChange
from console.features.checkback.models import CheckAddress
from console.features.checkback.rest import CheckAddressChange, NewCheckAddress
from console.features.dead_letters.rest import ManyLetters
from console.features.due.rest import MeasureReason
from console.features.groups.rest import Acknowledge, Extend, GiveBack, NewOffsets, NewPlace, Receive
from console.features.messages.rest import Resend
from console.features.messages.rest_descriptors import DescriptorSetting
from console.features.overview.rest import Lift, Snooze
from console.features.people.rest import (
    Asked,
    NewPerson,
    NewRole,
    NewToken,
    PersonChange,
    PersonLimit,
    RoleChange,
    TokenRotation,
)
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
from console.features.timers.rest import SwitchReason
from console.features.timers.rest_changes import ManyMoved, ManyTimers, ManyToBroker, NewMoment
from console.features.topics.rest import GroupChange, NewGroup, NewTopic, TopicChange
from console.features.transactions.rest_decisions import DecisionReason, ManyTransactions, NewHalf
from console.operations.models import AuditEntry, Operation
from console.rest.access import Everywhere, InBody, InRecord, Named, OwnOperation
from console.rest.identifiers import written
from console.rest.operations import TakenBack
from console.rest.request_body import NewMessage, NewMessages
from console.rest.route import Route
from console.rest.routes import ROUTES
from console.security import tokens as security_tokens
from console.security.models import ApiToken
from console.security.tokens import ACCESS, ACTIONS, PEOPLE
from console.site.broker import hang_up
from tests.console.rest.test_masks import in_database

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
    ManyToBroker: lambda side: {"filter": {"topic": f"{side}t"}, "to": "broker-z", **WHY},
    ManyMoved: lambda side: {"filter": {"topic": f"{side}t"}, **LATER, **WHY},
    MeasureReason: lambda side: WHY,
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
    NewPlace: lambda side: {"to": "first", **WHY},
    NewTopic: lambda side: {"name": f"{side}t", **WHY},
    TopicChange: lambda side: {"settings": {"write_queues": 2}, **WHY},
    NewGroup: lambda side: {"name": f"{side}g", **WHY},
    GroupChange: lambda side: {"settings": {"retry_max_times": 3}, **WHY},
    NewCheckAddress: lambda side: {"producer_group": f"{side}g", "url": "https://shop.example/checks", **WHY},
    CheckAddressChange: lambda side: {"enabled": False, **WHY},
    NewAlertRule: lambda side: {"settings": {"name": "n", "what": "backlog", "limit": 1}, **WHY},
    AlertRuleChange: lambda side: {"settings": {"is_on": False}, **WHY},
    NewSilence: lambda side: {"subject": f"{side}g", "until": "2099-01-01T00:00:00Z", **WHY},
    Snooze: lambda side: {"kind": "group-without-consumer", "subject": f"{side}g", **WHY},
    DescriptorSetting: lambda side: {"descriptor_set": "CgA=", **WHY},
    Lift: lambda side: {"kind": "group-without-consumer", "subject": f"{side}g", **WHY},
    NewValue: lambda side: {"value": "x", "delay_ms": 3_600_000},
    ManyValues: lambda side: {"handles": ["none"], **WHY},
    LaterValues: lambda side: {"handles": ["none"], "shift_ms": 5, **WHY},
    PoisonValues: lambda side: WHY,
    MovedValues: lambda side: {"handles": ["none"], "to": f"{side}q", **WHY},
    QueueReason: lambda side: WHY,
    QueueTopic: lambda side: {"topic": f"{side}t", **WHY},
    NewBrokerUser: lambda side: {"name": f"{side}u", **WHY},
    BrokerUserChange: lambda side: {"is_enabled": False, **WHY},
    SecretRotation: lambda side: WHY,
    OldSecretEnd: lambda side: WHY,
    Asked: lambda side: WHY,
    BrokerSettingsChange: lambda side: {"settings": {"transactionCheckMax": 9}, **WHY},
    NewPerson: lambda side: {"name": f"{side}u", **WHY},
    PersonChange: lambda side: {"is_active": False, **WHY},
    PersonLimit: lambda side: {"topics": [side], **WHY},
    NewRole: lambda side: {"name": f"{side}r", "permissions": ["console.view_console"], **WHY},
    RoleChange: lambda side: {"topics": [side], **WHY},
    NewToken: lambda side: {"name": f"{side}n", "read": ["*"], **WHY},
    TokenRotation: lambda side: WHY,
    NewPolicy: lambda side: {"resource": f"Topic:{side}t", "actions": ["Pub"], **WHY},
    PolicyEnd: lambda side: {"resource": f"Topic:{side}t", **WHY},
}
WHOLE = (ACCESS, PEOPLE)
NUMBER = "00000000-0000-4000-8000-000000000000"
#: what stands in an address; `{id}` is an operation's number, or names a message of the topic
NAMED = {
    "topic": "{}t", "group": "{}g", "queue": "{}q", "schedule_key": "k1", "rule": "1", "silence": "1",
    "user": "{}u", "person": "{}u", "role": "{}r", "token": "aaaaaaaaaa",
    "broker": "broker-a",
}  # fmt: skip
TOKENS = [
    ((), OWN),
    # the rights to administer broker users, and people, are for every name only
    *(((action,), prefix) for action in ACTIONS for prefix in (OWN, "*") if prefix == "*" or action not in WHOLE),
    (tuple(action for action in ACTIONS if action not in WHOLE), OWN),
    (ACTIONS, "*"),
]


def path_of(route: Route, side: str, broker: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name != "id":
            return NAMED[name].format(side)
        is_operation = any(isinstance(place, OwnOperation) for place in route.on)
        return NUMBER if is_operation else written(broker, f"{side}t", 0, "A" * 32)

    return "/api/v1" + re.sub(r"{(\w+)}", value, route.path)


def is_allowed(route: Route, actions: tuple[str, ...], prefix: str, side: str, in_body: str) -> bool:
    """As it is declared: the token has each action where it has to, by the beginnings of names."""

    def begins(name: str) -> bool:
        return prefix == "*" or name.startswith(prefix)

    for place in route.on:
        needed = (place.action,) if place.action else route.actions
        if not any(action.partition(".")[0] in actions for action in needed):
            return False
        if isinstance(place, Everywhere) and prefix != "*":
            return False
        if isinstance(place, Named) and not begins(NAMED[place.parameter].format(side)):
            return False
        if isinstance(place, InRecord) and not begins(side):
            return False
        # the body of a take-back names items of the operation, which is not there
        if isinstance(place, InBody) and route.body is not TakenBack and not begins(in_body):
            return False
    return True


@pytest.fixture(autouse=True)
def around(service: BrokerService, valkey: str, settings: Any) -> Iterator[redis.Redis]:
    """The console's operations ask the broker of this test, and a real Redis."""
    settings.ESCAPEMENT_NAMESRV = service.namesrv_address
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    with redis.Redis.from_url(valkey) as server:
        server.flushall()
        yield server
        server.flushall()
    hang_up()
    hang_up_redis()


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_has_its_request_in_this_file(route: Route) -> None:
    assert route.body is None or route.body in BODIES
    assert set(re.findall(r"{(\w+)}", route.path)) <= {*NAMED, "id"}


@pytest.mark.parametrize(
    ("actions", "prefix"), TOKENS, ids=lambda part: part if isinstance(part, str) else "+".join(part) or "none"
)
async def test_every_route_is_answered_as_the_token_allows(
    anonymous: httpx.AsyncClient, service: BrokerService, actions: tuple[str, ...], prefix: str, transactional_db: None
) -> None:
    for side in (OWN, OTHER):
        service.engine.topics.ensure(f"{side}t", 1)
    given = {action: [prefix if prefix == "*" else f"{prefix}*"] for action in actions}
    rows = security_tokens.scope_rows(
        **{name: given.get(name, ()) for name in ("publish", "read")},
        **{name: given.get(name, ()) for name in ("admin", "consume", "settings", "unmask")},
        # of every name or of none: tests/console/access asks for the refusal of a beginning
        **{name: given.get(name, ()) if prefix == "*" else () for name in WHOLE},
    )
    _row, token = await asyncio.to_thread(made, rows)
    anonymous.headers["authorization"] = f"Bearer {token}"
    broker = service.config.broker_name
    for route in ROUTES:
        for side, in_body in ((OWN, OWN), (OTHER, OTHER), (OWN, OTHER)):
            said = None if route.body is None else BODIES[route.body](in_body)
            path = path_of(route, side, broker)
            answer = await anonymous.request(route.method, path, json=said)
            where = f"{route.method} {path} {said}: {answer.status_code} {answer.text[:300]}"
            if is_allowed(route, actions, prefix, side, in_body):
                assert answer.status_code not in (401, 403, 500), where
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), where
            if prefix == OWN and side == in_body == OWN:
                assert OTHER not in answer.text, where


def without(lacking: frozenset[str]) -> list[dict[str, Any]]:
    """Scopes that allow everything but these actions, on every name."""
    given = {action: ["*"] for action in ACTIONS if action not in lacking}
    return security_tokens.scope_rows(**{"publish": (), "read": (), **given})


def needed(route: Route) -> set[frozenset[str]]:
    """The actions of each place; of several for one place any is enough."""
    all_actions = [(place.action,) if place.action else route.actions for place in route.on]
    return {frozenset(action.partition(".")[0] for action in actions) for actions in all_actions}


def kept(server: redis.Redis) -> dict[str, int]:
    """How much the console and Redis keep that a request could have made."""
    tables = (Operation, AuditEntry, CheckAddress, AlertRule, Silence)
    return {**{table.__name__: table.objects.count() for table in tables}, "redis": server.dbsize()}


async def test_a_token_that_lacks_one_action_does_nothing(
    anonymous: httpx.AsyncClient, service: BrokerService, admin: AsyncAdmin, around: redis.Redis, transactional_db: None
) -> None:
    service.engine.topics.ensure(f"{OWN}t", 1)
    before = await in_database(lambda: kept(around)), await admin.runtime(), await admin.topics(), await admin.groups()
    for lacking in {each for route in ROUTES for each in needed(route)}:
        _row, token = await asyncio.to_thread(made, without(lacking))
        anonymous.headers["authorization"] = f"Bearer {token}"
        for route in (each for each in ROUTES if lacking in needed(each)):
            said = None if route.body is None else BODIES[route.body](OWN)
            answer = await anonymous.request(route.method, path_of(route, OWN, service.config.broker_name), json=said)
            where = f"{route.method} {route.path} without {lacking}: {answer.text[:200]}"
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), where
    after = await in_database(lambda: kept(around)), await admin.runtime(), await admin.topics(), await admin.groups()
    assert after[0] == before[0]
    assert after[1]["commitLogMaxOffset"] == before[1]["commitLogMaxOffset"] == "0"
    assert after[2:] == before[2:]


async def test_without_a_token_every_route_is_refused(anonymous: httpx.AsyncClient, service: BrokerService) -> None:
    for route in ROUTES:
        said = None if route.body is None else BODIES[route.body](OWN)
        answer = await anonymous.request(route.method, path_of(route, OWN, "broker-a"), json=said)
        assert (answer.status_code, answer.json()["code"]) == (401, "token_missing"), route.path


def made(rows: list[dict[str, Any]]) -> Any:
    try:
        return security_tokens.create(f"test-{ApiToken.objects.count()}-more", rows)
    finally:
        connection.close()
