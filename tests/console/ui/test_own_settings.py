"""The page of somebody's own settings: everything that the account menu had no room for, without a script."""

from __future__ import annotations

import re

import pyotp
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from console.security import second_factor
from console.security.gate import ADMINISTRATOR
from console.security.models import PasswordDue
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

PAGE = "/account/settings/"


def pressed(html: str) -> list[tuple[str, str]]:
    """The choices that are made: name and value of each button."""
    found = re.findall(r'name="(\w+)"\s+value="([\w-]+)"[^>]*aria-pressed="true"', html)
    return [(str(name), str(value)) for name, value in found]


def test_each_choice_is_shown_and_leads_back(operator: Client) -> None:
    usual = [("language", "en"), ("theme", "system"), ("density", "compact")]
    assert pressed(operator.get(PAGE).content.decode()) == usual
    for name, value in (("theme", "dark"), ("density", "comfortable")):
        answer = operator.post(f"/{name}/", {name: value, "next": PAGE})
        assert (answer.status_code, answer.headers["Location"]) == (303, PAGE)
    operator.post("/zone/", {"zone": "Asia/Shanghai", "next": PAGE})
    html = operator.get(PAGE).content.decode()
    assert pressed(html) == [("language", "en"), ("theme", "dark"), ("density", "comfortable")]
    assert re.findall(r"<option(?: value=\"\w+\")?\s+selected>\s*([\w/]+)", html) == ["Asia/Shanghai"]
    operator.post("/theme/", {"theme": "system", "next": PAGE})
    assert "data-theme=" not in operator.get(PAGE).content.decode()


def test_a_zone_that_is_called_after_no_place_can_stay(operator: Client) -> None:
    operator.post("/zone/", {"zone": "Etc/GMT+5"})
    assert re.search(r"<option selected>Etc/GMT\+5</option>", operator.get(PAGE).content.decode())


@pytest.mark.parametrize(("role", "has_tokens"), [("viewer", False), (ADMINISTRATOR, True)])
def test_it_leads_to_password_second_factor_and_tokens(transactional_db: None, role: str, has_tokens: bool) -> None:
    somebody = person(f"a {role}", role=role)
    somebody.is_staff = has_tokens
    somebody.save(update_fields=["is_staff"])
    html = browser_of(somebody).get(PAGE).content.decode()
    main = html.partition("<main")[2]
    assert 'href="/account/password/"' in main
    assert "Set up second factor…" in main
    assert ('href="/tokens/"' in main) == has_tokens


def test_a_second_factor_that_is_there_is_managed(operator: Client) -> None:
    user = get_user_model().objects.get(username="operator")
    secret = second_factor.new_secret()
    assert second_factor.set_up(user, secret, pyotp.TOTP(secret).now()) is not None
    assert "Manage second factor…" in words(operator.get(PAGE))


def test_who_is_not_signed_in_is_led_to_the_door(client: Client, transactional_db: None) -> None:
    assert client.get(PAGE).headers["Location"].startswith("/login/?next=")


def test_who_owes_a_password_is_led_there_first(transactional_db: None) -> None:
    somebody = person("new")
    PasswordDue.objects.create(user=somebody)
    assert browser_of(somebody).get(PAGE).headers["Location"] == "/account/password/"


def test_the_menu_has_what_fits(operator: Client) -> None:
    menu = operator.get("/find/").content.decode().partition('class="menu sheet"')[2].partition("</details>")[0]
    assert re.findall(r'(?:name|href)="(/account/settings/|language|theme|zone|density)"', menu) == [
        "language", "theme", "zone", "/account/settings/"
    ]  # fmt: skip
    assert 'action="/logout/"' in menu
