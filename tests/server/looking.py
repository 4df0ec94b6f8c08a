"""The console as somebody opens it who runs a broker of which odd things were asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from broker.client.credentials import remember
from tests.console.kept import hang_up

LISTS = (
    "/", "/topics/", "/groups/", "/clients/", "/schedule/", "/timers/", "/timers/list/", "/transactions/",
    "/transactions/list/", "/dead-letters/",
)  # fmt: skip
#: pages of single topics, groups and clients
_SINGLE = re.compile(r'href="(/(?:topics|groups|clients)/[^"#]+)"')


@contextmanager
def console_of(namesrv: str, access_key: str, secret_key: str, settings: Any) -> Iterator[Client]:
    """A browser of somebody who may see all of this broker."""
    settings.ESCAPEMENT_NAMESRV = namesrv
    remember(namesrv, {"access_key": access_key, "secret_key": secret_key})
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("looking", password="a long secret"))
    try:
        yield browser
    finally:
        hang_up()
        remember(namesrv, {})


def wrong_pages(browser: Client, singles: int = 200) -> list[str]:
    """What is wrong with the lists, and with what they lead to: not found out, not shown, not answered."""
    wrong: list[str] = []
    linked: dict[str, None] = {}
    for path in LISTS:
        answer = browser.get(path)
        if answer.status_code != 200:
            wrong.append(f"{path}: {answer.status_code}")
            continue
        if answer.context["data"].evidence.stale:
            wrong.append(f"{path}: {answer.context['data'].evidence}")
        linked.update((unescape(found), None) for found in _SINGLE.findall(answer.content.decode()))
    for path in list(linked)[:singles]:
        answer = browser.get(path)
        if answer.status_code != 200:
            wrong.append(f"{path}: {answer.status_code}")
    assert linked, "the lists lead nowhere"
    return wrong
