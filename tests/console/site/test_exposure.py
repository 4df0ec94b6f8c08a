"""Where the web process listens, and whom it believes to stand in front of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections

from console.site import asgi
from console.site.checks import ServingRefused, refuse_open_serving, trusted_proxies
from tests.console.people import person
from tests.console.site.listening import Serving, serving

ROOT = Path(__file__).parents[3]
TOKEN = "a" * 32


def settings_of(**changed: Any) -> SimpleNamespace:
    usual = {"WEB_HOST": "127.0.0.1", "DEBUG": False, "HTTPS": False, "PLAINTEXT": False, "TRUSTED_PROXIES": ()}
    usual |= {"WEB_TLS": None, "WEB_REDIRECT_PORT": 0}
    return SimpleNamespace(**usual | changed)


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"WEB_HOST": "::1", "DEBUG": True},
        {"WEB_HOST": "localhost"},
        {"HTTPS": True, "TRUSTED_PROXIES": ("127.0.0.1",)},
        {"WEB_HOST": "0.0.0.0", "HTTPS": True, "TRUSTED_PROXIES": ("10.0.0.0/24",)},
        {"WEB_HOST": "0.0.0.0", "PLAINTEXT": True},
        {"WEB_HOST": "0.0.0.0", "HTTPS": True, "WEB_TLS": {"cert_file": "c.pem"}, "WEB_REDIRECT_PORT": 80},
    ],
)
def test_what_nobody_hears_may_be_served(good: dict[str, Any]) -> None:
    refuse_open_serving(settings_of(**good))


@pytest.mark.parametrize(
    ("bad", "remedy"),
    [
        ({"WEB_HOST": "0.0.0.0"}, "ESCAPEMENT_PLAINTEXT=1"),
        ({"WEB_HOST": "::"}, "ESCAPEMENT_HTTPS=1"),
        ({"WEB_HOST": "console.example"}, "loopback"),
        ({"WEB_HOST": "10.0.0.1", "DEBUG": True, "PLAINTEXT": True}, "ESCAPEMENT_DEBUG=1"),
        ({"HTTPS": True}, "ESCAPEMENT_TRUSTED_PROXIES"),
        ({"WEB_REDIRECT_PORT": 80}, "ESCAPEMENT_WEB_TLS_CERT"),
    ],
)
def test_what_others_could_hear_is_refused_with_what_to_do(bad: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ServingRefused, match=remedy):
        refuse_open_serving(settings_of(**bad))


@pytest.mark.parametrize("command", [["-m", "console.site.web"], ["manage.py", "run"]], ids=["web", "house"])
def test_the_processes_themselves_say_so_and_do_not_start(command: list[str], var_dir: Path, free_port: int) -> None:
    environment = {"ESCAPEMENT_WEB_HOST": "0.0.0.0", "ESCAPEMENT_WEB_PORT": str(free_port)}
    refused = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | environment, text=True, capture_output=True, check=False
    )
    assert refused.returncode != 0
    assert "in plain HTTP" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_proxies_are_addresses_and_networks() -> None:
    assert trusted_proxies("") == ()
    assert trusted_proxies("127.0.0.1, 10.1.0.0/24,fd00::/8") == ("127.0.0.1", "10.1.0.0/24", "fd00::/8")
    for wrong in ("*", "proxy.example", "10.1.0.1/24"):
        with pytest.raises(ImproperlyConfigured, match="ESCAPEMENT_TRUSTED_PROXIES"):
            trusted_proxies(wrong)


async def who(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with where it takes the request to come from, and how."""
    body = f"{scope['client'][0]} {scope['scheme']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize(
    ("proxies", "expected"),
    [((), b"127.0.0.1 http"), (("10.0.0.1",), b"127.0.0.1 http"), (("127.0.0.0/8",), b"10.9.8.7 https")],
    ids=["none", "another", "this one"],
)
async def test_what_a_header_says_is_believed_of_named_proxies_only(proxies: tuple[str, ...], expected: bytes) -> None:
    asked = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"X-Forwarded-For: 10.9.8.7\r\nX-Forwarded-Proto: https\r\n\r\n"
    )
    async with serving(who, proxies=proxies) as site:
        assert (await site.ask(asked)).endswith(b"\r\n\r\n" + expected)


async def tried(site: Serving, password: str, source: str) -> bytes:
    """The answer to an attempt to sign in that says it comes from there."""
    form = urlencode({"username": "anna", "password": password, "csrfmiddlewaretoken": TOKEN}).encode()
    lines = (
        "POST /login/ HTTP/1.1", "Host: localhost", "Connection: close", f"Cookie: csrftoken={TOKEN}",
        "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}",
        f"X-Forwarded-For: {source}", f"X-Real-IP: {source}", f"Forwarded: for={source}",
    )  # fmt: skip
    return await site.ask("\r\n".join((*lines, "", "")).encode() + form)


@pytest.mark.django_db(transaction=True)
async def test_an_address_that_waits_does_not_get_on_by_naming_others(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    settings.ALLOWED_HOSTS = ["localhost"]

    def make() -> None:
        person("anna")
        connection.close()

    await sync_to_async(make)()
    async with serving(asgi.application) as site:
        answers = [await tried(site, "guess", f"10.0.0.{number}") for number in range(settings.AXES_FAILURE_LIMIT)]
        assert [answer[9:12] for answer in answers] == [b"200"] * (len(answers) - 1) + [b"429"]
        right = await tried(site, "a long secret", "10.1.1.1")
        assert right.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: 900\r\n" in right
