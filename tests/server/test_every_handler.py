"""Every request code with odd values in every field, by one who may do little and by one who may do all: nothing fails
unforeseen, and what everybody needs works on: topics are listed, made and deleted, messages sent and read, the mirror
follows, and the console shows what there is, odd clients that are connected included."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import Admin, NotSupported
from broker.mirror.follower import Mirror
from broker.mirror.models import MirrorState, Topic
from broker.rocketmq.acl import AccessConfig, User
from broker.rocketmq.codes import Answer, Request
from broker.server.connection import Server
from tests.mirror.running import RunningBroker
from tests.server.hostile import GOOD_BODIES, Asked, Caller, fields_of, requests_of
from tests.server.looking import console_of, wrong_pages
from tests.server.peer import pull_ext, send_ext

ROOT = ("root", b"root-secret")
TENANT = ("alice", b"alice-secret")
SEED = 17
POLICY = {
    "subject": "User:alice",
    "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:a-*", "actions": ["All"], "decision": "Allow"},
        {"resource": "Group:a-*", "actions": ["All"], "decision": "Allow"},
    ]}],
}  # fmt: skip


def started(root: Path) -> RunningBroker:
    return RunningBroker(
        root, access=AccessConfig(User(ROOT[0], ROOT[1].decode(), is_super=True)), delay_levels="1s 1h"
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = started(tmp_path / "store")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, dict[str, str]]]:
    """Which fields each request reads, by door: heard from a broker that is thrown away."""
    running = started(tmp_path_factory.mktemp("heard") / "store")
    found: dict[str, dict[int, dict[str, str]]] = {}

    def listen() -> None:
        for server in running.service.servers:
            open_to_all = Server(server.name, server._handlers, server.clock, server.limits)
            found[server.name] = {}
            for code in sorted(server.codes):
                # what an earlier request took away
                running.service.engine.topics.ensure("a-topic", 1)
                running.service.engine.groups.ensure("a-group")
                running.service.engine.groups.forbid("a-group", "a-topic", False)
                found[server.name][code] = fields_of(open_to_all, code)

    prepare(Caller(running.address, *ROOT))
    running.call(listen)
    running.stop()
    return found


def test_the_fields_that_requests_read_are_found(fields: dict[str, dict[int, dict[str, str]]]) -> None:
    broker = fields["broker"]
    assert {"topic", "readQueueNums", "attributes", "topicFilterType"} <= set(broker[Request.UPDATE_AND_CREATE_TOPIC])
    assert {"consumerGroup", "topic", "queueOffset", "subscription"} <= set(broker[Request.PULL_MESSAGE])
    assert {"a", "b", "e", "i"} <= set(broker[Request.SEND_MESSAGE_V2])
    assert {"username"} <= set(broker[Request.AUTH_CREATE_USER])
    assert {"namespace", "key", "value"} <= set(fields["name service"][Request.PUT_KV_CONFIG])
    assert {"invisibleTime", "pollTime", "exp", "initMode", "order"} <= set(broker[Request.POP_MESSAGE])
    assert {"suspendTimeoutMillis", "subVersion"} <= set(broker[Request.LITE_PULL_MESSAGE])
    silent = {code for code, names in broker.items() if not names and code not in GOOD_BODIES}
    assert len(silent) < len(broker) / 5, sorted(silent)


def test_nothing_fails_unforeseen_and_everything_works_on(
    transactional_db: None,
    broker: RunningBroker,
    fields: dict[str, dict[int, dict[str, str]]],
    caplog: Any,
    settings: Any,
) -> None:
    caplog.set_level(logging.ERROR)
    root, tenant = Caller(broker.address, *ROOT), Caller(broker.address, *TENANT)
    prepare(root)
    admin = Admin(broker.namesrv, access_key=ROOT[0], secret_key=ROOT[1].decode())
    mirror = Mirror(admin)
    faults: list[str] = []
    with admin:
        mirror.run_once()
        for door, address in (("broker", broker.address), ("name service", broker.namesrv)):
            for code, names in fields[door].items():
                for name, secret in (TENANT, ROOT):
                    caller = Caller(address, name, secret)
                    caller.say(requests_of(code, names, random.Random(f"{SEED} {code}")))
                    faults += caller.unexpected
                faults += [record.getMessage() for record in caplog.records]
                caplog.clear()
                assert_all_works(root, code)
                prepare(root)
            mirror.run_once()
        root.ask(Request.UPDATE_AND_CREATE_TOPIC, topic_ext("after-all"))
        beats = requests_of(Request.HEART_BEAT, fields["broker"][Request.HEART_BEAT], random.Random(SEED))
        with root.staying([beat for beat in beats if not beat.is_rough]):
            mirror.run_once()
            with console_of(broker.namesrv, ROOT[0], ROOT[1].decode(), settings) as browser:
                faults += wrong_pages(browser)
        mirror.close()
    assert faults == []
    assert Topic.objects.filter(name="after-all").exists()
    assert MirrorState.objects.get().error == ""
    assert tenant.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "a-x"}).code != Answer.SUCCESS
    polled(broker)
    assert [record.getMessage() for record in caplog.records] == []


def polled(broker: RunningBroker) -> None:
    """The mirror as it follows a broker by standard requests."""

    class Plain(Admin):
        def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
            raise NotSupported(3, "request type 14000 not supported")

    with Plain(broker.namesrv, access_key=ROOT[0], secret_key=ROOT[1].decode()) as source:
        mirror = Mirror(source)
        for _ in range(3):
            assert mirror.run_once().polling
        mirror.close()


def prepare(root: Caller) -> None:
    """A user who may do all below a-, and something there; what odd requests of him who may do all took away."""
    user = {"password": TENANT[1].decode(), "userType": "Normal", "userStatus": "enable"}
    for code in (Request.AUTH_CREATE_USER, Request.AUTH_UPDATE_USER):
        root.ask(code, {"username": "alice"}, json.dumps(user).encode())
    assert root.ask(Request.AUTH_CREATE_ACL, {"subject": "User:alice"}, json.dumps(POLICY).encode()).code == 0
    for name in ("a-topic", "b-topic"):
        assert root.ask(Request.UPDATE_AND_CREATE_TOPIC, topic_ext(name)).code == 0
        for properties in (
            "",
            "DELAY\x012\x02",
            "TIMER_DELAY_SEC\x0160\x02",
            "TRAN_MSG\x01true\x02PGROUP\x01a-group\x02",
        ):
            assert root.ask(Request.SEND_MESSAGE_V2, send_ext(name, properties), b"body").code == 0
    assert root.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"a-group"}').code == 0
    allowed = {"group": "a-group", "topic": "a-topic", "readable": "true"}
    assert root.ask(Request.UPDATE_AND_GET_GROUP_FORBIDDEN, allowed).code == 0
    assert root.ask(Request.PAUSE_TIMERS, {"paused": "false"}).code == 0


def topic_ext(name: str) -> dict[str, str]:
    return {"topic": name, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}


def assert_all_works(root: Caller, code: int) -> None:
    """What everybody needs, after the odd forms of one request."""
    name = f"works-{code}"
    steps: list[Asked] = [
        Asked(Request.UPDATE_AND_CREATE_TOPIC, topic_ext(name)),
        Asked(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": name}).encode()),
    ]
    for asked in steps:
        answer = root.ask(asked.code, asked.ext, asked.body)
        assert answer.code == Answer.SUCCESS, f"after request {code}: {asked}: {answer.remark}"
    sent = root.ask(Request.SEND_MESSAGE_V2, send_ext(name), b"body")
    assert sent.code == Answer.SUCCESS, f"after request {code}: {sent.remark}"
    read = root.ask(Request.PULL_MESSAGE, pull_ext(name, name))
    assert read.code == Answer.SUCCESS, f"after request {code}: {read.remark}"
    listed = root.ask(Request.GET_ALL_TOPIC_CONFIG)
    assert listed.code == Answer.SUCCESS, f"after request {code}: {listed.remark}"
    assert name in json.loads(listed.body)["topicConfigTable"]
    for asked in (
        Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Request.GET_ALL_PRODUCER_INFO,
        Request.GET_ALL_CONSUMER_OFFSET,
    ):
        assert root.ask(asked).code == Answer.SUCCESS, f"after request {code}: {asked!r}"
    assert root.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": name}).code == Answer.SUCCESS
