"""Every kind of operation, drafted by every role about the own team and the other: who may, what is out of reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import redis
from django.db import transaction

from broker.redisson import DelayedQueue
from console.features.alerts.models import AlertRule, Silence
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, OperationError, OutOfReach
from console.operations.registry import KINDS
from tests.console.security.test_limited import HOUR_MS
from tests.console.stage import Stage
from tests.security.scene import GROUPS, OTHER, OWN, People, Team, two_teams
from tests.security.table import LIMITED

LATER_MS = time.time_ns() // 1_000_000 + 3 * HOUR_MS
Parameters = Callable[[Team], Mapping[str, Any]]


def of_topic(**more: Any) -> Parameters:
    return lambda team: {"filter": {"topic": team.topic}, **more}


def halves(team: Team) -> Mapping[str, Any]:
    return {"filter": {"state": "open", "topic": team.topic}}


def values(**more: Any) -> Parameters:
    return lambda team: {"queue": team.topic, **more}


def letters(team: Team) -> Mapping[str, Any]:
    return {"group": team.group, "filter": {"topic": team.topic}}


def broker_user(**more: Any) -> Parameters:
    return lambda team: {"name": team.parts["access_user.name"], **more}


def account(**more: Any) -> Parameters:
    return lambda team: {"name": team.parts["person"], **more}


def api_token(**more: Any) -> Parameters:
    return lambda team: {"prefix": team.parts["token"], **more}


ALL = {"filter": {}, "is_all": True}
#: kind -> the first role that may, what bounds it for who is limited ("": nothing does), and what it is asked
TABLE: Mapping[str, tuple[str, str, Parameters]] = {
    "access.create": ("administrator", "", lambda team: {"name": f"{team.topic}-new"}),
    "access.rotate": ("administrator", "", broker_user(overlap_hours=0)),
    "access.end_old_secret": ("administrator", "", broker_user()),
    "access.change": ("administrator", "", broker_user(is_enabled=False)),
    "access.delete": ("administrator", "", broker_user()),
    "access.set_policy": ("administrator", "", lambda team: {
        "name": team.parts["access_user.name"], "resource": f"Topic:{team.topic}", "actions": ["Pub"]}),
    "access.delete_policy": ("administrator", "", lambda team: {
        "name": team.parts["access_user.name"], "resource": f"Topic:{team.topic}"}),
    "people.add": ("administrator", "", lambda team: {"name": f"{team.topic}-new", "roles": ["viewer"]}),
    "people.change": ("administrator", "", account(roles=[], is_active=False)),
    "people.reset_password": ("administrator", "", account()),
    "people.reset_second_factor": ("administrator", "", account()),
    "people.add_role": ("administrator", "", lambda team: {
        "role": f"{team.topic} role", "permissions": ["console.view_console"]}),
    "people.limit": ("administrator", "", account(topics=["a-"])),
    "people.limit_role": ("administrator", "", lambda team: {"role": "operator", "topics": [team.topic]}),
    "tokens.make": ("administrator", "", lambda team: {"name": f"{team.topic} new", "read": [team.topic]}),
    "tokens.renew": ("administrator", "", api_token(overlap_hours=0)),
    "tokens.end": ("administrator", "", api_token()),
    "alerts.create": ("administrator", "", lambda team: {"settings": {
        "name": "n", "what": "backlog", "subject": team.group, "limit": 1}}),
    "alerts.change": ("administrator", "", lambda team: {"rule": team.parts["rule_id"], "settings": {"limit": 7}}),
    "alerts.delete": ("administrator", "", lambda team: {"rule": team.parts["rule_id"]}),
    "alerts.silence": ("operator", "group", lambda team: {
        "rule": None, "what": "backlog", "subject": team.group, "until_ms": LATER_MS}),
    "alerts.end_silence": ("operator", "", lambda team: {
        "silence": Silence.objects.get(subject=team.group).pk}),
    "findings.snooze": ("operator", "group", lambda team: {
        "kind": "group-without-consumer", "subject": team.group, "place": "", "until_ms": LATER_MS}),
    "findings.lift": ("operator", "group", lambda team: {
        "kind": "group-without-consumer", "subject": team.group, "place": ""}),
    "descriptors.change": ("operator", "topic", lambda team: {"topic": team.topic, "set": ""}),
    "dead_letters.send_back": ("operator", "group", letters),
    "dead_letters.send_as_new": ("operator", "group", letters),
    "dead_letters.mark_handled": ("operator", "group", letters),
    "dead_letters.reopen": ("operator", "group", letters),
    "dead_letters.hide": ("operator", "group", letters),
    "groups.reset_offsets": ("operator", "group", lambda team: {
        "group": team.group, "topic": team.topic, "to": "first"}),
    "messages.resend": ("operator", "topic", lambda team: {
        "message_id": team.parts["message_id"], "topic": team.topic, "group": ""}),
    "messages.send": ("operator", "topic", lambda team: {"topic": team.topic, "body": "x"}),
    "redisson.remove": ("operator", "queue", values(**ALL)),
    "redisson.deliver_now": ("operator", "queue", values(**ALL)),
    "redisson.move": ("operator", "queue", lambda team: {"queue": team.topic, "to": f"{team.topic}-2", **ALL}),
    "redisson.reschedule": ("operator", "queue", values(**ALL, shift_ms=5)),
    "redisson.set_aside": ("operator", "queue", values(**ALL)),
    "redisson.put_back": ("operator", "queue", values(**ALL)),
    "redisson.clear": ("operator", "queue", values()),
    "redisson.offer": ("operator", "queue", values(value="x", codec="StringCodec", delay_ms=5)),
    "redisson.repair": ("operator", "queue", values()),
    "redisson.make_reliable": ("operator", "queue", lambda team: {"queue": team.topic, "topic": team.topic}),
    "redisson.import": ("operator", "queue", lambda team: {"queue": team.topic, "topic": team.topic}),
    "redisson.make_plain": ("operator", "queue", values()),
    "timers.cancel": ("operator", "topic", of_topic()),
    "timers.deliver_now": ("operator", "topic", of_topic()),
    "timers.reschedule": ("operator", "topic", of_topic(shift_ms=HOUR_MS)),
    "timers.pause": ("operator", "", lambda team: {}),
    "timers.resume": ("operator", "", lambda team: {}),
    # of one broker there is none to go to, whoever's timers they are
    "timers.move_to_broker": ("operator", "broker", of_topic(to="broker-z")),
    "timers.take_back": ("operator", "operation", lambda team: {"operation": team.parts["cancelled"]}),
    "due.measure": ("operator", "", lambda team: {}),
    "brokers.configure": ("operator", "", lambda team: {"settings": {"transactionCheckMax": "9"}}),
    "topics.change": ("operator", "topic", lambda team: {"name": team.topic, "settings": {"read_queues": 3}}),
    "topics.create": ("operator", "topic", lambda team: {"name": f"{team.topic}-new", "settings": {}}),
    "topics.delete": ("operator", "topic", lambda team: {"name": team.topic, "pending": "keep"}),
    "groups.change": ("operator", "group", lambda team: {
        "name": team.group, "settings": {"retry_max_times": 3}}),
    "groups.create": ("operator", "", lambda team: {"name": f"{team.topic}-readers", "settings": {}}),
    "groups.delete": ("operator", "group", lambda team: {"name": team.group}),
    "transactions.commit": ("operator", "topic", halves),
    "transactions.rollback": ("operator", "topic", halves),
    "transactions.check": ("operator", "topic", halves),
    "transactions.resume": ("operator", "topic", halves),
}  # fmt: skip
MAY = {"operator": {"operator", "administrator"}, "administrator": {"administrator"}}


@pytest.fixture
def both(filled: Stage, actor: Actor, server: redis.Redis) -> Iterator[dict[str, Team]]:
    with two_teams(filled, actor) as made:
        yield made
    DelayedQueue(f"{OWN}-2", server).clear()


def drafted(kind: str, given: Mapping[str, Any], user: Any) -> str:
    """Whether it came to a preview: "no" by permission, "out of reach" by topics, "yes" else, possible or not."""
    with transaction.atomic():
        try:
            workflow.draft(kind, dict(given), Actor.of(user))
        except OutOfReach:
            return "out of reach"
        except NotAllowed:
            return "no"
        except OperationError:
            return "yes"
        finally:
            transaction.set_rollback(True)
    return "yes"


def test_every_kind_is_in_the_table() -> None:
    assert set(TABLE) == set(KINDS)


def test_every_kind_is_for_its_roles_and_its_own_topics(both: dict[str, Team]) -> None:
    people, wrong = People(), []
    for kind, (role, bound, parameters) in TABLE.items():
        for who in ("none", *LIMITED, "superuser"):
            may = who in (*MAY[role], "superuser")
            for side in (OWN, OTHER):
                due = "yes" if may else "no"
                if (word := drafted(kind, parameters(both[side]), people.users[who])) != due:
                    wrong.append(f"{kind} by {who} on {side}: {word} instead of {due}")
                if who in LIMITED:
                    due = "no" if not may else "yes" if bound == "broker" or (bound and side == OWN) else "out of reach"
                    if (word := drafted(kind, parameters(both[side]), people.users[f"limited {who}"])) != due:
                        wrong.append(f"{kind} by limited {who} on {side}: {word} instead of {due}")
    assert not wrong, "\n".join(wrong)


def test_whether_there_is_such_a_thing_is_not_told(both: dict[str, Team]) -> None:
    """A name of somebody else's is answered alike whether it is there or not."""
    anna, wrong = People().users["limited operator"], []
    parts = {**both[OTHER].parts, "group.name": "nobodys", "message_id": "0" * 32}
    for kind, (role, bound, parameters) in TABLE.items():
        if role != "operator" or bound not in ("topic", "group", "queue"):
            continue
        word = drafted(kind, parameters(Team("nobodys", parts)), anna)
        if word != "out of reach":
            wrong.append(f"{kind}: {word}")
    assert not wrong, "\n".join(wrong)


def test_what_no_name_bounds_is_refused_before_anything_is_asked(both: dict[str, Team]) -> None:
    """Whether there is such a rule, account, token, group or user of access control is told to who sees all."""
    boss, wrong = People().users["limited administrator"], []
    nobody = Team("nobodys", {
        "access_user.name": "nobodys", "person": "nobodys", "token": "nobodys", "rule_id": 987_654_321,
        "group.name": "nobodys",
    })  # fmt: skip
    asked = [(kind, parameters) for kind, (_, bound, parameters) in TABLE.items() if not bound]
    assert len(asked) > 20
    for kind, parameters in asked:
        silences = kind == "alerts.end_silence"
        given = [{}, {"silence": 987_654_321} if silences else parameters(nobody), parameters(both[OTHER])]
        for each in [*given, {"name": GROUPS[OTHER], "settings": {}}]:
            if (word := drafted(kind, each, boss)) != "out of reach":
                wrong.append(f"{kind} {each}: {word}")
    assert not wrong, "\n".join(wrong)


def test_what_is_the_others_is_out_of_reach_under_an_own_name(both: dict[str, Team], filled: Stage) -> None:
    """Names of the own team around numbers and ids of the other's."""
    anna, wrong = People().users["limited operator"], []
    theirs, mine = both[OTHER].parts, both[OWN].parts
    half = next(row for row in filled.admin.transactions("open").items if row.topic == OTHER)
    record = filled.admin.messages_by_key(OTHER, f"{OTHER}-1")[0]
    rule = AlertRule.objects.get(subject=GROUPS[OTHER], pk=theirs["rule_id"])
    mixed: list[tuple[str, dict[str, Any]]] = [
        ("timers.cancel", {"targets": [{"position": theirs["timer.position"]}]}),
        ("timers.cancel", {"targets": [{"position": mine["timer.position"]}, {"position": theirs["timer.position"]}]}),
        ("timers.cancel", {"targets": [{"topic": OTHER, "scheduleKey": f"{OTHER}-3"}]}),
        ("timers.reschedule", {"filter": {"topic": "", "key": f"{OTHER}-3"}, "shift_ms": 5}),
        ("transactions.commit", {"targets": [{"offset": half.offset, "position": half.position}]}),
        ("transactions.rollback", {"filter": {"state": "open", "group": f"of-{OTHER}"}}),
        ("groups.reset_offsets", {"group": GROUPS[OWN], "topic": OTHER, "to": "first"}),
        ("groups.reset_offsets", {"group": GROUPS[OTHER], "topic": OWN, "to": "first"}),
        ("dead_letters.send_as_new", {"group": GROUPS[OTHER], "filter": {"topic": OWN}}),
        ("messages.resend", {"message_id": record.offset_message_id, "topic": OTHER, "group": GROUPS[OWN]}),
        ("messages.resend", {"message_id": mine["message_id"], "topic": OWN, "group": GROUPS[OTHER]}),
        ("messages.send", {"topic": OTHER, "body": "x", "delay_ms": HOUR_MS, "schedule_key": f"{OTHER}-3"}),
        ("redisson.move", {"queue": OWN, "to": OTHER, **ALL}), ("redisson.move", {"queue": OTHER, "to": OWN, **ALL}),
        ("redisson.make_reliable", {"queue": OWN, "topic": OTHER}), ("redisson.import", {"queue": OWN, "topic": OTHER}),
        ("alerts.silence", {"rule": None, "what": "", "subject": "*", "until_ms": LATER_MS}),
        ("alerts.silence", {"rule": rule.pk, "what": "backlog", "subject": GROUPS[OTHER], "until_ms": LATER_MS}),
        ("timers.take_back", {"operation": theirs["cancelled"]}),
    ]  # fmt: skip
    for kind, given in mixed:
        if (word := drafted(kind, given, anna)) != "out of reach":
            wrong.append(f"{kind} {given}: {word}")
    # the topic that is named is the own one, the record is not of it: there is no such message there
    under = {"message_id": record.offset_message_id, "topic": OWN, "group": ""}
    with pytest.raises(OperationError) as refused:
        workflow.draft("messages.resend", under, Actor.of(anna))
    assert not any(word in str(refused.value) for word in (OTHER, GROUPS[OTHER]))
    assert not wrong, "\n".join(wrong)
