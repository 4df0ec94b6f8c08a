"""Who may not see or do something is told what to do about it, and can always leave."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

DENIED = 403


@pytest.mark.parametrize(
    ("language", "title", "leave"),
    [("en", "No access yet", "Sign out"), ("zh-hans", "您暂时看不到任何内容", "退出登录")],
)
def test_who_is_in_no_group_is_told_so_and_can_sign_out(db: None, language: str, title: str, leave: str) -> None:
    newcomer = Client(enforce_csrf_checks=True)
    newcomer.force_login(person("newcomer", role=""))
    answer = newcomer.get("/", headers={"accept-language": language})
    said = words(answer)
    assert answer.status_code == DENIED
    assert title in said
    assert "newcomer" in said
    assert leave in said
    assert "Back to the overview" not in said
    page = answer.content.decode()
    token = re.search(r'action="/logout/".*?name="csrfmiddlewaretoken" value="(\w+)"', page, re.DOTALL)
    assert token
    assert newcomer.post("/logout/", {"csrfmiddlewaretoken": token[1]}).status_code == 302
    assert newcomer.get("/").headers["Location"].startswith("/login/")


def test_who_may_not_do_one_thing_is_told_the_permission(db: None) -> None:
    viewer = browser_of(person("viewer"))
    answer = viewer.post("/operations/draft/", {"kind": "topics.create", "name": "a"})
    assert answer.status_code == DENIED
    assert "This needs the permission <code>console.change_settings</code>." in answer.content.decode()
    assert "Permission denied" in words(answer)
    assert "Sign out" in words(answer)


def test_whoever_looks_for_the_making_of_a_token_is_told_the_command(operator: Client, db: None) -> None:
    answer = operator.get("/admin/console/apitoken/add/", follow=True)
    assert answer.status_code == 200
    assert "manage.py token create NAME" in words(answer)
    stranger = browser_of(person("viewer"))
    assert stranger.get("/admin/console/apitoken/add/").status_code == DENIED
