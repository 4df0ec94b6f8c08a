"""A password that somebody else has set opens one page only: the one where its owner sets another."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client

from console.run.private_files import ensure_first_login, first_login
from console.security.door import Door, through
from console.security.models import PasswordDue
from console.security.sessions import signed_in
from console.ui.sockets import _seen, marks_of
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

GIVEN, OWN = "given by somebody", "my own long secret"


def made(name: str, **flags: bool) -> Any:
    """An account by an administrator's hand."""
    with through(Door(command="manage.py createsuperuser")):
        return get_user_model().objects.create_user(name, password=GIVEN, **flags)


def sign_in(name: str, password: str = GIVEN) -> Client:
    browser = Client()
    browser.post("/login/", {"username": name, "password": password})
    return browser


def change(browser: Client, new: str = OWN, again: str | None = None, now: str = GIVEN) -> Any:
    return browser.post("/account/password/", {"password": now, "new": new, "again": new if again is None else again})


@pytest.mark.parametrize(
    "address", ["/", "/operations/", "/topics/", "/admin/", "/admin/password_change/", "/audit/data.csv", "/nothing/"]
)
def test_nothing_else_is_served_before_it_is_changed(db: None, address: str) -> None:
    made("boss", is_superuser=True, is_staff=True)
    browser = sign_in("boss")
    answer = browser.get(address)
    expected = 404 if address == "/nothing/" else 302
    assert answer.status_code == expected
    if expected == 302:
        assert answer.headers["Location"] == "/account/password/"
        assert browser.post(address, {"kind": "timers.pause"}).headers["Location"] == "/account/password/"


def test_all_that_is_wrong_with_it_is_said_at_once_and_nothing_of_it_is_in_the_page(db: None) -> None:
    """One fault at a time was told, and three fields were empty each time."""
    browser = sign_in("boss") if made("boss") else Client()
    answer = change(browser, new="12345", again="other-98765", now="not mine")
    page = words(answer)
    for told in ("That is not your password.", "The passwords do not match.", "too short", "enter all three again"):
        assert told in page, told
    assert answer.status_code == 422
    assert not [given for given in ("12345", "other-98765", "not mine") if given in answer.content.decode()]


def test_the_sign_in_leads_to_it_and_not_back_to_a_door_that_is_shut(db: None) -> None:
    """The reference of REST led to the sign-in, which led to the reference."""
    made("boss", is_superuser=True)
    browser = sign_in("boss")
    assert browser.get("/login/?next=/api/docs").headers["Location"] == "/account/password/"
    assert change(browser).status_code == 303
    assert browser.get("/login/?next=/api/docs").headers["Location"] == "/api/docs"


def test_websockets_and_the_reference_of_rest_know_nobody(db: None) -> None:
    made("boss", is_superuser=True)
    browser = sign_in("boss")
    key = browser.session.session_key
    assert (marks_of([key]), _seen(key), signed_in(str(key))) == ({key: None}, None, None)
    assert change(browser).status_code == 303
    key = browser.session.session_key
    assert marks_of([key])[key] is not None
    assert _seen(key) is not None
    assert signed_in(str(key)) is not None


def test_the_owner_sets_another_and_goes_on(db: None) -> None:
    user = made("boss", is_superuser=True)
    browser, other = sign_in("boss"), sign_in("boss")
    page = browser.get("/account/password/").content.decode()
    assert "was set by somebody else" in page
    assert "Your password must contain at least 8 characters." in page
    assert "be a commonly used password." in page
    for fields, fault in (
        ({"now": "wrong"}, "That is not your password."),
        ({"new": "short"}, "too short"),
        ({"new": "password123"}, "too common"),
        ({"new": GIVEN}, "your current password"),
        ({"again": "another one"}, "do not match"),
        ({"new": "x" * 5_000}, "At most 4096 characters."),
    ):
        answer = change(browser, **fields)
        assert answer.status_code == 422
        assert fault in answer.content.decode()
        assert PasswordDue.objects.filter(user=user).exists()
    answer = change(browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert browser.get("/operations/").status_code == 200
    assert not PasswordDue.objects.exists()
    # the others of the account have ended
    assert other.get("/operations/").headers["Location"].startswith("/login/")
    assert sign_in("boss", OWN).get("/operations/").status_code == 200


def test_guesses_of_the_password_are_counted(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    browser = browser_of(person("anna"))
    assert [change(browser, now="wrong").status_code for _ in range(4)] == [422, 422, 429, 429]


def test_strangers_are_led_to_the_login(db: None) -> None:
    assert Client().get("/account/password/").headers["Location"].startswith("/login/")
    assert change(Client()).headers["Location"].startswith("/login/")


def test_an_administrator_who_sets_a_password_makes_it_due(db: None) -> None:
    boss = browser_of(get_user_model().objects.create_superuser("boss", password=OWN))
    anna = person("anna")
    form = {"password1": GIVEN, "password2": GIVEN, "usable_password": "true"}
    assert boss.post(f"/admin/auth/user/{anna.pk}/password/", form).status_code == 302
    assert PasswordDue.objects.filter(user=anna).exists()
    form = {"username": "bert", **form}
    assert boss.post("/admin/auth/user/add/", form).status_code == 302
    assert PasswordDue.objects.filter(user__username="bert").exists()
    # one's own is one's own
    form = {"old_password": OWN, "new_password1": GIVEN, "new_password2": GIVEN}
    assert boss.post("/admin/password_change/", form).status_code == 302
    assert not PasswordDue.objects.filter(user__username="boss").exists()


def test_a_command_that_sets_a_password_makes_it_due(db: None) -> None:
    anna = person("anna")
    with through(Door(command="manage.py changepassword")):
        anna.set_password(GIVEN)
        anna.save()
    assert PasswordDue.objects.filter(user=anna).exists()


def test_the_first_login_is_due(db: None, tmp_path: Any, settings: Any) -> None:
    settings.VAR = tmp_path
    with through(Door(command="manage.py prepare")):
        assert ensure_first_login()
    login = first_login()
    assert login is not None
    browser = sign_in(*login)
    assert browser.get("/operations/").headers["Location"] == "/account/password/"
    person("anna").set_password(OWN)
    assert first_login() == login
    # what opens nothing any more is not kept, and the next start does not name it
    assert browser.post("/account/password/", {"password": login[1], "new": OWN, "again": OWN}).status_code == 303
    assert first_login() is None


class Other(MD5PasswordHasher):
    """A hash that is not wanted any more."""

    algorithm = "other"


def test_a_hash_that_is_computed_anew_is_no_change(db: None, settings: Any) -> None:
    ours = "django.contrib.auth.hashers.MD5PasswordHasher"
    settings.PASSWORD_HASHERS = [f"{__name__}.Other", ours]
    person("anna")
    settings.PASSWORD_HASHERS = [ours, f"{__name__}.Other"]
    assert sign_in("anna", "a long secret").get("/operations/").status_code == 200
    assert get_user_model().objects.get(username="anna").password.startswith("md5$")
    assert not PasswordDue.objects.exists()


def test_who_comes_by_a_provider_has_no_password_to_change(db: None) -> None:
    with through(Door(command="manage.py shell")):
        user = get_user_model().objects.create_user("anna")
    assert not PasswordDue.objects.exists()
    assert "through an identity provider" in browser_of(user).get("/account/password/").content.decode()
