"""Saved views: only lists of this console, of one's own or shared, opened by chip, palette or with their page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.site.broker import hang_up
from console.ui import saved_views
from console.ui.saved_views import ADDRESS_LENGTH, SavedView, address_of
from tests.console.markup import tight
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.ui.test_hostile import TEXTS, Skeleton

ELSEWHERE = [
    "", "topics/", "https://example.org/topics/", "//example.org/topics/", "/\\example.org/topics/", "javascript:1",
    "/topics/\n", "/topics/?search=\x00", "/admin/auth/user/?q=a", "/login/?next=/", "/operations/draft/", "/nowhere/",
    "/views/", "/topics/orders/", "/topics/%ff/0/", "/topics/?search=" + "a" * ADDRESS_LENGTH,
]  # fmt: skip


@pytest.fixture(autouse=True)
def nobody_answers(settings: Any, free_port: int) -> Iterator[None]:
    """What is tested here is no matter of a broker."""
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    yield
    hang_up()


def save(browser: Client, address: str, name: str, **more: str) -> Any:
    return browser.post("/views/keep/", {"address": address, "name": name, **more})


@pytest.mark.parametrize("text", ELSEWHERE)
def test_what_is_no_list_of_this_console_is_not_saved(db: None, text: str) -> None:
    assert address_of(text) is None
    assert save(browser_of(person("anna")), text, "x").status_code == 404
    assert SavedView.objects.count() == 0


def test_an_address_keeps_filters_and_forgets_places() -> None:
    found = address_of("/topics/?offset=50&search=a%26b&kind=&as=csv&view=all#x")
    assert found is not None
    assert found.text == "/topics/?search=a%26b"
    plain = address_of("/dead-letters/of/a~2Fb/")
    assert plain is not None
    assert plain.text == "/dead-letters/of/a~2Fb/?view=all"
    assert address_of("/transactions/list/?before=-10 min").query == "before=-10+min"  # type: ignore[union-attr] # a list
    assert address_of("/audit/?before=17&actor=anna").query == "actor=anna"  # type: ignore[union-attr] # a list


def test_a_view_is_saved_shown_beside_its_list_and_in_the_palette(db: None) -> None:
    anna = browser_of(person("anna"))
    answer = save(anna, "/groups/?search=pay&offset=50", "  Payments  of mine ")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/groups/?search=pay")
    page = tight(anna.get("/groups/?search=pay").content.decode())
    assert '<a class="pill" href="/groups/?search=pay" title="Payments of mine" aria-current="true">' in page
    assert "Payments of mine" not in anna.get("/topics/").content.decode()
    assert next(jump.address for jump in anna.get("/find/?q=payments").context["jumps"]) == "/groups/?search=pay"
    assert "Payments of mine" not in browser_of(person("ben")).get("/groups/").content.decode()


def test_a_page_opens_with_the_view_that_its_reader_chose_and_still_without(db: None) -> None:
    anna = browser_of(person("anna"))
    save(anna, "/groups/?search=pay", "first", is_default="1")
    save(anna, "/groups/?search=ship", "second", is_default="1")
    assert anna.get("/groups/").headers["Location"] == "/groups/?search=ship"
    assert SavedView.objects.filter(is_default=True).count() == 1
    assert anna.get("/groups/?view=all").status_code == 200
    assert anna.get("/groups/?search=").status_code == 200
    assert browser_of(person("ben")).get("/groups/").status_code == 200


def test_a_view_is_renamed_and_deleted_by_its_owner_alone(db: None) -> None:
    anna, ben = browser_of(person("anna")), browser_of(person("ben"))
    save(anna, "/groups/?search=pay", "one", is_default="1")
    row = SavedView.objects.get()
    for browser, status in ((ben, 404), (anna, 303)):
        assert browser.post(reverse("saved_view", args=[row.pk]), {"name": "two"}).status_code == status
    row.refresh_from_db()
    assert (row.name, row.is_default) == ("two", False)
    assert '<input id="name-' in tight(anna.get("/views/").content.decode())
    for browser, status in ((ben, 404), (anna, 303)):
        assert browser.post(reverse("saved_view_delete", args=[row.pk])).status_code == status
    assert SavedView.objects.count() == 0


def test_who_may_share_shares_with_all_who_see_all(db: None) -> None:
    anna, boss = browser_of(person("anna")), browser_of(person("boss", "share_views"))
    assert save(anna, "/groups/?search=pay", "mine", is_shared="1").status_code == 403
    save(boss, "/groups/?search=pay", "everybody's", is_shared="1", is_default="1")
    save(boss, "/audit/?actor=anna", "what anna did", is_shared="1")
    assert [row.name for row in anna.get("/views/").context["rows"]] == ["what anna did", "everybody's"]
    assert anna.get("/groups/").status_code == 200
    assert list(browser_of(limited_person("carl", "other")).get("/views/").context["rows"]) == []
    no_audit = person("dora", "view_console", role="")
    assert [row.name for row in browser_of(no_audit).get("/views/").context["rows"]] == ["everybody's"]
    assert save(browser_of(no_audit), "/audit/", "x").status_code == 403
    row = SavedView.objects.get(page="groups")
    other = browser_of(person("eve", "share_views"))
    assert other.post(reverse("saved_view", args=[row.pk]), {"name": "renamed", "is_shared": "1"}).status_code == 303
    row.refresh_from_db()
    assert (row.name, row.is_default, row.owner.get_username()) == ("renamed", True, "boss")


def test_what_is_wrong_with_a_name_is_said_and_nothing_is_lost(db: None) -> None:
    anna = browser_of(person("anna"))
    assert save(anna, "/groups/?search=pay", "taken").status_code == 303
    for name, said in (
        (" ", "Enter a name."), ("x" * 61, "at most 60 characters"), ("a\u202eb", "cannot be shown"),
        ("taken", "a view with this name on this page"),
    ):  # fmt: skip
        answer = save(anna, "/groups/?search=ship", name, is_default="1")
        assert answer.status_code == 422
        page = tight(answer.content.decode())
        assert said in page
        assert 'name="address" value="/groups/?search=ship"' in page
    assert save(anna, "/topics/?search=a", "taken").status_code == 303


def test_nobody_has_more_views_than_there_may_be(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST", 2)
    anna = browser_of(person("anna"))
    codes = [save(anna, f"/groups/?search={number}", f"view {number}").status_code for number in range(3)]
    assert codes == [303, 303, 422]
    assert "reached the limit of" in save(anna, "/groups/?search=4", "x").content.decode()
    row = SavedView.objects.first()
    assert row is not None
    assert anna.post(reverse("saved_view", args=[row.pk]), {"name": "renamed"}).status_code == 303


def test_no_name_or_filter_becomes_markup(db: None) -> None:
    anna, ben = person("anna"), person("ben")
    for number, text in enumerate(text for text in TEXTS[::7] if text.strip() and text.isprintable()):
        for user, name in ((anna, text[:50]), (ben, "harmless")):
            query = address_of(f"/groups/?search={number}")
            assert query is not None
            saved_views.keep(user, query, f"{number} {name}")
    assert SavedView.objects.filter(owner=anna).count() > 10
    for path in ("/views/", "/groups/", "/find/?q=1"):
        pages = [Skeleton(browser_of(user).get(path).content.decode()) for user in (anna, ben)]
        assert pages[0].elements == pages[1].elements, path
