"""The page of components: for staff, from samples alone, with every state that a row can have."""

from __future__ import annotations

from typing import Any

from django.test import Client

from console.features.schedule.shapes import LaneState
from console.operations.kind import TYPED_ABOVE
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import tags_of


def test_components_are_shown_to_staff_and_need_no_broker(db: None, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    user = person("builder")
    assert browser_of(user).get("/design/").status_code == 403
    user.is_staff = True
    user.save()
    answer = browser_of(user).get("/design/")
    assert answer.status_code == 200
    page = answer.content.decode()
    names = {template.name for template in answer.templates}
    assert names > {
        "topics/list.html", "groups/list.html", "clients/list.html", "schedule/row.html", "overview/findings.html",
        "timers/wheel.html", "transactions/board.html", "messages/life.html", "operations/run.html",
        "parts/stale.html", "saved_views/fields.html",
    }  # fmt: skip
    assert {lane.state for lane in answer.context["lanes"]["lanes"]} == set(LaneState)
    # it opened scrolled down to the sample form
    assert not [tag for tag, at in tags_of(page) if "autofocus" in at]
    assert f"More than {TYPED_ABOVE}: type the number of items" in page
    assert page.count('class="empty"') >= 2
    assert Client().get("/design/").status_code == 302
