"""The REST calls that pages show are ones that REST takes: address, method and body."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from console.operations.registry import KINDS
from console.rest.routes import ROUTES

NUMBER = "3f8b5b1e-5b1e-4b1e-8b1e-5b1e5b1e5b1e"
ALL = {"filter": {"from_ms": None, "to_ms": None}, "is_all": True}
SOME = {"filter": {"from_ms": 5, "to_ms": None}, "is_all": False}
HALVES = {"filter": {"state": "parked", "topic": "", "group": "shop", "before_ms": 7}, "is_all": False}
TIMERS = {"filter": {"topic": "orders", "key": "a b", "from_ms": 1, "to_ms": 2}, "is_all": False}
LETTERS = {"group": "g", "filter": {"topic": "orders", "key": "", "from_ms": 1, "to_ms": None}, "is_all": False}
NAMED = [
    {"position": 1}, {"topic": "orders", "scheduleKey": "a b", "dueMs": 5}, {"topic": "orders", "uniqueKey": "AB"},
    {"handle": "h"}, {"messageId": "m"},
]  # fmt: skip
RULE = {
    "name": "n", "what": "backlog", "subject": "*", "limit": 1, "for_s": 60, "emails": "a@b.example\nc@d.example",
    "webhook": "https://hooks.example/x", "is_on": True,
}  # fmt: skip
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("timers.cancel", TIMERS), ("timers.reschedule", {**TIMERS, "shift_ms": -60_000}),
    ("timers.reschedule", {**TIMERS, "due_ms": 1_795_247_527_000}), ("timers.deliver_now", ALL), ("timers.pause", {}),
    ("due.measure", {}),
    ("timers.move_to_broker", {**TIMERS, "to": "lisbon/broker-b", "from": "broker-a"}),
    ("timers.resume", {}), ("timers.take_back", {"operation": NUMBER, "of": "timers.cancel"}),
    ("timers.take_back", {"operation": NUMBER, "of": "timers.cancel", "items": [2]}),
    ("transactions.commit", HALVES), ("transactions.rollback", HALVES), ("transactions.check", HALVES),
    ("transactions.resume", HALVES), ("redisson.remove", {"queue": "a/b {c}", "handles": ["1~00~"]}),
    ("redisson.deliver_now", {"queue": "q", **ALL}), ("redisson.reschedule", {"queue": "q", **SOME, "shift_ms": 5}),
    ("redisson.move", {"queue": "q", **SOME, "to": "other"}), ("redisson.put_back", {"queue": "q", **ALL}),
    ("redisson.set_aside", {"queue": "q", **ALL, "packing": "old"}), ("redisson.clear", {"queue": "q"}),
    ("redisson.offer", {"queue": "q", "value": "x", "codec": "StringCodec", "delay_ms": 5}),
    ("redisson.repair", {"queue": "q"}), ("redisson.make_reliable", {"queue": "q", "topic": "t"}),
    ("redisson.import", {"queue": "q", "topic": "t"}), ("redisson.make_plain", {"queue": "q"}),
    ("topics.create", {"name": "t", "settings": {"read_queues": 4}}), ("topics.delete", {"name": "t"}),
    ("topics.delete", {"name": "t", "pending": "cancel"}),
    ("topics.change", {"name": "t", "settings": {"read_queues": 4}, "expected": {"read_queues": 8}}),
    ("groups.create", {"name": "g", "settings": {}}), ("groups.delete", {"name": "g"}),
    ("groups.change", {"name": "g", "settings": {"orderly": True}}),
    ("brokers.configure", {"broker": "b", "settings": {"maxMessageSize": "9"}, "expected": {"maxMessageSize": "8"}}),
    ("alerts.create", {"settings": RULE}), ("alerts.delete", {"rule": 5}), ("alerts.end_silence", {"silence": 5}),
    ("alerts.change", {"rule": 5, "settings": {"emails": "a@b.example"}, "expected": {"emails": ""}}),
    ("alerts.silence", {"rule": None, "what": "", "subject": "*", "until_ms": 1_795_247_527_000}),
    ("alerts.silence", {"rule": 5, "what": "still", "subject": "g", "until_ms": 1_795_247_527_000}),
    ("timers.cancel", {"targets": NAMED}), ("timers.reschedule", {"targets": NAMED, "shift_ms": 5}),
    ("transactions.commit", {"targets": [{"offset": 0, "position": 7}]}), ("dead_letters.send_back", LETTERS),
    ("dead_letters.send_back", {"group": "g", "filter": {}, "is_all": True}),
    ("dead_letters.send_as_new", {"group": "g", "targets": [{"queueId": 0, "offset": 12}]}),
    ("dead_letters.mark_handled", {"group": "g", "filter": {"error": "no account 3"}}),
    ("dead_letters.reopen", {"group": "g", "filter": {"state": "handled"}}),
    ("dead_letters.hide", {"group": "g", "targets": [{"queueId": 0, "offset": 12}]}),
    ("messages.resend", {"message_id": "m", "topic": "t", "group": ""}),
    ("messages.resend", {"message_id": "m", "topic": "t", "group": "g"}),
    ("messages.send", {"topic": "t", "body": "x"}),
    ("messages.send", {"topic": "t", "body": "aGk=", "body_as": "base64", "producer_group": "shop"}),
    (
        "messages.send",
        {
            "topic": "t", "body": "{}", "body_as": "json", "tag": "new", "keys": ["k"], "properties": {"a": "b"},
            "delay_ms": 5, "schedule_key": "k", "on_conflict": "replace", "sharding_key": "7",
        },
    ),
    ("groups.reset_offsets", {"group": "g", "topic": "t", "to": "time", "at_ms": 5}),
    ("groups.reset_offsets", {"group": "g", "topic": "t", "to": "last"}),
    ("groups.reset_offsets", {"group": "g", "topic": "*", "to": "time", "at_ms": 5}),
    ("groups.reset_offsets", {"group": "g", "topic": "t", "to": "offsets", "offsets": [[0, 0], [1, 7]]}),
    ("findings.snooze", {"kind": "group-without-consumer", "subject": "g", "place": "", "until_ms": 5}),
    ("findings.snooze", {"kind": "disk-filling", "subject": "b", "place": "b", "until_ms": None}),
    ("findings.lift", {"kind": "group-without-consumer", "subject": "g", "place": ""}),
    ("descriptors.change", {"topic": "t", "set": "CgA=" * 99, "type": "shop.Order", "expected": "ab"}),
    ("descriptors.change", {"topic": "t", "set": "", "type": "", "expected": "ab"}),
    ("access.create", {"name": "alice", "is_super": False}),
    ("access.rotate", {"name": "alice", "overlap_hours": 24.0}),
    ("access.end_old_secret", {"name": "alice"}), ("access.change", {"name": "alice", "is_enabled": True}),
    ("access.delete", {"name": "alice"}), ("access.delete_policy", {"name": "alice", "resource": "*"}),
    (
        "access.set_policy",
        {"name": "alice", "resource": "*", "actions": ["Pub"], "decision": "Deny", "sources": ["10.0.0.0/8"]},
    ),
    ("people.add", {"name": "anna", "roles": ["operator"]}),
    ("people.change", {"name": "anna", "roles": [], "is_active": False}),
    ("people.reset_password", {"name": "anna"}), ("people.reset_second_factor", {"name": "anna"}),
    ("people.limit_role", {"role": "tenants", "prefixes": ["a-"]}),
    ("people.limit", {"name": "anna", "prefixes": ["a-"]}),
    ("people.add_role", {"role": "shop", "permissions": ["console.view_console"], "prefixes": []}),
    ("tokens.make", {"name": "n", "publish": ["orders"], "read": [], "access_user": "", "days": 30}),
    ("tokens.renew", {"prefix": "aaaaaaaaaa", "overlap_hours": 0.5}), ("tokens.end", {"prefix": "aaaaaaaaaa"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters"), CALLS)
def test_rest_takes_the_call(kind: str, parameters: dict[str, Any]) -> None:
    call = KINDS[kind].rest_call(parameters)
    assert call is not None
    method, path, body = call
    plain = "/" + path.partition("?")[0].replace(NUMBER, "{id}").replace("a%2Fb%20%7Bc%7D", "{queue}")
    plain = plain.replace("broker-users/alice", "broker-users/{user}").replace("messages/m:", "messages/{id}:")
    plain = plain.replace("people/anna", "people/{person}").replace("roles/tenants", "roles/{role}")
    plain = plain.replace("tokens/aaaaaaaaaa", "tokens/{token}")
    plain = plain.replace("brokers/b/", "brokers/{broker}/")
    plain = plain.replace("alert-rules/5", "alert-rules/{rule}").replace("silences/5", "silences/{silence}")
    shapes = {plain, plain.replace("/queues/q", "/queues/{queue}"), *(
        re.sub(r"/topics/t\b", f"/topics/{{{topic}}}", re.sub(r"/groups/g\b", f"/groups/{{{group}}}", plain))
        for topic in ("topic", "name")
        for group in ("group", "name")
    )}  # fmt: skip
    (found,) = [each for each in ROUTES if each.method == method and each.path in shapes]
    assert (found.body is None) == (body is None)
    if found.body is not None:
        msgspec.json.decode(msgspec.json.encode(body), type=found.body)


def test_every_kind_has_its_call() -> None:
    assert {kind for kind, _ in CALLS} == set(KINDS)


def test_what_is_chosen_is_named_as_it_was() -> None:
    call = KINDS["timers.cancel"].rest_call({"targets": NAMED})
    assert call is not None
    body = call[2]
    assert body == {
        "timers": [
            {"position": 1}, {"topic": "orders", "schedule_key": "a b", "deliver_at": 5},
            {"topic": "orders", "message_id": "AB"}, {"id": "h"}, {"id": "m"},
        ],
        "reason": "...",
    }  # fmt: skip
