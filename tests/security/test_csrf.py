"""Nothing is done for a page on somebody else's site: forms without their token, from elsewhere, or as a link."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import Client

from console.operations.models import AuditEntry, Operation
from console.rest.app import create_application
from console.rest.routes import ROUTES
from console.ui.saved_views import SavedView
from tests.console.kept import hang_up
from tests.console.rest.test_access import BODIES, OWN, path_of
from tests.security.doors import administration, pages
from tests.security.scene import NUMBER, People, Team, form_of, said
from tests.security.table import rows
from tests.security.test_administration import concrete

#: a page of theirs, of nobody (a file, a sandbox), of our name at another port or without TLS
ELSEWHERE = (
    "https://evil.example",
    "null",
    "http://testserver:8001",
    "https://testserver",
    "http://testserver.evil.example",
)
#: of all teams' pages
PARTS: dict[str, Any] = {
    "level": 16, "position": 1, "queue_id": 0, "operation_id": NUMBER, "message_id": "0" * 32, "name": "orders",
    "operation": "get_topics",
    "dashboard.name": "flow", "series": "sent", "form": "json", "rule_id": 1, "view_id": 1, "person_id": 1,
}  # fmt: skip


@pytest.fixture
def browser(transactional_db: None, settings: Any, free_port: int) -> Iterator[Client]:
    """Of somebody who may do everything; nobody need answer, as nothing gets so far."""
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    yield People().browser("superuser", enforce_csrf_checks=True)
    hang_up()


def acting() -> Iterator[tuple[str, str]]:
    """The name and address of everything that takes a form, of the console and below /admin/."""
    team = Team("orders", PARTS)
    for (name, method), row in rows().items():
        if method == "POST" and row.roles["superuser"] != "never":
            yield name, team.address(name, pages()[name])
    for name, pattern in administration().items():
        yield name, concrete(pattern)


def kept() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Operation, AuditEntry, SavedView))


def test_a_form_without_its_token_is_refused_everywhere(browser: Client) -> None:
    token, count, before = token_of(browser), 0, kept()
    for name, address in acting():
        form = form_of(name, "orders")
        tries: list[tuple[str, dict[str, str], dict[str, str]]] = [
            ("no token", form, {}),
            ("another token", {**form, "csrfmiddlewaretoken": "a" * 64}, {}),
            *((f"Origin {origin}", {**form, "csrfmiddlewaretoken": token}, {"origin": origin}) for origin in ELSEWHERE),
        ]
        for what, sent, headers in tries if not name.startswith("admin:") else tries[:3]:
            answer = browser.post(address, sent, headers=headers)
            assert answer.status_code == 403, f"{name}: {address} with {what}: {answer.status_code}"
            count += 1
    assert count > 500
    assert kept() == before


def test_the_same_with_its_token_is_taken(browser: Client) -> None:
    """What is refused above is refused for the token alone."""
    form = {**form_of("saved_view_keep", "orders"), "csrfmiddlewaretoken": token_of(browser)}
    assert said(browser.post("/views/keep/", form)) == "led"
    assert said(browser.post("/views/keep/", {**form, "name": "2"}, headers={"origin": "http://testserver"})) == "led"
    assert SavedView.objects.count() == 2


def test_a_link_does_nothing(browser: Client) -> None:
    before = kept()
    for name, address in acting():
        if name.startswith("admin:"):
            continue
        answer = browser.get(address, form_of(name, "orders"))
        # who owes no second step is led to the sign-in, which leads back
        due = ("sign-in",) if name == "second_step" else ("never", "led", "yes", "gone")
        assert said(answer) in due, name
        assert browser.session.session_key, name
    assert kept() == before


def token_of(browser: Client) -> str:
    """The token that a form of the console has."""
    browser.get("/prove/")
    return browser.cookies[django_settings.CSRF_COOKIE_NAME].value


def test_rest_takes_no_session_for_a_token(browser: Client) -> None:
    """A browser sends the session with every form of anybody's page; REST does not look at it."""
    session = browser.cookies[django_settings.SESSION_COOKIE_NAME].value

    async def answers() -> list[tuple[str, int]]:
        application = create_application("127.0.0.1:1")
        transport = httpx.ASGITransport(application)
        cookies = {django_settings.SESSION_COOKIE_NAME: session}
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", cookies=cookies) as client:
            found = []
            for route in ROUTES:
                said_ = None if route.body is None else BODIES[route.body](OWN)
                answer = await client.request(route.method, path_of(route, OWN, "broker-a"), json=said_)
                found.append((f"{route.method} {route.path}", answer.status_code))
        await application.state.holder.close()
        return found

    told = asyncio.run(answers())
    assert len(told) == len(ROUTES)
    assert {status for _, status in told} == {401}, told
