"""Users of access control by the console's pages, by REST and by the command: secrets once, policies, who may."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from broker.client import Admin, BrokerRefused
from broker.client import credentials as client_credentials
from broker.rocketmq.acl import PolicyType
from console.features.access.operations import entry_words
from console.operations.models import AuditEntry, Operation, OperationItem
from console.rest.app import create_application
from console.security import tokens
from tests.console.kept import hang_up
from tests.console.people import browser_of, person
from tests.mirror.running import RunningBroker, running_broker
from tests.server.access.clients import ACCESS, ROOT


@pytest.fixture
def guarded(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[RunningBroker]:
    """A broker with access control, and the console as its own user."""
    with running_broker(tmp_path / "store", access=ACCESS) as broker:
        settings.ESCAPEMENT_NAMESRV, settings.ACCESS_KEY = broker.namesrv, ROOT[0]
        client_credentials.remember(broker.namesrv, {"access_key": ROOT[0], "secret_key": ROOT[1]})
        yield broker
        hang_up()
        client_credentials.remember(broker.namesrv, {})


@pytest.fixture
def boss(guarded: RunningBroker) -> Client:
    return browser_of(person("boss", "change_access", role="viewer"))


def draft(browser: Client, kind: str, **fields: Any) -> Any:
    return browser.post("/operations/draft/", {"kind": f"access.{kind}", **fields})


def run(browser: Client, kind: str, **fields: Any) -> Any:
    """Preview and confirm; returns the answer to the confirmation."""
    drafted = draft(browser, kind, **fields)
    assert drafted.status_code == 303, drafted.content.decode()[:3_000]
    typed = fields["name"] if kind == "delete" else ""
    return browser.post(f"{drafted.headers['Location']}confirm/", {"reason": "a test", "typed": typed})


def secret_of(answer: Any) -> str:
    assert answer.status_code == 200
    (secret,) = re.findall(r'<pre[^>]*class="secret">([\w-]{43})</pre>', answer.content.decode())
    return str(secret)


def opens(broker: RunningBroker, name: str, secret: str) -> bool:
    with Admin(broker.namesrv, access_key=name, secret_key=secret) as admin:
        try:
            return bool(admin.access_users(name))
        except BrokerRefused:
            return False


def kept() -> str:
    rows: tuple[Any, ...] = (Operation, OperationItem, AuditEntry)
    return str([list(model.objects.values()) for model in rows])


def test_a_user_is_made_rotated_and_ended_and_secrets_are_kept_nowhere(boss: Client, guarded: RunningBroker) -> None:
    answer = run(boss, "create", name="alice", is_super="yes")
    first = secret_of(answer)
    assert "no-store" in answer.headers["Cache-Control"]
    assert opens(guarded, "alice", first)
    number = re.findall(r"/operations/([0-9a-f-]{36})/", answer.content.decode())[0]
    assert first not in boss.get(f"/operations/{number}/").content.decode()
    assert first not in boss.post(f"/operations/{number}/confirm/", {"reason": "again"}, follow=True).content.decode()
    second = secret_of(run(boss, "rotate", name="alice", overlap_hours="2"))
    assert [opens(guarded, "alice", each) for each in (first, second)] == [True, True]
    page = boss.get("/access/alice/").content.decode()
    assert "The old secret is valid until" in page
    run(boss, "end_old_secret", name="alice")
    assert [opens(guarded, "alice", each) for each in (first, second)] == [False, True]
    third = secret_of(run(boss, "rotate", name="alice", overlap_hours="0"))
    assert [opens(guarded, "alice", each) for each in (second, third)] == [False, True]
    run(boss, "change", name="alice", is_enabled="no")
    assert not opens(guarded, "alice", third)
    run(boss, "change", name="alice", is_enabled="yes")
    assert opens(guarded, "alice", third)
    run(boss, "delete", name="alice")
    assert not opens(guarded, "alice", third)
    assert boss.get("/access/alice/").status_code == 404
    for secret in (first, second, third):
        assert secret not in kept()
    done = AuditEntry.objects.filter(what="finished").values_list("kind", flat=True)
    assert {"access.create", "access.rotate", "access.end_old_secret", "access.change", "access.delete"} <= set(done)


def test_policies_are_set_shown_replaced_and_taken_away(boss: Client, guarded: RunningBroker) -> None:
    run(boss, "create", name="alice", is_super="no")
    policy = {"name": "alice", "resource": "topic:order*", "decision": "Allow", "actions": ["Pub", "Sub"]}
    drafted = draft(boss, "set_policy", **policy, sources="10.0.0.0/8, 127.0.0.1")
    shown = boss.get(drafted.headers["Location"]).content.decode()
    assert "Allow Pub, Sub · 10.0.0.0/8, 127.0.0.1" in shown
    assert run(boss, "set_policy", **policy, sources="").status_code == 303
    run(boss, "set_policy", name="alice", resource="*", decision="Deny", actions=["Get"], sources="")
    page = boss.get("/access/alice/").content.decode()
    for text in ("Topic:order*", "Allow Pub, Sub", "Deny Get"):
        assert text in page
    run(boss, "delete_policy", name="alice", resource="*")
    with Admin(guarded.namesrv, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        found = admin.access_user("alice")
    assert found is not None
    assert [str(each.resource) for each in found.policies[PolicyType.CUSTOM]] == ["Topic:order*"]


def test_a_default_policy_stands_beside_that_of_its_resource_and_is_changed_alone(
    boss: Client, guarded: RunningBroker
) -> None:
    run(boss, "create", name="alice", is_super="no")
    common = {"name": "alice", "resource": "Topic:order*", "sources": ""}
    run(boss, "set_policy", **common, decision="Allow", actions=["Pub"])
    drafted = draft(boss, "set_policy", **common, type="Default", decision="Deny", actions=["Sub"])
    assert "Topic:order* (Default)" in boss.get(drafted.headers["Location"]).content.decode()
    run(boss, "set_policy", **common, type="Default", decision="Deny", actions=["Sub"])
    page = boss.get("/access/alice/").content.decode()
    assert page.count("access.delete_policy") == 2
    assert kinds_of(guarded, "alice") == {"Custom": ["Allow Pub"], "Default": ["Deny Sub"]}
    removed = draft(boss, "delete_policy", name="alice", resource="Topic:order*", type="Default")
    asked = boss.get(removed.headers["Location"]).content.decode()
    assert "Remove policy" in asked
    assert "second factor" not in asked
    run(boss, "delete_policy", name="alice", resource="Topic:order*", type="Default")
    assert kinds_of(guarded, "alice") == {"Custom": ["Allow Pub"], "Default": []}


def kinds_of(broker: RunningBroker, name: str) -> dict[str, list[str]]:
    """What the broker itself has of this user, by type."""
    with Admin(broker.namesrv, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        found = admin.access_user(name)
    assert found is not None
    return {str(type_): [entry_words(each) for each in found.policies.get(type_, ())] for type_ in PolicyType}


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("create", {"name": "a b"}, "A user&#x27;s name has 1 to 128"),
        ("create", {"name": "root"}, "the brokers&#x27; own user"),
        ("rotate", {"name": "nobody", "overlap_hours": "1"}, "There is no user nobody."),
        ("rotate", {"name": "alice", "overlap_hours": "soon"}, "overlap_hours is from 0"),
        ("rotate", {"name": "alice", "overlap_hours": "nan"}, "overlap_hours is from 0"),
        ("set_policy", {"name": "alice", "resource": "order", "actions": "Pub"}, "is no resource"),
        ("set_policy", {"name": "alice", "resource": "*", "actions": "Fly"}, "is no action"),
        ("set_policy", {"name": "alice", "resource": "*"}, "The actions are empty"),
        (
            "set_policy",
            {"name": "alice", "resource": "*", "actions": "Pub", "sources": "here"},
            "neither an IP address",
        ),
        ("set_policy", {"name": "alice", "resource": "*", "actions": "Pub", "decision": "Maybe"}, "neither Allow nor"),
        (
            "set_policy",
            {"name": "alice", "resource": "*", "actions": "Pub", "type": "Other"},
            "neither Custom nor Default",
        ),
        ("delete_policy", {"name": "alice", "resource": "Topic:"}, "is no resource"),
        ("delete_policy", {"name": "alice", "resource": "*", "type": "Other"}, "neither Custom nor Default"),
        ("create", {"name": "alice"}, "There is a user alice already."),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_done(boss: Client, kind: str, fields: dict[str, str], said: str) -> None:
    call_command("access", "create", "alice", "--reason", "a test", stdout=StringIO(), stderr=StringIO())
    count = Operation.objects.count()
    answer = draft(boss, kind, **fields)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert Operation.objects.count() == count


def test_who_may_not_is_refused_by_every_door_and_the_audit_has_it(guarded: RunningBroker) -> None:
    operator = browser_of(person("operator", role="operator"))
    for address in ("/access/", "/access/alice/"):
        assert operator.get(address).status_code == 403
    for kind in ("create", "rotate", "end_old_secret", "change", "delete", "set_policy", "delete_policy"):
        assert draft(operator, kind, name="alice").status_code == 403
        denied = AuditEntry.objects.filter(what="denied", kind=f"access.{kind}", actor="operator")
        assert denied.exists()
    limited = person("limited", "change_access")
    limited.groups.first().topic_permissions.create(pattern="a-*")
    assert browser_of(limited).get("/access/").status_code == 403
    assert draft(browser_of(limited), "create", name="alice").status_code == 403


def test_the_password_is_asked_for_again(boss: Client) -> None:
    drafted = draft(boss, "create", name="alice")
    session = boss.session
    session["proved_s"] = 0
    session.save()
    answer = boss.post(f"{drafted.headers['Location']}confirm/", {"reason": "a test"})
    assert answer.headers["Location"].startswith("/prove/")


def command(*words: str) -> tuple[str, str]:
    out, error = StringIO(), StringIO()
    call_command("access", *words, stdout=out, stderr=error)
    return out.getvalue(), error.getvalue()


def test_the_command_does_the_same(guarded: RunningBroker) -> None:
    out, error = command("create", "alice", "--super", "--reason", "a test")
    assert opens(guarded, "alice", out.strip())
    assert "shown once" in error
    command("allow", "alice", "Topic:order*", "Pub", "Sub", "--from", "10.0.0.0/8", "--reason", "a test")
    command("deny", "alice", "*", "Get", "--reason", "a test")
    listed, _error = command("list")
    assert "alice  Super, enabled" in listed
    assert "    Topic:order*  Allow Pub, Sub · 10.0.0.0/8  (Custom)" in listed
    command("allow", "alice", "*", "List", "--default", "--reason", "a test")
    assert "    *  Allow List  (Default)" in command("list")[0]
    command("take-away", "alice", "*", "--reason", "a test")
    assert "Deny Get" not in command("list")[0]
    assert "    *  Allow List  (Default)" in command("list")[0]
    command("take-away", "alice", "*", "--default", "--reason", "a test")
    assert "Allow List" not in command("list")[0]
    new, _error = command("rotate", "alice", "--overlap-hours", "1", "--reason", "a test")
    assert [opens(guarded, "alice", each) for each in (out.strip(), new.strip())] == [True, True]
    command("end-old-secret", "alice", "--reason", "a test")
    assert not opens(guarded, "alice", out.strip())
    command("disable", "alice", "--reason", "a test")
    assert "alice  Super, disabled" in command("list")[0]
    command("enable", "alice", "--reason", "a test")
    command("delete", "alice", "--reason", "a test")
    assert "alice" not in command("list")[0]
    with pytest.raises(CommandError, match="There is no user alice"):
        command("disable", "alice", "--reason", "a test")
    assert out.strip() not in kept()
    assert AuditEntry.objects.filter(actor__startswith="shell ", reason="a test", kind="access.rotate").exists()


def test_rest_makes_changes_and_tells_and_needs_the_right_for_it(guarded: RunningBroker) -> None:
    may = tokens.create("may", tokens.scope_rows([], [], access=["*"]))[1]
    others = tokens.create("others", tokens.scope_rows(["*"], ["*"], ["*"], ["*"], ["*"], ["*"]))[1]
    users = "/api/v1/broker-users"

    async def talk() -> None:
        app = create_application(guarded.namesrv)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver") as client:
            await asked(client)
        await app.state.holder.close()

    async def asked(client: httpx.AsyncClient) -> None:
        async def ask(method: str, path: str = "", body: Any = None, token: str = may) -> httpx.Response:
            head = {"authorization": f"Bearer {token}"}
            return await client.request(method, f"{users}{path}", json=body, headers=head)

        why = {"reason": "a test"}
        for method, path, body in (
            ("GET", "", None), ("GET", "/alice", None), ("POST", "", {"name": "alice", **why}),
            ("PATCH", "/alice", {"is_enabled": False, **why}), ("DELETE", "/alice?reason=x", None),
            ("POST", "/alice:rotate", why), ("POST", "/alice:end-old-secret", why),
            ("POST", "/alice/policies", {"resource": "*", "actions": ["Pub"], **why}),
            ("POST", "/alice/policies:delete", {"resource": "*", **why}),
        ):  # fmt: skip
            assert (await ask(method, path, body, others)).status_code == 403, (method, path)
        made = await ask("POST", "", {"name": "alice", "is_super": True, **why})
        assert made.status_code == 202, made.text
        secret = made.json()["secrets"]["alice"]
        assert await asyncio.to_thread(opens, guarded, "alice", secret)
        told = await client.get(made.headers["location"], headers={"authorization": f"Bearer {may}"})
        assert secret not in told.text
        assert (await ask("POST", "", {"name": "bert", "preview": True, **why})).status_code == 200
        assert (await ask("GET", "/bert")).status_code == 404
        await ask("POST", "/alice/policies", {"resource": "Topic:a*", "actions": ["Pub"], "sources": [], **why})
        (row,) = (await ask("GET", "/alice")).json()["users"]
        assert row["policies"] == [
            {"type": "Custom", "resource": "Topic:a*", "actions": ["Pub"], "decision": "Allow", "sources": []}
        ]
        default = {"type": "Default", "resource": "Topic:a*"}
        await ask("POST", "/alice/policies", {**default, "actions": ["Sub"], "decision": "Deny", **why})
        (row,) = (await ask("GET", "/alice")).json()["users"]
        assert [each["type"] for each in row["policies"]] == ["Custom", "Default"]
        assert (await ask("POST", "/alice/policies", {**default, "type": "Other", **why})).status_code == 400
        await ask("POST", "/alice/policies:delete", {**default, **why})
        (row,) = (await ask("GET", "/alice")).json()["users"]
        assert [each["type"] for each in row["policies"]] == ["Custom"]
        new = (await ask("POST", "/alice:rotate", {"overlap_hours": 1, **why})).json()["secrets"]["alice"]
        for each in (secret, new):
            assert await asyncio.to_thread(opens, guarded, "alice", each)
        await ask("POST", "/alice:end-old-secret", why)
        assert not await asyncio.to_thread(opens, guarded, "alice", secret)
        await ask("POST", "/alice/policies:delete", {"resource": "Topic:a*", **why})
        await ask("PATCH", "/alice", {"is_enabled": False, **why})
        (row,) = (await ask("GET", "/alice")).json()["users"]
        assert (row["policies"], row["is_enabled"]) == ([], False)
        assert (await ask("DELETE", "/alice?reason=a+test")).status_code == 202
        assert [each["name"] for each in (await ask("GET")).json()["users"]] == ["root"]

    asyncio.run(talk())
    assert json.dumps(AuditEntry.objects.filter(actor="token may", what="finished").count()) != "0"


def test_the_right_is_for_every_name_only() -> None:
    with pytest.raises(ValueError, match="write \\*"):
        tokens.scope_rows([], [], access=["a-"])
