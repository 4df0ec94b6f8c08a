"""A form that is refused keeps what was typed, says at the field what is wrong, and writes nothing.

Where such an answer stands a reload finds a page, too.
"""

from __future__ import annotations

import re

import pytest
import redis
from django.test import Client

from broker.redisson import DelayedQueue
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import AuditEntry, Operation
from console.ui.saved_views import SavedView
from tests.console.markup import tight
from tests.console.people import browser_of, person
from tests.console.security.test_roles import CLOSED, NOT_ALLOWED
from tests.console.stage import Stage
from tests.console.ui.test_pages import tags_of, words

REFUSED = 422
HOSTILE = '"><script>alert(1)</script>'


def fields_of(page: str) -> dict[str, dict[str, str | None]]:
    """What stands in a page's inputs, by name; the last of a name, hidden ones left out."""
    found = [at for tag, at in tags_of(page) if tag in ("input", "textarea") and at.get("type") != "hidden"]
    return {str(at.get("name")): at for at in found}


def chosen_of(page: str, name: str) -> list[str]:
    select = re.search(rf'<select name="{name}".*?</select>', tight(page))
    assert select, name
    return re.findall(r'<option value="([^"]*)" selected', select[0])


def assert_says(page: str, name: str, *, wrong: str = "", tag: str = "") -> None:
    """The field is marked, and what describes it is there and not empty."""
    at = fields_of(page)[name]
    assert at.get("aria-invalid") == "true", name
    described = wrong or f"wrong-{name}"
    assert at.get("aria-describedby") == described
    text = re.search(rf'id="{described}"{tag and " " + tag}>(.*?)</p>', page, re.DOTALL)
    assert text, described
    assert re.sub(r"<[^>]+>", "", text[1]).strip()


def assert_nothing_written() -> None:
    assert Operation.objects.count() == 0
    assert AuditEntry.objects.count() == 0


@pytest.mark.parametrize("family", ["topics", "groups"])
def test_a_name_that_cannot_be_is_kept_with_all_that_was_chosen(stage: Stage, operator: Client, family: str) -> None:
    more = {"topics": {"read_queues": "7", "write_queues": "9", "permission": "4", "message_type": "FIFO",
                       "order": "yes"},
            "groups": {"retry_max_times": "3", "orderly": "yes", "consume_enabled": "no", "broadcast_enabled": "yes",
                       "retry_policy": "EXPONENTIAL", "retry_delays": "10s 20s", "retry_first_delay": "1s",
                       "retry_longest_delay": "9m", "retry_multiplier": "5"}}[family]  # fmt: skip
    answer = operator.post("/operations/draft/", {"kind": f"{family}.create", "name": HOSTILE, **more})
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert "<script>alert" not in page
    given = fields_of(page)
    assert given["name"]["value"] == HOSTILE
    assert_says(page, "name")
    for name, text in more.items():
        kept = [given[name]["value"]] if name in given else chosen_of(page, name)
        assert kept == [text], name
    assert_nothing_written()
    again = operator.post("/operations/draft/", {"kind": f"{family}.create", "name": "good", **more})
    assert again.status_code == 303, again.content.decode()


def test_a_setting_that_cannot_be_is_said_at_its_field_and_the_others_are_kept(stage: Stage, operator: Client) -> None:
    form = {"kind": "topics.change", "name": "orders", "read_queues": "5000", "was_read_queues": "2",
            "write_queues": "3", "was_write_queues": "2", "permission": "4", "was_permission": "6",
            "message_type": "", "was_message_type": "", "order": "no", "was_order": "no"}  # fmt: skip
    answer = operator.post("/operations/draft/", form)
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert_says(page, "read_queues")
    given = fields_of(page)
    assert (given["read_queues"]["value"], given["write_queues"]["value"]) == ("5000", "3")
    assert "aria-invalid" not in given["write_queues"]
    assert chosen_of(page, "permission") == ["4"]
    hidden = {at.get("name"): at.get("value") for _tag, at in tags_of(page) if at.get("type") == "hidden"}
    assert (hidden["was_read_queues"], hidden["was_permission"]) == ("2", "6")
    assert_nothing_written()


def test_a_moment_that_is_none_is_kept_where_a_group_is_moved(stage: Stage, operator: Client) -> None:
    stage.fill()
    stage.consume()
    form = {"topic": "orders", "to": "time", "moment": "1 hour or so"}
    form |= {"kind": "groups.reset_offsets", "group": "billing"}
    answer = operator.post("/operations/draft/", form)
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert fields_of(page)["moment"]["value"] == "1 hour or so"
    assert_says(page, "moment")
    assert chosen_of(page, "topic") == ["orders"]
    assert_nothing_written()


def test_a_value_and_a_queue_for_redisson_are_kept(
    stage: Stage, operator: Client, orders: DelayedQueue, server: redis.Redis
) -> None:
    offer = {"kind": "redisson.offer", "queue": "orders", "value": '{"order": 1', "codec": "JsonJacksonCodec",
             "delay": "soon"}  # fmt: skip
    answer = operator.post("/operations/draft/", offer)
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert '<textarea name="value"' in tight(page)
    assert "{&quot;order&quot;: 1</textarea>" in page
    assert fields_of(page)["delay"]["value"] == "soon"
    assert_says(page, "delay")
    page = operator.post("/operations/draft/", {**offer, "delay": "1 h"}).content.decode()
    assert_says(page, "value")
    move = {"kind": "redisson.move", "queue": "orders", "scope": "matching", "is_all": "1", "to": "orders"}
    page = operator.post("/operations/draft/", move).content.decode()
    assert fields_of(page)["to"]["value"] == "orders"
    assert_says(page, "to")
    hidden = {at.get("name"): at.get("value") for _tag, at in tags_of(page) if at.get("type") == "hidden"}
    assert hidden.items() >= {(name, text) for name, text in move.items() if name != "to"}
    assert_nothing_written()


def test_a_range_that_is_none_is_no_range_to_act_on(stage: Stage, operator: Client, orders: DelayedQueue) -> None:
    address = "/redisson/queue/?name=orders"
    assert 'value="redisson.remove"' in operator.get(address).content.decode()
    answer = operator.get(f"{address}&from=soonish")
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert fields_of(page)["from"]["value"] == "soonish"
    assert_says(page, "from", wrong="from-error", tag='role="alert"')
    assert 'value="redisson.remove"' not in page


def test_a_reason_and_a_moment_are_kept_and_what_is_wrong_stands_at_them(
    stage: Stage, operator: Client, actor: Actor
) -> None:
    stage.fill()
    stage.consume()
    draft = workflow.draft("groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "first"}, actor)
    answer = operator.post(f"/operations/{draft.pk}/confirm/", {"reason": "r" * 501})
    page = answer.content.decode()
    assert answer.status_code == REFUSED
    assert "r" * 501 + "</textarea>" in page
    assert_says(page, "reason")
    draft.refresh_from_db()
    assert draft.state == "draft"


def test_a_view_that_is_not_saved_keeps_its_name(operator: Client, db: None) -> None:
    long, address = "n" * 70, "/groups/?search=bil"
    answer = operator.post("/views/keep/", {"name": long, "address": address, "is_default": "1"})
    assert answer.status_code == REFUSED
    assert fields_of(answer.content.decode())["name"]["value"] == long
    assert_says(answer.content.decode(), "name")
    operator.post("/views/keep/", {"name": "mine", "address": address})
    row = SavedView.objects.get()
    page = operator.post(f"/views/{row.pk}/", {"name": long, "is_default": "1"}).content.decode()
    assert fields_of(page)["name"]["value"] == long
    assert "checked" in fields_of(page)["is_default"]
    assert_says(page, "name", wrong=f"wrong-{row.pk}")
    row.refresh_from_db()
    assert (row.name, row.is_default) == ("mine", False)


def test_a_name_that_was_typed_at_the_door_is_kept(db: None) -> None:
    page = Client().post("/login/", {"username": "anna", "password": "wrong"}).content.decode()
    assert fields_of(page)["username"]["value"] == "anna"
    assert "value" not in fields_of(page)["password"]


def test_whoever_loads_the_answer_to_a_form_again_finds_a_page(stage: Stage, operator: Client) -> None:
    stage.fill()
    for name, address in CLOSED:
        answer = operator.get(address)
        assert answer.status_code != NOT_ALLOWED, name
    answer = operator.get("/messages/abc/unmask/?topic=orders")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/messages/abc/?topic=orders")
    assert operator.delete("/operations/draft/").status_code == NOT_ALLOWED


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_an_address_with_nothing_says_no_name_of_the_program(operator: Client, settings: object, language: str) -> None:
    for address in ("/there/is/none/", "/timers/99999999999999999999/", "/operations/none/"):
        page = words(operator.get(address, headers={"accept-language": language}))
        assert "404" not in page
        assert "Resolver" not in page
        assert "Http" not in page


def test_a_viewer_is_led_to_pages_and_changes_nothing(stage: Stage) -> None:
    viewer = browser_of(person("viewer"))
    assert viewer.get("/operations/draft/").headers["Location"] == "/operations/"
    assert viewer.post("/operations/draft/", {"kind": "topics.create", "name": "a b"}).status_code == 403
