"""`manage.py operate`, and the calls that an operation's page shows: the same thing as the page."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client

from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import AuditEntry, Operation
from tests.console.stage import Stage

FIRST = {"group": "billing", "topic": "orders", "to": "first"}


def operate(*words: str) -> dict[str, Any]:
    out = StringIO()
    call_command("operate", *words, stdout=out)
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


@pytest.fixture
def read(stage: Stage) -> Stage:
    stage.fill()
    stage.consume()
    return stage


def test_it_previews_and_does_nothing_until_it_is_told_to(read: Stage) -> None:
    told = operate("groups.reset_offsets", json.dumps(FIRST))
    assert (told["state"], told["results"]) == ("draft", {})
    assert AuditEntry.objects.count() == 0
    done = operate("groups.reset_offsets", json.dumps(FIRST), "--reason", "read again", "--run")
    assert (done["state"], done["error"]) == ("done", "")
    assert Operation.objects.get(pk=done["operation"]).actor.startswith("shell ")
    assert [entry.reason for entry in AuditEntry.objects.all()] == ["read again", "read again"]


def test_what_is_wrong_is_said_in_words(read: Stage) -> None:
    for words in (["{"], ["[]"], ['{"group": "billing"}'], [json.dumps(FIRST), "--run"]):
        with pytest.raises(CommandError):
            call_command("operate", "groups.reset_offsets", *words)
    assert Operation.objects.exclude(state="draft").count() == 0


def test_the_calls_that_the_page_shows_do_the_same(read: Stage, operator: Client) -> None:
    user = get_user_model().objects.get(username="operator")
    row = workflow.draft("groups.reset_offsets", FIRST, Actor.of(user))
    page = operator.get(f"/operations/{row.pk}/").content.decode()
    calls = re.findall(r"<pre tabindex=\"0\"\s*>(.*?)</pre>", page, re.DOTALL)[-2:]
    shell, python = map(unescape, calls)
    _manage, command, *words = shlex.split(shell.replace("\\\n", " "))
    assert command == "operate"
    assert operate(*[word if word != "..." else "as shown" for word in words])["state"] == "done"
    workflow.start("groups.reset_offsets", {**FIRST, "to": "last"}, Actor.of(user), reason="back")
    exec(python.replace("reason=...", "reason='as shown'"), {"user": user})  # noqa: S102 - the page is ours
    assert Operation.objects.filter(state="done", reason="as shown").count() == 2
