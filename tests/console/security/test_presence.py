"""Whether somebody is still there, and still the same: idle sessions end, what destroys asks for the password again."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from console.operations.models import Operation
from console.operations.registry import KINDS
from console.security.models import TopicPermission
from console.ui.sockets import marks_of
from tests.console.people import browser_of, person

PASSWORD, WRONG = "a long secret", "wrong"


def later(browser: Client, minutes: float) -> None:
    """Let the session be as old as that."""
    session = browser.session
    for name in ("seen_s", "proved_s"):
        session[name] = int(time.time() - minutes * 60)
    session.save()


def test_a_session_ends_when_nobody_used_it_for_long(db: None, settings: Any) -> None:
    settings.IDLE_MINUTES = 30
    browser = browser_of(person("viewer"))
    key = browser.session.session_key
    later(browser, 25)
    assert browser.get("/operations/").status_code == 200
    assert time.time() - browser.session["seen_s"] < 20
    later(browser, 35)
    assert marks_of([key]) == {key: None}
    answer = browser.get("/operations/")
    assert answer.headers["Location"].startswith("/login/")
    assert "_auth_user_id" not in browser.session


def test_no_session_ends_where_that_is_not_wanted(db: None, settings: Any) -> None:
    settings.IDLE_MINUTES = 0
    browser = browser_of(person("viewer"))
    later(browser, 100_000)
    assert browser.get("/operations/").status_code == 200


def operation(kind: str) -> Operation:
    return Operation.objects.create(kind=kind, actor="operator", parameters={}, preview={"count": 1})


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.destroys])
@pytest.mark.parametrize("step", ["confirm", "approve"])
def test_what_destroys_asks_for_the_password_after_a_while(db: None, kind: str, step: str) -> None:
    browser = browser_of(person("boss", role="operator"))
    later(browser, 16)
    row = operation(kind)
    answer = browser.post(f"/operations/{row.pk}/{step}/", {"reason": "because"})
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/prove/?" + urlencode({"next": f"/operations/{row.pk}/"})
    row.refresh_from_db()
    assert row.state == "draft"


def test_each_kind_that_takes_away_for_good_is_known_as_such() -> None:
    assert {name for name, kind in KINDS.items() if kind.destroys} == {
        "access.change", "access.create", "access.delete", "access.delete_policy", "access.end_old_secret",
        "access.rotate", "access.set_policy", "people.add", "people.add_role", "people.change",
        "people.limit", "people.limit_role",
        "people.reset_password", "people.reset_second_factor", "tokens.end", "tokens.make", "tokens.renew",
        "dead_letters.hide",
        "groups.delete", "groups.reset_offsets", "redisson.clear", "redisson.remove", "timers.cancel", "topics.delete",
        "transactions.commit", "transactions.rollback",
    }  # fmt: skip


def test_who_gave_it_lately_or_does_something_else_is_not_asked(db: None) -> None:
    browser = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    later(browser, 14)
    over = operation("topics.delete")
    Operation.objects.filter(pk=over.pk).update(state="done", parameters={"name": "orders"})
    answer = browser.post(f"/operations/{over.pk}/confirm/", {"reason": "because"})
    assert "/prove/" not in answer.headers.get("Location", "")
    later(browser, 16)
    row = operation("timers.pause")
    Operation.objects.filter(pk=row.pk).update(state="done")
    answer = browser.post(f"/operations/{row.pk}/confirm/", {"reason": "because"})
    assert "/prove/" not in answer.headers.get("Location", "")


def test_the_password_opens_the_way_back_and_a_wrong_one_does_not(db: None) -> None:
    browser = browser_of(person("boss"))
    later(browser, 16)
    page = browser.get("/prove/?next=/operations/")
    assert 'name="password"' in page.content.decode()
    wrong = browser.post("/prove/", {"next": "/operations/", "password": "wrong"})
    assert wrong.status_code == 422
    assert "That is not your password." in wrong.content.decode()
    assert time.time() - browser.session["proved_s"] > 900
    right = browser.post("/prove/", {"next": "/operations/", "password": PASSWORD})
    assert (right.status_code, right.headers["Location"]) == (303, "/operations/")
    assert time.time() - browser.session["proved_s"] < 60


@pytest.mark.parametrize("step", ["confirm", "approve"])
def test_what_was_typed_is_found_again_once_after_the_password_and_is_in_no_address(db: None, step: str) -> None:
    browser = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    row = operation("topics.delete")
    state = "draft" if step == "confirm" else "waiting"
    preview = {"count": 1, "waiting_count": 3}
    waits_until = timezone.now() + timedelta(hours=1)
    Operation.objects.filter(pk=row.pk).update(
        state=state, preview=preview, parameters={"name": "orders"}, waits_until=waits_until
    )
    later(browser, 16)
    reason = 'nobody reads it <b>"any more"</b>'
    sent = {"reason": reason, "typed": "orders", "pending": "keep"}
    asked = browser.post(f"/operations/{row.pk}/{step}/", sent)
    assert asked.headers["Location"] == "/prove/?" + urlencode({"next": f"/operations/{row.pk}/"})
    assert escape(reason) not in browser.get(f"/operations/{row.pk}/").content.decode()
    browser.post("/prove/", {"next": f"/operations/{row.pk}/", "password": WRONG})
    browser.post("/prove/", {"next": f"/operations/{row.pk}/", "password": PASSWORD})
    shown, again = (browser.get(f"/operations/{row.pk}/").content.decode() for _ in range(2))
    assert f">{escape(reason)}</textarea>" in shown or f'value="{escape(reason)}"' in shown
    assert escape(reason) not in again
    if step == "confirm":
        assert 'value="orders"' in shown


def test_what_was_typed_long_ago_or_for_another_operation_is_not_shown(db: None) -> None:
    browser = browser_of(person("boss", role="operator"))
    first, other = operation("topics.delete"), operation("topics.delete")
    Operation.objects.update(parameters={"name": "orders"})
    later(browser, 16)
    browser.post(f"/operations/{first.pk}/confirm/", {"reason": "nobody reads it"})
    later(browser, 1)
    assert "nobody reads it" not in browser.get(f"/operations/{other.pk}/").content.decode()
    session = browser.session
    session["typed"] = {**session["typed"], "at_s": int(time.time()) - 901}
    session.save()
    assert "nobody reads it" not in browser.get(f"/operations/{first.pk}/").content.decode()
    assert "typed" not in browser.session


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil"])
def test_it_leads_nowhere_else(db: None, elsewhere: str) -> None:
    browser = browser_of(person("boss"))
    assert "evil" not in browser.get("/prove/", {"next": elsewhere}).content.decode()
    answer = browser.post("/prove/", {"next": elsewhere, "password": PASSWORD})
    assert answer.headers["Location"] == "/"


def test_strangers_are_led_to_the_login_and_guesses_there_are_counted(db: None, settings: Any) -> None:
    assert Client().get("/prove/").headers["Location"].startswith("/login/")
    settings.AXES_FAILURE_LIMIT = 3
    browser = browser_of(person("boss"))
    answers = [browser.post("/prove/", {"password": "wrong"}).status_code for _ in range(4)]
    assert answers == [422, 422, 429, 429]


def test_the_admin_asks_before_it_changes_anything(db: None) -> None:
    browser = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    form = {"group": Group.objects.get(name="viewer").pk, "pattern": "a-*"}
    later(browser, 16)
    assert browser.get("/admin/console/topicpermission/").status_code == 200
    assert browser.post("/admin/console/topicpermission/add/", form).headers["Location"].startswith("/prove/")
    later(browser, 1)
    assert browser.post("/admin/console/topicpermission/add/", form).headers["Location"] == (
        "/admin/console/topicpermission/"
    )


def sent_again(page: str) -> dict[str, list[str]]:
    """The hidden fields of the form that was kept."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page):
        if name != "csrfmiddlewaretoken":
            found.setdefault(unescape(name), []).append(unescape(value))
    return found


def test_a_form_of_the_admin_is_sent_again_once_after_the_password(db: None) -> None:
    browser = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    form = {"group": str(Group.objects.get(name="viewer").pk), "pattern": 'a-"><b>', "_addanother": "more"}
    later(browser, 16)
    asked = browser.post("/admin/console/topicpermission/add/?from=list", form)
    assert asked.headers["Location"] == "/prove/?" + urlencode({"next": "/prove/form/"})
    assert browser.get("/prove/form/").headers["Location"].startswith("/prove/")
    given = browser.post("/prove/", {"next": "/prove/form/", "password": PASSWORD})
    page = browser.get(given.headers["Location"]).content.decode()
    assert 'action="/admin/console/topicpermission/add/?from=list"' in page
    assert sent_again(page) == {name: [value] for name, value in form.items()}
    assert not TopicPermission.objects.filter(pattern__startswith="a-").exists()
    browser.post("/admin/console/topicpermission/add/?from=list", sent_again(page) | {"pattern": "a-*"})
    assert TopicPermission.objects.filter(pattern="a-*").exists()
    assert browser.get("/prove/form/").headers["Location"] == "/"


def test_every_value_of_a_form_is_kept_and_no_password_and_nothing_old_or_endless(db: None) -> None:
    browser = browser_of(get_user_model().objects.create_superuser("boss", password=PASSWORD))
    form = {"_selected_action": ["1", "2"], "action": "revoke", "password1": "a secret", "usable_password": "true"}
    later(browser, 16)
    browser.post("/admin/console/apitoken/", form)
    later(browser, 1)
    assert sent_again(browser.get("/prove/form/").content.decode()) == {
        "_selected_action": ["1", "2"],
        "action": ["revoke"],
    }
    later(browser, 16)
    assert "form" not in browser.post("/admin/console/apitoken/", {"x": "y" * 65_536}).headers["Location"]
    browser.post("/admin/console/apitoken/", form)
    later(browser, 1)
    session = browser.session
    session["sent"] = {**session["sent"], "at_s": int(time.time()) - 901}
    session.save()
    assert browser.get("/prove/form/").headers["Location"] == "/"
    assert Client().get("/prove/form/").headers["Location"].startswith("/login/")


def test_who_has_no_password_is_sent_to_the_provider(db: None) -> None:
    user = person("anna")
    user.set_unusable_password()
    user.save()
    page = browser_of(user).get("/prove/?next=/operations/").content.decode()
    assert 'name="password"' not in page
    assert "/login/provider/?again=1&amp;next=/operations/" in page


# --- how many wrong passwords are taken ---


class Counted(MD5PasswordHasher):
    """A hash that counts how often it was computed."""

    algorithm = "counted"
    count = 0

    def encode(self, password: str, salt: str) -> str:
        type(self).count += 1
        return super().encode(password, salt)


def tried(name: str, address: str, password: str = WRONG) -> Any:
    return Client().post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def test_a_name_is_locked_from_everywhere_but_where_its_owner_was_before(db: None, settings: Any) -> None:
    settings.LOGIN_TRIES_ACCOUNT = 5
    person("anna")
    assert tried("anna", "10.0.0.1", PASSWORD).status_code == 302
    answers = [tried("anna", f"10.1.0.{number}").status_code for number in range(7)]
    assert answers == [200] * 4 + [429] * 3
    locked = tried("anna", "10.2.0.1", PASSWORD)
    assert (locked.status_code, locked.headers["Retry-After"]) == (429, "900")
    assert tried("anna", "10.0.0.1", PASSWORD).status_code == 302


def test_an_address_is_locked_for_all_names(db: None, settings: Any) -> None:
    settings.LOGIN_TRIES_ADDRESS = 5
    person("anna")
    answers = [tried(f"name-{number}", "10.0.0.1").status_code for number in range(7)]
    assert answers == [200] * 4 + [429] * 3
    assert tried("anna", "10.0.0.1", PASSWORD).status_code == 429
    assert tried("anna", "10.0.0.2", PASSWORD).status_code == 302


def test_a_proxy_that_nobody_named_locks_nobody_else(db: None, settings: Any) -> None:
    settings.LOGIN_TRIES_ADDRESS = 5
    person("anna")
    for number in range(7):
        tried(f"name-{number}", "127.0.0.1")
    assert tried("anna", "127.0.0.1", PASSWORD).status_code == 302


def test_who_is_locked_costs_no_hash(db: None, settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.Counted"]
    settings.AXES_FAILURE_LIMIT = 2
    person("anna")
    for _ in range(2):
        tried("anna", "10.0.0.1")
    before = Counted.count
    assert before
    assert tried("anna", "10.0.0.1").status_code == 429
    assert Counted.count == before
