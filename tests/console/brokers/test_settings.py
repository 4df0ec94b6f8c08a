"""Settings of a broker changed in the console: previewed, with a reason, in the audit, put back, kept over a start."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from console.operations import workflow
from console.operations.actor import CHANGE_SETTINGS, PERMISSIONS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible
from console.operations.models import AuditEntry, Operation
from console.site.chosen import choice_of, choosing
from tests.console.people import person
from tests.console.several import A, B, Several
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
KIND = "brokers.configure"
HOURS = {"kind": KIND, "fileReservedTime": "48", "was_fileReservedTime": "72"}


def do(**parameters: Any) -> Operation:
    return workflow.start(KIND, parameters, ACTOR, reason="because")


def confirmed(browser: Client, address: str) -> Operation:
    answer = browser.post(address + "confirm/", {"reason": "the disk is small"})
    assert answer.status_code == 303, words(answer)
    return Operation.objects.get(pk=address.split("/")[2])


def test_a_setting_is_changed_as_the_form_says_and_nothing_else(stage: Stage, operator: Client) -> None:
    before = stage.admin.broker_config()
    same = {"maxMessageSize": before["maxMessageSize"], "was_maxMessageSize": before["maxMessageSize"]}
    answer = operator.post("/operations/draft/", {**HOURS, **same})
    address = str(answer.headers["Location"])
    page = words(operator.get(address))
    assert "fileReservedTime 72 48" in page
    assert "maxMessageSize" not in page
    assert "curl -X PATCH http://testserver/api/v1/brokers/broker-a/settings" in page
    assert stage.admin.broker_config() == before
    row = confirmed(operator, address)
    assert (row.state, row.results) == ("done", {"changed": 1})
    assert stage.admin.broker_config() == {**before, "fileReservedTime": "48"}
    assert "fileReservedTime: 72 → 48" in words(operator.get(address))
    assert AuditEntry.objects.filter(operation=row.pk, what="confirmed", reason="the disk is small").count() == 1


def test_a_change_is_put_back_while_nobody_changed_it_since(stage: Stage, operator: Client) -> None:
    row = do(settings={"fileReservedTime": 48, "autoCreateTopicEnable": False})
    assert stage.admin.broker_config()["autoCreateTopicEnable"] == "false"
    back = str(operator.post(f"/operations/{row.pk}/undo/").headers["Location"])
    assert confirmed(operator, back).results == {"changed": 1}
    now = stage.admin.broker_config()
    assert (now["fileReservedTime"], now["autoCreateTopicEnable"]) == ("72", "true")
    row = do(settings={"fileReservedTime": "48"})
    do(settings={"fileReservedTime": "47"})
    refused = operator.post(f"/operations/{row.pk}/undo/")
    assert refused.status_code == 422
    assert "it was changed meanwhile" in words(refused)


def test_what_was_changed_between_preview_and_run_stays(stage: Stage) -> None:
    draft = workflow.draft(KIND, {"settings": {"fileReservedTime": "9"}, "expected": {"fileReservedTime": "72"}}, ACTOR)
    do(settings={"fileReservedTime": "48"})
    assert workflow.confirm(draft.pk, ACTOR, reason="because").results == {"refused": 1}
    assert stage.admin.broker_config()["fileReservedTime"] == "48"


@pytest.mark.parametrize(
    ("given", "loses"),
    [
        ({"fileReservedTime": "48"}, True), ({"fileReservedTime": "96"}, False), ({"escKeepUnconsumed": False}, True),
        ({"maxMessageSize": 5}, False), ({"fileReservedTime": "72"}, False),
    ],
)  # fmt: skip
def test_who_may_lose_messages_is_told_before(stage: Stage, operator: Client, given: Any, loses: bool) -> None:
    draft = workflow.draft(KIND, {"settings": given}, ACTOR)
    said = "Undoing the change does not bring them back." in words(operator.get(f"/operations/{draft.pk}/"))
    assert draft.preview["loses"] == said == loses


def test_what_is_wrong_in_the_form_stands_at_its_field(stage: Stage, operator: Client) -> None:
    answer = operator.post("/operations/draft/", {**HOURS, "fileReservedTime": "soon"})
    assert answer.status_code == 422
    assert 'id="wrong-fileReservedTime"' in answer.content.decode()
    assert "fileReservedTime is a number above 0" in words(answer)
    unchanged = operator.post("/operations/draft/", {**HOURS, "fileReservedTime": "72"})
    assert unchanged.status_code == 422
    assert "No setting was changed." in words(unchanged)


BAD = {
    "nothing": {},
    "no mapping": ["fileReservedTime"],
    "not changeable": {"brokerName": "x"},
    "unknown": {"noSuchThing": "1"},
    "a line more": {"fileReservedTime": "1\nbrokerName=x"},
    "too large": {"maxMessageSize": 10**9},
    "not a value": {"fileReservedTime": None},
    # Apache RocketMQ has it, this broker does not
    "not here": {"deleteWhen": "04"},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_set_is_refused_before_anything_changes(stage: Stage, given: Any) -> None:
    before = stage.admin.broker_config()
    with pytest.raises(InvalidParameter):
        workflow.draft(KIND, {"settings": given}, ACTOR)
    assert stage.admin.broker_config() == before


def test_it_needs_the_permission(stage: Stage) -> None:
    viewer = Client()
    viewer.force_login(person("looker"))
    assert viewer.post("/operations/draft/", HOURS).status_code == 403
    assert 'title="This needs the permission console.change_settings."' in viewer.get("/broker/").content.decode()
    with pytest.raises(NotAllowed):
        workflow.start(KIND, {"settings": {"fileReservedTime": "1"}}, Actor("x", frozenset()), reason="because")
    may = Actor("x", frozenset({CHANGE_SETTINGS}))
    assert workflow.start(KIND, {"settings": {"fileReservedTime": "1"}}, may, reason="because").results
    assert stage.admin.broker_config()["fileReservedTime"] == "1"


def test_of_several_brokers_one_is_changed(brokers: Several, operator: Client) -> None:
    with pytest.raises(NotPossible):
        do(settings={"fileReservedTime": "48"})
    address = str(operator.post(f"/at/{B}/operations/draft/", HOURS).headers["Location"])
    row = confirmed(operator, address.removeprefix(f"/at/{B}"))
    assert (row.broker, row.results) == (B, {"changed": 1})
    found = {name: brokers.admins[name].broker_config()["fileReservedTime"] for name in (A, B)}
    assert found == {A: "72", B: "48"}
    with choosing(choice_of(A)):
        assert do(settings={"fileReservedTime": "50"}).results == {"changed": 1}
        with pytest.raises(InvalidParameter):
            do(broker=B, settings={"fileReservedTime": "50"})
    assert do(broker=B, settings={"fileReservedTime": "51"}).results == {"changed": 1}
    assert brokers.admins[B].broker_config()["fileReservedTime"] == "51"
    do(broker=B, settings={"fileReservedTime": "48"})
    confirmed(operator, str(operator.post(f"/operations/{row.pk}/undo/").headers["Location"]).removeprefix(f"/at/{B}"))
    assert brokers.admins[B].broker_config()["fileReservedTime"] == "72"
    assert brokers.admins[A].broker_config()["fileReservedTime"] == "50"


def test_a_shell_changes_them_too(stage: Stage) -> None:
    out, settings = StringIO(), json.dumps({"settings": {"transactionCheckMax": 9}})
    call_command("operate", KIND, settings, "--run", "--reason", "because", stdout=out)
    assert json.loads(out.getvalue())["results"] == {"changed": 1}
    assert stage.admin.broker_config()["transactionCheckMax"] == "9"
    with pytest.raises(CommandError, match="1 to 255"):
        call_command("operate", KIND, '{"settings": {"transactionCheckMax": 0}}')
