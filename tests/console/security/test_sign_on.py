"""Signing in by a provider: who is let in, as whom, with what; and everything that is no proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from console.security.gate import ROLES
from console.security.models import TopicPermission
from console.security.own_role import own_name
from console.security.topic_scope import visible_topics
from console.site.checks import check_provider, groups_of
from tests.console.people import person
from tests.console.security.identity_provider import FORGED_KEY, IdentityProvider, providing

ANNA = {"sub": "7f3a", "preferred_username": "anna", "groups": ["ops", "everybody"]}
FORBIDDEN, BAD_GATEWAY, NOT_FOUND = 403, 502, 404


@pytest.fixture
def provider(db: None, settings: Any) -> Iterator[IdentityProvider]:
    settings.OIDC_GROUPS = {"ops": "operator", "desk": "viewer", "heads": "administrator"}
    with providing(settings) as made:
        made.claims = dict(ANNA)
        yield made


def sign_on(provider: IdentityProvider, browser: Client, wanted: str = "", **changed: Any) -> Any:
    """There and back; `changed` is what the browser brings back instead."""
    there = browser.get("/login/provider/", {"next": wanted})
    assert there.status_code == 302, there.content
    assert there.headers["Location"].startswith(provider.issuer + "/authorize?")
    return browser.get("/login/provider/back/", provider.agree(there.headers["Location"]) | changed)


def names_of(user: Any) -> set[str]:
    return set(user.groups.values_list("name", flat=True))


def test_the_login_page_offers_it_only_if_there_is_one(db: None, settings: Any) -> None:
    assert "provider" not in Client().get("/login/").content.decode()
    assert Client().get("/login/provider/").status_code == NOT_FOUND
    assert Client().get("/login/provider/back/", {"code": "1", "state": "2"}).status_code == NOT_FOUND
    settings.OIDC_ISSUER, settings.OIDC_NAME = "https://id.example", "<b>Keys"
    page = Client().get("/login/?next=/groups/%3Flag=1").content.decode()
    assert "Sign in with &lt;b&gt;Keys" in page
    assert "/login/provider/?next=/groups/%3Flag%3D1" in page


def test_who_comes_from_the_provider_is_where_he_wanted_to_be_with_his_groups(provider: IdentityProvider) -> None:
    browser = Client()
    answer = sign_on(provider, browser, "/groups/?lag=1")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/groups/?lag=1")
    user = get_user_model().objects.get()
    assert (user.username, names_of(user), user.is_staff) == ("anna", {"operator"}, False)
    assert not user.has_usable_password()
    assert browser.get("/groups/").status_code == 200


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_nobody_is_sent_elsewhere(provider: IdentityProvider, elsewhere: str) -> None:
    assert sign_on(provider, Client(), elsewhere).headers["Location"] == "/"


def test_the_provider_decides_anew_each_time_by_the_subject(provider: IdentityProvider) -> None:
    sign_on(provider, Client())
    provider.claims = ANNA | {"preferred_username": "anna.new", "groups": ["heads"]}
    sign_on(provider, Client())
    user = get_user_model().objects.get()
    assert (user.username, names_of(user), user.is_staff) == ("anna", {"administrator"}, True)
    provider.claims = ANNA | {"groups": "desk"}
    sign_on(provider, Client())
    user.refresh_from_db()
    assert (names_of(user), user.is_staff) == ({"viewer"}, False)


def test_a_name_is_no_identity(provider: IdentityProvider) -> None:
    """Whoever may choose his name at the provider does not become who has it here."""
    here = person("anna", role="administrator")
    browser = Client()
    sign_on(provider, browser)
    assert browser.session["_auth_user_id"] != str(here.pk)
    assert get_user_model().objects.exclude(pk=here.pk).get().username == "anna-2"
    provider.claims = ANNA | {"sub": "another"}
    sign_on(provider, Client())
    assert get_user_model().objects.count() == 3


@pytest.mark.parametrize("groups", [None, [], "", ["everybody"], ["operator"], {"ops": 1}, [["ops"]], 7], ids=str)
def test_who_has_none_of_the_groups_is_not_let_in(provider: IdentityProvider, groups: Any) -> None:
    provider.claims = ANNA | {"groups": groups}
    browser = Client()
    answer = sign_on(provider, browser)
    assert answer.status_code == FORBIDDEN
    assert "Keys &amp; Co knows you" in answer.content.decode()
    assert "_auth_user_id" not in browser.session
    assert get_user_model().objects.count() == 0


def test_an_account_that_is_closed_here_stays_closed(provider: IdentityProvider) -> None:
    sign_on(provider, Client())
    get_user_model().objects.update(is_active=False)
    assert sign_on(provider, Client()).status_code == FORBIDDEN


def test_the_topics_that_one_user_is_limited_to_are_not_the_providers_matter(provider: IdentityProvider) -> None:
    sign_on(provider, Client())
    anna = get_user_model().objects.get()
    own = anna.groups.create(name=own_name(anna))
    TopicPermission.objects.create(group=own, pattern="a-*")
    sign_on(provider, Client())
    assert visible_topics(anna).prefixes == ("a-",)


def test_groups_may_stand_in_the_information_of_the_same_user_only(provider: IdentityProvider) -> None:
    provider.claims = {"sub": "7f3a", "preferred_username": "anna"}
    provider.told = {"sub": "7f3a", "groups": ["desk"]}
    sign_on(provider, Client())
    assert names_of(get_user_model().objects.get()) == {"viewer"}
    provider.told = {"sub": "another", "groups": ["heads"]}
    assert sign_on(provider, Client()).status_code == FORBIDDEN
    assert names_of(get_user_model().objects.get()) == {"viewer"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://elsewhere.example"}, {"aud": "another"}, {"exp": 1_700_000_000}, {"nonce": "old"},
        {"sub": ""}, {"sub": None}, {"sub": "x" * 256},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_that_is_not_for_us_and_now_is_no_proof(provider: IdentityProvider, wrong: dict[str, Any]) -> None:
    provider.claims = ANNA | wrong
    assert sign_on(provider, Client()).status_code == FORBIDDEN
    assert get_user_model().objects.count() == 0


def test_a_token_signed_by_somebody_else_is_no_proof(provider: IdentityProvider) -> None:
    provider.signing_key = FORGED_KEY
    assert sign_on(provider, Client()).status_code == FORBIDDEN


@pytest.mark.parametrize("changed", [{"state": "guessed"}, {"code": "guessed"}, {"error": "access_denied"}], ids=str)
def test_what_was_not_begun_here_is_not_ended_here(provider: IdentityProvider, changed: dict[str, str]) -> None:
    browser = Client()
    assert sign_on(provider, browser, **changed).status_code == FORBIDDEN
    assert "_auth_user_id" not in browser.session


def test_an_answer_counts_once_and_in_its_own_browser(provider: IdentityProvider) -> None:
    mine, other = Client(), Client()
    brought = provider.agree(mine.get("/login/provider/").headers["Location"])
    assert other.get("/login/provider/back/", brought).status_code == FORBIDDEN
    assert mine.get("/login/provider/back/", brought).status_code == 302
    assert mine.get("/login/provider/back/", brought).status_code == FORBIDDEN


def test_a_provider_that_does_not_answer_is_named(provider: IdentityProvider) -> None:
    brought = provider.agree((browser := Client()).get("/login/provider/").headers["Location"])
    provider.is_broken = True
    answer = browser.get("/login/provider/back/", brought)
    assert answer.status_code in (FORBIDDEN, BAD_GATEWAY)
    assert get_user_model().objects.count() == 0


def test_without_discovery_nobody_is_sent_there(db: None, settings: Any, free_port: int) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"http://127.0.0.1:{free_port}", "escapement"
    answer = Client().get("/login/provider/")
    assert answer.status_code == BAD_GATEWAY
    assert "did not respond correctly" in answer.content.decode()


def test_the_roles_are_meant_if_nothing_is_said() -> None:
    assert groups_of("") == {name: name for name in ROLES}
    assert groups_of(" cn=ops = operator,desk=viewer,") == {"cn=ops": "operator", "desk": "viewer"}
    for wrong in ("ops", "=viewer", "ops="):
        with pytest.raises(ImproperlyConfigured, match="group=role"):
            groups_of(wrong)


def test_an_issuer_is_spoken_to_privately() -> None:
    check_provider("", "")
    check_provider("https://id.example", "escapement")
    check_provider("http://127.0.0.1:80", "escapement")
    for issuer, client_id in (("http://id.example", "escapement"), ("https://id.example", "")):
        with pytest.raises(ImproperlyConfigured):
            check_provider(issuer, client_id)
