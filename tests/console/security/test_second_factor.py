"""The second factor: set up, asked for, taken once, guessed at, demanded of roles, and left to a provider."""

from __future__ import annotations

import re
import time
from typing import Any

import pyotp
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from console.operations.models import AuditEntry
from console.security import second_factor
from console.security.models import RecoveryCode, SecondFactor
from console.ui.sockets import _seen, marks_of
from tests.console.people import browser_of, person

PASSWORD = "a long secret"
#: RFC 6238, appendix B: the secret of its SHA-1 examples, and their last six digits by the moment in seconds
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
RFC_CODES = {1_111_111_111: "050471", 1_111_111_109: "081804", 1_234_567_890: "005924", 20_000_000_000: "353130"}


def enrolled(name: str, *, ago: int = 3, role: str = "viewer") -> tuple[Any, pyotp.TOTP, list[str]]:
    """A person with a second factor whose code of some 30 seconds ago was taken last, and the recovery codes."""
    user, totp = person(name, role=role), pyotp.TOTP(second_factor.new_secret())
    codes = second_factor.set_up(user, totp.secret, totp.now())
    assert codes is not None
    SecondFactor.objects.filter(user=user).update(last_step=int(time.time()) // 30 - ago)
    return user, totp, codes


def first_step(name: str, back: str = "/operations/") -> tuple[Client, Any]:
    browser = Client()
    answer = browser.post("/login/", {"username": name, "password": PASSWORD, "next": back})
    return browser, answer


def second_step(browser: Client, code: str, back: str = "/operations/") -> Any:
    return browser.post("/login/second/", {"code": code, "next": back})


def acts() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("kind", flat=True))


@pytest.mark.parametrize("moment_s", RFC_CODES)
def test_codes_are_those_of_the_standard(moment_s: int) -> None:
    step = moment_s // 30
    for clock_s, found in ((moment_s - 60, None), (moment_s - 30, step), (moment_s, step), (moment_s + 30, step),
                           (moment_s + 60, None)):  # fmt: skip
        assert second_factor.step_of(RFC_SECRET, RFC_CODES[moment_s], clock_s) == found


def test_the_address_names_account_and_place_and_the_picture_is_one_path(settings: Any) -> None:
    settings.ESCAPEMENT_ENV = "test"
    address = second_factor.address_of(RFC_SECRET, "anna / b")
    assert address == (f"otpauth://totp/Escapement%20test:anna%20%2F%20b?secret={RFC_SECRET}&issuer=Escapement%20test")
    drawing = second_factor.drawing_of(address)
    assert re.fullmatch(r"(M\d+ \d+h1v1h-1z)+", drawing["path"])
    # the three squares in the corners of every such picture
    assert {(4, 4), (drawing["size"] - 11, 4), (4, drawing["size"] - 11)} <= {
        (int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h", drawing["path"])
    }


def test_it_is_set_up_with_password_and_code_and_the_recovery_codes_are_shown_once(db: None) -> None:
    user = person("anna")
    browser = browser_of(user)
    page = browser.get("/account/second-factor/").content.decode()
    (secret,) = re.findall(r'id="secret">([A-Z2-7]{32})<', page)
    assert secret in browser.get("/account/second-factor/").content.decode()
    totp = pyotp.TOTP(secret)
    for password, code in (("wrong", totp.now()), (PASSWORD, "000000"), (PASSWORD, "")):
        answer = browser.post("/account/second-factor/", {"password": password, "code": code})
        assert answer.status_code == 422
        assert not second_factor.is_on(user)
    answer = browser.post("/account/second-factor/", {"password": PASSWORD, "code": totp.now()})
    codes = re.findall(r"[A-Z2-9]{4}(?:-[A-Z2-9]{4}){3}", answer.content.decode())
    assert len(set(codes)) == 10
    assert "no-store" in answer.headers["Cache-Control"]
    assert second_factor.is_on(user)
    kept = list(RecoveryCode.objects.values_list("digest", flat=True))
    assert not {code.replace("-", "") for code in codes} & set(kept)
    assert all(len(digest) == 64 for digest in kept)
    again = browser.get("/account/second-factor/").content.decode()
    assert not re.search(r"[A-Z2-9]{4}(?:-[A-Z2-9]{4}){3}|otpauth", again)
    assert acts()[-1] == "second_factors.set_up"
    assert secret not in str(list(AuditEntry.objects.values()))


def test_signing_in_asks_for_it_and_nobody_is_signed_in_before(db: None) -> None:
    _user, totp, _codes = enrolled("anna")
    browser, answer = first_step("anna")
    assert answer.headers["Location"] == "/login/second/?next=%2Foperations%2F"
    assert "_auth_user_id" not in browser.session
    assert browser.get("/operations/").headers["Location"].startswith("/login/")
    assert browser.get("/account/password/").headers["Location"].startswith("/login/")
    assert browser.get("/account/second-factor/").headers["Location"].startswith("/login/")
    key = browser.session.session_key
    assert (marks_of([key]), _seen(key)) == ({key: None}, None)
    assert acts() == []
    answer = second_step(browser, totp.now())
    assert (answer.status_code, answer.headers["Location"]) == (303, "/operations/")
    assert browser.get("/operations/").status_code == 200
    assert browser.session.session_key != key
    assert acts()[-1] == "people.sign_in"


def test_the_admin_has_no_door_of_its_own(db: None) -> None:
    user, totp, _codes = enrolled("boss")
    get_user_model().objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
    browser = Client()
    assert browser.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert browser.get("/admin/login/?next=/admin/").headers["Location"] == "/login/?next=/admin/"
    form = {"username": "boss", "password": PASSWORD, "next": "/admin/"}
    assert browser.post("/admin/login/", form).headers["Location"].startswith("/login/")
    assert "_auth_user_id" not in browser.session
    browser, _answer = first_step("boss", "/admin/")
    second_step(browser, totp.now(), "/admin/")
    assert browser.get("/admin/").status_code == 200


def test_a_code_opens_once(db: None) -> None:
    _user, totp, _codes = enrolled("anna")
    code = totp.now()
    browser, _answer = first_step("anna")
    assert second_step(browser, code).status_code == 303
    again, _answer = first_step("anna")
    refused = second_step(again, code)
    assert refused.status_code == 422
    assert "already used" in refused.content.decode()
    # nor does one of the 30 seconds before
    assert second_step(again, totp.at(time.time() - 30)).status_code == 422


def test_a_recovery_code_opens_once_however_it_is_typed(db: None) -> None:
    user, _totp, codes = enrolled("anna")
    browser, _answer = first_step("anna")
    assert second_step(browser, f" {codes[0].lower().replace('-', ' ')} ").status_code == 303
    assert second_factor.codes_left(user) == 9
    assert "second_factors.use_code" in acts()
    again, _answer = first_step("anna")
    assert second_step(again, codes[0]).status_code == 422
    assert second_step(again, codes[1]).status_code == 303


def test_wrong_codes_count_as_wrong_passwords_do(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    _user, totp, _codes = enrolled("anna")
    browser, _answer = first_step("anna")
    assert [second_step(browser, "000000").status_code for _ in range(3)] == [422, 422, 429]
    locked = second_step(browser, totp.now())
    assert locked.status_code == 429
    assert locked.headers["Retry-After"]
    # the right password does not begin the count anew
    assert first_step("anna")[1].status_code == 429
    denied = AuditEntry.objects.filter(what="denied", kind="people.sign_in").first()
    assert denied is not None
    assert denied.result["why"] == "wrong code"


def test_after_many_wrong_codes_only_a_recovery_code_opens(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = settings.LOGIN_TRIES_ACCOUNT = 1_000
    user, totp, codes = enrolled("anna")
    SecondFactor.objects.filter(user=user).update(wrong=second_factor.MOST_WRONG - 1)
    browser, _answer = first_step("anna")
    assert "use a recovery code" in second_step(browser, "000000").content.decode()
    assert second_step(browser, totp.now()).status_code == 422
    assert second_step(browser, codes[3]).status_code == 303
    browser, _answer = first_step("anna")
    assert second_step(browser, totp.now()).status_code == 303


@pytest.mark.parametrize("change", ["late", "password", "inactive", "taken away"])
def test_the_second_step_ends_with_what_the_first_one_stood_on(db: None, change: str) -> None:
    user, totp, _codes = enrolled("anna")
    browser, _answer = first_step("anna")
    if change == "late":
        session = browser.session
        session["half_signed_in"] = {**session["half_signed_in"], "at_s": int(time.time()) - 301}
        session.save()
    elif change == "password":
        user.set_password("another long secret")
        user.save()
    elif change == "inactive":
        get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    else:
        second_factor.take_away(user)
    answer = second_step(browser, totp.now())
    assert answer.headers["Location"] == "/login/?next=/operations/"
    assert "_auth_user_id" not in browser.session


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_it_leads_nowhere_else(db: None, elsewhere: str) -> None:
    _user, totp, _codes = enrolled("anna")
    browser, _answer = first_step("anna", elsewhere)
    assert "evil" not in browser.get("/login/second/", {"next": elsewhere}).content.decode()
    assert second_step(browser, totp.now(), elsewhere).headers["Location"] == "/"


def test_strangers_have_no_second_step(db: None) -> None:
    assert Client().get("/login/second/").headers["Location"].startswith("/login/")
    assert second_step(Client(), "000000").headers["Location"].startswith("/login/")
    # nor has who is signed in and owes none
    assert second_step(browser_of(person("anna")), "000000").headers["Location"].startswith("/login/")


def test_it_is_taken_away_and_codes_are_renewed_with_the_password_only(db: None) -> None:
    user, _totp, codes = enrolled("anna")
    browser = browser_of(user)
    for act in ("codes", "take_away"):
        wrong = browser.post("/account/second-factor/", {"act": act, "password": "wrong"})
        assert (wrong.status_code, second_factor.is_on(user)) == (422, True)
    page = browser.post("/account/second-factor/", {"act": "codes", "password": PASSWORD}).content.decode()
    assert len(re.findall(r"[A-Z2-9]{4}(?:-[A-Z2-9]{4}){3}", page)) == 10
    assert second_factor.verify(user, codes[0]) == ""
    browser.post("/account/second-factor/", {"act": "take_away", "password": PASSWORD})
    assert not second_factor.is_on(user)
    assert not RecoveryCode.objects.exists()
    assert acts()[-2:] == ["second_factors.renew_codes", "second_factors.take_away"]


# --- where roles demand it ---


def test_who_is_in_a_role_that_demands_it_gets_nothing_before_it_is_set_up(db: None, settings: Any) -> None:
    settings.SECOND_FACTOR_ROLES = ["operator"]
    user = person("anna", role="operator")
    browser = browser_of(user)
    key = browser.session.session_key
    for address in ("/", "/operations/", "/admin/", "/topics/nothing/", "/views/"):
        assert browser.get(address).headers["Location"] == "/account/second-factor/"
    assert browser.post("/operations/draft/", {"kind": "timers.pause"}).headers["Location"] == "/account/second-factor/"
    assert _seen(key) is None
    page = browser.get("/account/second-factor/").content.decode()
    assert "Your role requires one." in page
    totp = pyotp.TOTP(re.findall(r'id="secret">(\w+)<', page)[0])
    browser.post("/account/second-factor/", {"password": PASSWORD, "code": totp.now()})
    assert browser.get("/operations/").status_code == 200
    assert _seen(browser.session.session_key) is not None
    # another role owes nothing
    assert browser_of(person("viewer")).get("/operations/").status_code == 200


def test_a_session_from_before_it_was_demanded_gives_its_code(db: None, settings: Any) -> None:
    user, totp, _codes = enrolled("anna", role="operator")
    browser = browser_of(user)
    assert browser.get("/operations/").status_code == 200
    settings.SECOND_FACTOR_ROLES = ["*"]
    assert browser.get("/operations/").headers["Location"] == "/account/second-factor/"
    assert browser.get("/account/second-factor/").headers["Location"] == "/login/second/"
    assert second_step(browser, "000000").status_code == 422
    assert browser.get("/operations/").status_code == 302
    assert second_step(browser, totp.now()).status_code == 303
    assert browser.get("/operations/").status_code == 200


def test_superusers_need_one_where_any_role_does(settings: Any) -> None:
    settings.SECOND_FACTOR_ROLES = ["operator"]
    assert second_factor.is_demanded([], is_superuser=True)
    assert second_factor.is_demanded(["operator", "x"], is_superuser=False)
    assert not second_factor.is_demanded(["viewer"], is_superuser=False)
    settings.SECOND_FACTOR_ROLES = []
    assert not second_factor.is_demanded(["operator"], is_superuser=True)
