"""The audit page: filtered, paged, as a file, closed to who may not see it."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from console.operations import actor, audit_pages
from console.operations.errors import NotAllowed
from console.operations.models import AuditEntry
from tests.console.people import browser_of, person
from tests.console.stage import HOSTILE


@pytest.fixture
def viewer(db: None) -> Client:
    return browser_of(person("viewer"))


def entry(actor: str, reason: str = "because", **more: Any) -> AuditEntry:
    return AuditEntry.objects.create(
        actor=actor, reason=reason, **{"what": "confirmed", "kind": "timers.cancel", **more}
    )


def reasons(answer: Any) -> list[str]:
    return [row.reason for row in answer.context["rows"]]


def body_of(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


def test_every_filter_narrows_and_all_of_them_together(viewer: Client) -> None:
    entry("anna", "one")
    entry("ben", "two", what="denied")
    entry("anna", "three", kind="transactions.commit")
    assert reasons(viewer.get("/audit/")) == ["three", "two", "one"]
    assert reasons(viewer.get("/audit/?actor=anna")) == ["three", "one"]
    assert reasons(viewer.get("/audit/?what=denied")) == ["two"]
    assert reasons(viewer.get("/audit/?actor=anna&kind=timers.cancel")) == ["one"]
    assert reasons(viewer.get("/audit/?text=HRE")) == ["three"]
    assert reasons(viewer.get("/audit/?from=-10+min")) == ["three", "two", "one"]
    assert reasons(viewer.get("/audit/?to=-10+min")) == []
    wrong = viewer.get("/audit/?from=soon")
    assert wrong.status_code == 422
    assert 'aria-invalid="true"' in wrong.content.decode()
    assert viewer.get("/audit/data.csv?from=soon").status_code == 422
    assert viewer.get("/audit/?actor=%00").status_code == 200


def test_a_page_leads_to_the_next_and_keeps_the_filter(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_pages, "LISTED", 2)
    for number in range(5):
        entry("anna", str(number))
    seen, address = [], "/audit/?actor=anna"
    while address:
        answer = viewer.get(address)
        seen += reasons(answer)
        address = "/audit/" + answer.context["following"] if answer.context["following"] else ""
        assert not address or "actor=anna" in address
    assert seen == ["4", "3", "2", "1", "0"]


def test_files_hold_all_that_match_and_run_nothing(viewer: Client) -> None:
    for text in (*HOSTILE, "=1+1", "@cmd"):
        entry("anna", text, result={"count": 3})
    entry("ben", "not this")
    answer = viewer.get("/audit/data.csv?actor=anna")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.csv"'
    rows = list(csv.DictReader(io.StringIO(body_of(answer))))
    assert [row["reason"] for row in rows] == ["'@cmd", "'=1+1", *reversed(HOSTILE)]
    assert json.loads(rows[0]["result"]) == {"count": 3}
    told = json.loads(body_of(viewer.get("/audit/data.json?actor=anna")))
    assert [row["reason"] for row in told] == ["@cmd", "=1+1", *reversed(HOSTILE)]
    assert json.loads(body_of(viewer.get("/audit/data.json?actor=nobody"))) == []
    assert viewer.get("/audit/data.xml").status_code == 404


def test_hostile_reasons_stay_text(viewer: Client) -> None:
    for text in HOSTILE:
        entry(text[:150], text, kind=text[:64])
    page = viewer.get("/audit/", {"actor": "", "text": HOSTILE[1]}).content.decode()
    assert "<img" not in page
    assert not re.search(r"<script>|<hx-partial|onload=alert\(1\)>\s*<", viewer.get("/audit/").content.decode())


def test_it_needs_its_own_permission(db: None) -> None:
    user = person("anna", "view_console", role="")
    assert browser_of(user).get("/audit/").status_code == 403
    assert browser_of(user).get("/audit/data.csv").status_code == 403
    user.groups.add(Group.objects.get(name="viewer"))
    assert browser_of(user).get("/audit/").status_code == 200


def test_refusals_of_one_actor_do_not_fill_it(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "DENIALS_AN_HOUR", 3)
    for name in ("anna", "ben"):
        refused = actor.Actor(name, frozenset())
        for _ in range(5):
            with pytest.raises(NotAllowed):
                refused.require(actor.STEER_TIMERS, "timers.cancel")
    assert [AuditEntry.objects.filter(actor=name).count() for name in ("anna", "ben")] == [3, 3]
