"""Requests 3001 to 3010: users and policies in RocketMQ's words."""

from __future__ import annotations

import json
import time
from typing import Any

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from tests.server.access.clients import People, policy
from tests.server.peer import Peer

REFUSED = Answer.NO_PERMISSION


async def shown(peer: Peer, name: str) -> Any:
    answer = await peer.ask(Request.AUTH_GET_USER, {"username": name})
    assert answer.code == 0, answer.remark
    return json.loads(answer.body) if answer.body else None


async def acl(people: People, name: str) -> Any:
    answer = await people.root.ask(Request.AUTH_GET_ACL, {"subject": f"User:{name}"})
    assert answer.code == 0, answer.remark
    return json.loads(answer.body) if answer.body else None


async def test_a_user_is_made_shown_changed_and_deleted(people: People) -> None:
    assert (await people.create("alice", password="a1")).code == 0
    assert await shown(people.root, "alice") == {
        "username": "alice", "password": "a1", "userType": "Normal", "userStatus": "enable",
    }  # fmt: skip
    assert (await people.create("alice")).code == REFUSED
    assert (await people.update("alice", password="a2", userType="Super", userStatus="disable")).code == 0
    assert await shown(people.root, "alice") == {
        "username": "alice", "password": "a2", "userType": "Super", "userStatus": "disable",
    }  # fmt: skip
    assert (await people.update("nobody", password="x")).code == REFUSED
    for _ in range(2):
        assert (await people.root.ask(Request.AUTH_DELETE_USER, {"username": "alice"})).code == 0
    assert await shown(people.root, "alice") is None


async def test_users_are_listed_by_a_part_of_their_name(people: People) -> None:
    for name in ("alice", "malice", "bob"):
        await people.create(name)

    async def listed(part: str | None) -> list[str]:
        ext = {} if part is None else {"filter": part}
        body = (await people.root.ask(Request.AUTH_LIST_USER, ext)).body
        return [user["username"] for user in json.loads(body)] if body else []

    assert await listed(None) == ["alice", "bob", "malice", "root"]
    assert await listed("lic") == ["alice", "malice"]
    assert await listed("zed") == []


async def test_secrets_are_told_to_super_users_only_and_the_inner_one_to_nobody(people: People) -> None:
    admin = await people.normal("admin", policy("Cluster:*", "Get", "Update"))
    assert "password" not in await shown(admin, "admin")
    assert "password" not in await shown(people.root, "root")
    listed = json.loads((await people.root.ask(Request.AUTH_LIST_USER)).body)
    assert {user["username"]: user.get("password") for user in listed} == {"admin": "admin-secret", "root": None}


async def test_super_users_are_made_changed_and_deleted_by_super_users_only(people: People) -> None:
    admin = await people.normal("admin", policy("Cluster:*", "Get", "Update"))
    await people.create("boss", userType="Super")

    async def make(by: Peer, name: str, **info: str) -> Command:
        return await by.ask(Request.AUTH_CREATE_USER, {"username": name}, json.dumps(info).encode())

    assert (await make(admin, "helper", password="h")).code == 0
    assert (await make(admin, "boss2", password="b", userType="super")).code != 0
    assert (await people.update("helper", by=admin, userType="Super")).code != 0
    assert (await people.update("boss", by=admin, password="mine")).code != 0
    assert (await admin.ask(Request.AUTH_DELETE_USER, {"username": "boss"})).code != 0
    assert (await shown(people.root, "boss"))["password"] == "boss-secret"
    assert (await make(people.signed("boss", "boss-secret"), "boss3", password="b", userType="Super")).code == 0


async def test_policies_are_added_replaced_listed_and_deleted(people: People) -> None:
    await people.create("alice")
    assert await acl(people, "alice") is None
    assert (
        await people.allow("alice", policy("Topic:order*", "Pub", "Sub", sources=("10.0.0.0/8",)), policy("*", "Get"))
    ).code == 0
    entry = {
        "resource": "Topic:order*", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow",
    }  # fmt: skip
    everything = {"resource": "*", "actions": ["Get"], "decision": "Allow"}
    assert await acl(people, "alice") == {
        "subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry, everything]}],
    }  # fmt: skip
    assert (await people.allow("alice", policy("topic:order*", "pub", decision="deny"))).code == 0
    found = await acl(people, "alice")
    assert found["policies"][0]["entries"][0] == {"resource": "Topic:order*", "actions": ["Pub"], "decision": "Deny"}

    async def listed(**filters: str) -> list[str]:
        body = (await people.root.ask(Request.AUTH_LIST_ACL, filters)).body
        return [each["subject"] for each in json.loads(body)] if body else []

    await people.create("bob")
    await people.allow("bob", policy("Group:g", "Sub", type_="Default"))
    assert await listed() == ["User:alice", "User:bob"]
    assert await listed(subjectFilter="bob") == ["User:bob"]
    assert await listed(resourceFilter="order") == ["User:alice"]
    assert await listed(resourceFilter="zed") == []
    forget = {"subject": "User:alice", "resource": "*"}
    assert (await people.root.ask(Request.AUTH_DELETE_ACL, forget)).code == 0
    assert len((await acl(people, "alice"))["policies"][0]["entries"]) == 1
    assert (await people.root.ask(Request.AUTH_DELETE_ACL, {"subject": "User:alice"})).code == 0
    assert await acl(people, "alice") is None
    assert (await people.root.ask(Request.AUTH_DELETE_ACL, {"subject": "User:alice"})).code == REFUSED


async def test_what_is_no_policy_is_refused_and_changes_nothing(people: People) -> None:
    await people.create("alice")
    good = policy("Topic:a", "Pub")
    for bad in (
        policy("Topic:a"),
        policy("Nothing:a", "Pub"),
        policy("Topic:a", "Any"),
        policy("Topic:a", "Pub", decision=""),
        policy("Topic:a", "Pub", sources=("here",)),
        policy("Topic:a", "Pub", type_="Other"),
        {"entries": []},
    ):
        both = [good, bad] if bad["entries"] else [bad]
        assert (await people.allow("alice", *both)).code == REFUSED
    assert (await people.allow("nobody", good)).code == REFUSED
    for subject in ("alice", "Role:alice", "User:"):
        body = json.dumps({"policies": [good]}).encode()
        assert (await people.root.ask(Request.AUTH_CREATE_ACL, {"subject": subject}, body)).code == REFUSED
    assert (await people.root.ask(Request.AUTH_CREATE_ACL, {"subject": "User:alice"}, b"[")).code == 29
    assert await acl(people, "alice") is None


# --- two secrets while they rotate ---


async def rotate(people: People, name: str, *, until_ms: int | None, **info: str) -> Command:
    ext = {"username": name} | ({} if until_ms is None else {"previousUntilMs": str(until_ms)})
    return await people.root.ask(Request.AUTH_UPDATE_USER, ext, json.dumps(info).encode())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def opens(people: People, secret: str) -> bool:
    return (await people.signed("alice", secret).ask(Request.GET_ALL_TOPIC_CONFIG)).code == 0


async def test_two_secrets_count_while_they_rotate(people: People) -> None:
    await people.create("alice", password="first")
    await people.allow("alice", policy("*", "All"))
    until_ms = now_ms() + 60_000
    assert (await rotate(people, "alice", until_ms=until_ms, password="second")).code == 0
    assert [await opens(people, each) for each in ("first", "second", "third")] == [True, True, False]
    told = await shown(people.root, "alice")
    assert (told["password"], told["previousUntilMs"]) == ("second", until_ms)
    assert "first" not in json.dumps(told)
    # the third takes the place of the second; the first counts no more
    assert (await rotate(people, "alice", until_ms=until_ms, password="third")).code == 0
    assert [await opens(people, each) for each in ("first", "second", "third")] == [False, True, True]
    # something else that changes leaves both
    assert (await people.update("alice", userType="Super")).code == 0
    assert [await opens(people, each) for each in ("second", "third")] == [True, True]


async def test_the_old_secret_ends_at_its_moment_or_by_a_word(people: People) -> None:
    await people.create("alice", password="first")
    await people.allow("alice", policy("*", "All"))
    await rotate(people, "alice", until_ms=now_ms() - 1, password="second")
    assert [await opens(people, each) for each in ("first", "second")] == [False, True]
    await rotate(people, "alice", until_ms=now_ms() + 60_000, password="third")
    assert await opens(people, "second")
    assert (await rotate(people, "alice", until_ms=0)).code == 0
    assert [await opens(people, each) for each in ("second", "third")] == [False, True]
    assert "previousUntilMs" not in await shown(people.root, "alice")
    # as RocketMQ does it: a new one alone ends the old one
    await rotate(people, "alice", until_ms=None, password="fourth")
    assert [await opens(people, each) for each in ("third", "fourth")] == [False, True]


async def test_who_signs_with_the_old_secret_may_still_send(people: People) -> None:
    await people.create("alice", password="first")
    await people.allow("alice", policy("*", "All"))
    old = people.signed("alice", "first")
    await old.create_topic("orders")
    await rotate(people, "alice", until_ms=now_ms() + 60_000, password="second")
    for peer in (old, people.signed("alice", "second")):
        for _ in range(2):  # the second one on a connection that has signed before
            assert (await peer.send("orders", b"x")).code == 0
    await rotate(people, "alice", until_ms=0)
    assert (await people.signed("alice", "first").send("orders", b"x")).code == REFUSED


async def test_a_moment_that_is_none_is_refused(people: People) -> None:
    await people.create("alice", password="first")
    for wrong in ("", "-1", "soon", "9" * 16, "٣"):
        ext = {"username": "alice", "previousUntilMs": wrong}
        assert (
            await people.root.ask(Request.AUTH_UPDATE_USER, ext, b'{"password": "second"}')
        ).code == Answer.INVALID_PARAMETER
    assert (await shown(people.root, "alice"))["password"] == "first"
