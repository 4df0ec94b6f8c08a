"""The headers of pages and files."""

from __future__ import annotations

from django.test import Client
from django.urls import get_resolver

from console.security.headers import WITH_CONTENT
from tests.console.people import browser_of, person


def test_what_holds_messages_is_kept_on_no_disk_and_nobody_elses_page_takes_ours(db: None) -> None:
    browser = browser_of(person("viewer"))
    for address in ("/messages/", "/find/?text=x"):
        assert "no-store" in browser.get(address).headers["Cache-Control"], address
    page = browser.get("/operations/")
    assert "no-store" not in page.headers.get("Cache-Control", "")
    assert page.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "camera=()" in page.headers["Permissions-Policy"]


def test_each_page_that_is_named_there_is() -> None:
    assert set(get_resolver().reverse_dict) >= WITH_CONTENT


def test_files_are_for_our_own_pages_only(db: None) -> None:
    found = Client().get("/static/js/live.js")
    assert found.status_code == 200
    assert "Access-Control-Allow-Origin" not in found.headers
    found.close()
