"""REST by token: what each operation asks of one, written down beside the code, and nothing of another team's.

`tests/console/rest/test_access.py` asks every operation with every token, and works out of the declarations what is
due; here stands what they have to declare. An operation that is not in the table fails.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from console.operations.actor import Actor
from console.rest.access import (
    Everywhere,
    Group,
    InBody,
    InRecord,
    InRows,
    Overview,
    OwnOperation,
    Place,
    ProducerGroup,
    Queue,
    Topic,
)
from console.rest.app import create_application
from console.rest.identifiers import written
from console.rest.route import Route
from console.rest.routes import ROUTES
from console.security import tokens
from tests.console.rest.test_access import BODIES
from tests.console.stage import Stage
from tests.security.doors import api
from tests.security.scene import FOREIGN, GROUPS, OTHER, OWN, People, Team, two_teams

#: method, address, the action that a token has to allow, and on what: names of the address, of the body, of the record
#: that an id names, of each row; `everywhere` is every name there is, `overview` figures that name nothing; last the
#: permission that a person needs who runs it in the console ("as me"), without "console."
TABLE = """
GET    /alert-rules                                settings                 everywhere              change_alertrule
POST   /alert-rules                                settings                 everywhere              add_alertrule
DELETE /alert-rules/{rule}                         settings                 everywhere              delete_alertrule
GET    /alert-rules/{rule}                         settings                 everywhere              change_alertrule
PATCH  /alert-rules/{rule}                         settings                 everywhere              change_alertrule
GET    /findings                                   settings                 everywhere              view_console
POST   /findings/lift                              settings                 everywhere              silence_alerts
POST   /findings/snooze                            settings                 everywhere              silence_alerts
POST   /alert-rules/{rule}/test                    settings                 everywhere              change_alertrule
GET    /brokers                                    read                     overview                view_console
GET    /brokers/{broker}/settings                  read                     overview                view_console
PATCH  /brokers/{broker}/settings                  settings                 everywhere              change_settings
GET    /alert-silences                             settings                 everywhere              view_alert
POST   /alert-silences                             settings                 everywhere              silence_alerts
DELETE /alert-silences/{silence}                   settings                 everywhere              silence_alerts
GET    /broker-users                               access                   everywhere              change_access
POST   /broker-users                               access                   everywhere              change_access
DELETE /broker-users/{user}                        access                   everywhere              change_access
GET    /broker-users/{user}                        access                   everywhere              change_access
PATCH  /broker-users/{user}                        access                   everywhere              change_access
POST   /broker-users/{user}/policies               access                   everywhere              change_access
POST   /broker-users/{user}/policies:delete        access                   everywhere              change_access
POST   /broker-users/{user}:end-old-secret         access                   everywhere              change_access
POST   /broker-users/{user}:rotate                 access                   everywhere              change_access
GET    /check-addresses                            admin                    rows                    view_checkaddress
POST   /check-addresses                            admin                    body                    add_checkaddress
DELETE /check-addresses/{group}                    admin                    producers               delete_checkaddress
GET    /check-addresses/{group}                    admin                    producers               view_checkaddress
PATCH  /check-addresses/{group}                    admin                    producers               change_checkaddress
GET    /due                                        read                     overview+rows           view_console
POST   /due:measure                                settings                 everywhere              change_settings
GET    /groups                                     read                     rows                    view_console
POST   /groups                                     settings                 body                    change_settings
DELETE /groups/{group}                             settings.delete          group                   change_settings
GET    /groups/{group}/dead-letters                read                     group+rows              view_console
POST   /groups/{group}/dead-letters:hide           consume                  group+body              resend_dead_letters
POST   /groups/{group}/dead-letters:mark-handled   consume                  group+body              resend_dead_letters
POST   /groups/{group}/dead-letters:reopen         consume                  group+body              resend_dead_letters
POST   /groups/{group}/dead-letters:send-as-new    consume                  group+body+body:publish resend_dead_letters
POST   /groups/{group}/dead-letters:send-back      consume                  group+body              resend_dead_letters
POST   /groups/{group}:reset-offsets               consume                  group+group:settings    reset_offsets
GET    /groups/{group}/settings                    read                     group                   view_console
PATCH  /groups/{group}/settings                    settings                 group                   change_settings
GET    /messages/{id}                              read                     record                  view_console
DELETE /messages/{id}/schedule                     publish                  record                  steer_timers
PATCH  /messages/{id}/schedule                     publish                  record                  steer_timers
POST   /messages/{id}:deliver-now                  publish                  record                  steer_timers
POST   /messages/{id}:resend                       publish                  record                  resend_dead_letters
GET    /operations/{id}                            publish|consume|settings operation               view_console
POST   /operations/{id}:abort                      publish|consume|settings operation               view_console
POST   /operations/{id}:take-back                  publish                  operation+body          steer_timers
GET    /people                                     people                   everywhere              auth.change_user
POST   /people                                     people                   everywhere              auth.add_user
GET    /people/{person}                            people                   everywhere              auth.change_user
PATCH  /people/{person}                            people                   everywhere              auth.change_user
POST   /people/{person}:limit                      people                   everywhere              auth.change_group
POST   /people/{person}:reset-password             people                   everywhere              auth.change_user
POST   /people/{person}:reset-second-factor        people                   everywhere              auth.change_user
GET    /redisson/queues                            read                     rows                    view_console
GET    /redisson/queues/{queue}                    read                     queue                   view_console
GET    /redisson/queues/{queue}/values             read                     queue                   view_console
POST   /redisson/queues/{queue}/values             publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:clear              publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:deliver-now        publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:import             publish                  queue+body              steer_delayed_queues
POST   /redisson/queues/{queue}:make-plain         publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:make-reliable      publish                  queue+body              steer_delayed_queues
POST   /redisson/queues/{queue}:move               publish                  queue+body              steer_delayed_queues
POST   /redisson/queues/{queue}:put-back           publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:remove             publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:repair             publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:reschedule         publish                  queue                   steer_delayed_queues
POST   /redisson/queues/{queue}:set-aside          publish                  queue                   steer_delayed_queues
GET    /roles                                      people                   everywhere              auth.change_user
POST   /roles                                      people                   everywhere              auth.add_group
PATCH  /roles/{role}                               people                   everywhere              auth.change_group
GET    /schedule/levels                            read                     overview                view_console
GET    /timers                                     read                     rows                    view_console
GET    /timers/forecast                            read                     overview+rows           view_console
GET    /timers/status                              read                     overview                view_console
GET    /timers/wheel                               read                     overview                view_console
POST   /timers:cancel                              publish                  body                    steer_timers
POST   /timers:deliver-now                         publish                  body                    steer_timers
POST   /timers:move-to-broker                      publish                  body                    steer_timers
POST   /timers:pause                               publish                  everywhere              pause_timers
POST   /timers:reschedule                          publish                  body                    steer_timers
POST   /timers:resume                              publish                  everywhere              pause_timers
GET    /tokens                                     people                   everywhere              change_apitoken
POST   /tokens                                     people                   everywhere              add_apitoken
GET    /tokens/{token}                             people                   everywhere              change_apitoken
POST   /tokens/{token}:revoke                      people                   everywhere              change_apitoken
POST   /tokens/{token}:rotate                      people                   everywhere              change_apitoken
GET    /topics                                     read                     rows                    view_console
POST   /topics                                     settings                 body                    change_settings
DELETE /topics/{topic}                             settings.delete          topic                   change_settings
DELETE /topics/{topic}/descriptor                  settings                 topic                   change_settings
GET    /topics/{topic}/descriptor                  read                     topic                   view_console
PUT    /topics/{topic}/descriptor                  settings                 topic                   change_settings
POST   /topics/{topic}/groups/{group}:ack          consume                  topic+group             reset_offsets
POST   /topics/{topic}/groups/{group}:extend       consume                  topic+group             reset_offsets
POST   /topics/{topic}/groups/{group}:nack         consume                  topic+group             reset_offsets
POST   /topics/{topic}/groups/{group}:receive      consume                  topic+group             reset_offsets
POST   /topics/{topic}/groups/{group}:reset-offsets consume                  topic+group+group:settings reset_offsets
POST   /topics/{topic}/messages                    publish                  topic                   send_messages
POST   /topics/{topic}/messages:batch              publish                  topic                   send_messages
DELETE /topics/{topic}/schedule/{schedule_key}     publish                  topic                   steer_timers
PATCH  /topics/{topic}/schedule/{schedule_key}     publish                  topic                   steer_timers
GET    /topics/{topic}/settings                    read                     topic                   view_console
PATCH  /topics/{topic}/settings                    settings                 topic                   change_settings
GET    /transactions                               read                     rows                    view_console
POST   /transactions                               publish                  body                    send_messages
GET    /transactions/{id}                          read                     record                  view_console
POST   /transactions/{id}:check                    publish                  record                  steer_transactions
POST   /transactions/{id}:commit                   publish                  record                  steer_transactions
POST   /transactions/{id}:resume                   publish                  record                  steer_transactions
POST   /transactions/{id}:rollback                 publish                  record                  steer_transactions
POST   /transactions:check                         publish                  body                    steer_transactions
POST   /transactions:commit                        publish                  body                    steer_transactions
POST   /transactions:resume                        publish                  body                    steer_transactions
POST   /transactions:rollback                      publish                  body                    steer_transactions
"""
WORDS: Mapping[type[Place], str] = {
    Topic: "topic", Group: "group", Queue: "queue", ProducerGroup: "producers", InRows: "rows", InBody: "body",
    InRecord: "record", Everywhere: "everywhere", Overview: "overview", OwnOperation: "operation",
}  # fmt: skip
#: beside the operations: the description, for who is signed in or has a token
DESCRIPTION = {"/api/openapi.json"}


def declared(route: Route) -> str:
    on = "+".join(WORDS[type(place)] + (f":{place.action}" if place.action else "") for place in route.on)
    permission = route.permission.removeprefix("console.")
    return " ".join((route.method, route.path, "|".join(route.actions), on, permission))


def test_every_operation_asks_what_the_table_says() -> None:
    assert sorted(map(declared, ROUTES)) == sorted(" ".join(line.split()) for line in TABLE.strip().splitlines())


def test_every_address_that_is_answered_is_one_of_them() -> None:
    routes: dict[str, set[str]] = {}
    for each in ROUTES:
        routes.setdefault("/api/v1" + each.path, set()).add(each.method)
    answered = {re.sub(":path}", "}", path): set(methods) for path, methods in api().items()}
    assert {path: methods for path, methods in answered.items() if path not in DESCRIPTION} == routes
    assert set(answered) >= DESCRIPTION


@pytest.fixture
def both(filled: Stage, actor: Actor) -> Iterator[dict[str, Team]]:
    with two_teams(filled, actor) as made:
        yield made


def ids_of(stage: Stage, topic: str, *, named: str = "") -> list[str]:
    """Ids of what waits for the topic, undecided halves and a message of it; `named`: under another topic's name."""
    timers = [(row.position, row.message_id) for row in stage.admin.timers(0, 2**62).items if row.topic == topic]
    open_ones = stage.admin.transactions("open").items
    halves = [(row.position, row.transaction_id) for row in open_ones if row.topic == topic]
    found = [written("broker-a", named or topic, position, str(key)) for position, key in timers + halves]
    record = stage.admin.messages_by_key(topic, f"{topic}-1")[0]
    return [*found, written("broker-a", named or topic, record.position, str(record.unique_key))]


def paths_of(route: Route, team: Team, ids: list[str]) -> list[str]:
    """Addresses of the operation about this team's."""
    names = {
        "topic": team.topic, "queue": team.topic, "schedule_key": f"{team.topic}-3", "rule": team.parts["rule_id"],
        "group": f"of-{team.topic}" if ProducerGroup in map(type, route.on) else team.group, "silence": "1",
        "user": team.parts["access_user.name"], "person": "nobody", "role": "none", "token": "aaaaaaaaaa",
        "broker": "broker-a",
    }  # fmt: skip
    path = "/api/v1" + re.sub(r"{(\w+)}", lambda match: str(names.get(match[1], "{id}")), route.path)
    if OwnOperation in map(type, route.on):
        ids = [str(team.parts["operation_id"])]
    return [path.replace("{id}", each) for each in ids] if "{id}" in path else [path]


def body_of(route: Route, team: Team) -> Any:
    """A body whose names are this team's."""
    if route.body is None:
        return None
    given = BODIES[route.body]("X-")
    text = httpx.Request("POST", "http://x", json=given).content.decode()
    return text.replace("X-t", team.topic).replace("X-g", team.group).replace("X-q", team.topic)


def test_a_team_gets_nothing_of_the_other_by_any_operation(both: dict[str, Team], filled: Stage) -> None:
    prefixes = [OWN, GROUPS[OWN], f"of-{OWN}"]
    scopes = tokens.scope_rows(
        prefixes, prefixes, prefixes, consume=prefixes, settings=prefixes, unmask=prefixes
    )  # fmt: skip
    _row, token = tokens.create("a team", scopes)
    theirs, forged = ids_of(filled, OTHER), ids_of(filled, OTHER, named=OWN)
    own = ids_of(filled, OWN)
    before = (len(filled.admin.timers(0, 2**62).items), len(filled.admin.transactions("open").items))

    async def all_of_it() -> list[str]:
        application, wrong = create_application(filled.broker.namesrv), []
        transport = httpx.ASGITransport(application)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
            for route in ROUTES:
                is_list = not {Topic, Group, Queue, ProducerGroup, InRecord, InBody, OwnOperation} & {
                    *map(type, route.on)
                }
                for path in paths_of(route, both[OTHER], theirs):
                    answer = await client.request(route.method, path, content=body_of(route, both[OTHER]))
                    told = answer.text.replace(path, "")
                    if not is_list and answer.status_code not in (403, 404):
                        wrong.append(f"theirs: {route.method} {path}: {answer.status_code} {told[:200]}")
                    # what is refused names what was asked for, and nothing else
                    if is_list and answer.status_code < 300 and any(word in told for word in FOREIGN):
                        wrong.append(f"named: {route.method} {path}: {told[:300]}")
                if InRecord in map(type, route.on):
                    for path in paths_of(route, both[OWN], forged):
                        answer = await client.request(route.method, path, content=body_of(route, both[OWN]))
                        if answer.status_code < 400 or any(word in answer.text for word in FOREIGN):
                            wrong.append(f"forged: {route.method} {path}: {answer.status_code} {answer.text[:300]}")
                if route.method == "GET":
                    for path in paths_of(route, both[OWN], own):
                        answer = await client.request("GET", path)
                        if answer.status_code == 500 or any(word in answer.text for word in FOREIGN):
                            wrong.append(f"own: {path}: {answer.status_code} {answer.text[:300]}")
        await application.state.holder.close()
        return wrong

    wrong = asyncio.run(all_of_it())
    assert not wrong, "\n".join(wrong)
    assert (len(filled.admin.timers(0, 2**62).items), len(filled.admin.transactions("open").items)) == before


def test_the_description_is_for_who_is_signed_in(transactional_db: None) -> None:
    people = People()
    expected = {"stranger": 401, "none": 200, "viewer": 200, "superuser": 200}

    async def asked() -> dict[str, int]:
        application, found = create_application("127.0.0.1:1"), {}
        transport = httpx.ASGITransport(application)
        for role in expected:
            cookies = {name: morsel.value for name, morsel in people.browser(role).cookies.items()}
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver", cookies=cookies) as client:
                found[role] = (await client.get("/api/openapi.json")).status_code
        await application.state.holder.close()
        return found

    assert asyncio.run(asked()) == expected
