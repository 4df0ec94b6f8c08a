"""How somebody wants to see the console: kept in the browser, obeyed by pages, files and open pages."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from console.operations.models import Operation
from console.ui.live import LivePage, _render
from console.ui.preferences import zone_named
from tests.console.stage import Stage

SHANGHAI = "Asia/Shanghai"


def shown(html: str) -> list[str]:
    """The moments of a page as they are read, in full."""
    return re.findall(r'title="\d{4}-\d\d-\d\d [\d:.]{12} (\S+)"', html)


def test_moments_are_in_the_zone_that_was_chosen(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", "x", keys=["k"])
    stage.mirror.run_once()
    page = f"/messages/{sent.offset_message_id}/"
    in_utc = operator.get(page).content.decode()
    assert set(shown(in_utc)) == {"UTC"}
    assert "data-zone" not in in_utc
    answer = operator.post("/zone/", {"zone": SHANGHAI, "next": page})
    assert (answer.status_code, answer["Location"]) == (303, page)
    html = operator.get(page).content.decode()
    assert set(shown(html)) == {"CST"}
    assert f'data-zone="{SHANGHAI}"' in html
    assert re.search(r'id="clock".*?</span>\s*CST</span>', html, re.DOTALL), "the clock says of which zone it is"
    # the next request of this thread is somebody else's
    assert timezone.get_current_timezone_name() == "UTC"
    operator.post("/zone/", {"zone": "UTC"})
    assert set(shown(operator.get(page).content.decode())) == {"UTC"}


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "A" * 5_000, "Asia/Shanghai\n; x=y"])
def test_what_is_no_zone_changes_nothing(client: Client, transactional_db: None, zone: str) -> None:
    answer = client.post("/zone/", {"zone": zone, "next": "//elsewhere.example/"})
    assert answer["Location"] == "/"
    assert "zone" not in answer.cookies
    assert zone_named(zone) == ""


def test_a_cookie_that_somebody_wrote_is_no_fault(operator: Client, stage: Stage) -> None:
    operator.cookies["zone"], operator.cookies["density"] = "Nowhere/At-all", "<b>"
    html = operator.get("/topics/").content.decode()
    assert "data-zone" not in html
    assert "data-density" not in html


def test_rows_have_room_where_that_was_chosen(operator: Client, stage: Stage) -> None:
    assert "density" not in operator.post("/density/", {"density": "huge"}).cookies
    operator.post("/density/", {"density": "comfortable"})
    assert 'data-density="comfortable"' in operator.get("/topics/").content.decode()
    operator.post("/density/", {"density": "compact"})
    assert "data-density" not in operator.get("/topics/").content.decode()


def test_files_have_moments_of_the_zone_with_its_offset(operator: Client, stage: Stage) -> None:
    operator.post("/zone/", {"zone": SHANGHAI})
    row = Operation.objects.create(kind="timers.cancel", state=Operation.State.DONE, actor="operator", reason="x")
    answer = operator.get("/operations/?as=csv")
    (found,) = csv.DictReader(io.StringIO(answer.getvalue().decode()))  # type: ignore[attr-defined]  # a stream
    assert found["created_at"].endswith("+08:00")
    assert datetime.fromisoformat(found["created_at"]) == row.created_at


def test_open_pages_say_moments_in_the_same_zone(stage: Stage, settings: object) -> None:
    template = Template("{% load escapement %}{% moment 0 %}").render
    with timezone.override(SHANGHAI):
        assert "1970-01-01 08:00:00.000 CST" in template(Context())
    stage.fill()
    parts = {
        zone: "".join(_render(LivePage("topics", zone=zone), "en", 1, None)[0].values()) for zone in ("", SHANGHAI)
    }
    assert set(shown(parts[""])) <= {"UTC"}
    assert set(shown(parts[SHANGHAI])) <= {"CST"}


def test_a_stranger_chooses_the_language_before_signing_in(db: None) -> None:
    """By forms alone: they need no script."""
    stranger = Client(enforce_csrf_checks=True)
    page = stranger.get("/login/?next=/topics/").content.decode()
    form = page.partition('class="languages"')[2].partition("</form>")[0]
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
    assert token
    assert 'value="/login/?next=/topics/"' in form
    elsewhere = stranger.get("/login/?next=https://evil.example/").content.decode()
    assert "evil" not in elsewhere.partition('class="languages"')[2]
    pressed = re.findall(r'value="([\w-]+)"\s+lang="[\w-]+"\s+aria-pressed="(\w+)"', form)
    assert pressed == [("en", "true"), ("zh-hans", "false")]
    chosen = {"csrfmiddlewaretoken": token[1], "language": "zh-hans", "next": "/login/?next=/topics/"}
    answer = stranger.post("/i18n/setlang/", chosen)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?next=/topics/")
    assert "登录" in stranger.get("/login/?next=/topics/").content.decode()
